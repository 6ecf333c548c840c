#!/bin/sh
# docs/reported.md names tests that exist: cases of the programs, as --list prints them, and words
# of the shell tests. Every row of its tables names at least one.
cd "$(dirname "$0")/../../.." || exit 3
. src/tests/build/tap.sh
page=docs/reported.md
lists=$(mktemp -d) || exit 3
trap 'rm -rf "$lists"' EXIT

# exists "program: case" or "folder/file.sh: words"
exists() {
    where=${1%%: *} what=${1#*: }
    case $where in
    *.sh) grep -q -F -e "$what" "src/tests/$where" 2>/dev/null ;;
    *)
        [ -e "$lists/$where" ] || "$build/tests/$where" --list >"$lists/$where" 2>/dev/null
        grep -q -x -F -e "$what" "$lists/$where"
        ;;
    esac
}

missing=''
grep '^| ' "$page" | grep -o -E '`[a-z0-9_/]+(\.sh)?: [^`]+`' | tr -d '`' >"$lists/named"
while read -r named; do
    exists "$named" || missing="$missing
$named"
done <"$lists/named"
same "every test that $page names exists" '' "$missing"

rows=$(grep '^| ' "$page" | grep -v -c '^| kind of fault')
bare=$(grep '^| ' "$page" | grep -v '^| kind of fault' | grep -v -c -E '`[a-z0-9_/]+(\.sh)?: ')
same "each of the $rows rows of $page names a test" 0 "$bare"
same "$page has its 53 kinds" 53 "$rows"
echo "1..$number"
