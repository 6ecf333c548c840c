#!/bin/sh
# time limit: 3600 s
# Captured calls on one GPU (-G): every driver, type, operator and root with 3 or 8 ranks, some
# across threads and processes; all numbers of ranks, places and sizes: gpu-test-all.
. "$(dirname "$0")/lib.sh"
{
    one_each graph 3 8
    echo 'all_reduce graph 3 2 long'
    echo 'all_reduce graph-threads 4 1 short'
    echo 'alltoall graph-threads 4 0 long'
    echo 'all_reduce graph-processes 4 1 short'
    echo 'sendrecv graph-processes 2 0 long'
} >"$tmp/list"
matrix_of graph graph-threads graph-processes
finish
