#!/bin/sh
# time limit: 300 s
# Once more than 2^31 elements in a buffer, more than 2^32 bytes, and shares of such sizes. Memory:
# two or three buffers a rank.
. "$(dirname "$0")/lib.sh"
once='-n 1 -w 0 -c 1 --exact'

for line in 'all_reduce 3 int8 2149M' 'all_reduce 2 float 8600M' 'reduce_scatter 2 uint8 4300M' \
    'all_gather 2 int8 4300M' 'alltoall 2 int8 4300M' 'broadcast 3 half 4400M' \
    'reduce 2 bfloat16 4400M' 'sendrecv 2 int8 2149M' 'scatter 2 int8 4300M' \
    'gather 2 int8 4300M'; do
    # shellcheck disable=SC2086
    set -- $line
    # shellcheck disable=SC2086
    fine "$1" "$2" 1 -g "$2" -d "$3" -b "$4" -e "$4" $once
done
fine all_reduce 2 1 -g 2 -d int8 -b 2149M -e 2149M $once -u 1
fine all_reduce 2 1 -g 2 -d int8 -b 2149M -e 2149M $once -G 1
finish
