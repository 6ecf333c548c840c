/* comm_end.c: finalize, destroy, abort, and the asynchronous error.
 *
 * None of them waits for another rank's call: what the ranks of a process share goes with the last
 * of them, and processes keep their mappings of each other.
 */
#include "core/comm.h"

#include "base/alloc.h"
#include "base/err.h"
#include "core/agree.h"
#include "core/group.h"
#include "core/redop.h"
#include "core/reg.h"

#include <sched.h>

ncclResult_t ccl_comm_finalize(ncclComm_t comm)
{
    ncclResult_t error = ccl_clique_error(comm->clique);
    if (error != ncclSuccess)
        return ccl_err(error, "ncclCommFinalize: rank %d: the communicator has failed: %s",
                       comm->rank, comm->clique->error_text);
    if (ccl_comm_move(comm, CCL_COMM_FINALIZE) != ncclSuccess)
        return ccl_err(ncclInvalidArgument, "ncclCommFinalize: rank %d: comm %p is %s", comm->rank,
                       (void *)comm,
                       ccl_comm_is_starting(comm) ? "not initialised yet" : "already finalized");
    ccl_comm_drain(comm);
    ccl_agree_look(comm);
    return ccl_clique_error(comm->clique);
}

/* Releases everything of a rank whose kernels have retired. */
static void free_comm(struct ncclComm *comm)
{
    ccl_group_forget(comm);
    for (int i = 0; comm->conns != NULL && i < 2 * comm->nranks; i++) ccl_free(comm->conns[i]);
    ccl_free(comm->conns);
    ccl_redop_free(comm);
    ccl_reg_free(comm);
    void *before;
    int entered = ccl_device()->enter(comm->device, &before) == ncclSuccess;
    ccl_chain_free(&comm->far);
    ccl_device()->words_free(comm->p2p_note);
    ccl_clique_detach(comm->clique);
    if (entered) ccl_device()->leave(before);
    ccl_device()->drop();
    ccl_comm_move(comm, CCL_COMM_FREED);
    ccl_comm_give_back(comm);
}

ncclResult_t ccl_comm_destroy(ncclComm_t comm)
{
    if (ccl_comm_is_starting(comm))
        return ccl_err(ncclInvalidArgument,
                       "ncclCommDestroy: rank %d: comm %p is not initialised yet", comm->rank,
                       (void *)comm);
    ccl_comm_drain(comm);
    free_comm(comm);
    return ncclSuccess;
}

ncclResult_t ccl_comm_abort(ncclComm_t comm)
{
    if (ccl_comm_cancel(comm)) return ncclSuccess;
    while (ccl_comm_is_starting(comm)) sched_yield();                   /* its last instructions */
    if (atomic_load(&comm->state) == CCL_COMM_FREE) return ncclSuccess; /* it failed meanwhile */
    struct ccl_clique *clique = comm->clique;
    if (atomic_load(&comm->flying) != 0 || atomic_load(&comm->state) != CCL_COMM_FINALIZED)
        ccl_clique_fail(clique, ncclRemoteError, 1, "rank %d on host %s aborted the communicator",
                        comm->rank, clique->topo->peers[comm->rank].host);
    ccl_comm_drain(comm);
    free_comm(comm);
    return ncclSuccess;
}

ncclResult_t ccl_comm_async_error(ncclComm_t comm, ncclResult_t *error)
{
    *error = ncclInProgress;
    if (ccl_comm_is_starting(comm)) return ncclSuccess;
    ccl_agree_audit(comm->exec);
    ccl_agree_look(comm);
    *error = ccl_clique_error(comm->clique);
    return ncclSuccess;
}
