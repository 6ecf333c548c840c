# Shared by the shell tests of this folder, which source it: runs a driver, collects complaints
# about a case, prints TAP. A case is begin, some want_..., end; the first complaint makes it red
# and shows what the driver printed. Invariant: every begin has one end, and finish comes last.

cd "$(dirname "$0")/../../.." || exit 3
BUILDDIR=$(cd "${BUILDDIR:-build}" && pwd) || exit 3
# What is preloaded comes before the runtime of a build under ASan, which is fine with both.
export ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0"
# They look at host devices, also where there are GPUs, unless somebody asks for these.
export CHORUS_DEVICE="${CHORUS_DEVICE:-host}"
tests_dir=src/tests/e2e
[ -n "$TEST_TMP" ] || own_tmp=$(mktemp -d)
tmp=${TEST_TMP:-$own_tmp}
trap '[ -z "$own_tmp" ] || rm -rf "$own_tmp"' EXIT
out=$tmp/out err=$tmp/err
number=0 failures=0 code=0

# A driver's path.
driver() { echo "$BUILDDIR/${1}_perf"; }

# run SECONDS COMMAND...: both streams in $out and $err, the exit code in $code.
run() {
    seconds=$1
    shift
    timeout -k 5 "$seconds" "$@" >"$out" 2>"$err" </dev/null
    code=$?
}

# perf NAME ARGUMENT...: a driver with a small number of iterations.
perf() {
    name=$1
    shift
    run 120 "$(driver "$name")" -n 2 -w 1 "$@"
}

begin() {
    case_name=$1 complaints=''
}

complain() {
    complaints="$complaints
# $*"
}

want_code() {
    [ "$code" -eq "$1" ] || complain "exit code $code, not $1"
}

# Extended regular expressions, line by line.
want_out() { grep -E -q -e "$1" "$out" || complain "stdout lacks /$1/"; }
want_err() { grep -E -q -e "$1" "$err" || complain "stderr lacks /$1/"; }
want_not_out() { ! grep -E -q -e "$1" "$out" || complain "stdout has /$1/"; }
want_not_err() { ! grep -E -q -e "$1" "$err" || complain "stderr has /$1/"; }
want_quiet() { [ ! -s "$err" ] || complain "stderr is not empty"; }
want() { # TEXT CONDITION...: for everything else
    text=$1
    shift
    "$@" || complain "$text"
}

# want_table RANKS ROWS: one table of that many ranks and verified rows (0: any number of rows).
want_table() {
    summary=$(awk -f "$tests_dir/table.awk" "$out")
    set -- "$1" "$2" $summary
    [ "$3" -eq 1 ] || complain "$3 tables instead of one"
    [ "$4" -eq "$1" ] || complain "$4 ranks in the header, not $1"
    [ "$5" -gt 0 ] || complain "no rows"
    [ "$2" -eq 0 ] || [ "$5" -eq "$2" ] || complain "$5 rows, not $2"
    [ "$6" -eq 0 ] || complain "$6 rows are not verified or not right"
    [ "$7" -eq 1 ] || complain "no line '# Out of bounds values : 0 OK'"
}

end() {
    number=$((number + 1))
    if [ -z "$complaints" ]; then
        echo "ok $number - $case_name"
        return
    fi
    failures=$((failures + 1))
    echo "not ok $number - $case_name$complaints"
    sed 's/^/#  out: /' "$out" 2>/dev/null | tail -n 25 | cut -c1-160
    sed 's/^/#  err: /' "$err" 2>/dev/null | tail -n 15 | cut -c1-300
}

skip() { # NAME WHY
    number=$((number + 1))
    echo "ok $number - $1 # SKIP $2"
}

finish() {
    echo "1..$number"
    [ "$failures" -eq 0 ]
    exit
}

# A build with SAN=: address spaces are huge, and a preloaded library needs leave to come first.
is_sanitized() { grep -q -e -fsanitize "$BUILDDIR/flags" 2>/dev/null; }

has() { command -v "$1" >/dev/null 2>&1; }

# What mpirun needs to start as root and with more ranks than cores; in $mpi.
mpi='mpirun --allow-run-as-root --oversubscribe --bind-to none'
has_mpi() { has mpirun && [ -e "$BUILDDIR/chorus_mpi.so" ]; }

# poll SECONDS COMMAND...: until it holds.
poll() {
    tries=$(($1 * 20))
    shift
    until "$@"; do
        [ $tries -gt 0 ] || return 1
        tries=$((tries - 1))
        sleep 0.05
    done
}

now_ms() { date +%s%3N; }

# Puts a TCP port of the loopback that nobody listens on into $port; another one for each call.
free_port() {
    port=$((20000 + ($$ * 7 + ${port_calls:-0} * 131) % 20000))
    while awk -v want="$(printf ':%04X' $port)" '$2 ~ want "$" {found = 1} END {exit !found}' \
        /proc/net/tcp /proc/net/tcp6 2>/dev/null; do
        port=$((port + 1))
    done
    port_calls=$((${port_calls:-0} + 1))
}

valid_json() { # FILE
    if has jq; then
        jq -e . "$1" >/dev/null 2>&1
    elif has python3; then
        python3 -m json.tool "$1" >/dev/null 2>&1
    else
        awk 'END {exit !(NR > 0 && $0 ~ /}$/)}' "$1"
    fi
}
has_json_parser() { has jq || has python3; }
