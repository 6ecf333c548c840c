/* Sizes: parsing "1.5M", and the series of sizes that a run goes through.
 *
 * Called by the option parser and by harness/run.c. Sizes are bytes; the k, m, g and t of a size
 * are powers of 1024 as nccl-tests has them.
 */
#ifndef PERF_SIZES_H
#define PERF_SIZES_H

#include <stdint.h>

struct perf_options;

/* Reads a decimal number without sign or exponent ("12", "1.5", ".5") in any locale. Returns what
 * follows it, NULL when there is none or it does not fit into 64 bits. */
const char *perf_decimal_parse(const char *text, uint64_t *whole, double *fraction);

/* Parses "1.5M", "8", "2GiB", "64kb" to bytes; a fraction of a byte is cut off. Returns 1, or 0
 * with *error set to a constant text that completes "'text' ". */
int perf_size_parse(const char *text, uint64_t *bytes, const char **error);

/* "32M", "1536", "1.5K" for people; exact when the size has at most one decimal of a unit. */
void perf_size_format(uint64_t size_bytes, char *text, int text_bytes);

/* The series of requested sizes: from -b to -e, each once. Growing strictly, so it always ends. */
struct perf_sizes {
    uint64_t next_bytes, max_bytes, step_bytes;
    double factor; /* 0: by step */
    int done;
};

void perf_sizes_start(struct perf_sizes *sizes, const struct perf_options *options);

/* 1 and the next size, or 0 at the end. Size 0 only comes when -b 0 asked for it, once; a factor
 * then goes on from 8 bytes. */
int perf_sizes_next(struct perf_sizes *sizes, uint64_t *size_bytes);

#endif
