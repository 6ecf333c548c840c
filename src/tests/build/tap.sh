# Shell functions of the tests of this folder: TAP lines from conditions. Sourced, never run.
# Tests call make, so what an outer make put into MAKEFLAGS goes, except its variables: without
# them the inner make would build the same folder anew with other flags. $build is the folder.
build=${BUILDDIR:-build}
number=0
MAKEFLAGS=$(echo "${MAKEFLAGS-}" | sed -E 's/(^| )-?j[0-9]*( |$)/ /; s/ --jobserver[^ ]*//g')
export MAKEFLAGS
unset BUILDDIR MFLAGS MAKELEVEL

# pass NAME, fail NAME TEXT, skip NAME WHY
pass() {
    number=$((number + 1))
    echo "ok $number - $1"
}
fail() {
    number=$((number + 1))
    echo "not ok $number - $1"
    echo "$2" | sed 's/^/# /'
}
skip() {
    number=$((number + 1))
    echo "ok $number - $1 # SKIP $2"
}

# expect NAME STATUS PATTERN COMMAND…: exit status and a line of the output that matches.
expect() {
    case_name=$1 status=$2 pattern=$3
    shift 3
    output=$("$@" 2>&1)
    got=$?
    if [ $got != "$status" ]; then
        fail "$case_name" "status $got, expected $status: $output"
    elif ! echo "$output" | grep -qE -- "$pattern"; then
        fail "$case_name" "no line matches '$pattern': $output"
    else
        pass "$case_name"
    fi
}

# same NAME EXPECTED GOT
same() {
    if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "expected '$2', got '$3'"; fi
}
