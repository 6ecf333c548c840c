#!/bin/sh
# The examples run, with one rank, with all devices, with more ranks than devices, and under mpirun.
cd "$(dirname "$0")/../../.." || exit 3
. src/tests/build/tap.sh
folder=$build/examples

# count NAME N COMMAND…: exit 0 and N lines "rank i of N: sum N(N+1)/2".
count() {
    case_name=$1 ranks=$2
    shift 2
    if ! output=$("$@" 2>&1); then
        fail "$case_name" "$output"
        return
    fi
    sum=$((ranks * (ranks + 1) / 2))
    same "$case_name" "$ranks" "$(echo "$output" | grep -c "^rank [0-9]* of $ranks: sum $sum\$")"
}

for example in init_all pthreads; do
    count "$example: a rank a device" 8 env CHORUS_HOST_DEVICES=8 "$folder/$example"
    for ranks in 1 2 3 16; do
        count "$example: $ranks ranks" $ranks "$folder/$example" $ranks
    done
    count "$example: 4 ranks on 1 device" 4 env CHORUS_HOST_DEVICES=1 "$folder/$example" 4
    expect "$example: 0 ranks" 2 "^usage" "$folder/$example" 0
    expect "$example: names the device" 0 "host device 0 \[host:" "$folder/$example" 1
done

run="mpirun --allow-run-as-root --oversubscribe"
# Open MPI leaves memory behind at its end, which is not ours to report.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
if ! command -v mpirun >/dev/null 2>&1 || [ ! -e "$folder/mpi" ]; then
    skip "mpi" "no mpirun or no mpicc"
else
    for ranks in 1 2 4; do
        # shellcheck disable=SC2086
        expect "mpi: $ranks ranks" 0 "^all of $ranks ranks: sum $((ranks * (ranks + 1) / 2))\$" \
            $run -np $ranks "$folder/mpi"
    done
fi
echo "1..$number"
