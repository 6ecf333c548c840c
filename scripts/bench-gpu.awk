# scripts/bench-gpu.awk makes the table and the record (-v record=FILE) of scripts/bench-gpu, which
# calls it with three files: the machine, runs that failed, and times. Of a side's times in all
# rounds the median counts; the other library counts with the best of its settings, size by size.

function size_text(bytes) {
    if (bytes >= 1048576) return bytes / 1048576 " MiB"
    if (bytes >= 1024) return bytes / 1024 " KiB"
    return bytes " B"
}

function show(text, format) { return text == "" ? "-" : sprintf(format, text) }

# The best setting of the other library for a cell; sets `setting`.
function best_of(cell,    i, us, least) {
    setting = least = ""
    for (i = 1; i <= nsides; i++) {
        if (sides[i] == "chorus") continue
        us = median(times[sides[i], cell])
        if (us != "" && (least == "" || us < least)) { least = us; setting = sides[i] }
    }
    return least
}

function bus_factor(coll, n) {
    if (coll == "all_reduce") return 2 * (n - 1) / n
    return coll ~ /^(all_gather|reduce_scatter|alltoall)$/ ? (n - 1) / n : 1
}

# GB/s
function bus(us) {
    return us == "" ? "" : part[3] * bus_factor(part[2], part[1]) / us / 1000
}

# A file may be empty, so they are told apart by name.
FILENAME == ARGV[1] { read_fact(); next }
FILENAME == ARGV[2] { failed[++nfailed] = $0; next }
FILENAME == ARGV[3] {
    cell = $3 SUBSEP $4 SUBSEP $5
    times[$2, cell] = times[$2, cell] (times[$2, cell] == "" ? "" : " ") $6
    if ($7 + 0 > 0) wrong[$2] += $7
    if (!($2 in side_seen)) { side_seen[$2]; sides[++nsides] = $2 }
    if (!(cell in cell_seen)) { cell_seen[cell]; cells[++ncells] = cell }
}
END {
    print fact["gpu"] "; driver " fact["driver"] "; other library: " \
        (fact["library"] == "" ? "none" : fact["library"])
    printf "%2s %-15s %8s | %10s %8s | %10s %8s %-8s | %6s\n", "n", "collective", "size", "ours us",
        "busbw", "theirs us", "busbw", "CTAs", "ratio"
    for (i = 1; i <= ncells; i++) {
        cell = cells[i]
        split(cell, part, SUBSEP)
        us = median(times["chorus", cell])
        other = best_of(cell)
        ratio = us != "" && other != "" ? other / us : ""
        ctas = setting
        sub(/^nccl-/, "", ctas)
        printf "%2d %-15s %8s | %10s %8s | %10s %8s %-8s | %6s\n", part[1], part[2],
            size_text(part[3]), show(us, "%.1f"), show(bus(us), "%.1f"), show(other, "%.1f"),
            show(bus(other), "%.1f"), ctas, show(ratio, "%.2f")
        if (ratio != "") { nratios++; nfaster += ratio >= 1 }
        out = out (out == "" ? "" : ",\n") sprintf("    {\"ranks\": %d, \"coll\": \"%s\", " \
            "\"bytes\": %d, \"us\": %s, \"busbw\": %s, \"other_us\": %s, \"other_busbw\": %s, " \
            "\"other_ctas\": %s, \"ratio\": %s}", part[1], part[2], part[3], num(us),
            num(bus(us)), num(other), num(bus(other)), num(ctas), num(ratio))
    }
    for (i = 1; i <= nfailed; i++) print "failed: " failed[i]
    for (side in wrong) print "wrong results: " side ": " wrong[side] " elements"
    if (nratios) printf "ours is as fast or faster in %d of %d cells\n", nfaster, nratios
    printf "{\n  \"schema_version\": 1,\n  \"program\": \"bench-gpu\",\n" >record
    add_facts()
    for (i = 1; i <= nfailed; i++) bad = bad (i > 1 ? ", " : "") quoted(failed[i])
    printf "  \"failed\": [%s],\n  \"cells\": [\n%s\n  ]\n}\n", bad, out >record
}
