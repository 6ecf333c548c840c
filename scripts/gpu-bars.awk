# scripts/gpu-bars.awk makes the table and the record (-v record=FILE) of scripts/gpu-bars, which
# calls it with three files: the machine, what was measured (line, value), the lines of the table.
# The median of the rounds counts; a line that failed in any round counts as failed.

function bytes_of(command,    at) {
    at = match(command, /-b [0-9]+[MG]?/)
    if (!at) return 0
    command = substr(command, RSTART + 3, RLENGTH - 3)
    return command * (command ~ /M$/ ? 1048576 : command ~ /G$/ ? 1073741824 : 1)
}

function unit(kind) { return kind == "init" ? "ms" : "us" }

FNR == 1 { file++ }
file == 1 { read_fact(); next }
file == 2 {
    line = $1
    if ($2 == "-") { sub(/^[0-9]+ - ?/, ""); why[line] = $0 == "" ? "failed without a word" : $0 }
    else values[line] = values[line] (values[line] == "" ? "" : " ") $2
    next
}
FNR == 1 {
    split("", seen)
    FS = "|"
    $0 = $0
    printf "%s; driver %s; copies move %s GB/s (read and written); %s rounds\n", fact["gpu"],
        fact["driver"], fact["copy_gb_per_s"], fact["rounds"]
    printf "%3s %-46s %12s %11s %8s %9s\n", "row", "what", "bar", "measured", "share", "upstream"
}
{
    split($3, kind, " ")
    us = FNR in why ? "" : median(values[FNR])
    share = ""
    if (kind[1] == "share") {
        bar = "of copy " $4 " %"
        if (us != "" && fact["copy_gb_per_s"] > 0)
            share = kind[2] * bytes_of($6) / us / 10 / fact["copy_gb_per_s"]
        ok = share != "" && share >= $4
    } else {
        bar = "<= " $4 " " unit(kind[1])
        ok = us != "" && us + 0 <= $4 + 0
    }
    if (!($1 in row_ok)) { row_ok[$1] = 1; nrows++ }
    row_ok[$1] = row_ok[$1] && ok
    mark = us == "" ? "n/a: " why[FNR] : ok ? "reached" : "missed"
    printf "%3d %-46s %12s %11s %8s %9s  %s\n", $1, $2, bar,
        us == "" ? "-" : sprintf("%.1f %s", us, unit(kind[1])),
        share == "" ? "" : sprintf("%.1f %%", share), $5, mark
    out = out (out == "" ? "" : ",\n") sprintf("    {\"row\": %d, \"what\": %s, \"command\": %s, " \
        "\"kind\": \"%s\", \"bar\": %s, \"measured\": %s, \"unit\": \"%s\", \"rounds\": %s, " \
        "\"percent_of_copy\": %s, \"upstream\": %s, \"reached\": %s, \"reason\": %s}", $1,
        quoted($2), quoted($6), kind[1], $4, num(us), unit(kind[1]),
        list(values[FNR]), share == "" ? "null" : sprintf("%.1f", share), num($5),
        ok ? "true" : "false", FNR in why ? quoted(why[FNR]) : "null")
}
END {
    for (row in row_ok) reached += row_ok[row]
    printf "%d of %d rows reached\n", reached, nrows
    printf "{\n  \"schema_version\": 1,\n  \"program\": \"gpu-bars\",\n" >record
    add_facts()
    printf "  \"rows\": %d,\n  \"rows_reached\": %d,\n  \"lines\": [\n%s\n  ]\n}\n", nrows, reached,
        out >record
}
