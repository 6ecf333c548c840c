/* far.c: halves of messages of ranks on several GPUs, a kernel for those of a stream. */
#include "core/far.h"

#include "base/alloc.h"
#include "base/err.h"
#include "core/launch.h"
#include "core/pairs.h"
#include "core/zones.h"
#include "kernel/kernel.h"

#include <string.h>

/* Halves that do not fit the arguments, until the kernel has read them: memory of the host. Those
 * of a graph stay. */
struct ccl_far_list {
    struct ccl_far_list *next;
    struct ccl_cuda_half *halves;
    size_t room;
    chorus_event_t read; /* NULL: a graph has it */
};

ncclResult_t ccl_far_post(struct ccl_exec *exec, const struct ccl_record *record)
{
    struct ccl_far *far = &exec->far;
    TRY(ccl_grow((void **)&far->records, far->n, &far->room, sizeof *far->records));
    TRY(ccl_grow((void **)&far->rest, far->n, &far->rest_room, sizeof *far->rest));
    far->records[far->n++] = *record;
    return ccl_pairs_match(exec, &record->op);
}

/* ---- one stream ---- */

/* The messages of a launch. */
struct party {
    struct ccl_exec *exec;
    struct ccl_record *records; /* by connection, those of one in the order of their calls */
    size_t n;
};

/* Rank, peer and direction: what messages of one connection have in common. */
static int compare_ends(const struct ccl_record *a, const struct ccl_record *b)
{
    if (a->op.comm->rank != b->op.comm->rank) return a->op.comm->rank < b->op.comm->rank ? -1 : 1;
    if (a->op.root != b->op.root) return a->op.root < b->op.root ? -1 : 1;
    return (int)a->op.coll - (int)b->op.coll;
}

/* By insertion: stable, and most groups are in order. */
static void sort_records(struct ccl_record *records, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct ccl_record moved = records[i];
        size_t at = i;
        for (; at > 0 && compare_ends(&records[at - 1], &moved) > 0; at--)
            records[at] = records[at - 1];
        records[at] = moved;
    }
}

static struct ccl_cuda_half make_half(const struct ccl_clique *clique, const struct ccl_op *op)
{
    int is_send = op->coll == CCL_SEND;
    return (struct ccl_cuda_half){
        .buffer = is_send ? (char *)(uintptr_t)op->in : op->out,
        .bytes = op->count_elems * ccl_type_bytes(op->type),
        .ends = ccl_zones_message(clique, op->comm->rank, op->root, is_send),
        .peer = (uint16_t)op->root,
        .rank = (uint16_t)op->comm->rank,
        .is_send = (uint8_t)is_send,
    };
}

/* Fills the halves, numbers their rows; *lanes: those that some message needs. */
static void fill_halves(const struct party *party, struct ccl_cuda_half *halves,
                        struct ccl_cuda_pairs *args)
{
    const struct ccl_clique *clique = party->exec->clique;
    struct ccl_zones_lanes lanes = ccl_zones_lanes(clique);
    uint32_t nused = 1;
    for (size_t i = 0; i < party->n; i++) {
        halves[i] = make_half(clique, &party->records[i].op);
        int is_next = i > 0 && compare_ends(&party->records[i - 1], &party->records[i]) == 0;
        halves[i].is_next = (uint8_t)is_next;
        if (!is_next) args->nruns++;
        halves[i].run = (uint16_t)(args->nruns - 1);
        uint32_t used = ccl_cuda_lanes(halves[i].bytes, lanes.nlanes);
        if (used > nused) nused = used;
    }
    args->nhalves = (uint32_t)party->n;
    args->nlanes = lanes.nlanes;
    args->slot_bytes = lanes.slot_bytes;
    args->nctas = args->nruns * nused;
}

static size_t count_ranks(const struct party *party)
{
    size_t n = 0;
    for (size_t i = 0; i < party->n; i++)
        n += i == 0 || party->records[i].op.comm != party->records[i - 1].op.comm;
    return n;
}

/* As many CTAs as its ranks have taken from the ledger, and each with the tasks that it has room
 * for. */
static ncclResult_t size_grid(const struct party *party, struct ccl_cuda_pairs *args)
{
    size_t most = count_ranks(party) * args->nlanes;
    if (args->nctas > most) args->nctas = (uint32_t)most;
    uint64_t ntasks = (uint64_t)args->nruns * args->nlanes;
    if (ntasks <= (uint64_t)args->nctas * CCL_CUDA_TASKS) return ncclSuccess;
    args->nctas = (uint32_t)((ntasks + CCL_CUDA_TASKS - 1) / CCL_CUDA_TASKS);
    if (args->nctas <= most) return ncclSuccess;
    const struct ccl_op *op = &party->records[0].op;
    return ccl_err(ncclInvalidUsage,
                   "nccl%s: rank %d: a group has messages with %u ranks on one stream; a kernel "
                   "takes those with %zu",
                   ccl_coll_name(op->coll), op->comm->rank, args->nruns,
                   most * CCL_CUDA_TASKS / args->nlanes);
}

/* ---- long lists ---- */

static int is_read(const struct ccl_far_list *list)
{
    int done = 0;
    return list->read != NULL && ccl_device()->base.event_query(list->read, &done) == ncclSuccess &&
           done;
}

static ncclResult_t make_list(struct ccl_far *far, size_t n, struct ccl_far_list **out)
{
    ncclResult_t rc;
    struct ccl_far_list *list;
    TRY(CCL_NEW(&list, 1));
    list->room = n;
    TRY_GOTO(rc, ccl_device()->words_alloc((void **)&list->halves, n * sizeof *list->halves), fail);
    list->next = far->lists;
    far->lists = list;
    *out = list;
    return ncclSuccess;
fail:
    ccl_free(list);
    return rc;
}

/* One that no kernel reads any more, or a new one. In a capture nothing is asked. */
static ncclResult_t take_list(struct ccl_far *far, size_t n, uint64_t capture,
                              struct ccl_far_list **out)
{
    struct ccl_far_list *list = capture == 0 ? far->lists : NULL;
    while (list != NULL && (list->room < n || !is_read(list))) list = list->next;
    if (list == NULL) TRY(make_list(far, n, &list));
    if (capture == 0 && list->read == NULL) TRY(ccl_device()->event_make(&list->read));
    *out = list;
    return ncclSuccess;
}

/* ---- launches ---- */

/* The kernels of each rank run in issue order: they share its connections. */
static ncclResult_t chain(const struct party *party,
                          ncclResult_t (*step)(struct ccl_chain *, cudaStream_t, uint64_t))
{
    for (size_t i = 0; i < party->n; i++) {
        const struct ccl_record *record = &party->records[i];
        if (i > 0 && record->op.comm == party->records[i - 1].op.comm) continue;
        TRY(step(&record->op.comm->far, record->op.stream, record->capture));
    }
    return ncclSuccess;
}

static ncclResult_t launch_party(const struct party *party)
{
    struct ccl_exec *exec = party->exec;
    const struct ccl_record *first = &party->records[0];
    struct ccl_far_list *list = NULL;
    struct ccl_cuda_pairs args = {
        .abort_word = &exec->clique->words->abort,
        .error = &exec->clique->words->error,
        .note = first->op.comm->p2p_note,
        .mismatch = exec->words->mismatch,
    };
    if (party->n > CCL_CUDA_HALVES) {
        TRY(take_list(&exec->far, party->n, first->capture, &list));
        args.list = list->halves;
    }
    fill_halves(party, list != NULL ? list->halves : args.halves, &args);
    TRY(size_grid(party, &args));
    struct ccl_launch_spec spec = {
        .args = &args,
        .args_bytes = sizeof args,
        .nlanes = 1,
        .cuda = ccl_cuda_kernel_pairs,
    };
    TRY(chain(party, ccl_chain_enter));
    TRY(ccl_launch(first->op.comm, first->op.stream, &spec));
    TRY(chain(party, ccl_chain_leave));
    if (first->capture != 0) return ncclSuccess;
    if (list != NULL) TRY(ccl_device()->base.event_record(list->read, first->op.stream));
    return ccl_track_add(&exec->track, first->op.stream, CCL_TRACK_ALL);
}

/* Moves the records on the stream of the first one to the front; returns how many. */
static size_t take_stream(struct ccl_far *far, struct ccl_record *records, size_t n)
{
    size_t taken = 0, left = 0;
    cudaStream_t stream = records[0].op.stream;
    for (size_t i = 0; i < n; i++) {
        if (records[i].op.stream == stream)
            records[taken++] = records[i];
        else
            far->rest[left++] = records[i];
    }
    memcpy(records + taken, far->rest, left * sizeof *records);
    return taken;
}

static ncclResult_t flush(struct ccl_exec *exec)
{
    struct ccl_far *far = &exec->far;
    for (size_t i = 0; i < far->n; i++)
        TRY(ccl_pairs_check_self(exec, far->records[i].op.comm->rank));
    for (size_t at = 0; at < far->n;) {
        struct party party = {exec, far->records + at, 0};
        party.n = take_stream(far, party.records, far->n - at);
        sort_records(party.records, party.n);
        TRY(launch_party(&party));
        at += party.n;
    }
    return ncclSuccess;
}

ncclResult_t ccl_far_flush(struct ccl_exec *exec)
{
    ncclResult_t rc = flush(exec);
    exec->far.n = 0;
    exec->ngroups++;
    return rc;
}

void ccl_far_free(struct ccl_exec *exec)
{
    while (exec->far.lists != NULL) {
        struct ccl_far_list *list = exec->far.lists;
        exec->far.lists = list->next;
        if (list->read != NULL) ccl_device()->base.event_destroy(list->read);
        ccl_device()->words_free(list->halves);
        ccl_free(list);
    }
    ccl_free(exec->far.records);
    ccl_free(exec->far.rest);
}
