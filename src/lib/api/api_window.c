/* Windows and one-sided operations: the checks of their arguments, in the order of the interface.
 * Called by programs. A failing call is recorded in the open group.
 */
#include "api/api.h"

#include "base/err.h"

enum { WIN_FLAGS = NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING };

/* ---- windows ---- */

static ncclResult_t add_window(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win,
                               int flags)
{
    static const char function[] = "ncclCommWindowRegister";
    TRY(ccl_argcheck_pointer(win, function, "win"));
    *win = NULL;
    TRY(ccl_argcheck_ready(comm, function));
    TRY(ccl_argcheck_pointer(buff, function, "buff"));
    if (size == 0)
        return ccl_err(ncclInvalidArgument, "%s: rank %d: size is 0", function,
                       ccl_comm_rank(comm));
    if (size > (size_t)PTRDIFF_MAX)
        return ccl_err(ncclInvalidArgument, "%s: rank %d: size %zu exceeds any buffer", function,
                       ccl_comm_rank(comm), size);
    if (flags & ~WIN_FLAGS)
        return ccl_err(ncclInvalidArgument,
                       "%s: rank %d: winFlags %d is none of NCCL_WIN_DEFAULT, "
                       "NCCL_WIN_COLL_SYMMETRIC, NCCL_WIN_STRICT_ORDERING and their sum",
                       function, ccl_comm_rank(comm), flags);
    return ccl_window_register(comm, buff, size, win, flags);
}

CCL_API(ncclResult_t, ncclCommWindowRegister,
        (ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags))
{
    return ccl_group_fail(add_window(comm, buff, size, win, winFlags));
}

CCL_API(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win))
{
    ncclResult_t rc = ccl_comm_check(comm, "ncclCommWindowDeregister");
    if (rc == ncclSuccess && win != NULL) rc = ccl_window_deregister(comm, win);
    return ccl_group_fail(rc);
}

static ncclResult_t get_pointer(ncclComm_t comm, ncclWindow_t win, void **out)
{
    static const char function[] = "ncclWinGetUserPtr";
    TRY(ccl_argcheck_pointer(out, function, "outUserPtr"));
    *out = NULL;
    TRY(ccl_argcheck_ready(comm, function));
    TRY(ccl_argcheck_pointer(win, function, "win"));
    return ccl_window_pointer(comm, win, out);
}

CCL_API(ncclResult_t, ncclWinGetUserPtr, (ncclComm_t comm, ncclWindow_t win, void **outUserPtr))
{
    return ccl_group_fail(get_pointer(comm, win, outUserPtr));
}

/* ---- one-sided operations ---- */

static ncclResult_t check_peer(ncclComm_t comm, const char *function, int peer)
{
    int nranks = ccl_comm_nranks(comm);
    if (peer >= 0 && peer < nranks) return ncclSuccess;
    return ccl_err(ncclInvalidArgument, "%s: peer %d is not in [0, %d)", function, peer, nranks);
}

static ncclResult_t check_zero(const char *function, const char *argument, long long value)
{
    if (value == 0) return ncclSuccess;
    return ccl_err(ncclInvalidArgument, "%s: %s is %lld, not 0", function, argument, value);
}

/* What all three share. */
struct signal {
    const char *function;
    ncclComm_t comm;
    int peer, index, context;
    unsigned int flags;
};

static ncclResult_t check_signal(const struct signal *signal)
{
    TRY(check_peer(signal->comm, signal->function, signal->peer));
    TRY(check_zero(signal->function, "sigIdx", signal->index));
    TRY(check_zero(signal->function, "ctx", signal->context));
    return check_zero(signal->function, "flags", signal->flags);
}

static ncclResult_t check_ready(ncclComm_t comm, const char *function)
{
    TRY(ccl_argcheck_ready(comm, function));
    return ccl_rma_check(comm, function);
}

static ncclResult_t put(const struct signal *signal, struct ccl_op *op, struct ccl_target *target)
{
    size_t size;
    TRY(check_ready(signal->comm, signal->function));
    TRY(check_signal(signal));
    TRY(ccl_argcheck_type(op->type, signal->function));
    size = ccl_type_bytes(op->type);
    if (op->count_elems > (size_t)PTRDIFF_MAX / size)
        return ccl_err(ncclInvalidArgument, "%s: count %zu of %zu-byte elements exceeds any buffer",
                       signal->function, op->count_elems, size);
    target->bytes = op->count_elems * size;
    TRY(ccl_argcheck_pointer(op->in, signal->function, "localbuff"));
    TRY(ccl_argcheck_pointer(target->win, signal->function, "peerWin"));
    TRY(ccl_window_check_source(op->comm, op->in, target->bytes));
    TRY(ccl_window_target(op->comm, target, &op->out));
    return ccl_enqueue(op);
}

CCL_API(ncclResult_t, ncclPutSignal,
        (const void *localbuff, size_t count, ncclDataType_t datatype, int peer,
         ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags,
         ncclComm_t comm, cudaStream_t stream))
{
    struct signal signal = {"ncclPutSignal", comm, peer, sigIdx, ctx, flags};
    struct ccl_target target = {.win = peerWin, .peer = peer, .offset = peerWinOffset};
    struct ccl_op op = {.coll = CCL_PUT_SIGNAL,
                        .in = localbuff,
                        .count_elems = count,
                        .type = datatype,
                        .root = peer,
                        .comm = comm,
                        .stream = stream};
    return ccl_group_fail(put(&signal, &op, &target));
}

CCL_API(ncclResult_t, ncclSignal,
        (int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream))
{
    struct signal signal = {"ncclSignal", comm, peer, sigIdx, ctx, flags};
    struct ccl_op op = {.coll = CCL_SIGNAL, .root = peer, .comm = comm, .stream = stream};
    ncclResult_t rc = check_ready(comm, signal.function);
    if (rc == ncclSuccess) rc = check_signal(&signal);
    if (rc == ncclSuccess) rc = ccl_enqueue(&op);
    return ccl_group_fail(rc);
}

static ncclResult_t check_waits(int n, const ncclWaitSignalDesc_t *descs, ncclComm_t comm)
{
    static const char function[] = "ncclWaitSignal";
    TRY(check_ready(comm, function));
    if (n <= 0) return ccl_err(ncclInvalidArgument, "%s: nDesc is %d, not above 0", function, n);
    TRY(ccl_argcheck_pointer(descs, function, "signalDescs"));
    for (int i = 0; i < n; i++) {
        struct signal signal = {function, comm, descs[i].peer, descs[i].sigIdx, descs[i].ctx, 0};
        if (descs[i].opCnt <= 0)
            return ccl_err(ncclInvalidArgument, "%s: signalDescs[%d]: opCnt is %d, not above 0",
                           function, i, descs[i].opCnt);
        TRY(check_signal(&signal));
    }
    return ncclSuccess;
}

/* All of them are one wait: they go to core together. */
static ncclResult_t add_waits(int n, const ncclWaitSignalDesc_t *descs, ncclComm_t comm,
                              cudaStream_t stream)
{
    ncclResult_t rc = ncclSuccess;
    TRY(ccl_group_start());
    for (int i = 0; i < n && rc == ncclSuccess; i++)
        rc = ccl_enqueue(&(struct ccl_op){.coll = CCL_WAIT_SIGNAL,
                                          .count_elems = (size_t)descs[i].opCnt,
                                          .root = descs[i].peer,
                                          .comm = comm,
                                          .stream = stream});
    ccl_group_fail(rc);
    ncclResult_t ended = ccl_group_end();
    return rc != ncclSuccess ? rc : ended;
}

CCL_API(ncclResult_t, ncclWaitSignal,
        (int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm, cudaStream_t stream))
{
    ncclResult_t rc = check_waits(nDesc, signalDescs, comm);
    if (rc == ncclSuccess) rc = add_waits(nDesc, signalDescs, comm, stream);
    return ccl_group_fail(rc);
}
