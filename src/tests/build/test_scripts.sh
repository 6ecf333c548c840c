#!/bin/sh
# slice: no
# The small scripts: setup says and survives what is missing, bare hides and cleans up, plot reads
# records, dist archives, git-hash knows an export.
cd "$(dirname "$0")/../../.." || exit 3
. src/tests/build/tap.sh
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
unset CHORUS_SETUP

for script in setup run plot bench bench-plot bare tidy check-all check-compilers \
    check-layers dist gpu-bars bench-gpu gpu-plot sanitize machine sweep; do
    expect "$script --help" 0 "^scripts/$script" scripts/$script --help
    expect "$script is a valid script" 0 '' sh -n scripts/$script
done

for script in regress compare plots iters; do
    expect "$script --help" 0 "^scripts/$script" scripts/$script --help
done

expect "setup can be skipped" 0 "skipped, CHORUS_SETUP=0" env CHORUS_SETUP=0 scripts/setup
scripts/bare scripts/setup >"$work/setup"
same "setup goes on without apt-get" 0 $?
expect "setup prints its line first" 0 "^apt-get install -y .*libopenmpi-dev" \
    head -n 1 "$work/setup"
expect "setup says what is left out" 0 "no gnuplot, which leaves out plots" cat "$work/setup"

# A machine with only these programs; those that are just looked for do nothing.
poor=$work/poor
mkdir "$poor"
for name in sh cut tr grep make mktemp timeout rm head env; do
    ln -s "$(command -v $name)" "$poor/$name"
done
for name in gcc git mpicc mpirun clang clang-format pkg-config python3 valgrind; do
    printf '#!/bin/sh\n' >"$poor/$name"
done
printf '#!/bin/sh\necho "$user"\n' >"$poor/id"
printf '#!/bin/sh\necho "$@" >>%s\n[ "$network" = yes ] || { echo "E: no network"; exit 100; }\n' \
    "$work/calls" >"$poor/apt-get"
chmod +x "$poor"/*
setup() { # id, network: runs setup on the poor machine, which has no gnuplot
    : >"$work/calls"
    env -i PATH="$poor" user="$1" network="$2" scripts/setup >"$work/setup" 2>&1
}
setup 1000 yes
same "setup, not root: goes on" 0 $?
same "setup, not root: installs nothing" "" "$(cat "$work/calls")"
expect "setup, not root: says so" 0 "not root, so nothing is installed" cat "$work/setup"
setup 0 yes
same "setup, root: runs the line that it printed" \
    "apt-get $(head -n 1 "$work/calls")" "$(head -n 1 "$work/setup")"
same "setup, root: runs one line" 1 "$(wc -l <"$work/calls")"
setup 0 no
same "setup, no network: goes on" 0 $?
expect "setup, no network: gives the reason" 0 "apt-get failed: E: no network" cat "$work/setup"
expect "setup, no network: tried an update" 0 "update" cat "$work/calls"
expect "setup, no network: says what is left out" 0 "no gnuplot, which leaves out" \
    cat "$work/setup"
rm "$poor/gcc"
setup 0 no
same "setup fails without a compiler" 1 $?
expect "setup without a compiler says why" 0 "no gcc, which leaves out everything" \
    cat "$work/setup"

# One run of bare, since it makes thousands of links.
scripts/bare sh -c 'echo "farm $PATH"
    for name in gcc make sh awk mpicc mpirun gnuplot nvcc apt-get; do
        command -v $name >/dev/null && echo "has $name"
    done
    exit 7' >"$work/bare"
same "bare hands on the status" 7 $?
same "bare hides mpicc, mpirun, gnuplot, nvcc and apt-get only" "gcc make sh awk" \
    "$(sed -n 's/^has //p' "$work/bare" | tr '\n' ' ' | sed 's/ $//')"
same "bare cleans up" gone "$([ -e "$(sed -n 's/^farm //p' "$work/bare")" ] || echo gone)"
expect "bare needs a command" 2 usage scripts/bare

cat >"$work/record.json" <<'END'
{"version": "x", "config": {"size": 1}, "nranks": 4, "results": [
 {"size": 8, "requested_size": 9, "count": 2, "type": "float", "redop": "sum", "root": -1,
  "out_of_place": {"time": 10.5, "alg_bw": 1.0, "bus_bw": 1.5e-01, "nwrong": "0"},
  "in_place": null},
 {"size": 16, "count": 4, "type": "float", "redop": "sum", "root": -1,
  "out_of_place": {"time": 11, "alg_bw": 1.0, "bus_bw": null, "nwrong": "0"},
  "in_place": {"time": 12, "alg_bw": 1.0, "bus_bw": 2.5, "nwrong": "0"}}
], "end_time": "x"}
END
if command -v gnuplot >/dev/null 2>&1; then
    expect "plot draws" 0 "^plots: " scripts/plot "$work/record.json" "$work/drawn"
    expect "plot: svg" 0 "<svg" cat "$work/drawn.svg"
    expect "plot: png" 0 "PNG" head -c 8 "$work/drawn.png"
    echo '{"results": []}' >"$work/none.json"
    expect "plot refuses a record without rows" 1 "no rows in" \
        scripts/plot "$work/none.json" "$work/none"
else
    skip "plot" "no gnuplot in PATH"
fi
expect "plot without gnuplot says so" 3 "no gnuplot in PATH" scripts/bare scripts/plot x y

# A tree with one test, which passes and skips as many cases as asked.
tree=$work/tree
mkdir -p "$tree/scripts" "$tree/src/tests" "$tree/build"
cp scripts/run-tests "$tree/scripts/"
run_tests() { # passed skipped option…: the status is run-tests' own
    awk -v p="$1" -v s="$2" 'BEGIN {
        print "echo 1.." p + s
        for (i = 1; i <= p; i++) print "echo ok " i
        for (i = 1; i <= s; i++) print "echo ok " p + i " - case \\# SKIP why"
    }' >"$tree/src/tests/test_counts.sh"
    shift 2
    "$tree/scripts/run-tests" "$tree/build" "$@"
}
expect "run-tests: enough passed" 0 "^500 passed, 0 failed, 26 skipped\$" run_tests 500 26
expect "run-tests: too few passed" 1 "^run-tests: only 499 cases passed" run_tests 499 0
expect "run-tests: too many skipped" 1 "^run-tests: 27 of 527 cases were skipped" run_tests 500 27
if ! "$build/all_reduce_perf" --device cuda --devices >/dev/null 2>&1; then
    expect "run-tests --gpu says that there is no GPU" 2 'no GPU that can be used' \
        scripts/run-tests --gpu "$build"
    for script in gpu-bars bench-gpu; do
        expect "$script says that there is no GPU" 3 'no GPU that can be used' \
            scripts/$script "$build"
    done
fi
expect "machine says what there is" 0 '^cpu: .*, [0-9]+ cores$' scripts/machine
expect "run-tests: a part may be small" 0 "^3 passed, 0 failed, 9 skipped\$" \
    run_tests 3 9 --filter counts
expect "run-tests: so may a slice" 0 "^3 passed, 0 failed, 9 skipped\$" run_tests 3 9 --slice

expect "suggest: near" 0 "did you mean SAN\?" scripts/suggest SANN SAN CC
expect "suggest: far" 0 '^$' scripts/suggest ELEPHANT SAN CC
cp scripts/git-hash "$work/"
mkdir "$work/scripts" && mv "$work/git-hash" "$work/scripts/"
expect "git-hash outside a checkout" 0 '^unknown$' "$work/scripts/git-hash"
if [ -e .git ]; then
    hash=$(git rev-parse --short HEAD)
    git archive HEAD scripts/git-hash .gitattributes | tar -xf - -C "$work"
    expect "git-hash of an archive" 0 "^$hash" "$work/scripts/git-hash"
    expect "git-hash of the checkout" 0 "^$hash" scripts/git-hash
fi
echo "1..$number"
