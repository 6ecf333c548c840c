#!/bin/sh
# slice: no
# time limit: 300 s
# A preloaded library spoils collectives; every driver in every launch mode must see it: exit code
# 1, and a line that names rank, place, expected and found. Without a fault the same library
# changes nothing. Prints TAP lines. Faults are described in src/tests/wrap/wrap_faults.c.
cd "$(dirname "$0")/../../.." || exit 3
build=$(realpath "${BUILDDIR:-build}")
wrapper=$build/tests/wrap_faults.so
export CHORUS_DEVICE=host
drivers='all_gather all_reduce alltoall alltoallv broadcast gather hypercube oneway
    pingpong reduce reduce_scatter scatter sendrecv twoway'
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

# named WORD: the number behind the word in the line about the out-of-place placement, in $place.
named() {
    place=$(sed -n -E "s/^# +out of place: .*$1 (-?[0-9]+): expected.*/\1/p" "$output" | head -1)
}

# expect_place NAME: exit code 1, and the place that is named is one that the fault has spoiled.
# The elements of a result follow from the row: n times the count for what collects from n ranks.
# What moves in several messages has a place in each, so only its range is known.
expect_place() {
    good=0
    shown=$(awk '/^ +[0-9]+ / {print $2; exit}' "$output")
    elems=${shown:-0} low=0 high=0
    case $driver in all_gather | gather | alltoall) elems=$((elems * ranks)) ;; esac
    case $fault in
    drop) low=$((elems - 1)) high=$((elems - 1)) ;;
    skip | stale) low=0 high=$((elems / 8)) ;;
    swap) low=0 high=$((elems / 8)) ;;
    double)
        low=0 high=$((elems / 8))
        case $driver in *reduce*) ;; *) low=$((elems - elems / 2)) high=$((low + elems / 8)) ;; esac
        ;;
    past) low=$((elems * bytes)) high=$low ;;
    esac
    word=index
    [ "$fault" != past ] || word=offset
    named "$word"
    case $driver in
    alltoallv | hypercube) # several messages, whose sizes the row does not tell
        [ "$code" -eq 1 ] && grep -E -q "(index|offset) -?[0-9]+: expected .* got " "$output" &&
            good=1
        ;;
    *)
        [ "$code" -eq 1 ] && [ -n "$place" ] && [ "$place" -ge "$low" ] &&
            [ "$place" -le "$high" ] && good=1
        ;;
    esac
    [ "$good" = 1 ] || echo "# $word '$place' is not in $low..$high"
    report "$good" "$1"
}

echo "# random faults, seed $seed"
for round in $(seq 150); do
    pick $drivers && driver=$picked
    pick $faults && fault=$picked
    pick -g -t --spawn && mode=$picked
    pick 2 3 4 5 8 && ranks=$picked
    [ "$driver" != hypercube ] || pick 2 4 8 && ranks=$picked
    pick int8:1 uint8:1 int32:4 uint32:4 int64:8 uint64:8 half:2 float:4 double:8 bfloat16:2 \
        f8e4m3:1 f8e5m2:1
    type=${picked%:*} bytes=${picked#*:}
    # In bytes: a tail that is no whole part, and sizes above one chunk.
    draw 3000
    size=$((ranks * 16 * 16 + drawn * 8))
    draw 4
    [ "$drawn" -ne 0 ] || size=$((size * 97))
    pick sum sum sum prod max min avg mulsum && op=$picked
    case $driver in
    # Only a sum counts a rank twice.
    *reduce*) [ "$fault" != double ] || op=sum ;;
    *) op=none ;;
    esac
    options="-b $size -e $size -d $type"
    [ "$op" = none ] || options="$options -o $op"
    # shellcheck disable=SC2086 # several words
    run "$fault" "$driver" "$mode" "$ranks" $options
    expect_place "random $round: $driver $mode $ranks $options, $fault"
done
echo "1..$number"
