# Reads the output of a driver and prints "tables ranks rows bad footers": how many tables were
# printed, the ranks in the headers, the data rows, the rows whose #wrong columns (9 and 13 of
# upstream's table) are neither 0 nor "-", and the footers that say 0 OK.
/^# Using devices/ { tables++ }
/^# *Rank +[0-9]+ / { ranks++ }
/^# Out of bounds values : 0 OK/ { footers++ }
/^ *[0-9]+ / {
    rows++
    if ($9 != "0" || ($13 != "0" && $13 != "-") || NF < 13) bad++
}
END { print tables + 0, ranks + 0, rows + 0, bad + 0, footers + 0 }
