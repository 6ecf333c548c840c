/* comm.c: the pool of handles, their checks and their states. */
#include "core/comm.h"

#include "base/alloc.h"
#include "base/err.h"
#include "core/wait.h"

#include <string.h>

/* Free handles in the order of their freeing: a stale handle stays recognisable for long. */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ncclComm *pool_head, *pool_tail;
static int pool_count;
enum { POOL_KEEPS = 64 };

/* Where a handle may go; NO_MOVE: nowhere on this event. */
#define NO_MOVE CCL_COMM_NSTATES
static const uint8_t moves[CCL_COMM_NSTATES][CCL_COMM_NEVENTS] = {
    /*                       STARTED         FAILED         FINALIZE            FREED */
    [CCL_COMM_FREE] = {NO_MOVE, NO_MOVE, NO_MOVE, NO_MOVE},
    [CCL_COMM_STARTING] = {CCL_COMM_READY, CCL_COMM_FREE, NO_MOVE, NO_MOVE},
    [CCL_COMM_READY] = {NO_MOVE, NO_MOVE, CCL_COMM_FINALIZED, CCL_COMM_FREE},
    [CCL_COMM_FINALIZED] = {NO_MOVE, NO_MOVE, NO_MOVE, CCL_COMM_FREE},
};

ncclResult_t ccl_comm_move(struct ncclComm *comm, enum ccl_comm_event event)
{
    int from = atomic_load_explicit(&comm->state, memory_order_relaxed);
    do {
        if (moves[from][event] == NO_MOVE) return ncclInvalidArgument;
        /* Release: a ready handle's fields are set before its state says so. */
    } while (!atomic_compare_exchange_weak_explicit(&comm->state, &from, moves[from][event],
                                                    memory_order_acq_rel, memory_order_relaxed));
    return ncclSuccess;
}

/* Relaxed: a mark publishes nothing; it only tells handles that have ended from others. */
static void mark(struct ncclComm *comm, uint64_t magic)
{
    atomic_store_explicit(&comm->magic_start, magic, memory_order_relaxed);
    atomic_store_explicit(&comm->magic_end, magic, memory_order_relaxed);
}

static int has_mark(const struct ncclComm *comm)
{
    return atomic_load_explicit(&comm->magic_start, memory_order_relaxed) == CCL_COMM_MAGIC &&
           atomic_load_explicit(&comm->magic_end, memory_order_relaxed) == CCL_COMM_MAGIC;
}

ncclResult_t ccl_comm_take(struct ncclComm **out)
{
    struct ncclComm *comm = NULL;
    pthread_mutex_lock(&pool_lock);
    if (pool_count > POOL_KEEPS) {
        comm = pool_head;
        pool_head = comm->next_free;
        pool_count--;
    }
    pthread_mutex_unlock(&pool_lock);
    if (comm == NULL) TRY(CCL_NEW(&comm, 1));
    memset(comm, 0, sizeof *comm);
    pthread_mutex_init(&comm->own_lock, NULL);
    atomic_store_explicit(&comm->state, CCL_COMM_STARTING, memory_order_relaxed);
    mark(comm, CCL_COMM_MAGIC);
    *out = comm;
    return ncclSuccess;
}

void ccl_comm_give_back(struct ncclComm *comm)
{
    mark(comm, 0);
    pthread_mutex_destroy(&comm->own_lock);
    comm->next_free = NULL;
    pthread_mutex_lock(&pool_lock);
    if (pool_count++ == 0)
        pool_head = comm;
    else
        pool_tail->next_free = comm;
    pool_tail = comm;
    pthread_mutex_unlock(&pool_lock);
}

void ccl_comm_drop(struct ncclComm *comm, struct ncclComm **handle)
{
    __atomic_store_n(handle, NULL, __ATOMIC_RELAXED);
    ccl_comm_move(comm, CCL_COMM_FAILED);
    ccl_comm_give_back(comm);
}

ncclResult_t ccl_comm_check(ncclComm_t comm, const char *function)
{
    if (comm == NULL) return ccl_err(ncclInvalidArgument, "%s: comm is NULL", function);
    if (!has_mark(comm))
        return ccl_err(ncclInvalidArgument, "%s: comm %p is no live communicator", function,
                       (void *)comm);
    return ncclSuccess;
}

int ccl_comm_cancel(struct ncclComm *comm)
{
    /* Whoever moves the gate off "open" decides. Release pairs with the initialising thread's
     * closing of the gate: the handle is not looked at after that. */
    uint32_t gate = CCL_INIT_OPEN;
    return atomic_compare_exchange_strong_explicit(&comm->init_gate, &gate, CCL_INIT_ABORTED,
                                                   memory_order_release, memory_order_relaxed);
}

int ccl_comm_is_starting(ncclComm_t comm)
{
    /* Acquire pairs with ccl_comm_move: the fields of a ready handle are visible. */
    return atomic_load_explicit(&comm->state, memory_order_acquire) == CCL_COMM_STARTING;
}

ncclResult_t ccl_comm_known(ncclComm_t comm, const char *function)
{
    if (ccl_comm_is_starting(comm))
        return ccl_err(ncclInvalidArgument,
                       "%s: comm %p is not initialised yet (its group has not ended)", function,
                       (void *)comm);
    ncclResult_t error = ccl_clique_error(comm->clique);
    if (error == ncclSuccess) return ncclSuccess;
    return ccl_err(error, "%s: rank %d: the communicator has failed: %s", function, comm->rank,
                   comm->clique->error_text);
}

ncclResult_t ccl_comm_ready(ncclComm_t comm, const char *function)
{
    TRY(ccl_comm_known(comm, function));
    if (atomic_load_explicit(&comm->state, memory_order_relaxed) == CCL_COMM_FINALIZED)
        return ccl_err(ncclInvalidUsage, "%s: rank %d: comm %p is finalized", function, comm->rank,
                       (void *)comm);
    return ncclSuccess;
}

int ccl_comm_nranks(ncclComm_t comm)
{
    return comm->nranks;
}

int ccl_comm_rank(ncclComm_t comm)
{
    return comm->rank;
}

int ccl_comm_device(ncclComm_t comm)
{
    return comm->device;
}

/* Acquire pairs with the release of the retiring kernel: its effects are visible. A failed
 * communicator's kernels retire as well, since they poll the abort word. */
static int is_idle(void *context)
{
    struct ncclComm *comm = context;
    struct ccl_exec *exec = comm->exec;
    if (atomic_load_explicit(&comm->flying, memory_order_acquire) != 0) return 0;
    if (ccl_device()->retires) return 1;
    pthread_mutex_lock(&exec->lock);
    int idle = ccl_track_is_idle(&exec->track, comm->rank);
    pthread_mutex_unlock(&exec->lock);
    return idle;
}

void ccl_comm_drain(struct ncclComm *comm)
{
    void *before;
    int entered = ccl_device()->enter(comm->device, &before) == ncclSuccess;
    ccl_wait(is_idle, comm);
    if (entered) ccl_device()->leave(before);
}
