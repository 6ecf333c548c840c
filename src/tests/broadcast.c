/* broadcast_perf: every rank gets the root's send buffer.
 *
 * Rows: count is the elements of the buffer, the size column its bytes; every rank but the root
 * receives them once, so busbw is algbw. In place: one pointer.
 */
#include "harness/coll.h"
#include "harness/pattern.h"

static ncclResult_t run(const struct perf_call *call)
{
    return ncclBroadcast(call->send, call->recv, call->count, call->type, call->root, call->comm,
                         call->stream);
}

static const struct perf_coll coll = {
    .name = "broadcast",
    .title = "Broadcast",
    .flags = PERF_HAS_ROOT | PERF_IN_PLACE,
    .counts = perf_counts_equal,
    .size_bytes = perf_larger_bytes,
    .bus_factor = perf_factor_one,
    .bus_formula = "1",
    .function = "ncclBroadcast",
    .run = run,
    .pattern = &perf_pattern_broadcast,
};

int main(int argc, char **argv)
{
    return perf_main(&coll, argc, argv);
}
