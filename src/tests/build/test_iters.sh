#!/bin/sh
# slice: no
# scripts/iters: first iterations, spikes and stragglers that were planted in records of these
# drivers and of nccl-tests are found, and nothing else is.
cd "$(dirname "$0")/../../.." || exit 3
. src/tests/build/tap.sh
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
export CHORUS_DEVICE=host
command -v python3 >/dev/null 2>&1 || { skip iters 'no python3'; echo "1..$number"; exit; }

# As nccl-tests 2.19 writes it: four processes of which the third is slow, a first iteration of ten
# times the rest, one spike; and a row in place without anything.
python3 - >"$work/theirs.json" <<'END'
import json
even = [[10.0 + 0.01 * ((7 * p + 3 * i) % 5) for i in range(40)] for p in range(4)]
slow = [[12.0 if p == 2 else us for us in of] for p, of in enumerate(even)]
for of in slow:
    of[0] = 100.0
    of[17] = 50.0
def per_iter(of):
    times = [max(column) for column in zip(*of)]
    return {"skipped_iterations": 0, "times_us": times, "per_process_max_times_us": of}
print(json.dumps({"version": 3, "results": [{
    "size": 1024, "count": 256, "type": "float", "redop": "sum", "root": -1,
    "out_of_place": {"time": 12.0}, "out_of_place_per_iter": per_iter(slow),
    "in_place": {"time": 10.0}, "in_place_per_iter": per_iter(even)}]}))
END
scripts/iters "$work/theirs.json" >"$work/out"
same "a record of nccl-tests is read" 0 $?
expect "the first iteration" 0 '^1 KiB float sum out of place: 40 iter.*first 100.00 us \(8.33 t' \
    cat "$work/out"
expect "one spike, by its number" 0 '^  1 above 3 times the median: #17 50.0 us$' cat "$work/out"
expect "the straggler" 0 '^  process 2 is a straggler: slowest in 95 % .*, 1.20 times the others$' \
    cat "$work/out"
same "nothing in the row without" '1 KiB float sum in place: 40 iterations, median 10.04 us' \
    "$(tail -n 1 "$work/out" | cut -d, -f1-2)"
same "one straggler, one line of spikes" 2 "$(grep -c '^  ' "$work/out")"
expect "another threshold" 0 '^  1 above 4.1 times' scripts/iters --spike 4.1 "$work/theirs.json"
same "a higher one finds none" 0 "$(scripts/iters --spike 5 "$work/theirs.json" | grep -c above)"

for form in json jsonl; do
    "$build/all_reduce_perf" -b 1K -e 64K -f 64 --spawn 2 -n 8 -K 2 -I 1 -J "$work/ours.$form" \
        >/dev/null 2>&1
    same "$form of ours: four rows" 4 \
        "$(scripts/iters "$work/ours.$form" | grep -c '^[0-9].*: 8 iterations')"
done
expect "as JSON, with both processes" 0 '"process": 1' scripts/iters --json "$work/ours.json"
"$build/all_reduce_perf" -b 8 -e 8 -g 2 -n 1 -J "$work/plain.json" >/dev/null 2>&1
expect "a record without -I" 1 'has no times of iterations' scripts/iters "$work/plain.json"
expect "no record" 1 'iters: .*none.json' scripts/iters "$work/none.json"
echo "1..$number"
