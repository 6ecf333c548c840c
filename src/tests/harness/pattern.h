/* Patterns: what each collective's receive buffer holds, and the arithmetic that drivers share.
 *
 * The drivers name them; verification walks them. Every pattern covers the receive buffer.
 */
#ifndef PERF_PATTERN_H
#define PERF_PATTERN_H

#include "harness/coll.h"
#include "harness/verify.h"

extern const struct perf_pattern perf_pattern_all_gather; /* also hypercube */
extern const struct perf_pattern perf_pattern_all_reduce;
extern const struct perf_pattern perf_pattern_alltoall;
extern const struct perf_pattern perf_pattern_broadcast;
extern const struct perf_pattern perf_pattern_gather;
extern const struct perf_pattern perf_pattern_one_way; /* what the first of a pair sends */
extern const struct perf_pattern perf_pattern_pairs;   /* what the other of a pair sends */
extern const struct perf_pattern perf_pattern_reduce;
extern const struct perf_pattern perf_pattern_reduce_scatter;
extern const struct perf_pattern perf_pattern_scatter;
extern const struct perf_pattern perf_pattern_sendrecv;

/* Elements of each rank's part of a row: the n-th part, aligned down to 16 bytes unless exact. */
size_t perf_part_elems(const struct perf_size *size);

/* Buffers of as many elements as the row has. */
void perf_counts_equal(const struct perf_size *size, struct perf_counts *counts);

/* Sends to one rank and receives from another, which may be the same, in a group: neither waits
 * for the other. */
ncclResult_t perf_exchange(const struct perf_call *call, int to, int from);

/* Bytes of the larger of the two buffers: the size column of every collective. */
size_t perf_larger_bytes(const struct perf_counts *counts, size_t type_bytes, int nranks);

/* Factors from algbw to busbw: bytes that must cross each rank's link, over the size column. */
double perf_factor_one(int nranks);
double perf_factor_all_but_own(int nranks); /* (n-1)/n */

/* Bytes of an element. */
size_t perf_type_bytes(ncclDataType_t type);

/* Element `elems` of a buffer. */
static inline const void *perf_part_of(const void *buffer, size_t elems, size_t type_bytes)
{
    return (const char *)buffer + elems * type_bytes;
}
static inline void *perf_part_at(void *buffer, size_t elems, size_t type_bytes)
{
    return (char *)buffer + elems * type_bytes;
}

#endif
