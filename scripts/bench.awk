# scripts/bench.awk makes the table and the record (-v record=FILE) of scripts/bench, which calls it
# with four files: facts (key and text), bars, what was measured once, and times. A ratio is the
# time of MPI over ours in the same round; of ratios and times the medians are printed. "best" is
# the ratio of the least times of all rounds: on a busy machine it says more.

function median(text,    v, n, i, j, t) {
    n = split(text, v, " ")
    if (n == 0) return ""
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) {
            t = v[j]
            v[j] = v[j - 1]
            v[j - 1] = t
        }
    low = v[1]
    high = v[n]
    return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}

function list(text) {
    gsub(/ +/, ", ", text)
    return "[" text "]"
}

# Bytes that must be read and written for S bytes in the larger buffer of each of n ranks.
function least_bytes(coll, n, bytes) {
    if (coll == "broadcast") return n * bytes
    if (coll == "all_gather" || coll == "reduce_scatter") return (n + 1) * bytes
    return 2 * n * bytes
}

function size_text(bytes) {
    if (bytes >= 1048576) return bytes / 1048576 " MiB"
    if (bytes >= 1024) return bytes / 1024 " KiB"
    return bytes " B"
}

function us_text(us) {
    if (us == "") return "-"
    return us < 100 ? sprintf("%.2f", us) : us < 10000 ? sprintf("%.0f", us) : sprintf("%.3g", us)
}

# The bar of a cell, "" where there is none.
function bar_of(kind, variant, n, bytes,    i) {
    for (i = 1; i <= nbars; i++) {
        split(bar[i], b, " ")
        if (b[1] != kind || (b[2] != variant && b[2] != "all")) continue
        if ((b[3] == n || b[3] == 0) && bytes >= b[4] && bytes <= b[5]) return b[6]
    }
    return ""
}

# Counts a cell with a bar; returns its mark. Of a time the bar is the most, else the least.
function mark(kind, value, bar, is_time,    ok) {
    if (bar == "") return " "
    ncells[kind]++
    ok = value != "" && value != "-" && (is_time ? value + 0 < bar : value + 0 >= bar)
    nreached[kind] += ok
    return ok ? "+" : "!"
}

function ratio_text(ratio) {
    if (ratio == "") return "-"
    return ratio < 10 ? sprintf("%.2f", ratio) : ratio < 100 ? sprintf("%.1f", ratio) : \
        sprintf("%.0f", ratio)
}

function save(line) {
    out = out (out == "" ? "" : ",\n") "    " line
}

function num(text) {
    return text == "" || text == "-" ? "null" : text
}

# One cell of the table: our time, the ratio with its spread, the mark.
function cell(variant, n, coll, bytes,    key, base, r, ratios, us, ratio, want, m, span, best) {
    key = variant SUBSEP n SUBSEP coll SUBSEP bytes
    base = "mpi" SUBSEP n SUBSEP coll SUBSEP bytes
    us = median(times[key])
    ratios = ""
    for (r = 1; r <= fact["rounds"]; r++)
        if ((key, r) in time && (base, r) in time)
            ratios = ratios sprintf("%s%.4g", ratios == "" ? "" : " ", time[base, r] / time[key, r])
    ratio = median(ratios)
    want = has_mpi ? bar_of("ratio", variant, n, bytes) : ""
    m = mark("ratio " n " " variant, ratio, want, 0)
    best = least[key] > 0 && least[base] > 0 ? least[base] / least[key] : ""
    if (want != "") nbest["ratio " n " " variant] += best != "" && best >= want + 0
    save(sprintf("{\"variant\": \"%s\", \"ranks\": %d, \"coll\": \"%s\", \"bytes\": %d, " \
        "\"us\": %s, \"mpi_us\": %s, \"ratio\": %s, \"ratios\": %s, \"times_us\": %s, " \
        "\"mpi_times_us\": %s, \"least_us\": %s, \"mpi_least_us\": %s, \"bar\": %s, " \
        "\"reached\": %s}", variant, n, coll, bytes, num(us), num(median(times[base])),
        num(ratio), list(ratios), list(times[key]), list(times[base]), num(least[key]),
        num(least[base]), num(want), m == " " ? "null" : m == "+" ? "true" : "false"))
    ratio = median(ratios)
    span = ratio == "" ? "-" : \
        ratio_text(ratio) " (" ratio_text(low) ".." ratio_text(high) ")"
    return sprintf(" | %7s %-17s %5s %s", us_text(us), span, ratio_text(best), m)
}

function table(n,    c, s, v, base) {
    printf "\n%d ranks: microseconds a call; times as fast as MPI (least..most), best\n", n
    printf "%-14s %7s %7s", "", "", "MPI"
    for (v = 1; v <= 3; v++) printf " | %-33s", variants[v]
    print ""
    for (c = 1; c <= ncolls; c++)
        for (s = 1; s <= nsizes; s++) {
            base = "mpi" SUBSEP n SUBSEP colls[c] SUBSEP sizes[s]
            printf "%-14s %7s %7s", colls[c], size_text(sizes[s]), us_text(median(times[base]))
            for (v = 1; v <= 3; v++) printf "%s", cell(variants[v], n, colls[c], sizes[s])
            print ""
        }
}

# Percent of what the memory allows at the largest size.
function shares(    n, c, v, i, key, bytes, us, share, most, limit, want, m) {
    bytes = sizes[nsizes]
    printf "\nshare of the memory limit at %s, by medians and by least times " \
        "(two threads copy %.2f GB/s, read and written)\n",
        size_text(bytes), fact["copy_gb_per_s"]
    for (i = 1; i <= 2; i++) {
        n = i == 1 ? 2 : 8
        for (c = 1; c <= ncolls; c++) {
            printf "%d ranks %-14s", n, colls[c]
            for (v = 1; v <= 3; v++) {
                key = variants[v] SUBSEP n SUBSEP colls[c] SUBSEP bytes
                us = median(times[key])
                limit = least_bytes(colls[c], n, bytes) / 10 / fact["copy_gb_per_s"]
                share = us == "" ? "" : limit / us
                most = us == "" ? "" : limit / least[key]
                want = bar_of("share", variants[v], n, bytes)
                m = mark("share", share, want, 0)
                printf " | %-10s %9s %% %s", variants[v],
                    share == "" ? "-" : sprintf("%.0f (%.0f)", share, most), m
                nbest["share"] += most != "" && most >= want + 0
                save(sprintf("{\"share_of\": \"%s\", \"ranks\": %d, \"coll\": \"%s\", " \
                    "\"bytes\": %d, \"percent\": %s, \"most_percent\": %s, " \
                    "\"bar\": %s}", variants[v],
                    n, colls[c], bytes, share == "" ? "null" : sprintf("%.1f", share),
                    most == "" ? "null" : sprintf("%.1f", most), num(want)))
            }
            print ""
        }
    }
}

function print_once(    i, o, want, m, unit) {
    print ""
    for (i = 1; i <= nonce; i++) {
        split(once[i], o, " ")
        want = bar_of(o[1], o[2], o[3], 0)
        m = mark(o[1], o[4], want, 1)
        unit = o[1] == "init" ? "ms" : "s"
        printf "%-44s %8s %-2s (under %s) %s\n", o[1] == "build" ? "full build without CUDA" : \
            (o[2] == "all" ? "ncclCommInitAll, ranks: " : "ncclCommInitRank, rank threads: ") o[3],
            o[4], unit, want, m
        save(sprintf("{\"once\": \"%s\", \"how\": \"%s\", \"ranks\": %d, \"%s\": %s, \"bar\": %s}",
            o[1], o[2], o[3], unit, num(o[4]), want))
    }
}

function quoted(text) {
    gsub(/["\\]/, "", text)
    return text ~ /^-?[0-9]+(\.[0-9]+)?$/ ? text : "\"" text "\""
}

BEGIN { split("threads processes registered", variants, " ") }
FNR == 1 { file++ }
file == 1 { key = $1; sub(/^[^ ]+ ?/, ""); fact[key] = $0; facts[++nfacts] = key; next }
file == 2 { bar[++nbars] = $0; next }
file == 3 { once[++nonce] = $0; next }
{
    key = $2 SUBSEP $3 SUBSEP $4 SUBSEP $5
    time[key, $1] = $6
    times[key] = times[key] (times[key] == "" ? "" : " ") $6
    if (!(key in least) || $7 + 0 < least[key] + 0) least[key] = $7
    if ($2 == "mpi") has_mpi = 1
    if (!($4 in seen_coll)) { seen_coll[$4]; colls[++ncolls] = $4 }
    if (!($5 in seen_size)) { seen_size[$5]; sizes[++nsizes] = $5 }
}
END {
    print "MPI: " fact["mpi"] "; " fact["cpu"] ", " fact["cores"] " cores; load " \
        fact["load_before"] " before, " fact["load_after"] " after; " fact["rounds"] " rounds"
    print "Every call is waited for. + reaches its bar, ! misses it; no mark: the cell has no bar."
    print "MPI has no threads as ranks: threads are compared with as many processes of MPI."
    table(2)
    table(8)
    shares()
    print_once()
    split("ratio 2 threads,ratio 2 processes,ratio 2 registered,ratio 8 threads," \
        "ratio 8 processes,ratio 8 registered,share,init,build", kinds, ",")
    print ""
    for (i = 1; i in kinds; i++) {
        if (!ncells[kinds[i]]) continue
        printf "%-20s %3d of %3d cells reach their bar%s\n", kinds[i], nreached[kinds[i]],
            ncells[kinds[i]], kinds[i] in nbest ? ", " nbest[kinds[i]] " by least times" : ""
        bests += nbest[kinds[i]]
        all += ncells[kinds[i]]
        reached += nreached[kinds[i]]
    }
    printf "%d of %d cells reach their bar\n", reached, all
    if (fact["load_before"] > fact["cores"] / 2 || fact["load_after"] > 3 * fact["cores"])
        print "the machine was busy: what a side loses to other programs is in its times"
    printf "{\n  \"schema_version\": 1,\n" >record
    for (i = 1; i <= nfacts; i++) printf "  \"%s\": %s,\n", facts[i], quoted(fact[facts[i]]) >record
    printf "  \"cells_with_bar\": %d,\n  \"cells_reached\": %d,\n", all, reached >record
    printf "  \"cells\": [\n%s\n  ]\n}\n", out >record
}
