/* What the api layer calls: communicators, operations, groups.
 *
 * Arguments arrive here checked by api/argcheck.c against the rules that need no communicator
 * internals; everything that needs the communicator's state is checked in core.
 */
#ifndef CCL_CORE_CORE_H
#define CCL_CORE_CORE_H

#include "nccl.h"

#include <stddef.h>
#include <stdint.h>

enum ccl_coll {
    CCL_ALL_REDUCE,
    CCL_REDUCE,
    CCL_BROADCAST,
    CCL_ALL_GATHER,
    CCL_REDUCE_SCATTER,
    CCL_ALL_TO_ALL,
    CCL_GATHER,
    CCL_SCATTER,
    CCL_NCOLLS, /* the ones above run as schedules; the next two are matched in pairs */
    CCL_SEND = CCL_NCOLLS,
    CCL_RECV,
    CCL_PUT_SIGNAL, /* one-sided: `root` is the peer; of a wait, count_elems are the signals */
    CCL_SIGNAL,
    CCL_WAIT_SIGNAL,
    CCL_NOPS
};

/* Name as in the API without "nccl": "AllReduce", …, "Send", "PutSignal". */
const char *ccl_coll_name(enum ccl_coll coll);

/* Bytes of one element; 0 for a value that is no type. */
size_t ccl_type_bytes(ncclDataType_t type);

/* One call of one rank. count_elems is the count of the API call: per rank block for AllGather
 * (sendcount), ReduceScatter (recvcount), AlltoAll, Gather, Scatter; whole buffer otherwise. */
struct ccl_op {
    enum ccl_coll coll;
    const void *in; /* NULL where the rank has none */
    void *out;
    size_t count_elems;
    ncclDataType_t type;
    ncclRedOp_t redop;
    int root; /* or peer; -1 where there is none */
    ncclComm_t comm;
    cudaStream_t stream;
};

/* ---- handles: may be called with any pointer, in any state, from any thread ---- */

/* ncclSuccess when `comm` is a live communicator handle, else ncclInvalidArgument naming
 * `function` ("ncclAllReduce"). Reads only the handle's magics. */
ncclResult_t ccl_comm_check(ncclComm_t comm, const char *function);
/* After ccl_comm_check, for queries: the stored asynchronous error, or ncclInvalidArgument while
 * the communicator initialises. */
ncclResult_t ccl_comm_known(ncclComm_t comm, const char *function);
/* The same for operations: also ncclInvalidUsage once it is finalized or revoked. */
ncclResult_t ccl_comm_ready(ncclComm_t comm, const char *function);
/* The same for calls that make a communicator of it, which a revoked one allows. */
ncclResult_t ccl_comm_parent(ncclComm_t comm, const char *function);

/* The same for calls that end its operations: a failure is no hindrance. */
ncclResult_t ccl_comm_abortable(ncclComm_t comm, const char *function);

int ccl_comm_nranks(ncclComm_t comm);
int ccl_comm_rank(ncclComm_t comm);
int ccl_comm_device(ncclComm_t comm);

/* ---- life: an initialisation runs inline, or at the outermost end of an open group; the others
 * run at once, also inside a group ---- */
struct ccl_init_args {
    ncclComm_t *comm; /* set to a handle at once, back to NULL on failure */
    int nranks, rank;
    int device;              /* the current device at the call */
    ncclUniqueId id;         /* ids[0] of the scalable form: the others only spread load */
    const char *function;    /* API name for error texts */
    ncclConfig_t config;     /* filled in: defaults, then the caller's fields */
    unsigned caller_version; /* as the caller's configuration says; 0: there was none */
    char comm_name[64];      /* "" when none; config.commName points to nothing after the call */
    char net_name[32];
};
ncclResult_t ccl_comm_init(const struct ccl_init_args *args);
/* New communicators out of `comm`: at once, at the end of the open group, or behind the caller's
 * back (ncclInProgress) when it does not block. `child`: what the call says of the new one; ranks
 * and id are found here. Blocks until all that take part have called, see core/session.h. */
ncclResult_t ccl_comm_split(ncclComm_t comm, int color, int key, const struct ccl_init_args *child);
/* `excluded`: n ranks that do not call. aborts: revokes the communicator first. */
ncclResult_t ccl_comm_shrink(ncclComm_t comm, const int *excluded, int n, int aborts,
                             const struct ccl_init_args *child);
/* An id that new ranks and one member, which coordinates, pass to grow. */
ncclResult_t ccl_comm_unique_id(ncclComm_t comm, ncclUniqueId *id);
ncclResult_t ccl_comm_grow(ncclComm_t comm, int coordinates, const struct ccl_init_args *child);
/* Gives the new one its parent's configuration and names. */
void ccl_comm_inherit(ncclComm_t comm, struct ccl_init_args *child);

/* Initialises n ranks side by side and returns when all are ready, also inside an open group, of
 * which it is no part. On failure all n handles are NULL or were made and stay to be aborted. */
ncclResult_t ccl_comm_init_all(const struct ccl_init_args *args, int n);
ncclResult_t ccl_comm_finalize(ncclComm_t comm);
/* Its operations end, here and on the peers, which get ncclInvalidUsage; communicators can still be
 * made of it. ncclInvalidArgument when it is finalized or revoked already. */
ncclResult_t ccl_comm_revoke(ncclComm_t comm, const char *function);
/* Gives back the memory that it can do without (core/memory.c), and lets it be used again: all
 * ranks call, each while it is idle. ncclInvalidUsage on all ranks when one is not. */
ncclResult_t ccl_comm_suspend(ncclComm_t comm);
ncclResult_t ccl_comm_resume(ncclComm_t comm);
/* After ccl_comm_known. ncclInvalidArgument for what is no statistic. */
ncclResult_t ccl_comm_memory(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value);
/* ncclInvalidUsage unless it is suspended. */
ncclResult_t ccl_comm_resumable(ncclComm_t comm, const char *function);
ncclResult_t ccl_comm_destroy(ncclComm_t comm);
ncclResult_t ccl_comm_abort(ncclComm_t comm);
ncclResult_t ccl_comm_async_error(ncclComm_t comm, ncclResult_t *error);

/* ---- operations ---- */

/* Checks redop against the communicator: a built-in, or a live custom one of this type. */
ncclResult_t ccl_redop_check(ncclComm_t comm, ncclRedOp_t op, ncclDataType_t type,
                             const char *function);
ncclResult_t ccl_redop_create(ncclRedOp_t *op, const void *scalar, ncclDataType_t type,
                              ncclScalarResidence_t residence, ncclComm_t comm);
ncclResult_t ccl_redop_destroy(ncclRedOp_t op, ncclComm_t comm);

/* Enqueues one operation, or adds it to the thread's open group. */
ncclResult_t ccl_enqueue(const struct ccl_op *op);

/* ---- groups: thread-local ---- */
ncclResult_t ccl_group_start(void);
ncclResult_t ccl_group_end(void);
/* Ends the group without running it and estimates how long it would take (core/simulate.c). NULL:
 * runs it. */
ncclResult_t ccl_group_simulate(ncclSimInfo_t *info);
/* Records that a call inside a group failed, so that the outermost end returns it (the first
 * failure wins) and drops the group's work. Without an open group it does nothing.
 * Returns `code`. Every api entry point that may be called in a group ends with it. */
ncclResult_t ccl_group_fail(ncclResult_t code);

/* ---- memory and registration ---- */
ncclResult_t ccl_mem_alloc(void **memory, size_t bytes);
ncclResult_t ccl_mem_free(void *memory);
/* Reference-counted; a range inside a registered one gives the same record. */
ncclResult_t ccl_reg_add(ncclComm_t comm, void *buffer, size_t bytes, void **handle);
ncclResult_t ccl_reg_remove(ncclComm_t comm, void *handle);

/* ---- windows and one-sided operations (ccl_enqueue) ---- */

/* Collective; at the end of an open group. *win is set on success alone. */
ncclResult_t ccl_window_register(ncclComm_t comm, void *buffer, size_t bytes, ncclWindow_t *win,
                                 int flags);
ncclResult_t ccl_window_deregister(ncclComm_t comm, ncclWindow_t win);
ncclResult_t ccl_window_pointer(ncclComm_t comm, ncclWindow_t win, void **out);
/* The communicator of any window of the process; NULL: it is none. */
ncclComm_t ccl_window_comm(ncclWindow_t win);
/* A place in a peer's window, as this rank reaches it. */
struct ccl_target {
    ncclWindow_t win;
    int peer;
    size_t offset, bytes;
};
/* For a put; and for a pointer, of a window with a communicator and a peer in it. */
ncclResult_t ccl_window_target(ncclComm_t comm, const struct ccl_target *target, void **out);
ncclResult_t ccl_window_place(const struct ccl_target *target, const char *function, void **out);
/* What a put reads lies in a symmetric window of the rank. */
ncclResult_t ccl_window_check_source(ncclComm_t comm, const void *buffer, size_t bytes);
/* Ranks reach each other's memory: not those of several GPUs in several processes. And the same as
 * ncclInvalidArgument. */
int ccl_rma_reaches(ncclComm_t comm);
ncclResult_t ccl_rma_check(ncclComm_t comm, const char *function);

/* ---- bootstrap id ---- */
ncclResult_t ccl_unique_id(ncclUniqueId *id);
/* Nobody will use the id any more. */
void ccl_unique_id_drop(const ncclUniqueId *id);

#endif
