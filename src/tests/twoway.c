/* twoway_perf: both ranks of each pair send to and receive from the other at once: bandwidth of
 * each direction while both are in use.
 *
 * Rows: count is the elements of the message of a direction, the size column its bytes. Ranks 2k
 * and 2k + 1 are a pair, all at once, or one pair after the other (--pairs). There is no form in
 * place.
 */
#include "harness/coll.h"
#include "harness/pairs.h"
#include "harness/pattern.h"

static void counts(const struct perf_size *size, struct perf_counts *counts)
{
    *counts = (struct perf_counts){.send = size->elems, .recv = size->elems, .count = size->elems};
}

static ncclResult_t run(const struct perf_call *call)
{
    int peer;
    if (perf_pair_role(&call->pair, call->rank, call->nranks, &peer) == PERF_ROLE_NONE)
        return ncclSuccess;
    ncclResult_t result = ncclGroupStart();
    if (result != ncclSuccess) return result;
    result = ncclSend(call->send, call->count, call->type, peer, call->comm, call->stream);
    if (result == ncclSuccess)
        result = ncclRecv(call->recv, call->count, call->type, peer, call->comm, call->stream);
    ncclResult_t end = ncclGroupEnd();
    return result != ncclSuccess ? result : end;
}

static const struct perf_coll coll = {
    .name = "twoway",
    .title = "TwoWay",
    .flags = PERF_PAIRED,
    .counts = counts,
    .size_bytes = perf_larger_bytes,
    .bus_factor = perf_factor_one,
    .bus_formula = "1",
    .function = "ncclSend",
    .run = run,
    .pattern = &perf_pattern_pairs,
};

int main(int argc, char **argv)
{
    return perf_main(&coll, argc, argv);
}
