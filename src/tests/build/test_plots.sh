#!/bin/sh
# slice: no
# Plots: the points of each figure, read back from the SVG, are those of the record; the index names
# what is drawn; comparisons alternate, judge and draw. In a site of its own beside the scripts.
cd "$(dirname "$0")/../../.." || exit 3
. src/tests/build/tap.sh
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
export CHORUS_DEVICE=host
for program in python3 gnuplot; do
    command -v $program >/dev/null 2>&1 || { skip plots "no $program"; echo "1..$number"; exit; }
done
site=$work/site folder=2026-01-31-some-machine
mkdir -p "$site/scripts" "$site/results/$folder" "$site/plots"
cp scripts/plots scripts/gnuplot.py scripts/records.py scripts/*-plot "$site/scripts/"

expect "plots without records says so" 0 "no committed record" "$site/scripts/plots"
expect "plots without gnuplot says so" 3 "no gnuplot in PATH" scripts/bare scripts/plots x y

# near NAME FILE: stdin has "panel curve x y" of what must be in the SVG, in any order.
near() {
    sort >"$work/wanted"
    python3 src/tests/build/svg_points.py "$2" | sort >"$work/seen"
    if awk 'NR == FNR {want[$1 " " $2 " " ++n[$1 " " $2]] = $3 " " $4; total++; next}
        {split(want[$1 " " $2 " " ++m[$1 " " $2]], w, " "); seen++
         if (w[1] == 0 || $3 / w[1] > 1.01 || $3 / w[1] < 0.99 || $4 / w[2] > 1.02 ||
             $4 / w[2] < 0.98) exit bad = 1}
        END {exit bad || seen != total || total == 0}' "$work/wanted" "$work/seen"; then
        pass "$1"
    else
        fail "$1" "wanted: $(tr '\n' ';' <"$work/wanted") seen: $(tr '\n' ';' <"$work/seen")"
    fi
}

# The points of two panels, times and rates, as the record has them.
points_of() { # FILE
    python3 - "$1" <<'END'
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, "scripts")
import records
for row in records.rows(records.load(sys.argv[1])):
    if row["place"] == "out_of_place":
        print(0, 0, row["size"], row["time"])
        print(1, 0, row["size"], row["bus_bw"])
END
}

"$build/all_reduce_perf" -b 8 -e 8M -f 8 -g 3 -n 1 -J "$work/real.json" >/dev/null 2>&1
same "a record is made" 0 $?
expect "one record is drawn" 0 "^plots: $work/one.svg" scripts/plots "$work/real.json" "$work/one"
points_of "$work/real.json" >"$work/points"
near "the points are the record's" "$work/one.svg" <"$work/points"
expect "a PNG too" 0 PNG head -c 8 "$work/one.png"
expect "library, ranks and device are in the legend" 0 "chorus, n = 3, all, host" \
    cat "$work/one.svg"

# Two runs of a machine on two days, another number of ranks, a comparison.
cp "$work/real.json" "$site/results/$folder/all_reduce-all-3.json"
"$build/all_reduce_perf" -b 8 -e 8M -f 8 -g 2 -n 1 -J "$site/results/$folder/more.json" \
    >/dev/null 2>&1
NCCL_ALGO=ring "$build/all_reduce_perf" -b 8 -e 8M -f 8 -g 3 -n 1 -m 2 \
    -J "$site/results/$folder/grouped.json" >/dev/null 2>&1
sed 's/"git_hash":"[^"]*"/"git_hash":null/' "$work/real.json" >"$site/results/$folder/lost.json"
"$build/all_reduce_perf" -b 8 -e 32K -f 8 -g 3 -n 1 -J "$work/short.json" >/dev/null 2>&1
mkdir -p "$site/results/2026-02-28-some-machine"
sed 's/"git_hash":"[^"]*"/"git_hash":"0123456789ab"/; s/"start_time":"2/"start_time":"3/' \
    "$work/short.json" >"$site/results/2026-02-28-some-machine/all_reduce-all-3.json"
echo '{"kind": "other"}' >"$site/results/$folder/check-all.json"
expect "compare alternates and judges" 0 '^8 B float sum out of place .* \[[0-9.]+,[0-9.]+\]$' \
    scripts/compare --rounds 3 --record "$site/results/$folder/compare-two.json" \
    direct= ring=NCCL_ALGO=ring -- "$build/all_reduce_perf" -g 3 -b 8 -e 8K -f 4 -n 3
expect "all of it is drawn" 0 "^plots: plots/$folder: 2 figures" "$site/scripts/plots"
expect "what has no commit is left out with a word" 0 '/lost\.json: no git_hash; left out$' \
    echo "$output"
for label in 'chorus, n = 3, all, host' 'chorus, n = 3, all, host, -m 2, NCCL_ALGO=ring'; do
    expect "'$label' is a curve of its own" 0 ">$label<" cat "$site/plots/$folder/all_reduce.svg"
done
same "a folder for each folder of records" "$folder 2026-02-28-some-machine README.md" \
    "$(cd "$site/plots" && echo "$folder" 2026-02* R*)"
same "figures of the last day, with the history" \
    "all_reduce.png all_reduce.svg history.png history.svg" \
    "$(cd "$site/plots/2026-02-28-some-machine" && echo *)"
expect "the index shows each figure" 0 "!\[compare-two\]\($folder/compare-two.png\)" \
    cat "$site/plots/README.md"
expect "the history names the commits" 0 0123456789ab \
    cat "$site/plots/2026-02-28-some-machine/history.svg"
expect "and the sizes that all of its records have" 0 'host, float, sum, 8 B and 32 KiB<' \
    cat "$site/plots/2026-02-28-some-machine/history.svg"
python3 - "$site/results/$folder/compare-two.json" <<'END' >"$work/ratios"
import json, sys
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["place"] != "out_of_place":
        continue
    for curve, name in enumerate(("direct", "ring")):
        side = cell["sides"][name]
        print(0, curve, cell["size"], side["us"])
        print(1, curve, cell["size"], side["bus_bw"])
    print(2, 0, cell["size"], cell["sides"]["ring"]["ratio"])
END
near "times, rates and ratios of the comparison" "$site/plots/$folder/compare-two.svg" \
    <"$work/ratios"

expect "compare: a side that fails is told and left out" 0 '^gone: exit code 2' \
    scripts/compare --rounds 2 --record "$work/gone.json" ours= 'gone=--datatype flaot' \
    -- "$build/all_reduce_perf" -g 2 -b 8 -e 8 -n 1
expect "compare: a side that hangs is ended" 0 '^hung: no end within 2 s' \
    scripts/compare --rounds 2 --limit 2 --record "$work/hung.json" ours= 'hung=-N 0' \
    -- "$build/all_reduce_perf" -g 2 -b 8 -e 8 -n 1
expect "compare: wants two sides" 2 'two sides at least' \
    scripts/compare ours= -- "$build/all_reduce_perf"
if [ -e "$build/tests/wrap_faults.so" ]; then
    expect "compare: wrong data" 1 '^bad: [0-9]+ wrong elements' \
        scripts/compare --rounds 1 --record "$work/bad.json" ours= \
        "bad=LD_PRELOAD=$(realpath "$build/tests/wrap_faults.so") WRAP_FAULT=drop" \
        -- "$build/all_reduce_perf" -g 2 -b 1K -e 1K -n 1
fi
echo "1..$number"
