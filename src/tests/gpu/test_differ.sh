#!/bin/sh
# time limit: 400 s
# The differential program on a GPU: in our library no call crashes or hangs, and beside NVIDIA's
# the differences are those of docs/differences.md.
. "$(dirname "$0")/lib.sh"
. "$tests_dir/nvidia.sh"
differ=$BUILDDIR/tests/differ
list=docs/differences.md
limit_s=200

begin 'our library on a GPU: no crash, no timeout, our column of the list'
run 200 "$differ" --jobs 8 --list $list "$BUILDDIR/libnccl.so.2"
want_code 0
want_not_out ' (signal [0-9]|timeout|missing|set-up|exit [0-9]|no device)'
end

# The list is of this version.
nvidia=$(find_nvidia)
run 60 "$differ" --only 'ncclGetVersion null' "${nvidia:-/none}"
if ! grep -q 'version 23007$' "$out"; then
    skip "beside NVIDIA's: the differences are the listed ones" 'no library of version 2.30.7'
    finish
fi
begin "beside NVIDIA's: the differences are the listed ones"
run 200 "$differ" --jobs 8 --list $list "$BUILDDIR/libnccl.so.2" "$nvidia"
want_code 0
want_out ' 0 problems$'
end
finish
