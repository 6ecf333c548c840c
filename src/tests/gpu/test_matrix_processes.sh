#!/bin/sh
# time limit: 3600 s
# A process per rank on one GPU, without and with MPI: every driver, type, operator and root, with 2
# or 8 ranks, a few by MPI; all numbers of ranks, places and sizes: gpu-test-all.
. "$(dirname "$0")/lib.sh"
{
    one_each processes 2 8
    echo 'all_reduce processes 4 3 short'
    for name in all_reduce alltoall sendrecv; do echo "$name mpi 4 1 short"; done
} >"$tmp/list"
matrix_of processes mpi
finish
