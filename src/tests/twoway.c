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

static ncclResult_t run(const struct perf_call *call)
{
    int peer;
    if (perf_pair_role(&call->pair, call->rank, call->nranks, &peer) == PERF_ROLE_NONE)
        return ncclSuccess;
    return perf_exchange(call, peer, peer);
}

static const struct perf_coll coll = {
    .name = "twoway",
    .title = "TwoWay",
    .flags = PERF_PAIRED,
    .counts = perf_counts_equal,
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
