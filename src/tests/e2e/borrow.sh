# C tests that a shell test runs, which has sourced lib.sh: their cases are counted among its own.
# $borrow_from is the folder of the programs, $borrow_under a word for the names of the cases.
borrow_from=$BUILDDIR/tests borrow_under=''

# borrow PROGRAM ARGUMENT...: those of its cases that the arguments choose.
borrow() {
    program=$1
    shift
    timeout -k 5 120 "$borrow_from/$program" "$@" >"$out" 2>&1 </dev/null
    code=$?
    : >"$err"
    while IFS= read -r line; do
        case $line in
        'ok '* | 'not ok '*)
            number=$((number + 1))
            echo "${line%% [0-9]*} $number - $program$borrow_under: ${line#* - }"
            case $line in
            not*)
                failures=$((failures + 1))
                tail -n 12 "$err" | cut -c1-300 | sed 's/^#* */# /'
                ;;
            esac
            : >"$err"
            ;;
        1..*) ;;
        '# rows: '*) echo "$line" ;;
        *) echo "$line" >>"$err" ;;
        esac
    done <"$out"
    [ $code -le 1 ] && return
    begin "$program $* ends by itself"
    want_code 0
    end
}

# borrow_but PATTERN PROGRAM: the same, without the cases whose names match.
borrow_but() {
    pattern=$1 program=$2
    "$borrow_from/$program" --list | grep -v '^child:' | grep -vE "$pattern" >"$tmp/cases"
    set --
    while IFS= read -r line; do set -- "$@" --only "$line"; done <"$tmp/cases"
    borrow "$program" "$@"
}
