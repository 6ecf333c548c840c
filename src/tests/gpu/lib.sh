# Shared by the shell tests of this folder, which source it: the drivers on a GPU, and lists of
# configurations. What it offers beside is that of e2e/lib.sh and e2e/matrix.sh. GPU_SLICE=i/N in
# the environment asks for the i-th of N parts of everything instead of the short list.

export CHORUS_DEVICE="${CHORUS_DEVICE:-cuda}"
. "$(dirname "$0")/../e2e/lib.sh"
. "$tests_dir/matrix.sh"
. "$tests_dir/borrow.sh"

# As in e2e/lib.sh, but no run takes longer than limit_s, one without progress for idle_s ends
# itself, and after some that did not end in their time nothing more is started: what hangs must not
# take the machine for hours.
limit_s=25 idle_s=12 stuck=0 stuck_most=4
matrix_more="-T $idle_s"
run() {
    seconds=$1
    shift
    [ "$seconds" -le $limit_s ] || seconds=$limit_s
    : >"$out"
    code=125
    echo 'not started: too many before did not end' >"$err"
    [ $stuck -lt $stuck_most ] || return
    timeout -k 5 "$seconds" "$@" >"$out" 2>"$err" </dev/null
    code=$?
    case $code in 4 | 124 | 137) stuck=$((stuck + 1)) ;; esac
}

# NAME OPS ROOTS(0: none) IN_PLACE: what each driver holds.
drivers='all_reduce 6 0 1
reduce_scatter 6 0 1
reduce 6 1 1
broadcast 1 1 1
gather 1 1 1
scatter 1 1 1
all_gather 1 0 1
alltoall 1 0 0
alltoallv 1 0 0
sendrecv 1 0 0
hypercube 1 0 1
pingpong 1 0 0
oneway 1 0 0
twoway 1 0 0'

# The number of ranks that a driver takes instead of one that it cannot have.
fit() { # NAME N
    case $1$2 in
    hypercube3) echo 4 ;;
    pingpong1 | oneway1 | twoway1) echo 2 ;;
    *) echo "$2" ;;
    esac
}

# Keeps every Nth line of stdin, beginning with the i-th, for GPU_SLICE=i/N.
slice_lines() {
    case $GPU_SLICE in
    '') cat ;;
    *) awk -v i="${GPU_SLICE%/*}" -v n="${GPU_SLICE#*/}" 'NR % n == i % n' ;;
    esac
}

# everything MODE...: all drivers, 1 to 8 ranks, places and sizes: DRIVER MODE N UNALIGNED SIZES.
everything() {
    for matrix_mode in "$@"; do
        echo "$drivers" | while read -r name rest; do
            for n in 1 2 3 4 8; do
                [ "$(fit "$name" $n)" = $n ] || continue
                echo "$name $matrix_mode $n 0 long"
                for unaligned in 1 2 3; do echo "$name $matrix_mode $n $unaligned short"; done
            done
        done
    done
}

# one_each MODE N M: every driver once, with N and M ranks in turn, places and sizes in turn.
one_each() {
    mode=$1
    echo "$drivers" | while read -r name rest; do
        turn=$(((${turn:-0} + 1) % 8))
        [ $((turn % 2)) = 0 ] && n=$2 || n=$3
        n=$(fit "$name" "$n")
        [ $((turn % 4)) = 0 ] && sizes=long || sizes=short
        echo "$name $mode $n $((turn % 4)) $sizes"
    done
}

# some MODE N...: every driver once for each n, places and sizes in turn.
some() {
    mode=$1
    shift
    echo "$drivers" | while read -r name rest; do
        for n in "$@"; do
            n=$(fit "$name" "$n")
            turn=$(((${turn:-0} + 1) % 4))
            [ $turn = 0 ] && sizes=long || sizes=short
            echo "$name $mode $n $turn $sizes"
        done
    done
}

# matrix_of MODE...: runs the short list in $tmp/list, or a part of everything in these modes.
matrix_of() {
    limit_s=80
    [ -z "$GPU_SLICE" ] || everything "$@" | slice_lines >"$tmp/list"
    while read -r name matrix_mode n unaligned sizes; do
        if [ "$matrix_mode" = mpi ] && ! has_mpi; then
            skip "$name, mpi, n = $n" 'no mpirun, or no plugin'
            continue
        fi
        # shellcheck disable=SC2046
        set -- $(echo "$drivers" | grep "^$name ")
        matrix_case "$name" "$2" "$3" "$4" "$n" "$unaligned" "$sizes"
    done <"$tmp/list"
}

# fine NAME RANKS ROWS ARGUMENT...: a driver that passes with one table (ROWS 0: any).
fine() {
    name=$1 ranks=$2 rows=$3
    shift 3
    begin "${label:+$label: }${name}_perf $*"
    perf "$name" -T $idle_s "$@"
    want_code 0
    want_table "$ranks" "$rows"
    end
}
