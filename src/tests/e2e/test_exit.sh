#!/bin/sh
# time limit: 180 s
# Exit codes: 0 fine, 1 wrong data, 3 set-up, 4 timeout, 5 slower than asked; wrong beats timeout
# beats slower; all processes of a run exit alike; bandwidth gates, memory caps. 2 is in
# test_bad_options.sh, 128+n in test_kill.sh.
. "$(dirname "$0")/lib.sh"
wrapper=$BUILDDIR/tests/wrap_faults.so
small='-b 1K -e 4K -f 4'
export ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0"

begin '0: fine'
perf all_reduce $small -g 2
want_code 0
end

begin 'NCCL_TESTS_MIN_BW below the result: 0'
NCCL_TESTS_MIN_BW=0.0000001 perf all_reduce $small -g 2
want_code 0
end

for mode in '-g 2' '-t 2' '--spawn 2'; do
    begin "5 with $mode: NCCL_TESTS_MIN_BW above the result: FAILED"
    NCCL_TESTS_MIN_BW=100000 perf all_reduce $small $mode
    want_code 5
    want_out 'Avg bus bandwidth.*FAILED|FAILED.*bandwidth'
    want_out '^# Out of bounds values : 0 OK'
    end
done

begin 'NCCL_TESTS_MIN_BW with one rank: busbw is n/a and is no gate'
NCCL_TESTS_MIN_BW=100000 perf all_reduce $small
want_code 0
end

if [ -e "$wrapper" ]; then
    for mode in '-g 2' '-t 2' '--spawn 2'; do
        begin "1 with $mode: wrong data, which beats slower"
        WRAP_FAULT=drop LD_PRELOAD=$wrapper NCCL_TESTS_MIN_BW=100000 perf all_reduce $small $mode
        want_code 1
        want_out '^# Out of bounds values : [1-9][0-9]* FAILED'
        want_out '^ +1024 .* FAIL( |$)'
        end
    done
    if has_mpi; then
        begin '1 with mpirun -np 2: wrong data'
        run 60 env WRAP_FAULT=drop $mpi -x LD_PRELOAD="$wrapper" -np 2 "$(driver all_reduce)" \
            -n 2 $small
        want_code 1
        end
    else
        skip '1 with mpirun -np 2: wrong data' 'no mpirun'
    fi
else
    skip '1: wrong data' 'no wrap_faults.so in this build'
fi

begin '3: NCCL_COMM_ID that nobody can listen at'
NCCL_COMM_ID=192.0.2.1:9 CHORUS_INIT_TIMEOUT_MS=2000 perf all_reduce $small -t 2
want_code 3
want_err '^all_reduce_perf: .*(192\.0\.2\.1|NCCL_COMM_ID)'
end

begin '3: NCCL_SOCKET_IFNAME without such an interface'
NCCL_SOCKET_IFNAME==nosuchif0 perf all_reduce $small --spawn 2
want_code 3
want_err 'NCCL_SOCKET_IFNAME|nosuchif0|interface'
end

begin 'a row that needs far more memory than there is: skipped and said, the others run'
perf all_reduce -b 8M -e 4T -f 524288 -g 2
want "exit code $code" [ "$code" -eq 0 ]
want_out '^ +8388608 '
want_out 'skipped'
want_err 'free|memory'
end

for mode in '-g 2' '--spawn 2'; do
    begin "3 with $mode: no row fits in memory, so nothing was verified"
    perf all_reduce -b 4T -e 4T $mode -J "$tmp/empty.json"
    want_code 3
    want_out 'skipped'
    want_out '^# Verdict +: error, nothing was run$'
    want_out '^# Memory: sizes above 0 B do not fit'
    want_not_out '^# Out of bounds values : 0 OK'
    want_err '^all_reduce_perf: no row fits in memory'
    want 'JSON says that all is well' grep -q '"status": *"error"' "$tmp/empty.json"
    rm -f "$tmp/empty.json"
    end
done

if is_sanitized; then
    skip 'a limit on memory: skipped rows or exit 3, no signal' 'sanitizers need address space'
else
    begin 'a limit on memory: skipped rows or exit 3, no signal'
    run 60 sh -c 'ulimit -v 3000000; exec "$@"' sh "$(driver all_reduce)" -b 1M -e 8G -f 16 -n 1 \
        -g 2 -c 0
    want "exit code $code" [ "$code" -eq 0 -o "$code" -eq 3 ]
    [ "$code" -eq 0 ] || want_err '^all_reduce_perf: .*memory|alloc'
    end
fi

begin 'few open files: exit 3 and a message, or all right, and no hang'
run 20 sh -c 'ulimit -n 40; exec "$@"' sh "$(driver all_reduce)" $small --spawn 16
want "exit code $code" [ "$code" -eq 0 -o "$code" -eq 3 ]
[ "$code" -eq 0 ] || want_err '^all_reduce_perf: '
end

begin '-T never limits the total time of a run'
perf all_reduce -b 8 -e 64K -f 2 -g 2 -N 40 -T 0.2
want_code 0
end

# A row of asynchronous iterations is waited for once, at its end: what completes within must
# count. The length is measured, so that one row takes three times as long as -T allows.
for mode in '-g 4' '-t 4' '--spawn 2'; do
    begin "-T never limits the time of one long row, $mode"
    run 60 "$(driver alltoall)" -b 16M -e 16M -n 5 -c 0 $mode
    iters=$(awk '/^ +[0-9]+ / {print int(3e6 / $6) + 10; exit}' "$out")
    want 'no time was measured' [ "${iters:-0}" -gt 0 ]
    started=$(now_ms)
    run 100 "$(driver alltoall)" -b 16M -e 16M -n "${iters:-1}" -c 0 $mode -T 1
    want_code 0
    want 'the row was not longer than -T' [ $(($(now_ms) - started)) -gt 1000 ]
    want_not_err 'timeout'
    end
done

begin '64 ranks in one process'
perf all_reduce -b 8 -e 4K -f 8 -g 64
want_code 0
want_table 64 0
end

begin '16 processes'
perf all_gather -b 1K -e 16K -f 4 --spawn 16
want_code 0
want_table 16 0
end

finish
