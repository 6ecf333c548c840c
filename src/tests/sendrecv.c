/* sendrecv_perf: a ring: each rank sends to the next and receives from the one before.
 *
 * Rows: count is the elements of the message, the size column its bytes; it crosses each link
 * once, so busbw is algbw. Send and receive of a rank are one group: neither waits for the other.
 * There is no form in place.
 */
#include "harness/coll.h"
#include "harness/pattern.h"

static ncclResult_t run(const struct perf_call *call)
{
    int next = (call->rank + 1) % call->nranks;
    int before = (call->rank + call->nranks - 1) % call->nranks;
    return perf_exchange(call, next, before);
}

static const struct perf_coll coll = {
    .name = "sendrecv",
    .title = "SendRecv",
    .flags = 0,
    .counts = perf_counts_equal,
    .size_bytes = perf_larger_bytes,
    .bus_factor = perf_factor_one,
    .bus_formula = "1",
    .function = "ncclSend",
    .run = run,
    .pattern = &perf_pattern_sendrecv,
};

int main(int argc, char **argv)
{
    return perf_main(&coll, argc, argv);
}
