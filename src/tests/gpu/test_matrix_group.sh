#!/bin/sh
# time limit: 3600 s
# One thread calls for all ranks of the GPU: every driver, type, operator and root, each with 3 and
# 8 ranks, and some with 1, 2 and 4. All of them with 1, 2, 3, 4 and 8, each place with each series
# of sizes: gpu-test-all.
. "$(dirname "$0")/lib.sh"
{
    some group 3 8
    for n in 1 2 4; do
        echo "all_reduce group $n 3 long"
        echo "reduce_scatter group $n 1 short"
        echo "alltoall group $n 2 long"
    done
    echo 'all_gather group 2 0 long'
    echo 'broadcast group 2 1 short'
    echo 'sendrecv group 2 0 long'
} >"$tmp/list"
matrix_of group
finish
