# scripts/figures.awk: functions of the scripts that make tables and records of measurements, which
# give it to awk before their own program.

function median(text,    v, n, i, j, t) {
    n = split(text, v, " ")
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) {
            t = v[j]
            v[j] = v[j - 1]
            v[j - 1] = t
        }
    return n == 0 ? "" : n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}

# Texts as JSON has them: numbers stay numbers, lists are of numbers, nothing is null.
function quoted(text) {
    gsub(/["\\]/, "", text)
    return text ~ /^-?[0-9]+(\.[0-9]+)?$/ ? text : "\"" text "\""
}

function list(text) {
    gsub(/ +/, ", ", text)
    return "[" text "]"
}

function num(text) { return text == "" || text == "-" ? "null" : text }

# A line "key: text" of what the machine is, which add_facts writes to the record.
function read_fact(    key) {
    key = $1
    sub(/:$/, "", key)
    sub(/^[^ ]+ ?/, "")
    fact[key] = $0
    facts[++nfacts] = key
}

function add_facts(    i) {
    for (i = 1; i <= nfacts; i++) printf "  \"%s\": %s,\n", facts[i], quoted(fact[facts[i]]) >record
}
