#!/bin/sh
# slice: no
# time limit: 480 s
# `make run` in a fresh checkout prints a verified table of 8 ranks and leaves the git tree clean;
# it works without MPI, gnuplot and nvcc, and says so; tests that need those are skipped, counted.
# The checkout starts from the objects of BUILDDIR, so that not everything is compiled once more.
cd "$(dirname "$0")/../../.." || exit 3
. src/tests/build/tap.sh
case $(cat "$build/flags") in
*-fsanitize*|*-O0*|*-DCCL_FAULTS*)
    skip "make run" "only in the build that it uses"
    echo "1..$number"
    exit
    ;;
esac
[ -n "${TEST_TMP-}" ] || own=$(mktemp -d)
work=${TEST_TMP:-$own}/checkout
trap 'rm -rf "$work" "${own-}"' EXIT
mkdir "$work" || exit 3
if [ -e .git ]; then
    git ls-files -co --exclude-standard
else
    find . -type f ! -path './build/*'
fi | while read -r file; do [ ! -f "$file" ] || echo "$file"; done |
    tar -cf - -T - | tar -xf - -C "$work" || exit 3
mkdir "$work/build" && cp -a "$build/obj" "$build/flags" "$build/.chorus-build" "$work/build/"
[ ! -e "$build/cu-flags" ] || cp -a "$build/cu-flags" "$work/build/"
cd "$work" || exit 3
if command -v git >/dev/null 2>&1; then
    git init -q . && git add -A &&
        git -c user.name=test -c user.email=test@localhost commit -qm all || exit 3
fi
export CHORUS_SETUP=0
unset BUILDDIR

check_run() { # name command…: the table, and the tree afterwards
    run=$1
    shift
    "$@" make run >out 2>&1
    same "$run: status" 0 $?
    same "$run: 8 ranks" 8 "$(grep -cE '^# +Rank +[0-9]+ ' out)"
    same "$run: 12 rows, none of them wrong" 12 \
        "$(awk '/^ +[0-9]/ && $9 == "0" && $13 == "0"' out | wc -l)"
    same "$run: one record, named" 1 "$(grep -c '^record: results/all_reduce-.*\.json$' out)"
    mv out "$work.out"
    if command -v git >/dev/null 2>&1; then
        same "$run: the tree is clean" "" "$(git status --porcelain)"
    else
        skip "$run: the tree is clean" "no git in PATH"
    fi
}

check_run "make run" env
if command -v gnuplot >/dev/null 2>&1; then
    same "make run: plots" "all_reduce.png all_reduce.svg" "$(cd plots && echo all_reduce.*)"
else
    skip "make run: plots" "no gnuplot in PATH"
fi
check_run "bare make run" scripts/bare
expect "bare make run: says that MPI is off" 0 "^MPI:  off: no mpicc in PATH" cat "$work.out"
expect "bare make run: says that CUDA is off" 0 "^CUDA: off: no " cat "$work.out"
expect "bare make run: says that plots are left out" 0 "^plots: left out, no gnuplot" \
    cat "$work.out"
expect "bare tests: what is missing is skipped and counted" 0 \
    "^[0-9]+ passed, 0 failed, [1-9][0-9]* skipped\$" scripts/bare scripts/run-tests build \
    --filter test_examples --filter test_oracle
echo "1..$number"
