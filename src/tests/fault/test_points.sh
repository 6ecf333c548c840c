#!/bin/sh
# Every fault point of the library is one that test_faults.c makes fail, and none there is unknown.
cd "$(dirname "$0")/../../.." || exit 3
. src/tests/build/tap.sh
in_library=$(grep -rho 'CCL_FAULT([^)]*)' src/lib --include='*.c' | grep -o '"[^"]*"' | sort -u)
in_test=$(sed -n 's/^    {\("[a-z-]*"\), FIRST.*/\1/p' src/tests/fault/test_faults.c | sort -u)
same "fault points that are tested" "$in_library" "$in_test"
echo "1..$number"
