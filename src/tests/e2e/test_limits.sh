#!/bin/sh
# time limit: 280 s
# Machines that give little: few open files, stacks of any size, no network but the loopback or not
# even that. A run is right, or ends in time with exit code 3 and a message; never by a signal.
. "$(dirname "$0")/lib.sh"
small='-b 1K -e 4K -f 4'

# ---- open files ----

for name in alltoall all_reduce sendrecv; do
    for mode in '-g 8' '-t 4' '--spawn 4' '--spawn 8 -g 2'; do
        for files in 12 20 32 64; do
            begin "$name $mode with $files open files: right, or exit 3 and a message"
            run 40 sh -c "ulimit -n $files"'; exec "$@"' sh "$(driver $name)" -n 2 $small $mode \
                -T 20
            want "exit code $code, not 0 or 3" [ "$code" -eq 0 -o "$code" -eq 3 ]
            [ "$code" -eq 0 ] || want_err "^${name}_perf: "
            [ "$code" -ne 0 ] || want_out '^# Out of bounds values : 0 OK'
            end
        done
    done
done

# ---- stacks ----

for stack in unlimited 256; do
    if ! (ulimit -s $stack) 2>/dev/null; then
        skip "stacks: $stack" 'the limit cannot be raised'
        continue
    fi
    is_sanitized && [ $stack = 256 ] && continue
    for mode in '-g 8' '-t 8' '-t 2 -g 4 -p 1' '--spawn 3' '--spawn 2 -t 2'; do
        begin "ulimit -s $stack, $mode"
        run 60 sh -c "ulimit -s $stack"'; exec "$@"' sh "$(driver all_reduce)" -n 2 -b 8 -e 1M \
            -f 32 $mode
        want_code 0
        want_out '^# Out of bounds values : 0 OK'
        end
    done
done

# ---- no network ----

alone='unshare --user --map-root-user --net'
if $alone sh -c 'ip link set lo up' 2>/dev/null; then
    for mode in '-g 4' '-t 3' '--spawn 2' '--spawn 2 -t 2'; do
        begin "a network of lo alone, $mode"
        run 60 $alone sh -c 'ip link set lo up; exec "$@"' sh "$(driver all_reduce)" -n 2 $small \
            $mode
        want_code 0
        want_out '^# Out of bounds values : 0 OK'
        end
        begin "no interface is up, $mode: exit 3 and a message that says so"
        run 60 $alone "$(driver all_reduce)" -n 2 $small $mode -T 20
        want_code 3
        want_err 'no usable network interface'
        end
    done
else
    skip 'a network of lo alone' 'unshare or ip is missing or may not do it'
fi
for mode in '-g 2' '-t 2' '--spawn 2'; do
    begin "NCCL_SOCKET_IFNAME=nosuch0 $mode: exit 3, the name is in the message"
    NCCL_SOCKET_IFNAME=nosuch0 perf all_reduce $small $mode
    want_code 3
    want_err 'nosuch0'
    end
done
finish
