#!/bin/sh
# time limit: 3600 s
# A thread per rank on one GPU: every driver, type, operator and root, with 3 or 8 ranks; all
# numbers of ranks, places and sizes: gpu-test-all.
. "$(dirname "$0")/lib.sh"
{
    one_each threads 3 8
    echo 'all_reduce threads 3 1 long'
    echo 'alltoall threads 2 1 short'
} >"$tmp/list"
matrix_of threads
finish
