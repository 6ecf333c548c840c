/* alltoall_perf: part j of rank i becomes part i of rank j.
 *
 * Rows: count is the elements of a part, the size column the bytes of the n parts of a buffer,
 * each aligned down to 16 bytes unless --exact. All parts but the own leave a rank. There is no
 * form in place.
 */
#include "harness/coll.h"
#include "harness/pattern.h"

static void counts(const struct perf_size *size, struct perf_counts *counts)
{
    size_t part = perf_part_elems(size);
    size_t whole = part * (size_t)size->nranks;
    *counts = (struct perf_counts){.send = whole, .recv = whole, .count = part};
}

static ncclResult_t run(const struct perf_call *call)
{
    return ncclAlltoAll(call->send, call->recv, call->count, call->type, call->comm, call->stream);
}

static const struct perf_coll coll = {
    .name = "alltoall",
    .title = "AlltoAll",
    .flags = 0,
    .counts = counts,
    .size_bytes = perf_larger_bytes,
    .bus_factor = perf_factor_all_but_own,
    .bus_formula = "(n-1)/n",
    .function = "ncclAlltoAll",
    .run = run,
    .pattern = &perf_pattern_alltoall,
};

int main(int argc, char **argv)
{
    return perf_main(&coll, argc, argv);
}
