#!/bin/sh
# time limit: 900 s
# The long check on up to 8 ranks: every algorithm and protocol with every collective, type and
# operator, called from a group, from a thread per rank and from two processes; what it counts as
# impossible, and that it sees a wrong result. Under TSan this is where all pairs race.
cd "$(dirname "$0")/../../.." || exit 3
. src/tests/build/tap.sh
case $build in /*) ;; *) build=$PWD/$build ;; esac
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

scripts/check-all --small --record "$work/record.json" "$build" >"$work/out" 2>&1
status=$?
if [ $status = 0 ]; then
    pass "every pair up to 8 ranks is exact"
else
    fail "every pair up to 8 ranks is exact" "$(tail -n 60 "$work/out")"
fi

# rows MODE COLUMN: "algorithm/protocols/collectives" that made calls, joined.
rows() {
    awk -v column="$1" '
        NF == 8 && $column > 0 && NR > 1 { algo[$1]++ }
        END { for (name in algo) print name "=" algo[name] }' "$work/out" | sort | tr '\n' ' '
}
within='auto=8 direct=8 logstep=4 oneshot=10 ring=10 tree=6 twoshot=2 '
across='auto=8 logstep=4 oneshot=10 pairwise=3 ring=10 tree=6 twoshot=2 '
same "pairs that ran from a group" "$within" "$(rows 4)"
same "pairs that ran from threads" "$within" "$(rows 5)"
same "pairs that ran across processes" "$across" "$(rows 6)"
same "pairs that are impossible" 'direct=10 logstep=6 tree=4 twoshot=8 ' "$(rows 8)"
# 12 types and 7 operators on 2 to 8 ranks.
least=$(awk '$3 == "AllReduce" && $4 && (!n || $4 < n) { n = $4 } END { print n }' "$work/out")
expect "each type and operator is called for" 0 '' [ "$least" -ge $((84 * 7)) ]

if command -v python3 >/dev/null 2>&1; then
    expect "the record" 0 '^0 wrong, 0 failed, True$' python3 -c '
import json, sys
record = json.load(open(sys.argv[1]))
total = sum(row["calls"] for row in record["results"])
print("%d wrong, %d failed, %s" % (record["wrong"], record["runs_failed"],
                                   total == record["calls"] > 50000))' "$work/record.json"
else
    skip "the record" "no python3"
fi

for mode in group threads processes; do
    expect "a spoilt result is seen from $mode" 1 "^ring +LL +AllReduce .* 1 +0\$" \
        scripts/check-all --small --only "ring LL $mode" --spoil 9 "$build"
done
expect "an unknown option" 2 "unknown option --samll" scripts/check-all --samll
echo "1..$number"
