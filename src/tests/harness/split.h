/* Groups of ranks: NCCL_TESTS_SPLIT ("MOD 4", "&0x3") and NCCL_TESTS_SPLIT_MASK give each rank
 * a colour; ranks of one colour make a communicator, in the order of their world ranks.
 */
#ifndef PERF_SPLIT_H
#define PERF_SPLIT_H

struct perf_split {
    char op;      /* '&', '|', '%', '/', or 0: no split, colour 0 for all */
    long operand; /* > 0 for % and / */
};

/* Parses one value: an operator (AND OR MOD DIV in any case, & | % /), optional blanks, a
 * decimal, 0x or 0b number. 0 on success; else *error is a text that completes
 * "NCCL_TESTS_SPLIT: …". */
int perf_split_parse(const char *text, struct perf_split *split, const char **error);

/* A mask alone ("0x7") is `rank & mask`. Same errors. */
int perf_split_parse_mask(const char *text, struct perf_split *split, const char **error);

/* Reads the two variables; NCCL_TESTS_SPLIT wins. A bad value is a usage error: exit 2. */
void perf_split_read(struct perf_split *split);

int perf_split_colour(const struct perf_split *split, int rank);

#endif
