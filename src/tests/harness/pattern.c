/* Patterns: what each collective's receive buffer holds; see pattern.h.
 *
 * In these functions `count` is the call's count argument: elements per part.
 */
#include "harness/pattern.h"

#include "harness/pairs.h"
#include "harness/types.h"

/* A whole buffer from one place, the rest of it (none in general) untouched. */
static int whole(const struct perf_shape *shape, struct perf_run *runs, int source, size_t from)
{
    size_t elems = source == PERF_UNTOUCHED ? 0 : shape->count;
    runs[0] = (struct perf_run){.first = 0, .elems = elems, .source = source, .from = from};
    runs[1] = (struct perf_run){
        .first = elems, .elems = shape->recv_elems - elems, .source = PERF_UNTOUCHED};
    return 2;
}

/* Part r of the buffer from rank r, each from the same element of its send buffer. */
static int parts(const struct perf_shape *shape, struct perf_run *runs, int most, size_t from)
{
    size_t count = shape->count;
    int nranks = shape->nranks;
    for (int rank = 0; rank < nranks && rank < most; rank++)
        runs[rank] = (struct perf_run){
            .first = (size_t)rank * count, .elems = count, .source = rank, .from = from};
    return nranks;
}

static int runs_all_reduce(const struct perf_shape *shape, struct perf_run *runs, int most)
{
    (void)most;
    return whole(shape, runs, PERF_REDUCED, 0);
}

static int runs_reduce(const struct perf_shape *shape, struct perf_run *runs, int most)
{
    (void)most;
    return whole(shape, runs, shape->rank == shape->root ? PERF_REDUCED : PERF_UNTOUCHED, 0);
}

static int runs_reduce_scatter(const struct perf_shape *shape, struct perf_run *runs, int most)
{
    (void)most;
    return whole(shape, runs, PERF_REDUCED, (size_t)shape->rank * shape->count);
}

static int runs_broadcast(const struct perf_shape *shape, struct perf_run *runs, int most)
{
    (void)most;
    return whole(shape, runs, shape->root, 0);
}

static int runs_scatter(const struct perf_shape *shape, struct perf_run *runs, int most)
{
    (void)most;
    return whole(shape, runs, shape->root, (size_t)shape->rank * shape->count);
}

static int runs_sendrecv(const struct perf_shape *shape, struct perf_run *runs, int most)
{
    (void)most;
    return whole(shape, runs, (shape->rank + shape->nranks - 1) % shape->nranks, 0);
}

static int runs_pairs(const struct perf_shape *shape, struct perf_run *runs, int most)
{
    int peer;
    (void)most;
    if (perf_pair_role(&shape->pair, shape->rank, shape->nranks, &peer) == PERF_ROLE_NONE)
        peer = PERF_UNTOUCHED;
    return whole(shape, runs, peer, 0);
}

static int runs_one_way(const struct perf_shape *shape, struct perf_run *runs, int most)
{
    int peer;
    (void)most;
    if (perf_pair_role(&shape->pair, shape->rank, shape->nranks, &peer) != PERF_ROLE_SECOND)
        peer = PERF_UNTOUCHED;
    return whole(shape, runs, peer, 0);
}

static int runs_all_gather(const struct perf_shape *shape, struct perf_run *runs, int most)
{
    return parts(shape, runs, most, 0);
}

static int runs_gather(const struct perf_shape *shape, struct perf_run *runs, int most)
{
    if (shape->rank == shape->root) return parts(shape, runs, most, 0);
    return whole(shape, runs, PERF_UNTOUCHED, 0);
}

static int runs_alltoall(const struct perf_shape *shape, struct perf_run *runs, int most)
{
    return parts(shape, runs, most, (size_t)shape->rank * shape->count);
}

const struct perf_pattern perf_pattern_all_gather = {.runs = runs_all_gather};
const struct perf_pattern perf_pattern_all_reduce = {.runs = runs_all_reduce};
const struct perf_pattern perf_pattern_alltoall = {.runs = runs_alltoall};
const struct perf_pattern perf_pattern_broadcast = {.runs = runs_broadcast};
const struct perf_pattern perf_pattern_gather = {.runs = runs_gather};
const struct perf_pattern perf_pattern_one_way = {.runs = runs_one_way};
const struct perf_pattern perf_pattern_pairs = {.runs = runs_pairs};
const struct perf_pattern perf_pattern_reduce = {.runs = runs_reduce};
const struct perf_pattern perf_pattern_reduce_scatter = {.runs = runs_reduce_scatter};
const struct perf_pattern perf_pattern_scatter = {.runs = runs_scatter};
const struct perf_pattern perf_pattern_sendrecv = {.runs = runs_sendrecv};

size_t perf_part_elems(const struct perf_size *size)
{
    size_t part = size->elems / (size_t)size->nranks;
    return size->exact ? part : part & ~(16 / size->type_bytes - 1);
}

void perf_counts_equal(const struct perf_size *size, struct perf_counts *counts)
{
    *counts = (struct perf_counts){.send = size->elems, .recv = size->elems, .count = size->elems};
}

ncclResult_t perf_exchange(const struct perf_call *call, int to, int from)
{
    ncclResult_t result = ncclGroupStart();
    if (result != ncclSuccess) return result;
    result = ncclSend(call->send, call->count, call->type, to, call->comm, call->stream);
    if (result == ncclSuccess)
        result = ncclRecv(call->recv, call->count, call->type, from, call->comm, call->stream);
    ncclResult_t end = ncclGroupEnd();
    return result != ncclSuccess ? result : end;
}

size_t perf_larger_bytes(const struct perf_counts *counts, size_t type_bytes, int nranks)
{
    (void)nranks;
    return (counts->send > counts->recv ? counts->send : counts->recv) * type_bytes;
}

double perf_factor_one(int nranks)
{
    (void)nranks;
    return 1;
}

double perf_factor_all_but_own(int nranks)
{
    return (double)(nranks - 1) / nranks;
}

size_t perf_type_bytes(ncclDataType_t type)
{
    return perf_numbers[type].bytes;
}
