/* join.c: arrivals of collectives, and their launch in issue order. */
#include "core/join.h"

#include "base/err.h"
#include "core/agree.h"
#include "core/launch.h"
#include "core/lead.h"
#include "core/meet.h"

static ncclResult_t open_set(struct ccl_exec *exec, uint64_t seq, struct ccl_set **out)
{
    TRY(ccl_set_take(&exec->collectives, exec, exec->nhere, out));
    (*out)->seq = seq;
    ccl_set_fly(&exec->collectives, *out);
    if (exec->open == NULL) exec->open = *out;
    return ncclSuccess;
}

static const struct ccl_op *find_member_call(const struct ccl_set *set)
{
    for (uint16_t i = 0; i < set->nmembers; i++)
        if (set->members[i].arrived) return &set->members[i].record.op;
    return NULL;
}

/* The members of a set are compared however far its process has got. */
static ncclResult_t check_agreement(struct ccl_set *set, const struct ccl_op *op)
{
    struct ccl_clique *clique = set->exec->clique;
    const struct ccl_op *member = find_member_call(set);
    ncclResult_t rc = ncclSuccess;
    if (member != NULL) rc = ccl_agree_pair(clique, member, op, set->seq);
    if (rc == ncclSuccess) rc = ccl_agree(set->exec, op, set->seq, &set->call);
    if (rc != ncclSuccess) ccl_set_move(set, CCL_SET_DISAGREE);
    return rc;
}

ncclResult_t ccl_join_post(struct ccl_exec *exec, const struct ccl_record *record)
{
    struct ncclComm *comm = record->op.comm;
    uint64_t seq = comm->nsets++;
    struct ccl_set *set = exec->open;
    while (set != NULL && set->seq != seq) set = set->next;
    if (set == NULL) TRY(open_set(exec, seq, &set));
    TRY(check_agreement(set, &record->op));

    uint16_t member = exec->member_of[exec->view.slot_of[comm->rank] - exec->first_slot];
    return ccl_set_arrive(set, member, record);
}

/* The kernel goes to the stream of the last member. Where a device calls back when it is done, a
 * single member has nobody to meet. */
static ncclResult_t launch_set(struct ccl_set *set)
{
    cudaStream_t stream = set->members[set->last].record.op.stream;
    if (set->nmembers == 1 && ccl_device()->retires) {
        set->members[0].fresh = 0;
        TRY(ccl_set_move(set, CCL_SET_LAUNCH));
        return ccl_launch_set(set, stream);
    }
    TRY(ccl_meet_join(set, stream));
    TRY(ccl_set_move(set, CCL_SET_LAUNCH));
    TRY(set->exec->lead != NULL ? ccl_lead_launch(set, stream) : ccl_launch_set(set, stream));
    return ccl_meet_leave(set, stream);
}

ncclResult_t ccl_join_launch(struct ccl_exec *exec)
{
    for (struct ccl_set *set = exec->open; set != NULL; set = set->next)
        if (set->state == CCL_SET_COMPLETE) TRY(launch_set(set));
    /* Sets are completed in order, since each rank arrives at them in order. */
    while (exec->open != NULL && exec->open->state == CCL_SET_LAUNCHED)
        exec->open = exec->open->next;
    return ncclSuccess;
}

/* A launch touches the streams of all members. It takes half the time in a core that has done so
 * before, so that the same member's thread launches for all while it is parked. */
static int hand_over(struct ccl_set *set)
{
    for (uint16_t i = 0; i < set->nmembers; i++) {
        struct ccl_member *member = &set->members[i];
        if (!member->parked || member->own) continue;
        set->last = i;
        /* Release: that thread finds a complete set. */
        atomic_store_explicit(&set->chosen, i + 1, memory_order_release);
        return 1;
    }
    return 0;
}

/* The first set is the only one that is complete. */
static int is_single(const struct ccl_exec *exec)
{
    if (exec->open == NULL || exec->open->state != CCL_SET_COMPLETE) return 0;
    for (const struct ccl_set *set = exec->open->next; set != NULL; set = set->next)
        if (set->state == CCL_SET_COMPLETE) return 0;
    return 1;
}

ncclResult_t ccl_join_flush(struct ccl_exec *exec, struct ccl_parks *parks)
{
    int is_left = is_single(exec) && hand_over(exec->open);
    if (!is_left) TRY(ccl_join_launch(exec));
    for (struct ccl_set *set = exec->open; set != NULL; set = set->next)
        if (set->state != CCL_SET_LAUNCHED) TRY(ccl_meet_hold(set, parks));
    return ncclSuccess;
}
