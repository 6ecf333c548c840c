#!/bin/sh
# time limit: 120 s
# What is printed and where: results on stdout, everything else on stderr; no colour in a pipe,
# a point in every locale, a quiet end when the reader goes, help and version; and that the
# library in use is the one of this build whatever else lies in the way.
. "$(dirname "$0")/lib.sh"

begin 'header and footer of a table'
perf all_reduce -b 8 -e 1K -f 4 -g 4
want_code 0
want_quiet
want_out '^# nThread 1 nGpus 4 minBytes 8 maxBytes 1024 step: 4\(factor\)'
want_out '^# Using devices$'
want_out '^#  Rank  3 Group  0 Pid +[0-9]+ on +[^ ]+ device  3 \[[^]]+\] .'
placement=' +time +algbw +busbw +#wrong'
want_out "^#       size +count +type +redop +root$placement$placement"
want_out '^# Out of bounds values : 0 OK$'
want_out '^# Avg bus bandwidth    : [0-9.]+$'
want_out '^# Collective test concluded: all_reduce_perf$'
want_out 'all_reduce_perf .*-b 8 -e 1K -f 4 -g 4'
want_out '2\(n-1\)/n'
want_out 'ncclCommInitAll'
end

begin 'every row has 13 columns, and busbw is algbw times the factor of the header'
perf all_reduce -b 64K -e 1M -f 4 -g 4
want 'a column differs' awk '
    /^ *[0-9]+ / {
        if (NF != 13) bad = 1
        if ($8 < 1.45 * $7 || $8 > 1.55 * $7 || $12 < 1.45 * $11 || $12 > 1.55 * $11) bad = 1
        rate = $1 / $6 / 1000
        if ($7 < 0.98 * rate || $7 > 1.02 * rate) bad = 1
    }
    END {exit bad}' "$out"
end

begin 'the library of this build is loaded, and the header names its path'
perf all_reduce -b 8 -e 8 -g 2
want_out "$BUILDDIR/libnccl.so.2"
end

for level in VERSION WARN INFO TRACE; do
    begin "NCCL_DEBUG=$level: no line of the log on stdout"
    NCCL_DEBUG=$level NCCL_DEBUG_SUBSYS=ALL perf all_reduce -b 8 -e 64 -f 2 -g 2
    want_code 0
    want_table 2 4
    want_not_out 'CHORUS'
    end
done

# ---- words, colour, locale ----

begin '--device host: no word of a GPU'
perf all_reduce -b 8 -e 64 -f 2 -g 2 --device host
tail -n +2 "$out" | grep -v -E '^# (Command|Library)' >"$tmp/words"
words='(^|[^a-z])gpus?([^a-z]|$)|cuda|nvidia|graphics'
want 'speaks of GPUs' sh -c "! grep -v nGpus '$tmp/words' | grep -i -E '$words'"
want_out 'host device'
end

begin '--device auto without a GPU: one line says so'
run 60 env -u CHORUS_DEVICE CUDA_VISIBLE_DEVICES=-1 "$(driver all_reduce)" -b 8 -e 8 -g 2
want_code 0
want 'not one line' [ "$(grep -c '^# No GPU: ' "$out")" -eq 1 ]
want_out 'on 8 host devices'
end

# A copy of the library is another file with the same name inside, as another library is.
cp "$BUILDDIR/libnccl.so.2" "$tmp/other.so"
begin '--library: another file is in use, its path in header and record'
perf all_reduce -b 8 -e 64 -f 2 --spawn 2 --library "$tmp/other.so" -J "$tmp/other.json"
want_code 0
want_table 2 4
want_out "^# Library 2.30.7 .*, $(realpath "$tmp")/other.so$"
want 'another path in the record' grep -qE '"library_path": *"[^"]*/other.so"' "$tmp/other.json"
end

begin '--library: one that lacks a function is refused by its name'
libc=$(ldd "$(driver all_reduce)" | awk '$1 ~ /^libc\.so/ { print $3 }')
run 20 "$(driver all_reduce)" --library "$libc"
want_code 2
want_err "option --library: .* has no nccl[A-Za-z]+, which all_reduce_perf calls"
end

begin 'no colour in a pipe'
perf all_reduce -b 8 -e 8 -g 2
want 'an escape' [ -z "$(tr -cd '\033' <"$out")" ]
end

# A row that fails is what has colour, so one is made to fail. "1" is for escapes, "0" for none.
wrapper=$BUILDDIR/tests/wrap_faults.so
for setting in 'TERM=xterm 1' 'TERM=xterm NO_COLOR=1 0' 'TERM=dumb 0'; do
    wanted=${setting##* } setting=${setting% *}
    if ! has script || [ ! -e "$wrapper" ]; then
        skip "terminal with $setting: colour of a row that fails" 'no script, or no wrap_faults.so'
        continue
    fi
    begin "terminal with $setting: colour of a row that fails"
    run 60 env -u NO_COLOR $setting script -qec "env WRAP_FAULT=drop LD_PRELOAD=$wrapper \
        $(driver all_reduce) -b 8 -e 8 -n 2 -g 2" /dev/null
    want_code 1
    want_out '^ +8 .*FAIL'
    escapes=$(tr -cd '\033' <"$out" | wc -c)
    # Both counts of wrong elements and the word, each switched on and off.
    want "$escapes escapes" [ "$escapes" -eq $((6 * wanted)) ]
    [ "$wanted" = 0 ] || want_out "$(printf '\033')\[31m +[1-9][0-9]*$(printf '\033')\[0m"
    end
done

comma=$(locale -a 2>/dev/null | grep -i -E '^(de|fr|it|es|nl)_' | head -1)
for name in ${comma:-de_DE.UTF-8} C.UTF-8; do
    begin "LC_ALL=$name: numbers have a point"
    LC_ALL=$name perf all_reduce -b 8 -e 1.5K -i 512 -g 2 -T 2.5
    want_code 0
    want_table 2 0
    want 'a comma in a number' sh -c "! grep -E '^ *[0-9].*[0-9],[0-9]' '$out'"
    end
done

# ---- the reader goes ----

for mode in '-g 2' '--spawn 2' '-t 2'; do
    begin "| head -3 with $mode ends quietly"
    {
        timeout 60 "$(driver all_reduce)" -b 8 -e 64K -f 2 -n 2 -N 50 $mode 2>"$err"
        echo $? >"$tmp/rc"
    } | head -3 >"$out"
    code=$(cat "$tmp/rc")
    want_quiet
    want "exit code $code" [ "$code" -eq 0 -o "$code" -eq 141 ]
    want 'not three lines' [ "$(wc -l <"$out")" -eq 3 ]
    end
done

begin 'a full disk: exit 3 and a message'
if [ -w /dev/full ]; then
    timeout 60 "$(driver all_reduce)" -b 8 -e 64 -f 2 -g 2 >/dev/full 2>"$err"
    code=$?
    : >"$out"
    want_code 3
    want_err '^all_reduce_perf: '
fi
end

begin 'stdout closed: no crash'
timeout 60 "$(driver all_reduce)" -b 8 -e 8 -g 2 >&- 2>"$err"
code=$?
: >"$out"
want "exit code $code" [ "$code" -eq 0 -o "$code" -eq 3 ]
end

# ---- texts ----

begin '--help: on stdout, 100 columns at most, every option, exit codes, environment'
run 20 "$(driver all_reduce)" --help
want_code 0
want_quiet
want 'a line is too long' awk 'length($0) > 100 {exit 1}' "$out"
for letter in t g b e i f n m w N p c o d r z y T G C S J a R x D V M u I K h; do
    want_out "(^|[ ,])-$letter[, ]"
done
for word in --spawn --init --devices --exact --selftest --preflight --version NCCL_TESTS_DEVICE \
    NCCL_TESTS_MIN_BW NCCL_TESTS_SPLIT NO_COLOR; do
    want_out "$word"
done
examples=$(grep -c -E '^ +(mpirun .*)?[a-z./]*all_reduce_perf ' "$out")
want "$examples examples, fewer than four" [ "$examples" -ge 4 ]
want_out '128'
end

begin '--help is the same for -h, and names each driver'
for name in all_gather alltoallv hypercube; do
    run 20 "$(driver $name)" -h
    want_code 0
    want_out "${name}_perf"
done
end

begin '--version: driver, library with path, git hash, devices, MPI'
run 20 "$(driver all_reduce)" --version
want_code 0
want_out 'all_reduce_perf'
want_out '2\.30\.7'
want_out "$BUILDDIR/libnccl.so.2"
want_out '[Gg]it'
want_out '8 host devices|[Dd]evices'
want_out 'MPI'
end

begin '--devices: a line for each'
CHORUS_HOST_DEVICES=3 run 20 "$(driver all_reduce)" --devices
want_code 0
want 'not three devices' [ "$(grep -c 'host device [0-9]' "$out")" -eq 3 ]
end

for name in all_gather all_reduce alltoall alltoallv broadcast gather hypercube oneway \
    pingpong reduce reduce_scatter scatter sendrecv twoway; do
    begin "--selftest of $name sees its fault and says what the program holds"
    run 60 "$(driver $name)" --selftest
    want_code 0
    want_out '^ +types +int8 uint8 .* f8e4m3 f8e5m2$'
    case $name in
    *reduce*) want_out '^ +operators +sum prod max min avg mulsum$' ;;
    *) want_out '^ +operators +none$' ;;
    esac
    want_out '^ +devices +8, host$'
    want_out '^ +library +2\.30\.7 '
    want_out "^ +file +$BUILDDIR/libnccl.so.2"
    want_not_out '^ *[0-9]+ +[0-9]+ +float'
    end
done

for mode in '-g 4' '-t 3' '--spawn 3'; do
    begin "--preflight $mode: the pairs talk, no table"
    run 60 "$(driver all_reduce)" --preflight $mode
    want_code 0
    want_not_out '^ *[0-9]+ +[0-9]+ +float'
    end
done

begin '--man and --completion print something that others can read'
run 20 "$(driver reduce)" --man
want_code 0
want_out '^\.TH '
run 20 "$(driver reduce)" --completion
want_code 0
want 'bash cannot read it' sh -c "! command -v bash >/dev/null || bash -n '$out'"
end

# ---- drivers under another name ----

mkdir -p "$tmp/named"
cp "$BUILDDIR/libnccl.so.2" "$tmp/named/"
for name in all_reduce alltoallv; do
    cp "$(driver $name)" "$tmp/named/${name}_perf_mine"
done
mine=$tmp/named/all_reduce_perf_mine
begin 'a driver with a suffix: messages'
run 20 "$mine" -d flaot
want_code 2
want_err '^all_reduce_perf_mine: option -d'
NCCL_TESTS_ALLTOALLV_SPREAD=x run 20 "$tmp/named/alltoallv_perf_mine" -g 2
want_code 2
want_err '^alltoallv_perf_mine: NCCL_TESTS_ALLTOALLV_SPREAD'
end
begin 'a driver with a suffix: help, man page, completion'
run 20 "$mine" --help
want_out '^Usage: all_reduce_perf_mine '
want_not_out 'all_reduce_perf( |$)'
run 20 "$mine" --man
want_out '^\.TH "all_reduce_perf_mine" 1'
run 20 "$mine" --completion
want_out '^complete -F _all_reduce_perf_mine all_reduce_perf_mine$'
end
begin 'a driver with a suffix: header, footer and -J'
run 60 "$mine" -b 8 -e 8 -n 2 -g 2 -J "$tmp/named.json"
want_code 0
want_out '^# Collective test starting: all_reduce_perf_mine$'
want_out '^# Collective test concluded: all_reduce_perf_mine$'
want 'another name in JSON' grep -q '"driver": *"all_reduce_perf_mine"' "$tmp/named.json"
end
rm -rf "$tmp/named" "$tmp/named.json"

# ---- another libnccl in the way ----

if has gcc; then
    printf 'int ncclGetVersion(int *v) { *v = 20403; return 0; }\n' >"$tmp/old.c"
    mkdir -p "$tmp/old"
    gcc -shared -fPIC -Wl,-soname,libnccl.so.2 -o "$tmp/old/libnccl.so.2" "$tmp/old.c"
    begin 'an older libnccl.so.2 in LD_LIBRARY_PATH: ours is loaded'
    LD_LIBRARY_PATH=$tmp/old run 60 "$(driver all_reduce)" -b 8 -e 8 -g 2
    want_code 0
    want_table 2 1
    want_out "$BUILDDIR/libnccl.so.2"
    end
    begin 'an older libnccl.so.2 in the current folder: ours is loaded'
    cp "$tmp/old/libnccl.so.2" "$tmp/libnccl.so.2"
    run 60 sh -c 'cd "$1" && exec "$2" --version' sh "$tmp" "$(driver all_reduce)"
    want_code 0
    want_out "$BUILDDIR/libnccl.so.2"
    rm -f "$tmp/libnccl.so.2"
    end
    begin 'an older libnccl.so.2 that is preloaded: refused, or its version is said'
    LD_PRELOAD=$tmp/old/libnccl.so.2 run 60 "$(driver all_reduce)" --version
    want "exit code $code and no word of 2.4.3" \
        sh -c "[ $code -ne 0 ] || grep -q -E '2\\.4\\.3|20403' '$out'"
    end
    begin 'the running driver maps the library of this build only'
    : >"$out"
    LD_LIBRARY_PATH=$tmp/old "$(driver all_reduce)" -b 8 -e 8 -n 0 -c 0 -g 2 >"$out" 2>"$err" &
    runner=$!
    poll 20 grep -q '(us)' "$out"
    maps=$(awk '/libnccl/ {print $6}' /proc/$runner/maps | sort -u)
    kill -TERM $runner
    wait $runner 2>/dev/null
    want "maps $maps" [ "$maps" = "$BUILDDIR/libnccl.so.2.30.7" ]
    end
else
    for what in 'in LD_LIBRARY_PATH' 'in the current folder' 'preloaded' 'mapped'; do
        skip "an older libnccl.so.2: $what" 'no gcc'
    done
fi

finish
