#!/bin/sh
# slice: no
# The CI files for services that are not here: their commands run on this build, on host devices,
# with a baseline of their own, and are those that both files give.
cd "$(dirname "$0")/../../.." || exit 3
. src/tests/build/tap.sh
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
github=.github/workflows/gpu-regress.yml gitlab=docs/gitlab-ci.yml
export CHORUS_DEVICE=host BASELINE="$work/baseline"
command -v python3 >/dev/null 2>&1 || { skip 'CI files' 'no python3'; echo "1..$number"; exit; }

# The commands of a file, one a line.
commands() {
    grep -v '^#' "$1" | grep -oE '(^|[ -])(scripts/[a-z]+ .*|make .*|rm -.*|mv .*)$' |
        sed 's/^[ -]*//'
}
same "both files give the same commands" "$(commands $github | sort)" "$(commands $gitlab | sort)"
if python3 -c 'import yaml' 2>/dev/null; then
    expect "both files are YAML" 0 '' python3 -c '
import sys, yaml
for name in sys.argv[1:]:
    assert yaml.safe_load(open(name))' $github $gitlab
else
    skip "both files are YAML" "python3 has no yaml"
fi
for target in $(commands $github | sed -n 's/^make .* //p; s/^make //p' | sort -u); do
    expect "make knows $target" 0 '' make -n "$target"
done

# As they stand, but for one collective and a tolerance that a busy machine keeps.
run_command() { # PATTERN MORE
    command=$(commands $github | grep "^$1" | sed "s| build| $build|")
    [ -n "$command" ] || return 9
    sh -c "$command $2"
}
# What records a baseline, as the services run it: the first command that fails ends it.
record() { # BUILDDIR
    commands $github | grep -E '^(rm|mv|scripts/sweep)' |
        sed "s| build\$| --only '^broadcast all 2' $1|" >"$work/record"
    sh -e "$work/record"
}
expect "the baseline is recorded" 0 'records: ' record "$build"
same "only the baseline is there" "baseline" "$(ls "$work" | grep baseline)"
mkdir -p "$work/broken"
printf '#!/bin/sh\nexit 1\n' >"$work/broken/all_reduce_perf"
cp "$work/broken/all_reduce_perf" "$work/broken/broadcast_perf"
chmod +x "$work/broken"/*
expect "a recording that fails ends with 3" 3 '\([1-9] runs failed\)$' record "$work/broken"
same "and leaves the baseline as it was" 5 "$(find "$BASELINE" -name '*.json*' | wc -l)"
if python3 -c 'import yaml' 2>/dev/null; then
    expect "other repositories do not run on the runner, jobs not at once" 0 '' python3 -c '
import sys, yaml
github, gitlab = (yaml.safe_load(open(name)) for name in sys.argv[1:])
assert github["permissions"] == {"contents": "read"}
assert "head.repo.full_name == github.repository" in github["jobs"]["regress"]["if"]
groups = {job["resource_group"] for job in gitlab.values() if "script" in job}
assert len(groups) == 1' $github $gitlab
else
    skip "other repositories do not run on the runner" "python3 has no yaml"
fi
expect "and compared with" 0 '^1 records, 0 rows slower, .*: exit 0$' \
    run_command scripts/regress "--tolerance 1000 --junit $work/regress.xml"
expect "the comparison leaves a JUnit file" 0 'tests="1"' cat "$work/regress.xml"

# What a sweep adds to counts as its repeats, so that it does not do so unasked.
again() { scripts/sweep --quick --runs 1 --only '^broadcast all 2' --out "$BASELINE" "$@"; }
expect "a sweep refuses a folder with records" 2 'baseline has records already' again "$build"
same "and leaves it as it was" 5 "$(find "$BASELINE" -name '*.json*' | wc -l)"
expect "but adds to it when asked" 0 '^records: .* \(0 runs failed\)$' \
    again --add "$build"
same "one more record is there" 6 "$(find "$BASELINE" -name '*.json*' | wc -l)"
expect "a sweep with a failed run ends with 3" 3 '\(1 runs failed\)$' \
    scripts/sweep --quick --runs 1 --only '^broadcast all 2' --out "$work/none" "$work/broken"
echo "1..$number"
