#!/bin/sh
# time limit: 300 s
# The same right results whatever CUDA's variables say, and with one GPU that processes know by
# different names.
. "$(dirname "$0")/lib.sh"
sizes='-b 8 -e 1M -f 64'

# SETTING MORE...: collective and options under a setting. What one thread calls needs no gates, so
# that the number of connections hardly matters there.
under() {
    label=$1
    export "${1?}"
    shift
    for run in "$@"; do
        case $run in
        *'-t 2 -g 4'* | *'-g 8'*) ranks=8 ;;
        *spawn*) ranks=2 ;;
        *) ranks=4 ;;
        esac
        # shellcheck disable=SC2086
        fine ${run%% *} $ranks 3 $sizes ${run#* }
    done
    unset "${label%%=*}"
    label=''
}
for setting in CUDA_DEVICE_MAX_CONNECTIONS=1 CUDA_DEVICE_MAX_CONNECTIONS=2 \
    CUDA_DEVICE_MAX_CONNECTIONS=32 CUDA_LAUNCH_BLOCKING=1; do
    under $setting 'all_reduce -t 4' 'all_reduce -t 2 -g 4' 'all_reduce -t 4 -G 2' \
        'all_reduce --spawn 2' 'sendrecv -t 4' 'sendrecv -g 8 -G 2' 'sendrecv --spawn 2'
done
under CUDA_DEVICE_MAX_CONNECTIONS=1 'sendrecv -t 2 -g 4' 'sendrecv -t 4 -G 2' 'all_reduce -g 4'
under CUDA_MODULE_LOADING=EAGER 'all_reduce -t 4' 'all_reduce --spawn 2'
export CUDA_DEVICE_MAX_CONNECTIONS=1
fine all_reduce 4 0 -t 4 -d all -o all -b 5 -e 1M -f 457 --exact -n 1 -w 0 -u 1
unset CUDA_DEVICE_MAX_CONNECTIONS

# rank NUMBER NAME-OF-THE-GPU SIZE: one process of a world of two, as torchrun starts them.
rank() {
    CUDA_VISIBLE_DEVICES=$2 RANK=$1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
        LOCAL_RANK=0 NCCL_MULTI_RANK_GPU_ENABLE=1 timeout -k 5 $limit_s \
        "$(driver "$3")" $sizes -n 2 -T $idle_s
}
uuid=$("$(driver all_reduce)" --devices | sed -n 's/.*\(GPU-[0-9a-f-]*\)$/\1/p' | head -n 1)
for collective in all_reduce alltoall; do
    begin "$collective: two processes know the GPU as 0 and by its UUID"
    free_port
    rank 1 "$uuid" $collective >"$tmp/other" 2>&1 &
    rank 0 0 $collective >"$out" 2>"$err"
    code=$?
    wait $!
    want_code 0
    want_table 2 3
    end
done
finish
