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

# The commands of a file that call our scripts, one a line.
commands() {
    grep -v '^#' "$1" | grep -oE '(^|[ -])(scripts/[a-z]+ .*|make .*)$' | sed 's/^[ -]*//'
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
expect "the baseline is recorded" 0 'records: ' \
    run_command scripts/sweep "--only '^broadcast all 2'"
expect "and compared with" 0 '^1 records, 0 rows slower, .*: exit 0$' \
    run_command scripts/regress "--tolerance 1000 --junit $work/regress.xml"
expect "the comparison leaves a JUnit file" 0 'tests="1"' cat "$work/regress.xml"
echo "1..$number"
