/* reduce_scatter_perf: each rank gets its part of the reduction of all send buffers.
 *
 * Rows: count is the elements that each rank receives, the size column the bytes that each sends:
 * n parts, each aligned down to 16 bytes unless --exact. All parts but the own leave a rank.
 * In place: recv is the rank's own part of send.
 */
#include "harness/coll.h"
#include "harness/pattern.h"

static void counts(const struct perf_size *size, struct perf_counts *counts)
{
    size_t part = perf_part_elems(size);
    size_t whole = part * (size_t)size->nranks;
    *counts = (struct perf_counts){
        .send = whole, .recv = part, .count = part, .in_place_recv_offset = part};
}

static ncclResult_t run(const struct perf_call *call)
{
    return ncclReduceScatter(call->send, call->recv, call->count, call->type, call->op, call->comm,
                             call->stream);
}

static const struct perf_coll coll = {
    .name = "reduce_scatter",
    .title = "ReduceScatter",
    .flags = PERF_HAS_OP | PERF_IN_PLACE,
    .counts = counts,
    .size_bytes = perf_larger_bytes,
    .bus_factor = perf_factor_all_but_own,
    .bus_formula = "(n-1)/n",
    .function = "ncclReduceScatter",
    .run = run,
    .pattern = &perf_pattern_reduce_scatter,
};

int main(int argc, char **argv)
{
    return perf_main(&coll, argc, argv);
}
