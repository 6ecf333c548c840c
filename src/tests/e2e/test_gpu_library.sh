#!/bin/sh
# time limit: 500 s
# The drivers on a GPU with NVIDIA's library: header, every type, operator and root, odd sizes and
# places, graphs, registered buffers, timing modes; a call that is skipped is seen. One rank, since
# that is what any of its versions can do. NCCL_LIBRARY names the library, else the usual places
# are looked through. Skipped without a GPU or a library.
. "$(dirname "$0")/lib.sh"
. "$tests_dir/nvidia.sh"
wrapper=$BUILDDIR/tests/wrap_faults.so

library=$(find_nvidia)
if ! "$(driver all_reduce)" --library "${library:-/none}" --devices 2>&1 | grep -q 'GPU-'; then
    skip 'drivers on a GPU' 'no GPU, or no library of NVIDIA'
    finish
fi

# gpu NAME ARGUMENT...: a driver on that library.
gpu() {
    name=$1
    shift
    run 120 "$(driver "$name")" --library "$library" -n 2 -w 1 -T 60 "$@"
}

# fine NAME ROWS ARGUMENT...: a case of its own that passes with so many rows (0: any).
fine() {
    name=$1 rows=$2
    shift 2
    begin "${name}_perf $*"
    gpu "$name" "$@"
    want_code 0
    want_table 1 "$rows"
}

fine all_reduce 2 -b 8 -e 1M -f 131072 -J "$tmp/gpu.json"
want_out "^# Library .*$(realpath "$library")$"
want_out '1 rank on [0-9]+ cuda device'
want_out '^# +Rank +0 .*\[[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\] NVIDIA .* GPU-[0-9a-f-]{36}$'
want 'no UUID in the record' grep -qE '"device_uuid": *"GPU-' "$tmp/gpu.json"
end

begin '--devices, --version and --device on that library'
run 30 "$(driver all_reduce)" --library "$library" --devices
want_out 'GPU-'
run 30 "$(driver all_reduce)" --library "$library" --version
want_out '[0-9]+, cuda'
run 30 "$(driver all_reduce)" --library "$library" --device host
want_code 2
want_err 'has no host devices'
run 30 "$(driver all_reduce)" --library "$library" --device cuda -b 8 -e 8
want_code 0
end

for name in all_gather all_reduce alltoall alltoallv broadcast gather hypercube reduce \
    reduce_scatter scatter sendrecv; do
    fine $name 0 -d all -o all -r all -n 1 -w 0 --exact -u 1 -b 8 -e 100003 -f 113
    end
    fine $name 0 -G 3 -n 5 -d half -o all -b 8 -e 1M -f 64
    end
done
for more in '-z 1' '-z 2' '-z 3' '-m 4' '-I 1' '-M 1' '-C 1' '-y 1' '-x 0' '-c 3' \
    '-R 1' '-R 2' '-R 1 -G 2' '-p 1' '--spawn 1' '-G 2 -m 3 -c 2 -w 3'; do
    # shellcheck disable=SC2086
    fine all_reduce 0 -b 8 -e 64K -f 8192 $more
    end
done
fine all_reduce 1 -b 1G -e 1G -c 4 -d int8
end

begin 'a preflight on a GPU'
gpu all_reduce --preflight
want_code 0
want_out '0 problems'
end

begin 'more ranks than GPUs: the header says what was set, or the library refuses'
gpu all_reduce -g 9 -b 8 -e 8
if [ "$code" -eq 0 ]; then
    want_out '^# Ranks share GPUs: NCCL_MULTI_RANK_GPU_ENABLE=1 was set'
else
    want_code 3
    want_err '^all_reduce_perf: .*ncclCommInit'
fi
end

for name in all_reduce broadcast; do
    for more in '-b 8 -e 8' '-b 64M -e 64M -d bfloat16'; do
        begin "${name}_perf $more: a skipped call is seen on the GPU"
        # shellcheck disable=SC2086
        WRAP_FAULT=skip LD_PRELOAD=$wrapper gpu $name $more
        want_code 1
        want_out 'rank 0: receive buffer, index 0: expected .* got '
        end
    done
done
finish
