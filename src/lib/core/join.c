/* join.c: the state machine of sets: arrivals, gates, and when to launch. */
#include "core/join.h"

#include "base/alloc.h"
#include "base/err.h"
#include "core/agree.h"
#include "core/launch.h"

#include <string.h>

#define NO_MOVE CCL_JOIN_NSTATES

enum { LINE_BYTES = 64 };

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
    ccl_device()->flags_free(set->arrived);
    ccl_free(set->members);
    ccl_free(set);
}

static ncclResult_t make_set(struct ccl_exec *exec, struct ccl_set **out)
{
    ncclResult_t rc;
    struct ccl_set *set;
    TRY(CCL_NEW(&set, 1));
    set->exec = exec;
    size_t gates_bytes = exec->nlocal * sizeof(struct ccl_gate);
    TRY_GOTO(rc, ccl_device()->flags_alloc((void **)&set->arrived, LINE_BYTES + gates_bytes), fail);
    set->gates = (struct ccl_gate *)(void *)((char *)set->arrived + LINE_BYTES);
    TRY_GOTO(rc, CCL_NEW(&set->members, exec->nlocal), fail);
    TRY_GOTO(rc, ccl_device()->event_make(&set->done), fail);
    for (uint16_t i = 0; i < exec->nlocal; i++)
        TRY_GOTO(rc, ccl_device()->event_make(&set->members[i].ready), fail);
    *out = set;
    return ncclSuccess;
fail:
    free_set(set);
    return rc;
}

/* Sets that a graph may run again are of no further use; they end with the communicator. */
static void keep_captured(struct ccl_exec *exec)
{
    while (exec->sets != NULL && exec->sets->state == CCL_JOIN_LAUNCHED &&
           exec->sets->capture != 0 && exec->sets->ngates > 0) {
        struct ccl_set *set = exec->sets;
        exec->sets = set->next;
        set->next = exec->captured_sets;
        exec->captured_sets = set;
    }
}

/* Nobody looks at the set any more. Acquire pairs with the last retiring kernel, or with the end
 * of the last park. What a GPU has launched without gates needs the set no longer; with gates not
 * before it is done; and with gates in a capture as long as the graph may be launched. */
static int is_retired(const struct ccl_set *set)
{
    int done = 0;
    if (set->state != CCL_JOIN_LAUNCHED) return 0;
    if (atomic_load_explicit(&set->refs, memory_order_acquire) != 0) return 0;
    if (ccl_device()->retires || set->ngates == 0) return 1;
    if (set->capture != 0) return 0;
    return ccl_device()->base.event_query(set->done, &done) == ncclSuccess && done;
}

/* Takes them off the head of the flight. */
void ccl_join_recycle(struct ccl_exec *exec)
{
    keep_captured(exec);
    while (exec->sets != NULL && is_retired(exec->sets)) {
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
    ccl_join_recycle(exec);
    struct ccl_set *set = exec->free_sets;
    if (set != NULL)
        exec->free_sets = set->next;
    else
        TRY(make_set(exec, &set));
    set->next = NULL;
    set->seq = seq;
    set->narrived = set->ngates = 0;
    atomic_store_explicit(&set->is_launched, 0, memory_order_relaxed);
    for (uint16_t i = 0; i < exec->nlocal; i++) {
        struct ccl_member *member = &set->members[i];
        member->arrived = member->fresh = member->gated = member->parked = 0;
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
    struct ccl_set *lists[] = {exec->sets, exec->free_sets, exec->captured_sets};
    for (int i = 0; i < 3; i++)
        while (lists[i] != NULL) {
            struct ccl_set *set = lists[i];
            lists[i] = set->next;
            free_set(set);
        }
    exec->open = exec->sets = exec->sets_tail = exec->free_sets = exec->captured_sets = NULL;
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
    member->capture = 0;
    if (ccl_device()->capture != NULL)
        TRY(ccl_device()->capture(record->op.stream, &member->capture));
    member->arrived = member->fresh = 1;
    set->last = index;
    int is_last = ++set->narrived == exec->nlocal;
    if (!move_set(set, is_last ? CCL_JOIN_ARRIVE_LAST : CCL_JOIN_ARRIVE))
        return ccl_clique_fail(exec->clique, ncclInternalError, 1,
                               "rank %d arrived at a set in state %d", comm->rank, (int)set->state);
    return ncclSuccess;
}

ncclResult_t ccl_join_gate(struct ccl_set *set, uint16_t member)
{
    struct ccl_member *m = &set->members[member];
    m->parked = 0;
    m->gated = 1;
    TRY(ccl_launch_gate(&set->gates[set->ngates++], m->record.op.comm, m->record.op.stream,
                        &set->refs));
    if (m->capture != 0) return ncclSuccess;
    return ccl_track_add(&set->exec->track, m->record.op.stream, NULL);
}

/* Members of an incomplete set that arrived in this group end: they wait for the others. */
static ncclResult_t hold_members(struct ccl_set *set, struct ccl_parks *parks)
{
    for (uint16_t i = 0; i < set->exec->nlocal; i++) {
        struct ccl_member *member = &set->members[i];
        if (!member->arrived || !member->fresh) continue;
        member->fresh = 0;
        if (ccl_device()->retires || member->capture != 0)
            TRY(ccl_join_gate(set, i));
        else
            TRY(ccl_park_add(parks, set, i));
    }
    return ncclSuccess;
}

/* Both are the same stream: the handle of each thread's own one means another stream in a call
 * that came earlier. */
static int is_same_stream(const struct ccl_op *a, const struct ccl_op *b)
{
    return a->stream == b->stream && (uintptr_t)a->stream != CCL_STREAM_PER_THREAD;
}

/* A gate in front of the kernel on the same stream would wait for ever. */
static ncclResult_t check_streams(struct ccl_set *set)
{
    const struct ccl_op *last = &set->members[set->last].record.op;
    for (uint16_t i = 0; i < set->exec->nlocal; i++) {
        const struct ccl_op *op = &set->members[i].record.op;
        if (!set->members[i].gated || !is_same_stream(op, last)) continue;
        return ccl_clique_fail(
            set->exec->clique, ncclInvalidUsage, 1,
            "nccl%s: ranks %d and %d use the same stream but not the same group: each would wait "
            "for the other (call them between ncclGroupStart and ncclGroupEnd)",
            ccl_coll_name(op->coll), op->comm->rank, last->comm->rank);
    }
    return ncclSuccess;
}

/* A kernel that is captured and one that runs at once never meet. */
static ncclResult_t check_captures(struct ccl_set *set)
{
    const struct ccl_member *last = &set->members[set->last];
    set->capture = last->capture;
    for (uint16_t i = 0; i < set->exec->nlocal; i++) {
        const struct ccl_member *member = &set->members[i];
        if ((member->capture == 0) == (last->capture == 0)) continue;
        const struct ccl_member *in = member->capture != 0 ? member : last;
        const struct ccl_member *out = member->capture != 0 ? last : member;
        return ccl_clique_fail(set->exec->clique, ncclInvalidUsage, 1,
                               "nccl%s: the stream of rank %d captures a graph, that of rank %d "
                               "does not",
                               ccl_coll_name(last->record.op.coll), in->record.op.comm->rank,
                               out->record.op.comm->rank);
    }
    return ncclSuccess;
}

/* Members that arrived in this group end into another graph: only a gate leads there. */
static ncclResult_t gate_strangers(struct ccl_set *set)
{
    for (uint16_t i = 0; set->capture != 0 && i < set->exec->nlocal; i++)
        if (!set->members[i].gated && set->members[i].capture != set->capture)
            TRY(ccl_join_gate(set, i));
    return ncclSuccess;
}

/* Neither held by a gate nor in order behind the kernel's stream as it is. */
static int needs_event(const struct ccl_member *member, cudaStream_t stream)
{
    return !member->gated && (member->parked || member->record.op.stream != stream);
}

/* The kernel's stream waits for the members that no gate holds. */
static ncclResult_t join_members(struct ccl_set *set, cudaStream_t stream)
{
    const struct chorus_devices *device = &ccl_device()->base;
    for (uint16_t i = 0; i < set->exec->nlocal; i++) {
        struct ccl_member *member = &set->members[i];
        if (!needs_event(member, stream)) continue;
        if (!member->parked) TRY(device->event_record(member->ready, member->record.op.stream));
        TRY(device->stream_wait(stream, member->ready));
    }
    return ncclSuccess;
}

/* Those of this group end wait for the kernel; parked ones do so themselves. */
static ncclResult_t release_members(struct ccl_set *set, cudaStream_t stream)
{
    const struct chorus_devices *device = &ccl_device()->base;
    int recorded = 0;
    for (uint16_t i = 0; i < set->exec->nlocal; i++) {
        struct ccl_member *member = &set->members[i];
        member->fresh = 0;
        if (!needs_event(member, stream)) continue;
        if (!recorded) TRY(device->event_record(set->done, stream));
        recorded = 1;
        if (!member->parked) TRY(device->stream_wait(member->record.op.stream, set->done));
    }
    /* A set with gates is used again when its kernel is done. */
    int needs_end = !ccl_device()->retires && set->ngates > 0 && set->capture == 0;
    if (needs_end && !recorded) TRY(device->event_record(set->done, stream));
    if (set->capture == 0) TRY(ccl_track_add(&set->exec->track, stream, NULL));
    /* Release: parked threads find the recorded event. */
    atomic_store_explicit(&set->is_launched, 1, memory_order_release);
    return ncclSuccess;
}

static ncclResult_t launch_set(struct ccl_set *set)
{
    cudaStream_t stream = set->members[set->last].record.op.stream;
    TRY(check_streams(set));
    TRY(check_captures(set));
    TRY(gate_strangers(set));
    TRY(join_members(set, stream));
    if (!move_set(set, CCL_JOIN_LAUNCH)) return ncclInternalError;
    TRY(ccl_launch_set(set));
    return release_members(set, stream);
}

ncclResult_t ccl_join_flush(struct ccl_exec *exec, struct ccl_parks *parks)
{
    for (struct ccl_set *set = exec->open; set != NULL; set = set->next) {
        if (set->state == CCL_JOIN_COMPLETE) TRY(launch_set(set));
        if (set->state == CCL_JOIN_GATHERING) TRY(hold_members(set, parks));
    }
    /* Sets are completed in order, since each rank arrives at them in order. */
    while (exec->open != NULL && exec->open->state == CCL_JOIN_LAUNCHED)
        exec->open = exec->open->next;
    return ncclSuccess;
}
