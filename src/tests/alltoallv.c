/* alltoallv_perf: rank i sends rank j as much as a matrix says, as one group of messages.
 *
 * Rows: count is the average elements per pair, the size column the bytes of the largest buffer.
 * Buffers are as large as the busiest rank needs; parts lie in rank order without gaps. Messages
 * of zero elements are sent too. There is no form in place.
 */
#include "harness/alltoallv_matrix.h"
#include "harness/coll.h"
#include "harness/pattern.h"

#include <stdio.h>

static void counts(const struct perf_size *size, struct perf_counts *counts)
{
    struct perf_matrix_row row = {
        .count = perf_part_elems(size), .type_bytes = size->type_bytes, .nranks = size->nranks};
    size_t send, recv;
    perf_matrix_largest(&row, &send, &recv);
    if (perf_matrix_is_file()) row.count = send / (size_t)size->nranks;
    *counts = (struct perf_counts){.send = send, .recv = recv, .count = row.count};
}

static ncclResult_t run(const struct perf_call *call)
{
    size_t type_bytes = perf_type_bytes(call->type), sent = 0, received = 0;
    struct perf_matrix_row row = {
        .count = call->count, .type_bytes = type_bytes, .nranks = call->nranks};
    ncclResult_t result = ncclGroupStart();
    if (result != ncclSuccess) return result;
    for (int peer = 0; peer < call->nranks && result == ncclSuccess; peer++) {
        size_t out = perf_matrix_elems(&row, call->rank, peer);
        size_t in = perf_matrix_elems(&row, peer, call->rank);
        result = ncclSend(perf_part_of(call->send, sent, type_bytes), out, call->type, peer,
                          call->comm, call->stream);
        if (result == ncclSuccess)
            result = ncclRecv(perf_part_at(call->recv, received, type_bytes), in, call->type, peer,
                              call->comm, call->stream);
        sent += out;
        received += in;
    }
    ncclResult_t end = ncclGroupEnd();
    return result != ncclSuccess ? result : end;
}

static int runs(const struct perf_shape *shape, struct perf_run *runs, int most)
{
    struct perf_matrix_row row = {
        .count = shape->count, .type_bytes = shape->type_bytes, .nranks = shape->nranks};
    size_t first = 0;
    int source;
    for (source = 0; source < shape->nranks && source < most - 1; source++) {
        size_t elems = perf_matrix_elems(&row, source, shape->rank);
        size_t from = perf_matrix_send_before(&row, source, shape->rank);
        runs[source] =
            (struct perf_run){.first = first, .elems = elems, .source = source, .from = from};
        first += elems;
    }
    runs[source] = (struct perf_run){
        .first = first, .elems = shape->recv_elems - first, .source = PERF_UNTOUCHED};
    return source + 1;
}

/* One line per rank: the busiest rank sets the row's time, the others show how uneven it was. */
static void summarize(const struct perf_summary *summary)
{
    struct perf_matrix_row row = {.count = summary->counts->count,
                                  .type_bytes = summary->type_bytes,
                                  .nranks = summary->nranks};
    if (!perf_matrix_wants_summary()) return;
    for (int rank = 0; rank < summary->nranks; rank++) {
        char line[160];
        size_t out = perf_matrix_send_before(&row, rank, row.nranks) * row.type_bytes;
        size_t in = perf_matrix_recv_before(&row, rank, row.nranks) * row.type_bytes;
        double algbw = (double)(out > in ? out : in) / summary->time_us / 1e3;
        snprintf(line, sizeof(line),
                 "rank %2d send_bytes %12zu recv_bytes %12zu algbw %8.2f busbw %8.2f", rank, out,
                 in, algbw, algbw * perf_factor_all_but_own(row.nranks));
        summary->note(line);
    }
}

static const struct perf_pattern pattern = {.runs = runs};

static const struct perf_coll coll = {
    .name = "alltoallv",
    .title = "AlltoAllv",
    .counts = counts,
    .size_bytes = perf_larger_bytes,
    .bus_factor = perf_factor_all_but_own,
    .bus_formula = "(n-1)/n",
    .function = "ncclSend",
    .run = run,
    .pattern = &pattern,
    .prepare = perf_matrix_prepare,
    .summarize = summarize,
};

int main(int argc, char **argv)
{
    return perf_main(&coll, argc, argv);
}
