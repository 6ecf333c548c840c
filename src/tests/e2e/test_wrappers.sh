#!/bin/sh
# slice: no
# time limit: 300 s
# A preloaded library spoils collectives; every driver in every launch mode must see it: exit code
# 1, and a line that names rank, place, expected and found. Without a fault the same library
# changes nothing. Prints TAP lines. Faults are described in src/tests/wrap/wrap_faults.c.
cd "$(dirname "$0")/../../.." || exit 3
build=$(realpath "${BUILDDIR:-build}")
wrapper=$build/tests/wrap_faults.so
drivers='all_gather all_reduce alltoall alltoallv broadcast gather hypercube reduce
    reduce_scatter scatter sendrecv'
faults='drop skip swap stale double past'
output=$(mktemp) || exit 3
trap 'rm -f "$output"' EXIT
number=0

# run FAULT DRIVER ARGUMENT...: leaves the exit code in $code and both streams in $output.
run() {
    wanted=$1 driver=$2
    shift 2
    WRAP_FAULT=$wanted LD_PRELOAD=$wrapper "$build/${driver}_perf" -n 2 -w 1 -c 1 -T 60 "$@" \
        >"$output" 2>&1
    code=$?
}

# report OK NAME: one TAP line, with the output where it is red.
report() {
    number=$((number + 1))
    if [ "$1" = 1 ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        echo "# exit code $code"
        sed 's/^/# /' "$output" | tail -n 30
    fi
}

expect_right() {
    good=0
    [ "$code" -eq 0 ] && ! grep -q 'expected .* got ' "$output" && good=1
    report "$good" "$1"
}

expect_wrong() {
    good=0
    [ "$code" -eq 1 ] &&
        grep -E -q 'rank [0-9]+: .*(index|offset) -?[0-9]+: expected .*0x[0-9a-f]+.* got .*0x' \
            "$output" && good=1
    report "$good" "$1"
}

# The same numbers in every run, from a seed that is printed.
seed=20301
draw() { # draw N: a number below N in $drawn
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    drawn=$((seed / 65536 % $1))
}

pick() { # pick WORD...: one of the words in $picked
    draw $#
    shift "$drawn"
    picked=$1
}

[ -e "$wrapper" ] || {
    echo "not ok 1 - $wrapper is built"
    exit 1
}

for driver in $drivers; do
    run none "$driver" -g 4 -b 4K -e 4K
    expect_right "$driver, wrapped without a fault"
done
for driver in $drivers; do
    for mode in '-g 4' '-t 4' '--spawn 4'; do
        for fault in $faults; do
            # shellcheck disable=SC2086 # the mode is an option and its value
            run "$fault" "$driver" $mode -b 4K -e 4K
            expect_wrong "$driver $mode, $fault"
        done
    done
done

echo "# random faults, seed $seed"
for round in $(seq 40); do
    pick $drivers && driver=$picked
    pick $faults && fault=$picked
    pick -g -t --spawn && mode=$picked
    pick 2 4 8 && ranks=$picked
    pick int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2
    type=$picked
    draw 60
    size=$((64 * ranks * (drawn + 2)))
    case $driver in
    *reduce*) op='-o sum' ;;
    *) op='' ;;
    esac
    # shellcheck disable=SC2086 # the operator is an option and its value, or nothing
    run "$fault" "$driver" "$mode" "$ranks" -b "$size" -e "$size" -d "$type" $op
    expect_wrong "random $round: $driver $mode $ranks -b $size -d $type, $fault"
done
echo "1..$number"
