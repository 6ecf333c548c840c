/* A plain simulation of collectives on host memory: what the library should have done.
 *
 * The self-test and the unit tests compare verification with it. It knows nothing of the tables:
 * it reduces the inputs of all ranks one by one, in any order of ranks.
 */
#ifndef PERF_REFERENCE_H
#define PERF_REFERENCE_H

#include "harness/verify.h"

/* A world of ranks whose send buffers are filled. Zero it before perf_reference_open. */
struct perf_reference {
    struct perf_fill fill; /* rank is ignored */
    const struct perf_pattern *pattern;
    struct perf_shape shape; /* rank is ignored; out of place */
    uint8_t *send;           /* rank r's at r * send_elems * type_bytes */
    /* The ranks in the order of the reduction; a wrong one names a rank twice or not at all.
     * NULL: ascending. */
    const int *order;
    int norder;
};

/* Allocates and fills the send buffers. Returns 0, or -1 out of memory. */
int perf_reference_open(struct perf_reference *world);
void perf_reference_close(struct perf_reference *world);

/* Runs the collective for one rank: `recv` as perf_fill_recv left it becomes the result. */
void perf_reference_run(const struct perf_reference *world, int rank, uint8_t *recv);

/* Reduces one element over the ranks in `order` as the library's rules say, each step rounded to
 * the type; bits[r] is rank r's input. */
uint64_t perf_reference_reduce(const struct perf_fill *fill, const uint64_t *bits, const int *order,
                               int norder);

#endif
