/* all_reduce_perf: every rank gets the reduction of all send buffers.
 *
 * Rows: count is the elements of each buffer, the size column their bytes. Each link of a ring
 * must carry 2(n-1)/n of the buffer: once to reduce, once to spread. In place: one pointer.
 */
#include "harness/coll.h"
#include "harness/pattern.h"

/* A reduce-scatter and an all-gather, (n-1)/n each. */
static double bus_factor(int nranks)
{
    return 2.0 * perf_factor_all_but_own(nranks);
}

static ncclResult_t run(const struct perf_call *call)
{
    return ncclAllReduce(call->send, call->recv, call->count, call->type, call->op, call->comm,
                         call->stream);
}

static const struct perf_coll coll = {
    .name = "all_reduce",
    .title = "AllReduce",
    .flags = PERF_HAS_OP | PERF_IN_PLACE,
    .counts = perf_counts_equal,
    .size_bytes = perf_larger_bytes,
    .bus_factor = bus_factor,
    .bus_formula = "2(n-1)/n",
    .function = "ncclAllReduce",
    .run = run,
    .pattern = &perf_pattern_all_reduce,
};

int main(int argc, char **argv)
{
    return perf_main(&coll, argc, argv);
}
