#!/bin/sh
# time limit: 900 s
# All types, operators and roots of the reducing drivers: 12 x 6 (x n roots for reduce).
. "$(dirname "$0")/lib.sh"
. "$tests_dir/matrix.sh"
matrix all_reduce 6 0 1 1 2 3 5 8
matrix reduce_scatter 6 0 1 1 2 3 5 8
matrix reduce 6 1 1 1 2 3 5 8
finish
