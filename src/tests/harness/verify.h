/* Exact verification: inputs whose results are known for every type, operator, rank count and
 * order of reduction; compared bit for bit on every rank, input and guard bytes included.
 *
 * One verified iteration of a rank, all on host memory:
 *   1. perf_fill_recv on the receive buffer, then perf_fill on the send buffer (this order: in
 *      place they overlap), perf_guard_fill right before the first and right after the last byte;
 *   2. the collective;
 *   3. perf_compare on the receive buffer, perf_compare_send on the send buffer, perf_guard_bad
 *      on the guards.
 * All functions are thread-safe and block only while a table of values is first built.
 */
#ifndef PERF_VERIFY_H
#define PERF_VERIFY_H

#include "harness/coll.h"

#include "nccl.h"

#include <stddef.h>
#include <stdint.h>

/* One receive buffer's contents, as runs of elements: element i of rank's receive buffer is
 * either a copy of element `from` of `source`'s send buffer, or the reduction over all ranks of
 * element `from`, or untouched. */
struct perf_run {
    size_t first, elems; /* in the receive buffer */
    int source;          /* rank, PERF_REDUCED or PERF_UNTOUCHED */
    size_t from;         /* first element in the source's send buffer; 0 for PERF_UNTOUCHED */
};
enum { PERF_REDUCED = -1, PERF_UNTOUCHED = -2 };

struct perf_shape {
    int nranks, rank, root;
    struct perf_pair pair; /* of the drivers of pairs */
    size_t count, send_elems, recv_elems;
    size_t type_bytes;
    int in_place;
    /* In place: the element of the receive buffer that is element 0 of the send buffer (negative
     * where the receive buffer lies inside the send buffer). */
    ptrdiff_t send_at;
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
    /* Grows by one with every verified iteration: stale results of the last 16 are always seen
     * where the type can tell them apart. */
    uint64_t seed;
};

/* Writes elements [first, first + elems) of the rank's send buffer to host memory. */
void perf_fill(const struct perf_fill *fill, size_t first, size_t elems, void *to);

/* Writes what the receive buffer holds before the call: the complement of each expected element,
 * so that nothing is right by luck, and a known pattern where nothing may be written. */
void perf_fill_recv(const struct perf_fill *fill, const struct perf_pattern *pattern,
                    const struct perf_shape *shape, void *to);

/* The factor of mulsum for a rank and type, as `type` in the first bytes of 8. */
void perf_mulsum_scalar(ncclDataType_t type, int rank, void *scalar);

/* What the wrong bytes are. */
enum perf_mismatch_kind { PERF_RECV_WRONG, PERF_GUARD_WRONG, PERF_SEND_CHANGED };

struct perf_mismatch {
    uint64_t wrong; /* elements */
    size_t first;   /* index of the first wrong element in the receive (send) buffer */
    uint8_t expected[8], got[8];
    int guard; /* enum perf_mismatch_kind */
};

/* Compares recv_elems elements at `got` (host memory) against the pattern. Sets *mismatch. */
void perf_compare(const struct perf_fill *fill, const struct perf_pattern *pattern,
                  const struct perf_shape *shape, const void *got, struct perf_mismatch *mismatch);

/* Compares the send_elems elements at `got` against what perf_fill wrote; in place the part that
 * the receive buffer covers is left to perf_compare. Sets *mismatch. */
void perf_compare_send(const struct perf_fill *fill, const struct perf_shape *shape,
                       const void *got, struct perf_mismatch *mismatch);

/* "3.25 (0x40500000)": value of one element in decimal and hex. */
void perf_format_value(ncclDataType_t type, const uint8_t *value, char *text, size_t bytes);

/* Faults injected into good data must be seen: 0 fine, else a text on stderr and 1. */
int perf_selftest(void);

/* Guard bytes: a known pattern around each buffer. */
enum { PERF_GUARD_BYTES = 256 };
void perf_guard_fill(void *guard);
int perf_guard_bad(const void *guard); /* offset of the first wrong byte, -1 if intact */

/* Frees the tables of values; the next fill builds them again. No other call may be running. */
void perf_verify_drop(void);

#endif
