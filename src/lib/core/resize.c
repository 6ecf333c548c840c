/* resize.c: a communicator with fewer ranks (shrink) or more (grow). There is no session of the
 * parent, since not all of its ranks call: one rank has the id of the new communicator and writes
 * it to the others that take part.
 */
#include "core/comm.h"
#include "core/group.h"
#include "core/jobs.h"
#include "core/session.h"

#include "base/alloc.h"
#include "base/param.h"

#include <stdio.h>
#include <string.h>

/* ---- shrink ---- */

struct shrink {
    int *ranks;    /* of the parent that stay, in order; freed by the job */
    uint8_t *with; /* [nranks of the parent] the same ranks; freed, too */
    struct ccl_init_args child;
};
_Static_assert(sizeof(struct shrink) <= CCL_JOB_BYTES, "a job has room for it");

/* Who was called by another function comes all the same, with a number of ranks that cannot be
 * right: the root tells all. */
static ncclResult_t spoil(struct ncclComm *comm, const struct ccl_wire_letter *letter)
{
    struct ccl_boot_args args = {.nranks = (int)letter->nranks + 1,
                                 .rank = (int)letter->nranks,
                                 .abort_word = &comm->clique->halts[comm->rank]};
    struct ccl_boot *boot;
    char text[CCL_ERR_TEXT_BYTES];
    snprintf(text, sizeof text, "%s", ccl_err_last());
    memcpy(&args.id, letter->id, sizeof args.id);
    if (ccl_boot_open(&args, &boot) == ncclSuccess) ccl_boot_close(boot);
    return ccl_err(ncclInvalidUsage, "%s", text);
}

/* Ranks that expect different numbers are found by the root, which tells all. */
static ncclResult_t follow(struct ncclComm *comm, int leader, struct ccl_init_args *child,
                           const uint8_t *with)
{
    struct ccl_wire_letter letter;
    TRY(ccl_session_await(comm, child->function, leader, &letter));
    if (ccl_session_check(comm, child->function, &letter) != ncclSuccess)
        return spoil(comm, &letter);
    memcpy(&child->id, letter.id, sizeof child->id);
    return ccl_comm_make(comm, child, with);
}

/* Invites the others and makes the new communicator with them. */
static ncclResult_t lead(struct ncclComm *comm, const int *ranks, int n,
                         struct ccl_init_args *child, const uint8_t *with)
{
    struct ccl_invitation invitation = {.function = child->function,
                                        .ranks = ranks,
                                        .n = n,
                                        .nranks = child->nranks,
                                        .id = child->id};
    ncclResult_t rc = ccl_session_invite(comm, &invitation);
    if (rc == ncclSuccess) rc = ccl_comm_make(comm, child, with);
    if (rc == ncclSuccess) return rc;
    char text[CCL_ERR_TEXT_BYTES];
    snprintf(text, sizeof text, "%s", ccl_err_last());
    ccl_boot_drop_id(&child->id);
    invitation.nranks = 0;
    (void)ccl_session_invite(comm, &invitation);
    return ccl_err(rc, "%s", text);
}

static ncclResult_t run_shrink(struct ncclComm *comm, void *args)
{
    struct shrink *shrink = args;
    struct ccl_init_args *child = &shrink->child;
    int leader = shrink->ranks[0];
    TRY(ccl_session_lives(comm, child->function));
    if (leader != comm->rank) return follow(comm, leader, child, shrink->with);
    TRY(ccl_boot_make_own_id(&child->id));
    return lead(comm, shrink->ranks, child->nranks, child, shrink->with);
}

static void close_shrink(struct ncclComm *comm, void *args, ncclResult_t result)
{
    struct shrink *shrink = args;
    (void)comm;
    (void)result;
    ccl_free(shrink->ranks);
    ccl_free(shrink->with);
}

static int is_in(const int *sorted, int n, int rank)
{
    for (int i = 0; i < n; i++)
        if (sorted[i] == rank) return 1;
    return 0;
}

ncclResult_t ccl_comm_shrink(ncclComm_t comm, const int *excluded, int n, int aborts,
                             const struct ccl_init_args *child)
{
    struct ccl_job job = {.comm = comm,
                          .run = run_shrink,
                          .cancel = ccl_session_halt,
                          .over = close_shrink,
                          .goes_on = !comm->config.blocking};
    struct shrink shrink = {.child = *child};
    if (aborts && !ccl_comm_outlives(comm)) TRY(ccl_comm_revoke(comm, child->function));
    TRY(CCL_NEW(&shrink.ranks, (size_t)comm->nranks));
    ncclResult_t rc = CCL_NEW(&shrink.with, (size_t)comm->nranks);
    if (rc != ncclSuccess) {
        ccl_free(shrink.ranks);
        return rc;
    }
    shrink.child.nranks = 0;
    for (int r = 0; r < comm->nranks; r++) {
        if (is_in(excluded, n, r)) continue;
        if (r == comm->rank) shrink.child.rank = shrink.child.nranks;
        shrink.ranks[shrink.child.nranks++] = r;
        shrink.with[r] = 1;
    }
    shrink.child.device = comm->device;
    memcpy(job.args, &shrink, sizeof shrink);
    ccl_session_begin(comm);
    return ccl_group_add_job(&job);
}

/* ---- grow ---- */

ncclResult_t ccl_comm_unique_id(ncclComm_t comm, ncclUniqueId *id)
{
    const char *fixed = ccl_param_text(CCL_PARAM_COMM_ID);
    if (fixed != NULL)
        return ccl_err(ncclInvalidUsage,
                       "ncclCommGetUniqueId: rank %d: NCCL_COMM_ID is set (%s), which has one "
                       "address for all communicators",
                       comm->rank, fixed);
    return ccl_boot_make_own_id(id);
}

struct grow {
    int coordinates; /* has the id */
    struct ccl_init_args child;
};
_Static_assert(sizeof(struct grow) <= CCL_JOB_BYTES, "a job has room for it");

static ncclResult_t lead_all(struct ncclComm *comm, struct ccl_init_args *child)
{
    int *ranks;
    TRY(CCL_NEW(&ranks, (size_t)comm->nranks));
    for (int r = 0; r < comm->nranks; r++) ranks[r] = r;
    ncclResult_t rc = lead(comm, ranks, comm->nranks, child, NULL);
    ccl_free(ranks);
    return rc;
}

static ncclResult_t run_grow(struct ncclComm *comm, void *args)
{
    struct grow *grow = args;
    TRY(ccl_session_lives(comm, grow->child.function));
    return grow->coordinates ? lead_all(comm, &grow->child) : follow(comm, -1, &grow->child, NULL);
}

ncclResult_t ccl_comm_grow(ncclComm_t comm, int coordinates, const struct ccl_init_args *child)
{
    struct ccl_job job = {.comm = comm,
                          .run = run_grow,
                          .cancel = ccl_session_halt,
                          .goes_on = !comm->config.blocking};
    struct grow grow = {.coordinates = coordinates, .child = *child};
    grow.child.rank = comm->rank;
    grow.child.device = comm->device;
    memcpy(job.args, &grow, sizeof grow);
    ccl_session_begin(comm);
    return ccl_group_add_job(&job);
}
