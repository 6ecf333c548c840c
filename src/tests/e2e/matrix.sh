# Sourced by the test_matrix_*.sh after lib.sh: all types, operators and roots of a driver over
# odd sizes, counted row by row. Every combination must appear with every size, verified in and
# out of place wherever the driver has both.

# Sizes in bytes: 5, 335, 22445 in the short series; 5, 2285, 1044245 in the long one. With
# --exact no share is rounded, so counts are odd and tails uneven.
short_sizes='-b 5 -e 22K -f 67'
short_rows=3
long_sizes='-b 5 -e 1M -f 457'
long_rows=3

# count_rows IN_PLACE: "rows bad combinations fewest most" of a run: bad is #wrong not 0 or an
# in-place column without result; a combination is a type, op and root, and the last two are the
# fewest and most rows of one of them.
count_rows() {
    awk -v in_place="$1" '
        /^ *[0-9]+ / {
            rows++
            if ($9 != "0" || $13 != (in_place ? "0" : "-")) bad++
            seen[$3 " " $4 " " $5]++
        }
        END {
            fewest = 1e9
            for (key in seen) {
                combinations++
                if (seen[key] < fewest) fewest = seen[key]
                if (seen[key] > most) most = seen[key]
            }
            print rows + 0, bad + 0, combinations + 0, fewest, most + 0
        }' "$out"
}

# How n ranks start, and further options; others set them before they call matrix_case.
matrix_mode=group matrix_more=''

mode_options() { # N
    case $matrix_mode in
    group) echo "-g $1" ;;
    threads) echo "-t $1" ;;
    processes) echo "--spawn $1" ;;
    graph) echo "-g $1 -G 1" ;;
    graph-threads) echo "-t $1 -G 1" ;;
    graph-processes) echo "--spawn $1 -G 1" ;;
    esac
}
mode_launcher() { # N
    [ "$matrix_mode" != mpi ] || echo "$mpi -np $1"
}

# matrix_case DRIVER OPS ROOTS(0: none) IN_PLACE N UNALIGNED SIZES(short|long)
matrix_case() {
    collective=$1 ops=$2 roots=$3 in_place=$4 n=$5 unaligned=$6
    if [ "$7" = long ]; then
        sizes=$long_sizes nsizes=$long_rows
    else
        sizes=$short_sizes nsizes=$short_rows
    fi
    [ "$roots" -eq 0 ] && nroots=1 || nroots=$n
    combinations=$((12 * ops * nroots))
    begin "$collective, $matrix_mode, n = $n, -u $unaligned, $7 sizes: $combinations combinations"
    options='-d all'
    [ "$ops" -eq 1 ] || options="$options -o all"
    [ "$roots" -eq 0 ] || options="$options -r all"
    # shellcheck disable=SC2046
    run 600 $(mode_launcher "$n") "$(driver "$collective")" $(mode_options "$n") $options $sizes \
        --exact -n 1 -w 0 -c 1 -u "$unaligned" $matrix_more
    want_code 0
    set -- $(count_rows "$in_place")
    want "$1 rows, not $((combinations * nsizes))" [ "$1" -eq $((combinations * nsizes)) ]
    want "$2 rows are not verified or not right" [ "$2" -eq 0 ]
    want "$3 combinations" [ "$3" -eq "$combinations" ]
    want "a combination has $4 rows, another $5" [ "$4" -eq "$nsizes" -a "$5" -eq "$nsizes" ]
    want_out '^# Out of bounds values : 0 OK'
    end
}

# matrix DRIVER OPS ROOTS IN_PLACE RANKS...: the long series with one offset, the short ones with
# three, for each number of ranks. A slow build takes one number of ranks and short series.
matrix() {
    name=$1 ops=$2 roots=$3 in_place=$4
    shift 4
    [ -z "$CHORUS_TEST_SLICE" ] || set -- 2
    for n in "$@"; do
        [ -n "$CHORUS_TEST_SLICE" ] || matrix_case "$name" "$ops" "$roots" "$in_place" "$n" 0 long
        for unaligned in 1 2 3; do
            matrix_case "$name" "$ops" "$roots" "$in_place" "$n" $unaligned short
        done
    done
}
