#!/bin/sh
# slice: no
# time limit: 240 s
# Open MPI as the oracle: oracle_mpi on 2, 3 and 4 ranks. Skipped where MPI is absent. The seed
# may be given as the first argument, to repeat a run.
. "$(dirname "$0")/../e2e/lib.sh"
program=$BUILDDIR/tests/oracle_mpi
seed=${1:-$(date +%s)}

if [ ! -x "$program" ] || ! has mpirun; then
    skip 'results equal Open MPI' 'no mpirun or no mpicc'
    finish
fi

# Without op/avx: that component of Open MPI 4.1 saturates sums of 8-bit integers, where the plain
# C loops of the same Open MPI wrap as the language of the types says.
mpi="$mpi --mca op ^avx"

# The lines of the three runs, numbered through; a run that says less than it planned is red.
for ranks in 2 3 4; do
    run 100 $mpi -np $ranks "$program" "$seed"
    echo "# $ranks ranks, seed $seed, exit code $code"
    grep -E '^(not )?ok - ' "$out" >"$tmp/lines"
    planned=$(sed -n 's/^1\.\.//p' "$out")
    while read -r line; do
        number=$((number + 1))
        echo "$line" | sed "s/ok -/ok $number -/"
    done <"$tmp/lines"
    [ "$code" -eq 0 ] || sed 's/^/# /' "$err" | tail -n 40
    failures=$((failures + $(grep -c '^not ok' "$tmp/lines")))
    begin "$ranks ranks: the oracle came to its end"
    want "exit code $code" [ "$code" -le 1 ]
    want "planned ${planned:-nothing}" [ "${planned:-0}" = "$(wc -l <"$tmp/lines")" ]
    end
done
finish
