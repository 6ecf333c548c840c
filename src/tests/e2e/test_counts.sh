#!/bin/sh
# time limit: 240 s
# Sizes that no driver is tuned for: nothing at all, primes that no share divides, the count of a
# known fault, large buffers with slots that are no powers of two; each run is verified.
. "$(dirname "$0")/lib.sh"
drivers='all_gather all_reduce alltoall alltoallv broadcast gather hypercube oneway pingpong reduce
    reduce_scatter scatter sendrecv twoway'

for name in $drivers; do
    for mode in '-g 1' '-g 4' '--spawn 2'; do
        case $name$mode in oneway-g\ 1 | pingpong-g\ 1 | twoway-g\ 1) continue ;; esac # need two
        begin "$name -b 0 $mode: a row of 0 bytes, no signal"
        perf "$name" -b 0 -e 0 $mode
        want_code 0
        want_out '^ +0 +0 '
        want_out '^# Out of bounds values : 0 OK'
        end
    done
done

# Element counts of a rank's share: the size is that of all ranks where a rank has a block.
for name in $drivers; do
    [ "$name" != hypercube ] || continue # needs a power of two of ranks
    for mode in '-g 7' '--spawn 3'; do
        begin "$name $mode: shares that are prime"
        perf "$name" -b 4999 -e 1048573 -f 209.75 -d int8 --exact $mode
        want_code 0
        want_out '^# Out of bounds values : 0 OK'
        end
    done
done

begin 'all_reduce of 10,556,587 floats on 8 ranks'
perf all_reduce -b 42226348 -e 42226348 --exact -g 8 -n 1
want_code 0
want_out '^ +42226348 +10556587 '
want_table 8 1
end

for name in all_reduce reduce_scatter all_gather; do
    begin "$name of 128 MiB with slots of 1,000,000 bytes"
    CHORUS_SLOT_BYTES=1000000 CHORUS_SLOT_DEPTH=3 CHORUS_CHANNELS=3 NCCL_ALGO=ring \
        perf $name -b 128M -e 128M -g 3 -n 1 -w 0
    want_code 0
    want_table 3 1
    end
done

begin 'slots of 1 byte are refused by a warning, and the default holds'
CHORUS_SLOT_BYTES=1 NCCL_DEBUG=WARN perf all_reduce -b 8 -e 8 -g 2
want_code 0
want 'no warning names the variable' grep -q CHORUS_SLOT_BYTES "$out" "$err"
end
finish
