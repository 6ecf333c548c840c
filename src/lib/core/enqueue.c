/* enqueue.c: from an API call to records: names, type sizes, empty operations, and the
 * collectives that become sends and receives where buffers are not mapped. */
#include "core/core.h"

#include "base/err.h"
#include "boot/boot.h"
#include "core/describe.h"
#include "core/group.h"
#include "core/plan.h"
#include "kernel/fold.h"
#include "kernel/kernel.h"

const char *ccl_coll_name(enum ccl_coll coll)
{
    static const char *const names[CCL_NOPS] = {
        [CCL_ALL_REDUCE] = "AllReduce",
        [CCL_REDUCE] = "Reduce",
        [CCL_BROADCAST] = "Broadcast",
        [CCL_ALL_GATHER] = "AllGather",
        [CCL_REDUCE_SCATTER] = "ReduceScatter",
        [CCL_ALL_TO_ALL] = "AlltoAll",
        [CCL_GATHER] = "Gather",
        [CCL_SCATTER] = "Scatter",
        [CCL_SEND] = "Send",
        [CCL_RECV] = "Recv",
        [CCL_PUT_SIGNAL] = "PutSignal",
        [CCL_SIGNAL] = "Signal",
        [CCL_WAIT_SIGNAL] = "WaitSignal",
    };
    return names[coll];
}

size_t ccl_type_bytes(ncclDataType_t type)
{
    return ccl_fold_type_bytes((int)type);
}

ncclResult_t ccl_unique_id(ncclUniqueId *id)
{
    return ccl_boot_make_id(id);
}

/* One message of an expanded collective. */
static ncclResult_t add_message(const struct ccl_record *whole, enum ccl_coll coll, int peer,
                                uint64_t block)
{
    struct ccl_record record = *whole;
    const struct ccl_op *op = &whole->op;
    uint64_t offset = block * op->count_elems * ccl_type_bytes(op->type);
    record.op.coll = coll;
    record.op.root = peer;
    record.op.in = coll == CCL_SEND ? (const char *)op->in + offset : NULL;
    record.op.out = coll == CCL_RECV ? (char *)op->out + offset : NULL;
    return ccl_group_add(&record);
}

/* Across processes these are pairs: every rank sends and receives what concerns it. */
static ncclResult_t add_messages(const struct ccl_record *whole)
{
    const struct ccl_op *op = &whole->op;
    int n = op->comm->nranks, me = op->comm->rank;
    for (int i = 0; i < n; i++) {
        int peer = (me + i) % n;
        switch (op->coll) {
        case CCL_ALL_TO_ALL:
            TRY(add_message(whole, CCL_SEND, peer, (uint64_t)peer));
            TRY(add_message(whole, CCL_RECV, peer, (uint64_t)peer));
            break;
        case CCL_GATHER:
            if (i == 0) TRY(add_message(whole, CCL_SEND, op->root, 0));
            if (me == op->root) TRY(add_message(whole, CCL_RECV, peer, (uint64_t)peer));
            break;
        default:
            if (me == op->root) TRY(add_message(whole, CCL_SEND, peer, (uint64_t)peer));
            if (i == 0) TRY(add_message(whole, CCL_RECV, op->root, 0));
        }
    }
    return ncclSuccess;
}

/* The collective itself goes first: it only takes its number, and is compared with the others'. */
static ncclResult_t expand(const struct ccl_op *op, uint64_t capture)
{
    struct ccl_record record = {.op = *op, .capture = capture};
    ccl_describe_messages(op);
    ccl_group_start();
    ncclResult_t rc = ccl_group_add(&record);
    if (rc == ncclSuccess) rc = add_messages(&record);
    ccl_group_fail(rc);
    ncclResult_t ended = ccl_group_end();
    return rc != ncclSuccess ? rc : ended;
}

/* Handles that are no default stream mean the same stream until it is destroyed. Relaxed: threads
 * that share a communicator may each set it. */
static int is_checked(const struct ccl_op *op)
{
    if ((uintptr_t)op->stream <= CCL_STREAM_PER_THREAD) return 0;
    return __atomic_load_n(&op->comm->checked, __ATOMIC_RELAXED) == op->stream;
}

/* The device of the stream and the capture it is part of. The default stream is that of the rank's
 * device, whatever device is current. One that captures was asked when it did not, or is not asked:
 * the answer would end the capture. */
static ncclResult_t ask_stream(const struct ccl_op *op, int *of_stream, uint64_t *capture)
{
    const struct ccl_device_ops *device = ccl_device();
    if (!ccl_needs_device(op->stream)) return device->stream_device(op->stream, of_stream);
    void *before;
    *of_stream = op->comm->device;
    TRY(device->enter(op->comm->device, &before));
    ncclResult_t rc = ncclSuccess;
    if (device->capture != NULL) rc = device->capture(op->stream, capture);
    if (rc == ncclSuccess && *capture == 0 && !is_checked(op))
        rc = device->stream_device(op->stream, of_stream);
    device->leave(before);
    if (rc == ncclSuccess && *of_stream == op->comm->device)
        __atomic_store_n(&op->comm->checked, op->stream, __ATOMIC_RELAXED);
    return rc;
}

/* A stream of another device could hold two executors that wait for each other. */
static ncclResult_t check_stream(const struct ccl_op *op, uint64_t *capture)
{
    int of_stream;
    TRY(ask_stream(op, &of_stream, capture));
    if (of_stream == op->comm->device) return ncclSuccess;
    if (of_stream == CCL_STREAM_OF_OTHER_CONTEXT)
        return ccl_err(ncclInvalidUsage,
                       "nccl%s: rank %d: stream %p belongs to a context of the program's own; "
                       "communicators work in the primary one of device %d",
                       ccl_coll_name(op->coll), op->comm->rank, (void *)op->stream,
                       op->comm->device);
    return ccl_err(ncclInvalidArgument, "nccl%s: rank %d is on device %d, its stream on device %d",
                   ccl_coll_name(op->coll), op->comm->rank, op->comm->device, of_stream);
}

static int reduces(enum ccl_coll coll)
{
    return coll == CCL_ALL_REDUCE || coll == CCL_REDUCE || coll == CCL_REDUCE_SCATTER;
}

/* Some types have no arithmetic on older GPUs; the least of the communicator's counts. */
static ncclResult_t check_type(const struct ccl_op *op)
{
    int capability = op->comm->clique->capability;
    if (!reduces(op->coll) || capability == 0 || ccl_cuda_reduces((int)op->type, capability))
        return ncclSuccess;
    return ccl_err(
        ncclInvalidArgument,
        "nccl%s: rank %d: GPUs reduce datatype %d from compute capability 9.0 on; one of "
        "this communicator has %d.%d",
        ccl_coll_name(op->coll), op->comm->rank, (int)op->type, capability / 10, capability % 10);
}

ncclResult_t ccl_enqueue(const struct ccl_op *op)
{
    uint64_t capture = 0;
    ccl_describe_call(op);
    TRY(check_type(op));
    TRY(check_stream(op, &capture));
    int is_collective = op->coll < CCL_NCOLLS;
    if (op->count_elems == 0 && is_collective) return ncclSuccess;
    if (ccl_clique_expands(op->comm->clique, op->coll)) return expand(op, capture);
    if (is_collective && !(op->comm->clique->possible >> op->coll & 1u))
        return ccl_plan_fail_empty(op->comm->exec, op);
    struct ccl_record record = {.op = *op, .capture = capture};
    if (reduces(op->coll)) ccl_redop_resolve(op->comm, op->redop, op->type, &record.factors);
    return ccl_group_add(&record);
}
