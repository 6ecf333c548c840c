/* split.c: a communicator divided by colours. The ranks of the parent meet in a session, tell each
 * other colour and key, and the first of each colour makes the id of the new communicator; its
 * ranks initialise it as any other.
 */
#include "core/comm.h"
#include "core/group.h"
#include "core/jobs.h"
#include "core/session.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static const char function[] = "ncclCommSplit";

struct split {
    int color, key;
    struct ccl_init_args child;
};
_Static_assert(sizeof(struct split) <= CCL_JOB_BYTES, "a job has room for it");

/* What a rank tells. */
struct ticket {
    int32_t color, key;
};

struct place {
    int key, rank;
};

static int by_key_and_rank(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : 1;
}

/* The rank's place among those of its colour: fills in nranks and rank, and the parent's rank that
 * comes first. */
static ncclResult_t find_place(const struct ncclComm *comm, const struct ticket *tickets,
                               struct ccl_init_args *child, int *first)
{
    struct place *places;
    int color = tickets[comm->rank].color, n = 0;
    TRY(CCL_NEW(&places, (size_t)comm->nranks));
    for (int r = 0; r < comm->nranks; r++)
        if (tickets[r].color == color) places[n++] = (struct place){tickets[r].key, r};
    qsort(places, (size_t)n, sizeof places[0], by_key_and_rank);
    child->nranks = n;
    *first = places[0].rank;
    for (int i = 0; i < n; i++)
        if (places[i].rank == comm->rank) child->rank = i;
    ccl_free(places);
    return ncclSuccess;
}

static ncclResult_t exchange(struct ccl_boot *boot, const struct ncclComm *comm,
                             const struct split *split, struct ccl_init_args *child)
{
    struct ticket mine = {split->color, split->key}, *tickets = NULL;
    ncclUniqueId id = {{0}}, *ids = NULL;
    int first = -1;
    ncclResult_t rc;
    TRY_GOTO(rc, CCL_NEW(&tickets, (size_t)comm->nranks), end);
    TRY_GOTO(rc, CCL_NEW(&ids, (size_t)comm->nranks), end);
    TRY_GOTO(rc, ccl_boot_allgather(boot, &mine, tickets, sizeof mine), end);
    if (split->color != NCCL_SPLIT_NOCOLOR)
        TRY_GOTO(rc, find_place(comm, tickets, child, &first), end);
    if (first == comm->rank) TRY_GOTO(rc, ccl_boot_make_own_id(&id), end);
    rc = ccl_boot_allgather(boot, &id, ids, sizeof id);
    if (rc == ncclSuccess && first >= 0) child->id = ids[first];
    if (rc != ncclSuccess && first == comm->rank) ccl_boot_drop_id(&id);
end:
    ccl_free(ids);
    ccl_free(tickets);
    return rc;
}

static ncclResult_t run_split(struct ncclComm *comm, void *args)
{
    const struct split *split = args;
    struct ccl_init_args child = split->child;
    struct ccl_boot *boot;
    TRY(ccl_session_open(comm, function, &boot));
    TRY(ccl_session_close(comm, function, boot, exchange(boot, comm, split, &child)));
    return split->color == NCCL_SPLIT_NOCOLOR ? ncclSuccess : ccl_comm_make(comm, &child, NULL);
}

ncclResult_t ccl_comm_split(ncclComm_t comm, int color, int key, const struct ccl_init_args *child)
{
    struct ccl_job job = {.comm = comm,
                          .run = run_split,
                          .cancel = ccl_session_halt,
                          .goes_on = !comm->config.blocking};
    struct split split = {.color = color, .key = key, .child = *child};
    split.child.device = comm->device;
    memcpy(job.args, &split, sizeof split);
    ccl_session_begin(comm);
    return ccl_group_add_job(&job);
}
