#!/bin/sh
# The differential program: codes of one library and of two, outcomes that are no codes, the list of
# known differences, bad usage of the program itself. Our library crashes and hangs in no row.
. "$(dirname "$0")/../e2e/lib.sh"
differ=$BUILDDIR/tests/differ
ours=$BUILDDIR/libnccl.so.2
other=$BUILDDIR/tests/wrap_codes.so # ours, but for three answers
list=docs/differences.md

begin 'one library: a code for each of 300 rows at least, no crash, no timeout'
run 250 "$differ" "$ours"
want_code 0
want_quiet
want_out '^A: .*libnccl\.so\.2.*, version 23007, Chorus$'
want_out '^ncclCommInitRank +nranks_zero +4 *$'
want_out '^ncclTeamRankToWorld +rank_high +-1 *$'
want_not_out ' (signal [0-9]|timeout|missing|set-up|exit [0-9]|no device)'
want_out '^([3-9][0-9]{2}|[0-9]{4,}) rows, .* 0 differ, 0 known, 0 problems$'
want 'a row is there twice' [ -z "$(awk '/^nccl/ {print $1, $2}' "$out" | sort | uniq -d)" ]
end

begin "one library with $list: our column of it holds"
run 250 "$differ" --list $list "$ours"
want_code 0
want_not_out 'LISTED|is listed'
want_out ", $(grep -c '^| `nccl' $list) known, 0 problems$"
end

begin 'the same library twice: nothing differs'
run 100 "$differ" --list $list --only ncclComm "$ours" "$ours"
want_code 0
want_out ' 0 differ, 0 known, 0 problems$'
end

# planted FILE: lines of a list on stdin, with a table around them.
planted() {
    { printf '| function | case | NVIDIA | Chorus | why |\n|--|--|--|--|--|\n' && cat; } >"$tmp/$1"
}
versions='| `ncclGetVersion` | null | 2 | 4 | planted |'
ids='| `ncclGetUniqueId` | null | signal 6 | 4 | planted |'

begin 'two libraries: a difference that is not listed'
run 60 "$differ" --only 'ncclGetVersion null' "$ours" "$other"
want_code 1
want_out '^B: .*wrap_codes\.so, version 23007$'
want_out '^ncclGetVersion +null +4 +2 +DIFFERS, not listed$'
want_out '^1 rows, 1 compared, 1 differ, 0 known, 1 problems$'
end

begin 'two libraries: the same difference, listed, in either order'
echo "$versions" | planted known
for pair in "$ours $other" "$other $ours"; do
    # shellcheck disable=SC2086
    run 60 "$differ" --list "$tmp/known" --only 'ncclGetVersion null' $pair
    want_code 0
    want_out '^ncclGetVersion .* known$'
    want_out '1 differ, 1 known, 0 problems$'
done
end

begin 'two libraries: a crash is an outcome'
echo "$ids" | planted known
run 60 "$differ" --list "$tmp/known" --only 'ncclGetUniqueId null' "$ours" "$other"
want_code 0
want_out '^ncclGetUniqueId +null +4 +signal 6 +known$'
end

begin 'two libraries: a hang is an outcome'
run 60 "$differ" --limit 2 --only 'ncclCommAbort null' "$other"
want_code 0
want_out '^ncclCommAbort +null +timeout *$'
end

begin 'a list with another code, with a difference that is none, with a row that nobody has'
echo "$versions" | sed 's/| 2 |/| 3 |/' | planted wrong
run 60 "$differ" --list "$tmp/wrong" --only 'ncclGetVersion null' "$ours" "$other"
want_code 1
want_out 'NOT AS LISTED$'
echo '| `ncclGroupEnd` | no_start | 0 | 5 | planted |' | planted wrong
run 60 "$differ" --list "$tmp/wrong" --only 'ncclGroupEnd no_start' "$ours" "$other"
want_code 1
want_out 'NOT AS LISTED$'
echo '| `ncclNothing` | null | 0 | 5 | planted |' | planted wrong
run 250 "$differ" --list "$tmp/wrong" "$ours"
want_code 1
want_out '^ncclNothing +null +is listed in '
end

# refused TEXT ARGUMENT...
refused() {
    text=$1
    shift
    begin "refused: $text"
    run 30 "$differ" "$@"
    want_code 2
    want_err "$text"
    want_not_out '^nccl'
    end
}
echo 'no library' >"$tmp/text.so"
echo "$versions" | sed 's/planted//' | planted silent
echo '| `ncclGetVersion` | null | 2 |' | planted short
refused 'which LIBRARY'
refused 'unknown option .--frobnicate' --frobnicate "$ours"
refused 'no value for .--list' "$ours" --list
refused 'limit is 1 to 3600, not .0.' --limit 0 "$ours"
refused 'not .soon' --limit soon "$ours"
refused 'jobs is 1 to 64, not .65' --jobs 65 "$ours"
refused 'what is' "$ours" "$ours" "$ours"
refused 'no such file: ./nowhere/libnccl' /nowhere/libnccl.so.2
refused 'no library to call: .*text\.so' "$tmp/text.so"
refused 'has no ncclGetVersion' "$(ldd "$differ" | awk '/libc\.so/ {print $3}')"
refused 'no row contains .ncclNothing' --only ncclNothing "$ours"
refused '/nowhere/list: No such file' --list /nowhere/list "$ours"
refused 'silent:3: a row is' --list "$tmp/silent" "$ours"
refused 'short:3: a row is' --list "$tmp/short" "$ours"

begin '--help'
run 30 "$differ" --help
want_code 0
want_out '^Usage: differ '
end
finish
