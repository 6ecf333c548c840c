/* all_gather_perf: every rank gets all send buffers, in rank order.
 *
 * Rows: count is the elements that each rank sends, the size column the bytes that each receives:
 * n parts, each aligned down to 16 bytes unless --exact. A rank receives all parts but its own.
 * In place: send is the rank's own part of recv.
 */
#include "harness/coll.h"
#include "harness/pattern.h"

static void counts(const struct perf_size *size, struct perf_counts *counts)
{
    size_t part = perf_part_elems(size);
    size_t whole = part * (size_t)size->nranks;
    *counts = (struct perf_counts){
        .send = part, .recv = whole, .count = part, .in_place_send_offset = part};
}

static ncclResult_t run(const struct perf_call *call)
{
    return ncclAllGather(call->send, call->recv, call->count, call->type, call->comm, call->stream);
}

static const struct perf_coll coll = {
    .name = "all_gather",
    .title = "AllGather",
    .flags = PERF_IN_PLACE,
    .counts = counts,
    .size_bytes = perf_larger_bytes,
    .bus_factor = perf_factor_all_but_own,
    .bus_formula = "(n-1)/n",
    .function = "ncclAllGather",
    .run = run,
    .pattern = &perf_pattern_all_gather,
};

int main(int argc, char **argv)
{
    return perf_main(&coll, argc, argv);
}
