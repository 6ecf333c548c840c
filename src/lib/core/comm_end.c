/* comm_end.c: finalize, destroy, abort, and the asynchronous error.
 *
 * None of them waits for another rank's call: what the ranks of a process share goes with the last
 * of them, and processes keep their mappings of each other.
 */
#include "core/comm.h"

#include "base/alloc.h"
#include "base/err.h"
#include "core/agree.h"
#include "core/describe.h"
#include "core/group.h"
#include "core/jobs.h"
#include "core/redop.h"
#include "core/reg.h"
#include "core/rma.h"
#include "core/window.h"

#include <sched.h>

/* What a move of its state is refused with. */
static ncclResult_t move(struct ncclComm *comm, enum ccl_comm_event event, const char *function)
{
    if (ccl_jobs_busy(comm))
        return ccl_err(ncclInvalidArgument,
                       "%s: rank %d: an earlier call on comm %p is still in progress", function,
                       comm->rank, (void *)comm);
    const char *name = ccl_comm_state_name(comm);
    const char *already = ccl_comm_is_starting(comm) ? "" : "already ";
    ncclResult_t rc = ccl_comm_move(comm, event);
    if (rc == ncclSuccess) return rc;
    return ccl_err(rc, "%s: rank %d: comm %p is %s%s", function, comm->rank, (void *)comm, already,
                   name);
}

static ncclResult_t finish(struct ncclComm *comm, void *args)
{
    (void)args;
    ccl_comm_drain(comm);
    ccl_agree_look(comm);
    return ccl_clique_error(comm->clique);
}

/* An abort in another thread waits until this one is outside again. Release pairs with its look. */
static void go_in(struct ncclComm *comm)
{
    atomic_fetch_add_explicit(&comm->inside, 1, memory_order_relaxed);
}

static void go_out(struct ncclComm *comm)
{
    atomic_fetch_sub_explicit(&comm->inside, 1, memory_order_release);
}

ncclResult_t ccl_comm_finalize(ncclComm_t comm)
{
    ncclResult_t error = ccl_clique_error(comm->clique);
    if (error != ncclSuccess && !ccl_comm_outlives(comm))
        return ccl_err(error, "ncclCommFinalize: rank %d: the communicator has failed: %s",
                       comm->rank, comm->clique->error_text);
    TRY(move(comm, CCL_COMM_FINALIZE, "ncclCommFinalize"));
    if (comm->config.blocking) {
        go_in(comm);
        error = finish(comm, NULL);
        go_out(comm);
        return error;
    }
    struct ccl_job *job;
    TRY(CCL_NEW(&job, 1));
    *job = (struct ccl_job){.comm = comm, .run = finish, .goes_on = 1};
    return ccl_jobs_run(job, 1);
}

/* The peers learn of it, and nothing on this rank waits for them any more. */
ncclResult_t ccl_comm_revoke(ncclComm_t comm, const char *function)
{
    struct ccl_clique *clique = comm->clique;
    ncclResult_t before = ccl_clique_error(clique);
    TRY(move(comm, CCL_COMM_REVOKE, function));
    comm->error_before = before;
    ccl_clique_fail(clique, ncclInvalidUsage, 1, "rank %d on host %s revoked the communicator",
                    comm->rank, clique->topo->peers[comm->rank].host);
    go_in(comm);
    ccl_group_forget(comm);
    ccl_comm_drain(comm);
    go_out(comm);
    return ncclSuccess;
}

/* Releases everything of a rank whose kernels have retired. */
static void free_comm(struct ncclComm *comm)
{
    ccl_describe_end(comm);
    ccl_group_forget(comm);
    for (int i = 0; comm->conns != NULL && i < 2 * comm->nranks; i++) ccl_free(comm->conns[i]);
    ccl_free(comm->conns);
    ccl_redop_free(comm);
    ccl_reg_free(comm);
    ccl_window_free(comm);
    void *before;
    int entered = ccl_device()->enter(comm->device, &before) == ncclSuccess;
    ccl_letters_end_rank(&comm->clique->letters, comm->rank);
    ccl_chain_free(&comm->far);
    ccl_rma_close_rank(comm);
    ccl_device()->words_free(comm->p2p_note);
    ccl_clique_detach(comm->clique);
    if (entered) ccl_device()->leave(before);
    ccl_device()->drop();
    ccl_comm_move(comm, CCL_COMM_FREED);
    ccl_comm_give_back(comm);
}

static void free_broken(struct ncclComm *comm)
{
    ccl_comm_move(comm, CCL_COMM_FREED);
    ccl_comm_give_back(comm);
}

static int is_broken(const struct ncclComm *comm)
{
    return atomic_load_explicit(&comm->state, memory_order_acquire) == CCL_COMM_BROKEN;
}

/* A call on it runs in another thread. Acquire pairs with the end of that job. */
static int is_used(const struct ncclComm *comm)
{
    return ccl_jobs_busy(comm) || atomic_load_explicit(&comm->inside, memory_order_acquire) != 0;
}

ncclResult_t ccl_comm_destroy(ncclComm_t comm)
{
    if (is_used(comm) || ccl_comm_is_starting(comm))
        return ccl_err(ncclInvalidArgument, "ncclCommDestroy: rank %d: comm %p is %s", comm->rank,
                       (void *)comm,
                       ccl_comm_is_starting(comm) ? ccl_comm_state_name(comm)
                                                  : "used by a call in progress");
    ccl_jobs_await(comm);
    if (is_broken(comm)) {
        free_broken(comm);
        return ncclSuccess;
    }
    ccl_comm_drain(comm);
    free_comm(comm);
    return ncclSuccess;
}

static void await_calls(struct ncclComm *comm)
{
    while (is_used(comm)) sched_yield();
    ccl_jobs_await(comm);
}

ncclResult_t ccl_comm_abort(ncclComm_t comm)
{
    int cancelled = ccl_comm_cancel(comm);
    if (cancelled && !ccl_jobs_busy(comm)) {
        ccl_group_forget(comm); /* else its thread ends the handle */
        return ncclSuccess;
    }
    while (ccl_comm_is_starting(comm)) sched_yield();                   /* its last instructions */
    if (atomic_load(&comm->state) == CCL_COMM_FREE) return ncclSuccess; /* it failed meanwhile */
    if (is_broken(comm)) {
        await_calls(comm);
        free_broken(comm);
        return ncclSuccess;
    }
    struct ccl_clique *clique = comm->clique;
    if (atomic_load(&comm->flying) != 0 || atomic_load(&comm->state) != CCL_COMM_FINALIZED)
        ccl_clique_fail(clique, ncclRemoteError, 1, "rank %d on host %s aborted the communicator",
                        comm->rank, clique->topo->peers[comm->rank].host);
    ccl_session_halt(comm);
    await_calls(comm);
    ccl_comm_drain(comm);
    free_comm(comm);
    return ncclSuccess;
}

ncclResult_t ccl_comm_async_error(ncclComm_t comm, ncclResult_t *error)
{
    *error = ncclInProgress;
    if (ccl_comm_is_starting(comm) || ccl_jobs_busy(comm)) return ncclSuccess;
    *error = (ncclResult_t)atomic_load_explicit(&comm->job_result, memory_order_relaxed);
    if (*error != ncclSuccess) return ncclSuccess;
    ccl_agree_audit(comm->exec);
    ccl_agree_look(comm);
    *error = ccl_comm_outlives(comm) ? comm->error_before : ccl_clique_error(comm->clique);
    return ncclSuccess;
}
