#!/bin/sh
# time limit: 600 s
# Every launch mode with all ranks on one GPU: one table, the right number of ranks, 0 wrong; the
# header says what was set; options that need a GPU; wrong results are seen.
. "$(dirname "$0")/lib.sh"
sizes='-b 8 -e 4M -f 64'
wrapper=$BUILDDIR/tests/wrap_faults.so

for collective in all_reduce sendrecv alltoall; do
    for mode in '1:-g 1' '2:-g 2' '8:-g 8' '16:-g 16' '2:-t 2' '8:-t 8' '8:-t 8 -p 1' \
        '8:-t 2 -g 4' '4:-g 4 --init thread' '2:--spawn 2' '8:--spawn 2 -t 2 -g 2' '4:--spawn 4'; do
        # shellcheck disable=SC2086
        fine $collective "${mode%%:*}" 4 $sizes ${mode#*:}
    done
    begin "mpirun -np 2: $collective"
    if has_mpi; then
        # shellcheck disable=SC2086
        run 120 $mpi -np 2 "$(driver $collective)" $sizes
        want_code 0
        want_table 2 4
    fi
    end
done

begin 'the header: kind, UUID, that ranks share the GPU, the library of this build'
perf all_reduce -g 2 -b 8 -e 8 -J "$tmp/record.json"
want_out '2 ranks on 1 cuda device, at most 2 a device'
want_out '^# Ranks share GPUs: NCCL_MULTI_RANK_GPU_ENABLE=1 was set'
want_out '^# +Rank +1 .*\[[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\] NVIDIA .* GPU-[0-9a-f-]{36}$'
want_out "^# Library .*$(realpath "$BUILDDIR/libnccl.so.2" | sed 's/\..*//')"
want 'no UUID in the record' grep -qE '"device_uuid": *"GPU-' "$tmp/record.json"
end

begin 'ranks that share a GPU are refused unless it is asked for'
export NCCL_MULTI_RANK_GPU_ENABLE=0
perf all_reduce -g 2 -b 8 -e 8
want_code 3
want_err 'NCCL_MULTI_RANK_GPU_ENABLE'
unset NCCL_MULTI_RANK_GPU_ENABLE
end

for more in '-z 1' '-z 2' '-z 3' '-m 4' '-I 1' '-M 1' '-C 1' '-y 1' '-x 0' '-x 2' '-c 3' '-R 1' \
    '-R 1 -G 2' '-G 3 -n 5' '-G 2 -m 3 -c 2 -w 3' '-G 2 -t 2' '-G 2 --spawn 2' \
    '-y 1 -t 2'; do
    case $more in *-t* | *--spawn*) ranks=2 ;; *) more="-g 3 $more" ranks=3 ;; esac
    for collective in all_reduce alltoall; do
        # shellcheck disable=SC2086
        fine $collective $ranks 3 -b 8 -e 64K -f 64 $more
    done
done

for op in sum avg mulsum; do
    fine all_reduce 8 0 -g 8 -d all -o $op -b 100K -e 20M -f 13 --exact -u 3 -n 1 -w 0
done
begin 'a preflight'
perf all_reduce -g 8 --preflight
want_code 0
want_out '0 problems'
end

for fault in skip drop; do
    for more in '-g 2 -b 8 -e 8' '-g 4 -b 64M -e 64M -d bfloat16'; do
        begin "all_reduce_perf $more: fault '$fault' is seen"
        # shellcheck disable=SC2086
        WRAP_FAULT=$fault LD_PRELOAD=$wrapper perf all_reduce $more
        want_code 1
        want_out 'rank [0-9]: receive buffer, index [0-9]+: expected .* got '
        end
    done
done

begin 'a killed process: the others end in time and name it'
"$(driver all_reduce)" --spawn 3 -b 8 -e 8 -n 0 -N 0 -T 20 >"$out" 2>"$err" &
parent=$!
children() { pgrep -P $parent | wc -l; }
three() { [ "$(children)" -ge 3 ]; }
poll 30 three
victim=$(pgrep -P $parent | tail -n 1)
poll 30 grep -q 'Rank  2' "$out"
start=$(now_ms)
kill -9 "$victim"
wait $parent
code=$?
want "the run ended after $(($(now_ms) - start)) ms" [ $(($(now_ms) - start)) -lt 30000 ]
want "exit code $code" [ $code -ne 0 ]
want_err 'rank [0-9]'
end
finish
