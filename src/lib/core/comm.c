/* comm.c: the pool of handles, their checks and their states. */
#include "core/comm.h"

#include "base/alloc.h"
#include "base/err.h"
#include "core/jobs.h"
#include "core/wait.h"

#include <string.h>

/* Free handles in the order of their freeing: a stale handle stays recognisable for long. */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ncclComm *pool_head, *pool_tail;
static int pool_count;
enum { POOL_KEEPS = 64 };

/* Where a handle may go; an event that a state does not list is refused. */
#define TO(state) (CCL_COMM_##state + 1)
static const uint8_t moves[CCL_COMM_NSTATES][CCL_COMM_NEVENTS] = {
    [CCL_COMM_STARTING] = {[CCL_COMM_STARTED] = TO(READY),
                           [CCL_COMM_FAILED] = TO(FREE),
                           [CCL_COMM_BREAK] = TO(BROKEN)},
    [CCL_COMM_READY] = {[CCL_COMM_FINALIZE] = TO(FINALIZED),
                        [CCL_COMM_REVOKE] = TO(REVOKED),
                        [CCL_COMM_SUSPEND] = TO(SUSPENDED),
                        [CCL_COMM_FREED] = TO(FREE)},
    [CCL_COMM_SUSPENDED] = {[CCL_COMM_FINALIZE] = TO(FINALIZED),
                            [CCL_COMM_REVOKE] = TO(REVOKED),
                            [CCL_COMM_RESUME] = TO(READY),
                            [CCL_COMM_FREED] = TO(FREE)},
    [CCL_COMM_FINALIZED] = {[CCL_COMM_FREED] = TO(FREE)},
    [CCL_COMM_REVOKED] = {[CCL_COMM_FREED] = TO(FREE)},
    [CCL_COMM_BROKEN] = {[CCL_COMM_FREED] = TO(FREE)},
};

/* What a state answers to calls: queries, operations, calls that make a communicator of it, and
 * its own moves when they are none of the table's. */
static const struct {
    const char *name;
    ncclResult_t query, operation, parent, move;
} answers[CCL_COMM_NSTATES] = {
    [CCL_COMM_FREE] = {"freed", ncclInvalidArgument, ncclInvalidArgument, ncclInvalidArgument,
                       ncclInvalidArgument},
    [CCL_COMM_STARTING] = {"not initialised yet (its group has not ended, or it is in progress)",
                           ncclInvalidArgument, ncclInvalidArgument, ncclInvalidArgument,
                           ncclInvalidArgument},
    [CCL_COMM_READY] = {"ready", ncclSuccess, ncclSuccess, ncclSuccess, ncclInvalidArgument},
    [CCL_COMM_FINALIZED] = {"finalized", ncclSuccess, ncclInvalidUsage, ncclInvalidUsage,
                            ncclInvalidArgument},
    [CCL_COMM_REVOKED] = {"revoked", ncclSuccess, ncclInvalidUsage, ncclSuccess,
                          ncclInvalidArgument},
    [CCL_COMM_SUSPENDED] = {"suspended", ncclSuccess, ncclInvalidUsage, ncclInvalidUsage,
                            ncclInvalidUsage},
    [CCL_COMM_BROKEN] = {"not initialised: that failed", ncclInvalidArgument, ncclInvalidArgument,
                         ncclInvalidArgument, ncclInvalidArgument},
};

ncclResult_t ccl_comm_move(struct ncclComm *comm, enum ccl_comm_event event)
{
    int from = atomic_load_explicit(&comm->state, memory_order_relaxed);
    do {
        if (moves[from][event] == 0) return answers[from].move;
        /* Release: a ready handle's fields are set before its state says so. */
    } while (!atomic_compare_exchange_weak_explicit(&comm->state, &from, moves[from][event] - 1,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return ncclSuccess;
}

const char *ccl_comm_state_name(const struct ncclComm *comm)
{
    return answers[atomic_load_explicit(&comm->state, memory_order_relaxed)].name;
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

int ccl_comm_is_suspended(const struct ncclComm *comm)
{
    /* Acquire pairs with ccl_comm_move: what was given back is known of one that is suspended. */
    return atomic_load_explicit(&comm->state, memory_order_acquire) == CCL_COMM_SUSPENDED;
}

int ccl_comm_outlives(const struct ncclComm *comm)
{
    return atomic_load_explicit(&comm->state, memory_order_relaxed) == CCL_COMM_REVOKED;
}

/* What its state says, and whether a call is in progress. */
static ncclResult_t answer_state(ncclComm_t comm, const char *function, ncclResult_t code)
{
    if (code != ncclSuccess)
        return ccl_err(code, "%s: rank %d: comm %p is %s", function, comm->rank, (void *)comm,
                       ccl_comm_state_name(comm));
    if (ccl_jobs_busy(comm))
        return ccl_err(ncclInvalidArgument,
                       "%s: rank %d: an earlier call on comm %p is still in progress", function,
                       comm->rank, (void *)comm);
    return ncclSuccess;
}

/* The same, and its failure. */
static ncclResult_t answer(ncclComm_t comm, const char *function, ncclResult_t code)
{
    TRY(answer_state(comm, function, code));
    ncclResult_t error = ccl_clique_error(comm->clique);
    if (error == ncclSuccess || ccl_comm_outlives(comm)) return ncclSuccess;
    return ccl_err(error, "%s: rank %d: the communicator has failed: %s", function, comm->rank,
                   comm->clique->error_text);
}

/* Acquire pairs with ccl_comm_move: the fields of a ready handle are visible. */
static int state_of(ncclComm_t comm)
{
    return atomic_load_explicit(&comm->state, memory_order_acquire);
}

ncclResult_t ccl_comm_known(ncclComm_t comm, const char *function)
{
    return answer(comm, function, answers[state_of(comm)].query);
}

ncclResult_t ccl_comm_ready(ncclComm_t comm, const char *function)
{
    return answer(comm, function, answers[state_of(comm)].operation);
}

ncclResult_t ccl_comm_parent(ncclComm_t comm, const char *function)
{
    return answer(comm, function, answers[state_of(comm)].parent);
}

ncclResult_t ccl_comm_abortable(ncclComm_t comm, const char *function)
{
    return answer_state(comm, function, answers[state_of(comm)].parent);
}

void ccl_comm_inherit(ncclComm_t comm, struct ccl_init_args *child)
{
    child->config = comm->config;
    child->caller_version = comm->caller_version;
    memcpy(child->comm_name, comm->name, sizeof child->comm_name);
    memcpy(child->net_name, comm->net_name, sizeof child->net_name);
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

int ccl_comm_is_idle(struct ncclComm *comm)
{
    return is_idle(comm);
}

void ccl_comm_drain(struct ncclComm *comm)
{
    void *before;
    int entered = ccl_device()->enter(comm->device, &before) == ncclSuccess;
    ccl_wait(is_idle, comm);
    if (entered) ccl_device()->leave(before);
}
