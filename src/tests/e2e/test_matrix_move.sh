#!/bin/sh
# time limit: 600 s
# All types and roots of the drivers that only move data: 12 (x n roots).
. "$(dirname "$0")/lib.sh"
. "$tests_dir/matrix.sh"
matrix broadcast 1 1 1 1 2 3 5 8
matrix gather 1 1 1 1 2 3 5 8
matrix scatter 1 1 1 1 2 3 5 8
matrix all_gather 1 0 1 1 2 3 5 8
matrix alltoall 1 0 0 1 2 3 5 8
matrix alltoallv 1 0 0 1 2 3 5 8
matrix sendrecv 1 0 0 1 2 3 5 8
matrix hypercube 1 0 1 1 2 4 8
matrix oneway 1 0 0 2 3 5 8
matrix pingpong 1 0 0 2 3 5 8
matrix twoway 1 0 0 2 3 5 8
finish
