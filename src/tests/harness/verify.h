/* Exact verification: inputs whose results are known for every type, operator, rank count and
 * order of reduction; compared bit for bit on every rank, input and guard bytes included.
 */
#ifndef PERF_VERIFY_H
#define PERF_VERIFY_H

#include "nccl.h"

#include <stddef.h>
#include <stdint.h>

/* One receive buffer's contents, as runs of elements: element i of rank's receive buffer is
 * either a copy of element `from` of `source`'s send buffer, or the reduction over all ranks of
 * element `from`, or untouched. */
struct perf_run {
    size_t first, elems; /* in the receive buffer */
    int source;          /* rank, PERF_REDUCED or PERF_UNTOUCHED */
    size_t from;         /* first element in the source's send buffer */
};
enum { PERF_REDUCED = -1, PERF_UNTOUCHED = -2 };

struct perf_shape {
    int nranks, rank, root;
    size_t count, send_elems, recv_elems;
};

/* The runs of a rank, at most max_runs (2 * nranks + 2 suffices), in order and covering
 * [0, recv_elems). Returns how many. */
struct perf_pattern {
    int (*runs)(const struct perf_shape *shape, struct perf_run *runs, int max_runs);
};

struct perf_fill {
    ncclDataType_t type;
    int op; /* as in options.h; -1 for data movement */
    int rank, nranks;
    uint64_t seed; /* changes every iteration that is verified: stale results are seen */
};

/* Writes elements [first, first + elems) of the rank's send buffer to host memory. */
void perf_fill(const struct perf_fill *fill, size_t first, size_t elems, void *to);

/* The factor of mulsum for a rank of this world and type, as `type` in 8 bytes. */
void perf_mulsum_scalar(ncclDataType_t type, int rank, int nranks, void *scalar);

struct perf_mismatch {
    uint64_t wrong;      /* elements */
    size_t first;        /* index of the first wrong element in the receive buffer */
    uint8_t expected[8], got[8];
    int guard;           /* 1: the wrong bytes are guard bytes, 2: the send buffer changed */
};

/* Compares recv_elems elements at `got` (host memory) against the pattern. */
void perf_compare(const struct perf_fill *fill, const struct perf_pattern *pattern,
                  const struct perf_shape *shape, const void *got,
                  struct perf_mismatch *mismatch);

/* "3.25 (0x40500000)": value of one element in decimal and hex. */
void perf_format_value(ncclDataType_t type, const uint8_t *value, char *text, size_t bytes);

/* Faults injected into good data must be seen: 0 fine, else a text on stderr and 1. */
int perf_selftest(void);

/* Guard bytes: a known pattern around each buffer. */
enum { PERF_GUARD_BYTES = 256 };
void perf_guard_fill(void *guard);
int perf_guard_bad(const void *guard); /* offset of the first wrong byte, -1 if intact */

#endif
