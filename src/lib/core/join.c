/* join.c: the state machine of sets: arrivals, gates, and when to launch. */
#include "core/join.h"

#include "base/alloc.h"
#include "base/err.h"
#include "core/agree.h"
#include "core/launch.h"

#include <string.h>

#define NO_MOVE CCL_JOIN_NSTATES

/* The whole life of a set. */
static const uint8_t moves[CCL_JOIN_NSTATES][CCL_JOIN_NEVENTS] = {
    /*                      ARRIVE              ARRIVE_LAST        DISAGREE         LAUNCH
                            RECYCLE */
    [CCL_JOIN_FREE] = {CCL_JOIN_GATHERING, CCL_JOIN_COMPLETE, CCL_JOIN_BROKEN, NO_MOVE, NO_MOVE},
    [CCL_JOIN_GATHERING] = {CCL_JOIN_GATHERING, CCL_JOIN_COMPLETE, CCL_JOIN_BROKEN, NO_MOVE,
                            NO_MOVE},
    [CCL_JOIN_COMPLETE] = {NO_MOVE, NO_MOVE, NO_MOVE, CCL_JOIN_LAUNCHED, NO_MOVE},
    [CCL_JOIN_LAUNCHED] = {NO_MOVE, NO_MOVE, NO_MOVE, NO_MOVE, CCL_JOIN_FREE},
    [CCL_JOIN_BROKEN] = {NO_MOVE, NO_MOVE, NO_MOVE, NO_MOVE, NO_MOVE},
};

/* False when the table has no such move. */
static int move_set(struct ccl_set *set, enum ccl_join_event event)
{
    uint8_t to = moves[set->state][event];
    if (to == NO_MOVE) return 0;
    set->state = (enum ccl_join_state)to;
    return 1;
}

/* ---- sets: made once, used again ---- */

static void free_set(struct ccl_set *set)
{
    const struct chorus_devices *device = &ccl_device()->base;
    for (uint16_t i = 0; set->members != NULL && i < set->exec->nlocal; i++)
        if (set->members[i].ready != NULL) device->event_destroy(set->members[i].ready);
    if (set->done != NULL) device->event_destroy(set->done);
    ccl_free(set->gates);
    ccl_free(set->members);
    ccl_free(set);
}

static ncclResult_t make_set(struct ccl_exec *exec, struct ccl_set **out)
{
    ncclResult_t rc;
    struct ccl_set *set;
    TRY(CCL_NEW(&set, 1));
    set->exec = exec;
    TRY_GOTO(rc, CCL_NEW(&set->gates, exec->nlocal), fail);
    TRY_GOTO(rc, CCL_NEW(&set->members, exec->nlocal), fail);
    TRY_GOTO(rc, ccl_device()->base.event_create(&set->done), fail);
    for (uint16_t i = 0; i < exec->nlocal; i++)
        TRY_GOTO(rc, ccl_device()->base.event_create(&set->members[i].ready), fail);
    *out = set;
    return ncclSuccess;
fail:
    free_set(set);
    return rc;
}

/* Takes retired sets off the head of the flight. Acquire pairs with the last retiring kernel. */
static void recycle_sets(struct ccl_exec *exec)
{
    while (exec->sets != NULL && exec->sets->state == CCL_JOIN_LAUNCHED &&
           atomic_load_explicit(&exec->sets->refs, memory_order_acquire) == 0) {
        struct ccl_set *set = exec->sets;
        exec->sets = set->next;
        move_set(set, CCL_JOIN_RECYCLE);
        set->next = exec->free_sets;
        exec->free_sets = set;
    }
    if (exec->sets == NULL) exec->sets_tail = NULL;
}

static ncclResult_t take_set(struct ccl_exec *exec, uint64_t seq, struct ccl_set **out)
{
    recycle_sets(exec);
    struct ccl_set *set = exec->free_sets;
    if (set != NULL)
        exec->free_sets = set->next;
    else
        TRY(make_set(exec, &set));
    set->next = NULL;
    set->seq = seq;
    set->narrived = set->ngates = 0;
    for (uint16_t i = 0; i < exec->nlocal; i++) {
        struct ccl_member *member = &set->members[i];
        member->arrived = member->fresh = member->gated = 0;
    }
    if (exec->sets_tail == NULL)
        exec->sets = set;
    else
        exec->sets_tail->next = set;
    exec->sets_tail = set;
    if (exec->open == NULL) exec->open = set;
    *out = set;
    return ncclSuccess;
}

void ccl_join_free(struct ccl_exec *exec)
{
    struct ccl_set *lists[] = {exec->sets, exec->free_sets};
    for (int i = 0; i < 2; i++)
        while (lists[i] != NULL) {
            struct ccl_set *set = lists[i];
            lists[i] = set->next;
            free_set(set);
        }
    exec->open = exec->sets = exec->sets_tail = exec->free_sets = NULL;
}

/* ---- arrivals ---- */

static const struct ccl_op *find_member_call(const struct ccl_set *set)
{
    for (uint16_t i = 0; i < set->exec->nlocal; i++)
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
    if (rc != ncclSuccess) move_set(set, CCL_JOIN_DISAGREE);
    return rc;
}

ncclResult_t ccl_join_post(struct ccl_exec *exec, const struct ccl_record *record)
{
    struct ncclComm *comm = record->op.comm;
    uint64_t seq = comm->nsets++;
    struct ccl_set *set = exec->open;
    while (set != NULL && set->seq != seq) set = set->next;
    if (set == NULL) TRY(take_set(exec, seq, &set));
    TRY(check_agreement(set, &record->op));

    uint16_t index = (uint16_t)(exec->view.slot_of[comm->rank] - exec->first_slot);
    struct ccl_member *member = &set->members[index];
    member->record = *record;
    member->arrived = member->fresh = 1;
    set->last = index;
    int is_last = ++set->narrived == exec->nlocal;
    if (!move_set(set, is_last ? CCL_JOIN_ARRIVE_LAST : CCL_JOIN_ARRIVE))
        return ccl_clique_fail(exec->clique, ncclInternalError, 1,
                               "rank %d arrived at a set in state %d", comm->rank, (int)set->state);
    return ncclSuccess;
}

/* Gates the members of an incomplete set that arrived in this group end. */
static ncclResult_t gate_members(struct ccl_set *set)
{
    for (uint16_t i = 0; i < set->exec->nlocal; i++) {
        struct ccl_member *member = &set->members[i];
        if (!member->arrived || !member->fresh) continue;
        member->fresh = 0;
        member->gated = 1;
        TRY(ccl_launch_gate(&set->gates[set->ngates++], member->record.op.comm,
                            member->record.op.stream, &set->refs));
    }
    return ncclSuccess;
}

/* A gate in front of the kernel on the same stream would wait for ever. */
static ncclResult_t check_streams(struct ccl_set *set)
{
    const struct ccl_op *last = &set->members[set->last].record.op;
    for (uint16_t i = 0; i < set->exec->nlocal; i++) {
        const struct ccl_op *op = &set->members[i].record.op;
        if (!set->members[i].gated || op->stream != last->stream) continue;
        return ccl_clique_fail(
            set->exec->clique, ncclInvalidUsage, 1,
            "nccl%s: ranks %d and %d use the same stream but not the same group: each would wait "
            "for the other (call them between ncclGroupStart and ncclGroupEnd)",
            ccl_coll_name(op->coll), op->comm->rank, last->comm->rank);
    }
    return ncclSuccess;
}

static ncclResult_t launch_set(struct ccl_set *set)
{
    TRY(check_streams(set));
    const struct chorus_devices *device = &ccl_device()->base;
    cudaStream_t stream = set->members[set->last].record.op.stream;
    uint16_t nlocal = set->exec->nlocal;
    for (uint16_t i = 0; i < nlocal; i++) {
        struct ccl_member *member = &set->members[i];
        if (member->gated || member->record.op.stream == stream) continue;
        TRY(device->event_record(member->ready, member->record.op.stream));
        TRY(device->stream_wait(stream, member->ready));
    }
    if (!move_set(set, CCL_JOIN_LAUNCH)) return ncclInternalError;
    TRY(ccl_launch_set(set));
    int recorded = 0;
    for (uint16_t i = 0; i < nlocal; i++) {
        struct ccl_member *member = &set->members[i];
        member->fresh = 0;
        if (member->gated || member->record.op.stream == stream) continue;
        if (!recorded) TRY(device->event_record(set->done, stream));
        recorded = 1;
        TRY(device->stream_wait(member->record.op.stream, set->done));
    }
    return ncclSuccess;
}

ncclResult_t ccl_join_flush(struct ccl_exec *exec)
{
    for (struct ccl_set *set = exec->open; set != NULL; set = set->next) {
        if (set->state == CCL_JOIN_COMPLETE) TRY(launch_set(set));
        if (set->state == CCL_JOIN_GATHERING) TRY(gate_members(set));
    }
    /* Sets are completed in order, since each rank arrives at them in order. */
    while (exec->open != NULL && exec->open->state == CCL_JOIN_LAUNCHED)
        exec->open = exec->open->next;
    return ncclSuccess;
}
