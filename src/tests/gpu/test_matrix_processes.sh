#!/bin/sh
# time limit: 3600 s
# A process per rank on one GPU, without and with MPI: every driver, type, operator and root.
. "$(dirname "$0")/lib.sh"
{
    some processes 2 8
    some mpi 4
} >"$tmp/list"
matrix_of processes mpi
finish
