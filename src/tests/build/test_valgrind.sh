#!/bin/sh
# time limit: 600 s
# slice: no
# The examples, and every collective, type and operator on up to 8 ranks, under valgrind: no error
# and no memory lost. Of an example with MPI only records count whose stack has this library in it.
cd "$(dirname "$0")/../../.." || exit 3
. src/tests/build/tap.sh
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

why=''
if ! command -v valgrind >/dev/null 2>&1; then
    why="no valgrind"
elif ldd "$build/libnccl.so.2" | grep -q -E 'lib(a|t|ub)san'; then
    why="not with a sanitizer"
fi
if [ -n "$why" ]; then
    skip "memory of the examples" "$why"
    echo "1..$number"
    exit
fi

# clean NAME COMMAND…: exit 0, no error, no block lost for certain or perhaps.
clean() {
    case_name=$1
    shift
    if output=$(valgrind -q --leak-check=full --error-exitcode=99 "$@" 2>&1); then
        pass "$case_name"
    else
        fail "$case_name" "$(echo "$output" | head -n 80)"
    fi
}

for example in init_all pthreads; do
    for ranks in 1 3 16; do
        clean "$example, $ranks ranks" "$build/examples/$example" $ranks
    done
done
clean "4 ranks on 1 device" env CHORUS_HOST_DEVICES=1 "$build/examples/init_all" 4
for mode in group threads; do
    clean "every collective, type and operator from $mode" \
        "$build/tests/check_all" auto any $mode small
done

# The memory check itself: a block that nobody frees is seen.
cat >"$work/lost.c" <<'SOURCE'
#include "nccl.h"
#include <stdlib.h>
int main(void)
{
    ncclUniqueId id;
    return malloc(7) == NULL || ncclGetUniqueId(&id) != ncclSuccess;
}
SOURCE
gcc -O0 -g -Isrc/lib -o "$work/lost" "$work/lost.c" -L"$build" -lnccl
expect "a lost block is seen" 99 "7 bytes in 1 blocks are definitely lost" \
    env LD_LIBRARY_PATH="$build" valgrind -q --leak-check=full --error-exitcode=99 "$work/lost"

# Records about this library: a frame in a source of src/lib, below any other.
about_us() {
    awk '
        FNR == NR { ours[$1] = 1; next }
        { sub(/^==[0-9]+== ?/, "") }
        /^$/ { if (hit) printf "%s", record; record = ""; hit = 0; next }
        { record = record $0 "\n" }
        match($0, /\([a-z0-9_]+\.[ch]:[0-9]+\)/) {
            file = substr($0, RSTART + 1)
            sub(/:.*/, "", file)
            if (file in ours) hit = 1
        }' "$work/sources" "$@"
}
find src/lib -name '*.[ch]' -exec basename {} \; >"$work/sources"
if ! command -v mpirun >/dev/null 2>&1 || [ ! -e "$build/examples/mpi" ]; then
    skip "mpi" "no mpirun or no mpicc"
else
    expect "mpi runs" 0 "^all of 2 ranks: sum 3\$" mpirun --oversubscribe -np 2 \
        valgrind --leak-check=full --log-file="$work/mpi.%p" "$build/examples/mpi"
    same "mpi: both ranks were watched" 2 "$(grep -l 'ERROR SUMMARY' "$work"/mpi.* | wc -l)"
    same "mpi: nothing about this library" "" "$(about_us "$work"/mpi.*)"
    echo lost.c >>"$work/sources"
    env LD_LIBRARY_PATH="$build" valgrind --leak-check=full --log-file="$work/lost.log" \
        "$work/lost" >/dev/null 2>&1
    expect "a record is told by its stack" 0 "definitely lost" about_us "$work/lost.log"
fi
echo "1..$number"
