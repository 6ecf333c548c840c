/* pingpong_perf: the first rank of each pair sends to the second, which sends back when it has the
 * message. The time is half of the round trip: what a message takes.
 *
 * Rows: count is the elements of the message, the size column its bytes. Ranks 2k and 2k + 1 are a
 * pair, all at once, or one pair after the other (--pairs). There is no form in place.
 */
#include "harness/coll.h"
#include "harness/pairs.h"
#include "harness/pattern.h"

/* There, and back. */
static int steps(int nranks)
{
    (void)nranks;
    return 2;
}

static ncclResult_t run(const struct perf_call *call)
{
    int peer;
    enum perf_role role = perf_pair_role(&call->pair, call->rank, call->nranks, &peer);
    if (role == PERF_ROLE_NONE) return ncclSuccess;
    if ((role == PERF_ROLE_FIRST) == (call->step == 0))
        return ncclSend(call->send, call->count, call->type, peer, call->comm, call->stream);
    return ncclRecv(call->recv, call->count, call->type, peer, call->comm, call->stream);
}

static const struct perf_coll coll = {
    .name = "pingpong",
    .title = "PingPong",
    .flags = PERF_PAIRED,
    .counts = perf_counts_equal,
    .size_bytes = perf_larger_bytes,
    .bus_factor = perf_factor_one,
    .bus_formula = "1",
    .function = "ncclSend",
    .run = run,
    .steps = steps,
    .trips = 2,
    .pattern = &perf_pattern_pairs,
};

int main(int argc, char **argv)
{
    return perf_main(&coll, argc, argv);
}
