#!/bin/sh
# time limit: 3600 s
# One thread calls for all ranks of the GPU: every driver, type, operator and root.
. "$(dirname "$0")/lib.sh"
some group 1 2 3 4 8 >"$tmp/list"
matrix_of group
finish
