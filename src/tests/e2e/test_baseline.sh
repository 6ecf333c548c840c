#!/bin/sh
# time limit: 150 s
# slice: no
# --baseline and scripts/regress: what got slower is found and said, what did not passes, what
# cannot be compared is refused, in every form of the verdict. Baselines are doctored, so that no
# outcome hangs on how fast the machine is at the moment.
. "$(dirname "$0")/lib.sh"
wrapper=$BUILDDIR/tests/wrap_faults.so
if ! has python3; then
    skip 'baselines' 'no python3'
    finish
fi
base=$tmp/base/all_reduce.json
mkdir -p "$tmp/base" "$tmp/doctored"
size='-b 1K -e 256K -f 256'

# doctor STATEMENT: changes the record as `d`; the new file is $made.
made=$tmp/doctored/all_reduce.json
doctor() {
    rm -f "$made"*
    python3 - "$base" "$made" "$1" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
places = [row[p] for row in d["results"] for p in ("out_of_place", "in_place") if row[p]]
exec(sys.argv[3])
json.dump(d, open(sys.argv[2], "w"))
END
}
gate() { python3 -c "import json; print(json.load(open('$tmp/now.json'))['gate']['$1'])"; }
again() { rm -f "$tmp"/now.*; perf all_reduce $size -g 3 "$@"; }

begin 'a baseline is recorded'
run 60 "$(driver all_reduce)" $size -g 3 -n 2 -w 1 -N 3 -J "$base"
want_code 0
end

begin '0: far slower before'
doctor 'for p in places: p["time"] = 1e7'
again --baseline "$made" -J "$tmp/now.json"
want_code 0
want_out '^# Baseline +: 0 of 4 slower, [0-4] faster, 0 not in this run .* OK$'
want_out '^# Baseline noise +: its runs support a tolerance of [0-9.]+ %'
want "$(gate cells)" [ "$(gate slower)" = 0 ]
end

for mode in '-g 3' '-t 3' '--spawn 3'; do
    begin "5 with $mode: far faster before, which three runs confirm"
    case $mode in
    -t*) setup="d['init_mode'], d['nthreads'] = 'thread', 3" ;;
    --spawn*) setup="d['init_mode'], d['nprocs'] = 'spawn', 3" ;;
    *) setup='' ;;
    esac
    doctor "$setup
for p in places: p['time'] = 0.001"
    rm -f "$tmp"/now.*
    perf all_reduce $size $mode --baseline "$made" -J "$tmp/now.json"
    want_code 5
    want_out '^#  +1024 .* us .*slower$'
    want_out '^#  +262144 .* GB/s .*slower$'
    want_out '^# Baseline +: 4 of 4 slower,.* 3 runs\) SLOWER$'
    want_out '^# Verdict +: FAILED$'
    want 'not three runs' [ "$(gate runs)" = 3 ]
    want 'not all slower' [ "$(gate slower)" = 4 ]
    end
done

begin 'JUnit and JSON lines have the verdict of each row'
again --baseline "$made" --baseline_anyway -J "$tmp/now.xml"
want_code 5
want 'not four failures' [ "$(grep -c '<failure type="slower"' "$tmp/now.xml")" = 4 ]
want 'no XML' python3 "$tests_dir/read_record.py" "$tmp/now.xml"
again --baseline "$made" --baseline_anyway -J "$tmp/now.jsonl"
want 'no gate in the last line' sh -c "tail -n 1 '$tmp/now.jsonl' | grep -q '\"slower\":4'"
end

begin 'JSON lines as a baseline, and further runs beside it'
rm -f "$tmp"/lines.*
for run in 1 2 3; do perf all_reduce $size -g 3 -J "$tmp/lines.jsonl"; done
again --baseline "$tmp/lines.jsonl" --tolerance 1000 -J "$tmp/now.json"
want_code 0
want 'a cell without noise' sh -c "! grep -q '\"noise_pct\":null' '$tmp/now.json'"
end

begin 'the tolerance that is asked for counts, and what the baseline supports is said'
doctor 'for i, p in enumerate(places): p["time"] = 1e6 * (1 + i // 4)'
again --baseline "$made" --tolerance 5%
want_code 0
want_out "^# Baseline noise .* [0-9.]+ % for all rows; 5 % will raise false alarms"
end

refused() { # NAME STATEMENT PATTERN
    begin "6: $1"
    doctor "$2"
    again --baseline "$made" -J "$tmp/now.json"
    want_code 6
    want_err "$3"
    want_not_out '^ +1024 '
    want 'no status error' grep -q '"status": *"error"' "$tmp/now.json"
    again --baseline "$made" --baseline_anyway --tolerance 1000
    want "exit code $code, though it shall compare" [ "$code" -eq 0 -o "$code" -eq 5 ]
    end
}
refused 'another number of ranks' 'd["nranks"] = 4' 'nranks is 4 there and 3 here'
refused 'another machine' 'd["machine"]["cpu"] = "Z80"' 'processor is Z80 there and '
refused 'other ranks per device' 'd["ranks_per_device"] = 2' 'ranks_per_device is 2 there'
refused 'other devices' 'd["ndevices"] = 1' 'ndevices is 1 there'
refused 'another way to start' 'd["init_mode"] = "mpi"' 'init_mode is mpi there and all here'
refused 'other threads' 'd["nthreads"] = 3' 'nthreads is 3 there and 1 here'
refused 'another warm-up' 'd["warmup"] = 7' 'warmup is 7 there and 1 here'
refused 'calls in groups' 'd["agg_iters"] = 8' 'agg_iters is 8 there and 1 here'
refused 'another wait, the same barrier' 'd["blocking"] = 2' 'blocking is 2 there and 0 here'
refused 'a GPU was throttled' 'd["gpus_at_end"] = [{"uuid": "GPU-7", "throttled": "power brake"}]' \
    "doctored/all_reduce.json cannot be compared: GPU-7 was throttled there after its run: power"
refused 'a GPU was throttled before' \
    'd["machine"]["gpus"] = [{"uuid": "GPU-7", "throttled": "hardware slowdown"}]' \
    'GPU-7 was throttled there before its run: hardware slowdown'
refused 'a record without its machine' 'del d["machine"]' 'is unknown there'

for option in '-m 2' '-z 2' '-u 1' '-y 1' '-I 1' '-x 1'; do
    begin "6: a baseline without $option"
    again $option --baseline "$base"
    want_code 6
    want_err "${base##*/} cannot be compared: [a-z_]+ is .* there and .* here"
    want_not_out '^ +1024 '
    end
done

begin '6: a further file of another set-up is named'
doctor 'pass'
sed 's/"warmup": 1/"warmup": 9/' "$made" >"$made.1"
cp "$made" "$made.0"
again --baseline "$made"
want_code 6
want_err 'all_reduce\.json\.1 cannot be compared: warmup is 9 there and 1 here'
end

# What cannot be trusted is not compared with, whatever is asked.
distrusted() { # NAME STATEMENT PATTERN
    begin "6: $1"
    doctor "$2"
    mv "$made" "$made.0"
    cp "$base" "$made"
    again --baseline "$made" --baseline_anyway -J "$tmp/now.json"
    want_code 6
    want_err "^all_reduce_perf: option --baseline: .*/all_reduce\.json\.0: $3"
    want 'a record was made' [ ! -e "$tmp/now.json" ]
    end
}
distrusted 'a run that ended early' 'd["status"] = "timeout"' 'the status of its run is timeout$'
distrusted 'a run that was killed' 'd["status"] = "running"' 'the status of its run is running$'
distrusted 'a run with wrong data' 'd["status"] = "failed"; places[1]["nwrong"] = 3' \
    'its run had 3 wrong elements$'
distrusted 'a schema of the future' 'd["schema_version"] = 99' 'schema_version is 99 and not 2,'
distrusted 'no schema' 'del d["schema_version"]' 'schema_version is unknown and not 2,'

begin 'a run that failed by its speed alone is a baseline'
doctor 'd["status"] = "failed"
for p in places: p["time"] = 1e7'
again --baseline "$made"
want_code 0
end

begin '6: JSON lines without an end'
perf all_reduce $size -g 3 -J "$tmp/cut.jsonl"
sed -i '$d' "$tmp/cut.jsonl"
again --baseline "$tmp/cut.jsonl"
want_code 6
want_err 'cut\.jsonl: the status of its run is unknown$'
end

begin '6: no row in common; a row that is missing is said'
doctor 'for r in d["results"]: r["size"] += 4'
again --baseline "$made"
want_code 6
want_out '^# Cannot compare +: no row is in the baseline too'
doctor 'd["results"].append(dict(d["results"][0], size=64))
for p in places: p["time"] = 1e7'
again --baseline "$made"
want_code 0
want_out '^#  +64 .* not in this run$'
end

for text in '{"a": [1,}' '{"a": 1}' '' '[]' 'size,time'; do
    begin "refused: a baseline '$text'"
    echo "$text" >"$tmp/bad.json"
    again --baseline "$tmp/bad.json" -J "$tmp/now.json"
    want "exit code $code" [ "$code" -eq 2 -o "$code" -eq 6 ]
    want_err '^all_reduce_perf: option --baseline: '
    want 'a record was made' [ ! -e "$tmp/now.json" ]
    end
done

# ---- a library that became slower, and scripts/regress ----

regress() { run 100 scripts/regress "$1" --build "$BUILDDIR" --pause 0 --attempts 2; }
if [ -e "$wrapper" ]; then
    begin 'regress: a library that loses 20 ms a call is caught'
    LD_PRELOAD=$wrapper WRAP_SLOW_US=20000 regress "$tmp/base"
    want_code 5
    want_out '^slower +all_reduce +1 KiB float sum out of place: .* % are tolerated'
    want_out '^1 records, [1-4] rows slower, .*: exit 5$'
    end
    begin 'regress: wrong data beats slower'
    LD_PRELOAD=$wrapper WRAP_FAULT=drop WRAP_SLOW_US=20000 regress "$tmp/base"
    want_code 1
    want_out '^wrong +all_reduce '
    end
else
    skip 'a slower library' 'no wrap_faults.so in this build'
fi

begin 'regress: unchanged; the record of a former run says how much slower it was'
doctor 'for p in places: p["time"] = 1e7'
regress "$tmp/doctored"
want_code 0
want_out '^faster +all_reduce '
want_out "^the baseline's own runs support a tolerance of "
want_out '^1 records, 0 rows slower, .*: exit 0$'
end

begin 'regress: JUnit, and annotations of GitHub'
doctor 'for p in places: p["time"] = 0.001'
GITHUB_ACTIONS=true run 60 scripts/regress "$tmp/doctored" --build "$BUILDDIR" --attempts 1 \
    --junit "$tmp/regress.xml"
want_code 5
want_out '^::error title=all_reduce slower::1 KiB .* %25 worse'
want 'JUnit' python3 - "$tmp/regress.xml" <<'END'
import sys, xml.etree.ElementTree as xml
suite = xml.parse(sys.argv[1]).getroot()
assert suite.get("failures") == "1" and suite.find("testcase/failure").get("type") == "slower"
END
end

begin 'regress: cannot compare, no records, no such folder'
doctor 'd["nranks"] = 5'
regress "$tmp/doctored"
want_code 6
want_out '^cannot compare +all_reduce .*nranks is 5'
mkdir -p "$tmp/empty"
regress "$tmp/empty"
want_code 6
regress "$tmp/nowhere"
want_code 6
end

begin 'regress: rows that the run lacks are a finding'
doctor 'd["results"].append(dict(d["results"][0], size=64))
for p in places: p["time"] = 1e7'
GITHUB_ACTIONS=true run 60 scripts/regress "$tmp/doctored" --build "$BUILDDIR" \
    --junit "$tmp/missing.xml"
want_code 6
want_out '^missing +all_reduce +64 B float sum out of place: only the baseline has this row$'
want_out '^::warning title=all_reduce missing::64 B '
want_out '^1 records, 0 rows slower, 2 rows missing, .* 0 cannot be compared, .*: exit 6$'
want 'JUnit' grep -q '<error type="missing"' "$tmp/missing.xml"
end

# ---- children that hang, and output that cannot be written ----

mkdir -p "$tmp/hung"
printf '#!/bin/sh\nsleep 300 &\necho $! >%s\nwait\n' "$tmp/hung/pid" >"$tmp/hung/all_reduce_perf"
chmod +x "$tmp/hung/all_reduce_perf"
is_gone() { # PID: or left to a parent that does not reap
    [ ! -e "/proc/$1" ] || grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null
}
begin 'regress: what hangs is ended with all that it started'
run 60 scripts/regress "$base" --build "$tmp/hung" --limit 1
want_code 4
want_out '^failed +all_reduce +no end within 1 s$'
want 'its child is still there' poll 10 is_gone "$(cat "$tmp/hung/pid")"
end
begin 'compare: what hangs is ended with all that it started'
run 60 scripts/compare --rounds 1 --limit 1 --record "$tmp/hung.json" a= b= -- \
    "$tmp/hung/all_reduce_perf"
want_code 0
want_out '^b: no end within 1 s$'
want 'its child is still there' poll 10 is_gone "$(cat "$tmp/hung/pid")"
want 'no record' valid_json "$tmp/hung.json"
end

begin 'regress and compare: output that cannot be written is found before anything runs'
rm -f "$tmp/hung/pid"
run 60 scripts/regress "$base" --build "$tmp/hung" --junit "$tmp/no/such/folder.xml"
want_code 3
want_err '^regress: .*no/such/folder\.xml'
run 60 scripts/compare --record "$tmp/no/such/folder.json" a= b= -- "$tmp/hung/all_reduce_perf"
want_code 3
want_err '^compare: .*no/such/folder\.json'
want 'something ran' [ ! -e "$tmp/hung/pid" ]
end

begin 'regress: the limit grows with what the run took; mpirun looks for no shell'
cat >"$tmp/limits.py" <<'END'
import importlib.machinery
import os
import sys
import types
sys.dont_write_bytecode = True
sys.path.insert(0, "scripts")
regress = types.ModuleType("regress")
importlib.machinery.SourceFileLoader("regress", "scripts/regress").exec_module(regress)
took = {"start_time": "2026-03-04T05:06:07+0100", "end_time": "2026-03-04T05:16:07+0100"}
auto, asked = types.SimpleNamespace(limit=None), types.SimpleNamespace(limit=7)
assert regress.limit_of(took, auto) == 6000
assert regress.limit_of(took, asked) == 7
assert regress.limit_of({**took, "end_time": "2026-03-04T05:06:09+0100"}, auto) == 300
assert regress.limit_of({**took, "end_time": None}, auto) == 300
last = [{"timestamp": took["end_time"]}]
assert regress.limit_of({"start_time": took["start_time"], "results": last}, auto) == 6000
os.environ["PATH"] = "/nowhere"
assert regress.environment_of({"env": []})["OMPI_MCA_plm_rsh_agent"] == ""
END
run 20 python3 "$tmp/limits.py"
want_code 0
end

finish
