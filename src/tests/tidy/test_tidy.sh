#!/bin/sh
# slice: no
# Every rule of scripts/tidy must fail on a planted breach and name it. Works in a copy of the tree;
# prints TAP lines. BUILDDIR holds the library whose exports are compared.
cd "$(dirname "$0")/../../.." || exit 3
build=$(realpath "${BUILDDIR:-build}")
copy=$(mktemp -d) || exit 3
trap 'rm -rf "$copy"' EXIT
if [ -e .git ]; then
    git ls-files -co --exclude-standard
else
    find . -type f ! -path './build/*'
fi | while read -r file; do [ ! -f "$file" ] || echo "$file"; done |
    tar -cf - -T - | tar -xf - -C "$copy" || exit 3
cd "$copy" || exit 3
number=0

# breach NAME RULE FILE PATTERN: stdin is the new text of FILE; tidy must fail with the pattern in
# a line of that rule. FILE is put back, or removed when it is new.
breach() {
    name=$1 rule=$2 file=$3 pattern=$4
    number=$((number + 1))
    mkdir -p "$(dirname "$file")"
    cat >"$copy.text"
    [ ! -e "$file" ] || cp "$file" "$copy.kept"
    mv "$copy.text" "$file"
    if [ "$rule" = format ] && ! clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
        echo "ok $number - $name # SKIP no clang-format 14"
    elif output=$(scripts/tidy --only "$rule" "$build"); then
        echo "not ok $number - $name"
        echo "# tidy passed: $output"
    elif echo "$output" | grep -q "^tidy: $rule: $pattern"; then
        echo "ok $number - $name"
    else
        echo "not ok $number - $name"
        echo "# no line matches 'tidy: $rule: $pattern':"
        echo "$output" | sed 's/^/# /'
    fi
    if [ -e "$copy.kept" ]; then mv "$copy.kept" "$file"; else rm "$file"; fi
}

# clean RULE: the tree as it stands passes.
clean() {
    number=$((number + 1))
    if output=$(scripts/tidy --only "$1" "$build"); then
        echo "ok $number - clean: $1"
    else
        echo "not ok $number - clean: $1"
        echo "$output" | sed 's/^/# /'
    fi
}

repeat() { # N TEXT
    awk -v n="$1" -v text="$2" 'BEGIN { for (i = 0; i < n; i++) print text }'
}

for rule in format layers file-length function-length line-length words opening exports options \
    parameters records; do
    clean $rule
done

new=src/lib/base/planted.c
breach "format: two spaces" format $new "$new:3: " <<'END'
/* Opens well. */
int planted(void);
int planted(void)  { return 0; }
END

include() { # FILE HEADER: the file includes the header
    breach "layers: $1 includes $2" layers "$1" "$1:2: includes \"$2\"" <<END
/* Opens well. */
#include "$2"
END
}
include src/lib/base/planted.c device/device.h
include src/lib/device/planted.h transport/transport.h
include src/lib/transport/planted.c device/device.h
include src/lib/transport/planted.c core/core.h
include src/lib/kernel/planted.c algo/algo.h
include src/lib/boot/planted.c algo/algo.h
include src/lib/algo/planted.c boot/boot.h
include src/lib/topo/planted.c core/core.h
include src/lib/core/planted.c api/api.h
include src/lib/core/planted.c core.h
include src/lib/core/planted.c core/../api/api.h
include src/lib/newlayer/planted.c base/err.h
include src/lib/core/planted.c harness/options.h
include src/tests/planted.c base/err.h
include src/tests/harness/planted.c core/core.h
include src/tests/wrap/planted.c base/err.h
include examples/planted.c base/err.h

breach "file length: 501 lines" file-length $new "$new:501: longer" <<END
$(repeat 501 "// line")
END
breach "file length: a script" file-length scripts/planted "scripts/planted:501: " <<END
$(repeat 501 "# line")
END
breach "function length: 71 lines" function-length $new "$new:2: function of 71 lines" <<END
int planted(void)
{
$(repeat 69 "    step();")
}
END
breach "line length: 101 columns" line-length $new "$new:2: 101 columns" <<END
// Opens well.
// $(repeat 1 "$(printf '%098d' 0)")
END
for word in TO""DO FIX""ME X""XX; do
    breach "words: $word" words $new "$new:2: forbidden" <<END
// Opens well.
// $word: later
END
done
breach "words: in a document" words CHANGELOG.md "CHANGELOG.md:1: forbidden" <<END
$word: write
END
breach "opening: code first" opening $new "$new:1: opens" <<'END'
#include "base/err.h"
END
breach "opening: a script" opening scripts/planted "scripts/planted:2: opens" <<'END'
#!/bin/sh
exit 0
END

header=src/lib/nccl.h
breach "exports: declared, not exported" exports src/lib/chorus.h \
    ".*does not export the declared chorus_planted" <<END
$(cat src/lib/chorus.h)
void chorus_planted(void);
END
breach "exports: exported, not declared" exports $header \
    "$header: does not declare the exported ncclGetVersion" <<END
$(sed -e '/ncclGetVersion/d' $header)
END
breach "exports: in the map, not declared" exports src/lib/libnccl.map \
    "src/lib/libnccl.map: names ncclPlanted" <<END
$(cat src/lib/libnccl.map)
PLANTED { global: ncclPlanted; };
END

table=src/tests/harness/option_table.h
breach "options: undocumented option" options $table "README.md: does not describe --planted" <<END
$(cat $table)
PERF_OPTION(INFO, 'q', "planted", FLAG, action, 0, 0, "off", "", "", "nothing")
END
breach "options: undocumented variable" options $table \
    "README.md: does not describe NCCL_TESTS_PLANTED" <<END
$(cat $table)
PERF_VARIABLE("NCCL_TESTS_PLANTED", "nothing")
END
table=src/lib/base/param_table.h
breach "parameters: undocumented" parameters $table \
    "src/lib/README.md: does not describe CHORUS_PLANTED" <<END
$(cat $table)
CCL_PARAM_INT(PLANTED, "CHORUS_PLANTED", 0, 0, 1, "nothing")
END
table=src/lib/base/param_known.h
breach "parameters: undocumented without effect" parameters $table \
    "docs/environment.md: does not describe NCCL_PLANTED" <<END
$(cat $table)
CCL_KNOWN("NCCL_PLANTED", "nothing")
END
table=src/tests/harness/record_table.h
breach "records: undocumented" records $table "docs/records.md: does not describe .planted." <<END
$(cat $table)
PERF_FIELD(RUN, "planted", INT, 0)
END
echo "1..$number"
