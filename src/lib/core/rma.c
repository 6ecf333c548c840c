/* rma.c: the operations of a group end, on host devices a kernel for each stream, on a GPU copies
 * and small kernels.
 *
 * Operations of a rank on a stream go in the order of their calls. Ranks may share a stream: there
 * none waits before those of the others that wait for nothing have gone.
 */
#include "core/rma.h"

#include "base/alloc.h"
#include "base/err.h"
#include "core/launch.h"
#include "kernel/kernel.h"

#include <stdio.h>

/* An operation of the group end in progress. Of a rank on a stream, level n holds the puts and
 * signals behind its n-th row of waits, and the row of waits behind them. */
struct ccl_rma_post {
    struct ccl_record record;
    uint32_t level;
    int is_taken; /* it is part of a batch */
};

/* What a kernel of a host device runs. */
struct ccl_rma_batch {
    struct ccl_rma_batch *next;
    struct ccl_rma_op *ops;
    struct ncclComm **comms; /* of the ranks that take part */
    size_t nops, room, ncomms, comms_room;
    _Atomic int is_flying; /* its kernel has not retired */
};

/* ---- words ---- */

int ccl_rma_reaches(ncclComm_t comm)
{
    return comm->clique->signals != NULL;
}

ncclResult_t ccl_rma_check(ncclComm_t comm, const char *function)
{
    if (ccl_rma_reaches(comm)) return ncclSuccess;
    return ccl_err(
        ncclInvalidArgument,
        "%s: rank %d: windows and one-sided operations need all ranks in one process, or "
        "on one GPU; this communicator is on %u GPUs in %u processes",
        function, comm->rank, comm->clique->topo->nexecs, comm->clique->topo->nprocs);
}

ncclResult_t ccl_rma_open(struct ccl_clique *clique)
{
    size_t nranks = clique->topo->nranks;
    if (clique->signals != NULL || !ccl_clique_is_whole(clique)) return ncclSuccess;
    TRY(ccl_device()->words_alloc((void **)&clique->own_signals,
                                  nranks * nranks * sizeof *clique->signals));
    clique->signals = clique->own_signals;
    return ncclSuccess;
}

void ccl_rma_close(struct ccl_clique *clique)
{
    ccl_device()->words_free(clique->own_signals);
}

ncclResult_t ccl_rma_open_rank(struct ncclComm *comm)
{
    return ccl_device()->flags_alloc((void **)&comm->taken,
                                     (size_t)comm->nranks * sizeof *comm->taken);
}

void ccl_rma_close_rank(struct ncclComm *comm)
{
    ccl_device()->flags_free(comm->taken);
}

static uint32_t *signals_between(const struct ccl_clique *clique, int sender, int receiver)
{
    return &clique->signals[(size_t)receiver * clique->topo->nranks + (size_t)sender];
}

/* ---- a group end ---- */

static int is_wait(const struct ccl_rma_post *post)
{
    return post->record.op.coll == CCL_WAIT_SIGNAL;
}

static int same_line(const struct ccl_rma_post *a, const struct ccl_rma_post *b)
{
    return a->record.op.comm == b->record.op.comm && a->record.op.stream == b->record.op.stream;
}

static uint64_t bytes_of(const struct ccl_op *op)
{
    return op->coll == CCL_PUT_SIGNAL ? op->count_elems * ccl_type_bytes(op->type) : 0;
}

ncclResult_t ccl_rma_post(struct ccl_exec *exec, const struct ccl_record *record)
{
    struct ccl_rma_list *list = &exec->rma;
    TRY(ccl_grow((void **)&list->posts, list->n, &list->room, sizeof *list->posts));
    struct ccl_rma_post *post = &list->posts[list->n];
    *post = (struct ccl_rma_post){.record = *record};
    for (size_t i = list->n; i > 0; i--) {
        const struct ccl_rma_post *before = &list->posts[i - 1];
        if (!same_line(before, post)) continue;
        post->level = before->level + (uint32_t)(is_wait(before) && !is_wait(post));
        break;
    }
    list->n++;
    return ncclSuccess;
}

static struct ccl_take take_of(const struct ccl_op *op)
{
    return (struct ccl_take){
        .raised = signals_between(op->comm->clique, op->root, op->comm->rank),
        .taken = &op->comm->taken[op->root],
        .count = (uint32_t)op->count_elems,
        .peer = (uint32_t)op->root,
    };
}

/* ---- host devices ---- */

/* One that has retired, or a new one. Acquire pairs with retire_batch. */
static ncclResult_t take_batch(struct ccl_exec *exec, struct ccl_rma_batch **out)
{
    struct ccl_rma_batch *batch = exec->rma_batches;
    while (batch != NULL && atomic_load_explicit(&batch->is_flying, memory_order_acquire))
        batch = batch->next;
    if (batch == NULL) {
        TRY(CCL_NEW(&batch, 1));
        batch->next = exec->rma_batches;
        exec->rma_batches = batch;
    }
    batch->nops = batch->ncomms = 0;
    *out = batch;
    return ncclSuccess;
}

static struct ccl_rma_op host_op(const struct ccl_op *op, uint32_t after)
{
    const struct ccl_clique *clique = op->comm->clique;
    int waits = op->coll == CCL_WAIT_SIGNAL;
    struct ccl_rma_op made = {
        .note = &op->comm->p2p_note[CCL_NOTE_SIGNAL],
        .after = after,
        .kind = waits ? CCL_RMA_TAKE : CCL_RMA_PUT,
    };
    if (waits) {
        made.take = take_of(op);
        return made;
    }
    made.src = op->in;
    made.dst = op->out;
    made.bytes = bytes_of(op);
    made.raise = signals_between(clique, op->comm->rank, op->root);
    made.bell = clique->bells[clique->topo->proc_of[op->root]];
    return made;
}

static ncclResult_t add_comm(struct ccl_rma_batch *batch, struct ncclComm *comm)
{
    for (size_t i = 0; i < batch->ncomms; i++)
        if (batch->comms[i] == comm) return ncclSuccess;
    TRY(ccl_grow((void **)&batch->comms, batch->ncomms, &batch->comms_room, sizeof *batch->comms));
    batch->comms[batch->ncomms++] = comm;
    return ncclSuccess;
}

/* The rank's latest operation in the batch, whose note tells the rank; 0: none. */
static uint32_t latest_of(const struct ccl_rma_batch *batch, const struct ncclComm *comm)
{
    size_t i = batch->nops;
    while (i > 0 && batch->ops[i - 1].note != &comm->p2p_note[CCL_NOTE_SIGNAL]) i--;
    return (uint32_t)i;
}

static ncclResult_t add_op(struct ccl_rma_batch *batch, const struct ccl_op *op)
{
    TRY(add_comm(batch, op->comm));
    TRY(ccl_grow((void **)&batch->ops, batch->nops, &batch->room, sizeof *batch->ops));
    batch->ops[batch->nops] = host_op(op, latest_of(batch, op->comm));
    batch->nops++;
    return ncclSuccess;
}

struct batch_owner {
    struct ccl_rma work; /* first: the kernel sees only this part */
    struct ccl_rma_batch *batch;
};

static void retire_batch(void *args)
{
    struct ccl_rma_batch *batch = ((struct batch_owner *)args)->batch;
    struct ncclComm *first = batch->comms[0];
    for (size_t i = 1; i < batch->ncomms; i++) ccl_launch_retired(batch->comms[i]);
    /* Release: the batch may be used again. With its last rank the clique may go. */
    atomic_store_explicit(&batch->is_flying, 0, memory_order_release);
    ccl_launch_retired(first);
}

/* The kernel counts for every rank, the first is counted at the launch. */
static void count_others(struct ccl_rma_batch *batch, uint32_t by)
{
    for (size_t i = 1; i < batch->ncomms; i++)
        atomic_fetch_add_explicit(&batch->comms[i]->flying, by, memory_order_relaxed);
}

static ncclResult_t launch_batch(struct ccl_rma_batch *batch, cudaStream_t stream)
{
    struct ncclComm *comm = batch->comms[0];
    const struct ccl_clique *clique = comm->clique;
    uint64_t bytes = 0;
    for (size_t i = 0; i < batch->nops; i++) bytes += batch->ops[i].bytes;
    struct batch_owner owner = {
        .work = {.ops = batch->ops,
                 .abort_word = &clique->words->abort,
                 .nops = (uint32_t)batch->nops,
                 .streams = (uint32_t)ccl_launch_streams(clique, bytes)},
        .batch = batch,
    };
    struct ccl_launch_spec spec = {
        .args = &owner,
        .args_bytes = sizeof owner,
        .nlanes = 1,
        .is_small = bytes <= CCL_SMALL_BYTES,
        .host = ccl_kernel_rma,
        .retire = retire_batch,
    };
    atomic_store_explicit(&batch->is_flying, 1, memory_order_relaxed);
    count_others(batch, 1);
    ncclResult_t rc = ccl_launch(comm, stream, &spec);
    if (rc == ncclSuccess) return rc;
    count_others(batch, UINT32_MAX);
    atomic_store_explicit(&batch->is_flying, 0, memory_order_relaxed);
    return rc;
}

/* All of one stream, from post `first` on. */
static ncclResult_t run_batch(struct ccl_exec *exec, struct ccl_rma_list *list, size_t first)
{
    struct ccl_rma_batch *batch;
    cudaStream_t stream = list->posts[first].record.op.stream;
    TRY(take_batch(exec, &batch));
    for (size_t i = first; i < list->n; i++) {
        struct ccl_rma_post *post = &list->posts[i];
        if (post->is_taken || post->record.op.stream != stream) continue;
        TRY(add_op(batch, &post->record.op));
        post->is_taken = 1;
    }
    return launch_batch(batch, stream);
}

static ncclResult_t run_on_host(struct ccl_exec *exec, struct ccl_rma_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (!list->posts[i].is_taken) TRY(run_batch(exec, list, i));
    return ncclSuccess;
}

/* ---- GPUs ---- */

/* What a rank has on a stream is its own: others may leave meanwhile. */
static ncclResult_t track(struct ccl_exec *exec, const struct ccl_record *record)
{
    if (record->capture != 0) return ncclSuccess;
    return ccl_track_add(&exec->track, record->op.stream, record->op.comm->rank);
}

static ncclResult_t copy_to_peer(const struct ccl_op *op, uint64_t bytes)
{
    char why[CCL_ERR_TEXT_BYTES];
    ncclResult_t rc = ccl_device()->base.copy(op->out, op->in, bytes, op->stream);
    if (rc == ncclSuccess) return ncclSuccess;
    snprintf(why, sizeof why, "%s", ccl_err_last());
    return ccl_err(rc, "ncclPutSignal: rank %d: %llu bytes at %p for rank %d: %.300s",
                   op->comm->rank, (unsigned long long)bytes, op->in, op->root, why);
}

/* The copy is done when the kernel behind it starts. */
static ncclResult_t put_on_gpu(struct ccl_exec *exec, const struct ccl_record *record)
{
    const struct ccl_op *op = &record->op;
    uint64_t bytes = bytes_of(op);
    struct ccl_raise_args args = {signals_between(exec->clique, op->comm->rank, op->root)};
    struct ccl_launch_spec spec = {
        .args = &args,
        .args_bytes = sizeof args,
        .nlanes = 1,
        .cuda = ccl_cuda_kernel_raise,
    };
    if (bytes > 0 && op->in != op->out) TRY(copy_to_peer(op, bytes));
    TRY(ccl_launch(op->comm, op->stream, &spec));
    return track(exec, record);
}

/* Where a launch returns when its kernel is done, others must be able to call meanwhile. */
static ncclResult_t launch_takes(struct ccl_exec *exec, const struct ccl_record *record,
                                 const struct ccl_takes_args *args)
{
    const struct ccl_device_ops *device = ccl_device();
    int blocks = device->launches_block != NULL && device->launches_block();
    struct ccl_launch_spec spec = {
        .args = args,
        .args_bytes = sizeof *args,
        .nlanes = 1,
        .cuda = ccl_cuda_kernel_takes,
    };
    if (blocks) pthread_mutex_unlock(&exec->lock);
    ncclResult_t rc = ccl_launch(record->op.comm, record->op.stream, &spec);
    if (blocks) ccl_exec_lock(exec);
    return rc != ncclSuccess ? rc : track(exec, record);
}

/* All waits of a rank on a stream at one level, from post `first` on. */
static ncclResult_t take_on_gpu(struct ccl_exec *exec, struct ccl_rma_list *list, size_t first)
{
    const struct ccl_rma_post *own = &list->posts[first];
    struct ncclComm *comm = own->record.op.comm;
    struct ccl_takes_args args = {
        .abort_word = &comm->clique->words->abort,
        .note = &comm->p2p_note[CCL_NOTE_SIGNAL],
    };
    for (size_t i = first; i < list->n; i++) {
        struct ccl_rma_post *post = &list->posts[i];
        if (!is_wait(post) || post->level != own->level || !same_line(post, own)) continue;
        if (args.ntakes == CCL_TAKES_MAX) {
            TRY(launch_takes(exec, &own->record, &args));
            args.ntakes = 0;
        }
        args.takes[args.ntakes++] = take_of(&post->record.op);
        post->is_taken = 1;
    }
    return launch_takes(exec, &own->record, &args);
}

static ncclResult_t run_level(struct ccl_exec *exec, struct ccl_rma_list *list, uint32_t level)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->posts[i].level == level && !is_wait(&list->posts[i]))
            TRY(put_on_gpu(exec, &list->posts[i].record));
    for (size_t i = 0; i < list->n; i++) {
        const struct ccl_rma_post *post = &list->posts[i];
        if (post->level == level && is_wait(post) && !post->is_taken)
            TRY(take_on_gpu(exec, list, i));
    }
    return ncclSuccess;
}

static ncclResult_t run_on_gpu(struct ccl_exec *exec, struct ccl_rma_list *list)
{
    uint32_t last = 0;
    for (size_t i = 0; i < list->n; i++)
        if (list->posts[i].level > last) last = list->posts[i].level;
    for (uint32_t level = 0; level <= last; level++) TRY(run_level(exec, list, level));
    return ncclSuccess;
}

ncclResult_t ccl_rma_flush(struct ccl_exec *exec)
{
    struct ccl_rma_list list = exec->rma;
    exec->rma = (struct ccl_rma_list){NULL, 0, 0};
    ncclResult_t rc = ccl_device()->retires ? run_on_host(exec, &list) : run_on_gpu(exec, &list);
    list.n = 0;
    /* Another thread may have brought an array of its own meanwhile. */
    if (exec->rma.posts == NULL)
        exec->rma = list;
    else
        ccl_free(list.posts);
    return rc;
}

void ccl_rma_free(struct ccl_exec *exec)
{
    ccl_free(exec->rma.posts);
    while (exec->rma_batches != NULL) {
        struct ccl_rma_batch *batch = exec->rma_batches;
        exec->rma_batches = batch->next;
        ccl_free(batch->ops);
        ccl_free(batch->comms);
        ccl_free(batch);
    }
}
