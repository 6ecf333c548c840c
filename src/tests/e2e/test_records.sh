#!/bin/sh
# time limit: 120 s
# -J in all its forms: standard parsers read them after every ending, they agree with each other,
# with the table and with docs/records.md; what is timed is said, and repeated as asked.
. "$(dirname "$0")/lib.sh"
wrapper=$BUILDDIR/tests/wrap_faults.so
if ! has python3; then
    skip 'records' 'no python3'
    finish
fi
forms='json jsonl csv xml'

record() { python3 "$tests_dir/read_record.py" "$@" 2>"$tmp/parser"; }
# want_record FILE STATUS ERROR ROWS: as read_record.py prints them; regular expressions.
want_record() {
    record "$1" >"$tmp/record" || complain "$(basename "$1"): $(tail -n 1 "$tmp/parser")"
    for line in "status $2" "error $3" "rows $4"; do
        grep -qxE -e "$line" "$tmp/record" ||
            complain "$(basename "$1") lacks '$line': $(tr '\n' ';' <"$tmp/record")"
    done
}
fresh() { rm -f "$tmp"/r.*; }

fresh
for form in $forms; do
    begin "$form: a run that passes"
    NCCL_ALGO=ring NCCL_COMM_NAME='a,"b' perf all_reduce -b 8 -e 512 -f 8 -g 3 -J "$tmp/r.$form"
    want_code 0
    want_record "$tmp/r.$form" passed none 6
    end
done

begin 'each field has one name in all forms, which the page describes'
for form in json jsonl csv; do record --fields "$tmp/r.$form" | sort -u >"$tmp/$form.fields"; done
want 'csv and jsonl differ' sh -c "sort -u '$tmp/jsonl.fields' | grep -vx error |
    comm -3 - '$tmp/csv.fields' | grep -vqxE '\s*error' && exit 1; exit 0"
lacking=$(comm -13 "$tmp/json.fields" "$tmp/jsonl.fields" | tr '\n' ' ')
want "json lacks $lacking" [ "$lacking" = 'kind ' ]
while read -r field; do
    grep -qF "\`$field\`" docs/records.md || complain "docs/records.md has no $field"
done <"$tmp/csv.fields"
end

begin 'the forms have the values of the table'
awk '/^ +[0-9]+ / {print $1; print $1}' "$out" >"$tmp/sizes"
for form in json jsonl csv; do
    record --value size "$tmp/r.$form" | cmp -s - "$tmp/sizes" || complain "$form: other sizes"
    for pair in library=chorus algorithm=ring join=none; do
        value=$(record --value "${pair%=*}" "$tmp/r.$form" | sort -u)
        want "$form: ${pair%=*} is $value" [ "$value" = "${pair#*=}" ]
    done
done
end

begin 'what the ranks of a device ran, and how they came together'
fresh
CHORUS_HOST_DEVICES=1 perf all_reduce -b 8 -e 8 -g 3 -J "$tmp/r.csv"
want "join $(record --value join "$tmp/r.csv")" \
    [ "$(record --value join "$tmp/r.csv" | sort -u)" = events ]
end

for form in $forms; do
    begin "$form: what does not fit is skipped"
    fresh
    run 60 "$(driver all_reduce)" -n 1 -w 0 -b 1M -e 4T -f 1000000 -g 2 -J "$tmp/r.$form"
    want_code 0
    want_record "$tmp/r.$form" passed none 2
    want 'no row is marked' grep -q skipped "$tmp/r.$form"
    end
done

for form in $forms; do
    begin "$form: an error before the first row"
    fresh
    NCCL_COMM_ID=192.0.2.1:9 CHORUS_INIT_TIMEOUT_MS=500 perf all_reduce -b 8 -e 8 -t 2 \
        -J "$tmp/r.$form"
    want_code 3
    want_record "$tmp/r.$form" error '.*(192\.0\.2\.1|NCCL_COMM_ID).*' 0
    end
done

# unique_cases PATTERN NCASES: the names of that pattern, of which no two are equal.
unique_cases() {
    python3 - "$tmp/r.xml" "$1" "$2" <<'END' || complain 'names of cases repeat or lack something'
import re, sys, xml.etree.ElementTree as xml
cases = [(c.get("classname"), c.get("name")) for c in xml.parse(sys.argv[1]).iter("testcase")]
assert len(set(cases)) == len(cases), cases
assert sum(bool(re.search(sys.argv[2], name)) for _, name in cases) == int(sys.argv[3]), cases
END
}
begin 'xml: the cases of pairs and cycles have names of their own'
fresh
perf oneway -b 8 -e 64 -f 8 -t 3 --pairs -J "$tmp/r.json"
perf oneway -b 8 -e 64 -f 8 -t 3 --pairs -N 2 --baseline "$tmp/r.json" --tolerance 1000 \
    -J "$tmp/r.xml"
want "exit code $code" [ "$code" -eq 0 -o "$code" -eq 5 ]
unique_cases '^8 B float none root -1 2 -> 0 out_of_place( cycle 1)?$' 3
end

if [ -e "$wrapper" ]; then
    for form in $forms; do
        begin "$form: wrong data"
        fresh
        WRAP_FAULT=drop LD_PRELOAD=$wrapper perf all_reduce -b 1K -e 4K -f 4 -g 2 -J "$tmp/r.$form"
        want_code 1
        want_record "$tmp/r.$form" failed '.*' 4
        want 'no row is wrong' grep -qx 'wrong [1-4]' "$tmp/record"
        [ "$form" = csv ] || want 'no mismatch is told' grep -q 'index' "$tmp/r.$form"
        end
    done
else
    skip 'wrong data' 'no wrap_faults.so in this build'
fi

rows_seen() { [ "$(awk '/^ +[0-9]+ / {n++} END {print n + 0}' "$out")" -ge 3 ]; }
rank_pid() { awk -v rank="$1" '/^# *Rank/ && $3 == rank {print $7; exit}' "$out"; }

# What a rank suffers, the exit code, status and error of the record: rank 0 writes it.
for case in 'KILL 1 3 error rank.1' 'STOP 1 4 timeout timeout' 'KILL 0 3 running none'; do
    set -- $case
    for form in $forms; do
        [ "$1" != STOP ] || [ "$form" = csv ] || continue # each costs five seconds
        begin "$form: SIG$1 of rank $2 in mid-run"
        fresh
        : >"$out"
        timeout -k 5 60 "$(driver all_reduce)" -b 1K -e 64K -f 4 -N 0 -n 50 --spawn 3 -T 1 \
            -J "$tmp/r.$form" >"$out" 2>"$err" </dev/null &
        runner=$!
        want 'no rows within 30 s' poll 30 rows_seen
        victim=$(rank_pid "$2")
        kill -"$1" "$victim"
        wait $runner
        code=$?
        kill -KILL "$victim" 2>/dev/null
        want_code "$3"
        error=".*$5.*"
        [ "$form.$4" != xml.running ] || error=running
        want_record "$tmp/r.$form" "$4" "$error" '[1-9][0-9]*'
        end
    done
done

# ---- what is timed ----

begin '-I: every iteration, of each process, in the keys of nccl-tests'
fresh
perf all_reduce -b 1K -e 1K --spawn 2 -n 5 -I 1 -K 2 -J "$tmp/r.json"
want_code 0
want 'not as it should be' python3 - "$tmp/r.json" <<'END'
import json, sys
row = json.load(open(sys.argv[1]))["results"][0]
times = row["out_of_place_per_iter"]
assert len(times["times_us"]) == 5 and times["skipped_iterations"] == 2
both = times["per_process_max_times_us"]
assert [len(one) for one in both] == [5, 5]
assert times["times_us"] == [max(pair) for pair in zip(*both)]
assert abs(max(times["times_us"][2:]) - times["max_us"]) < 1e-6
assert row["out_of_place"]["samples"] == 3
END
end

begin '--until-stable: series until the interval is narrow, which the record tells'
fresh
run 60 "$(driver all_reduce)" -b 64K -e 64K -g 2 -n 3 --until-stable 1000% -J "$tmp/r.csv"
want_code 0
want_out '^# Until stable: .* 1000 %'
want 'not the least number of series' [ "$(record --value batches "$tmp/r.csv" | sort -u)" = 3 ]
want 'no iterations of all series' [ "$(record --value iterations "$tmp/r.csv" | sort -u)" = 9 ]
want 'no interval' [ -n "$(record --value ci_pct "$tmp/r.csv" | head -n 1)" ]
end

begin '--until-stable: ends where the interval never is'
fresh
run 60 "$(driver all_reduce)" -b 8 -e 8 -t 2 -n 1 -c 0 --until-stable 0.000001 -J "$tmp/r.csv"
want_code 0
want 'not the most series' [ "$(record --value batches "$tmp/r.csv" | sort -u)" = 100 ]
end

begin '--rotate: calls go through several buffers'
fresh
perf all_reduce -b 64K -e 64K -g 2 -J "$tmp/r.csv"
want 'several without' [ "$(record --value slots "$tmp/r.csv" | sort -u)" = 1 ]
fresh
perf all_reduce -b 64K -e 64K -g 2 -c 0 --rotate -J "$tmp/r.csv"
want_code 0
want_out '^# Rotated: '
want 'not several with' [ "$(record --value slots "$tmp/r.csv" | sort -n | head -n 1)" -gt 4 ]
end

begin 'header and record say where barriers are and whose time it is'
fresh
perf all_reduce -b 8 -e 8 -g 2 -z 1 -a 3 -w 4 -J "$tmp/r.csv"
want_out '^# Barrier: after each call, timed; warm-up: 4 iterations of what is timed'
want 'barrier' [ "$(record --value barrier "$tmp/r.csv" | sort -u)" = 'after each call, timed' ]
want 'time_of' [ "$(record --value time_of "$tmp/r.csv" | sort -u)" = 'maximum of the ranks' ]
want 'warmup' [ "$(record --value warmup "$tmp/r.csv" | sort -u)" = 4 ]
end

finish
