/* hypercube_perf: an all-gather by log2(n) exchanges with a partner each.
 *
 * Rows: as all_gather_perf. In step s, ranks that differ in bit s exchange the 2^s parts that they
 * have so far; each step needs what the step before it brought, so each is a group of its own.
 * The number of ranks must be a power of two. In place: send is the rank's own part of recv.
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

static int steps(int nranks)
{
    int nsteps = 0;
    while (1 << nsteps < nranks) nsteps++;
    return nsteps > 0 ? nsteps : 1; /* A rank alone still has its own part to copy. */
}

/* Out of place the own part is copied too: a message to itself, in the first step's group. */
static ncclResult_t copy_own(const struct perf_call *call, void *own)
{
    if (own == call->send) return ncclSuccess;
    ncclResult_t result =
        ncclSend(call->send, call->count, call->type, call->rank, call->comm, call->stream);
    if (result != ncclSuccess) return result;
    return ncclRecv(own, call->count, call->type, call->rank, call->comm, call->stream);
}

/* The exchange of a step: the parts that this rank has for those of its partner. */
static ncclResult_t exchange(const struct perf_call *call)
{
    int nparts = 1 << call->step, partner = call->rank ^ nparts;
    if (partner >= call->nranks) return ncclSuccess;
    size_t type_bytes = perf_type_bytes(call->type);
    size_t elems = call->count * (size_t)nparts, first = (size_t)(call->rank & -nparts);
    size_t partner_first = (size_t)(partner & -nparts);
    /* The first step sends from the send buffer: the copy to recv is in the same group. */
    const void *from =
        call->step == 0 ? call->send : perf_part_of(call->recv, first * call->count, type_bytes);
    void *to = perf_part_at(call->recv, partner_first * call->count, type_bytes);
    ncclResult_t result = ncclSend(from, elems, call->type, partner, call->comm, call->stream);
    if (result != ncclSuccess) return result;
    return ncclRecv(to, elems, call->type, partner, call->comm, call->stream);
}

static ncclResult_t run(const struct perf_call *call)
{
    size_t type_bytes = perf_type_bytes(call->type);
    void *own = perf_part_at(call->recv, (size_t)call->rank * call->count, type_bytes);
    ncclResult_t result = ncclGroupStart();
    if (result != ncclSuccess) return result;
    if (call->step == 0) result = copy_own(call, own);
    if (result == ncclSuccess) result = exchange(call);
    ncclResult_t end = ncclGroupEnd();
    return result != ncclSuccess ? result : end;
}

static const struct perf_coll coll = {
    .name = "hypercube",
    .title = "HyperCube",
    .flags = PERF_IN_PLACE | PERF_POWER_OF_TWO,
    .counts = counts,
    .size_bytes = perf_larger_bytes,
    .bus_factor = perf_factor_all_but_own,
    .bus_formula = "(n-1)/n",
    .function = "ncclSend",
    .run = run,
    .steps = steps,
    .pattern = &perf_pattern_all_gather,
};

int main(int argc, char **argv)
{
    return perf_main(&coll, argc, argv);
}
