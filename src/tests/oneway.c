/* oneway_perf: the first rank of each pair sends to the second: bandwidth of one direction.
 *
 * Rows: count is the elements of the message, the size column its bytes. Ranks 2k and 2k + 1 are a
 * pair, all at once, or one pair after the other in both directions (--pairs). There is no form in
 * place.
 */
#include "harness/coll.h"
#include "harness/pairs.h"
#include "harness/pattern.h"

static ncclResult_t run(const struct perf_call *call)
{
    int peer;
    switch (perf_pair_role(&call->pair, call->rank, call->nranks, &peer)) {
    case PERF_ROLE_FIRST:
        return ncclSend(call->send, call->count, call->type, peer, call->comm, call->stream);
    case PERF_ROLE_SECOND:
        return ncclRecv(call->recv, call->count, call->type, peer, call->comm, call->stream);
    default: return ncclSuccess;
    }
}

static const struct perf_coll coll = {
    .name = "oneway",
    .title = "OneWay",
    .flags = PERF_PAIRED | PERF_ONE_WAY,
    .counts = perf_counts_equal,
    .size_bytes = perf_larger_bytes,
    .bus_factor = perf_factor_one,
    .bus_formula = "1",
    .function = "ncclSend",
    .run = run,
    .pattern = &perf_pattern_one_way,
};

int main(int argc, char **argv)
{
    return perf_main(&coll, argc, argv);
}
