#!/bin/sh
# time limit: 3600 s
# A thread per rank on one GPU: every driver, type, operator and root.
. "$(dirname "$0")/lib.sh"
some threads 3 8 >"$tmp/list"
matrix_of threads
finish
