/* reduce_perf: the root gets the reduction of all send buffers.
 *
 * Rows: count is the elements of each buffer, the size column their bytes; every rank but the
 * root sends them once, so busbw is algbw. In place: one pointer. The receive buffers of the
 * other ranks exist, and verification sees that nobody writes them.
 */
#include "harness/coll.h"
#include "harness/pattern.h"

static ncclResult_t run(const struct perf_call *call)
{
    return ncclReduce(call->send, call->recv, call->count, call->type, call->op, call->root,
                      call->comm, call->stream);
}

static const struct perf_coll coll = {
    .name = "reduce",
    .title = "Reduce",
    .flags = PERF_HAS_OP | PERF_HAS_ROOT | PERF_IN_PLACE,
    .counts = perf_counts_equal,
    .size_bytes = perf_larger_bytes,
    .bus_factor = perf_factor_one,
    .bus_formula = "1",
    .function = "ncclReduce",
    .run = run,
    .pattern = &perf_pattern_reduce,
};

int main(int argc, char **argv)
{
    return perf_main(&coll, argc, argv);
}
