/* meet.c: gates, parks and events between the streams of a set's members and its one kernel. */
#include "core/meet.h"

#include "base/alloc.h"
#include "base/err.h"
#include "core/launch.h"
#include "core/lead.h"
#include "kernel/kernel.h"

/* A collective of ranks in several processes: mostly another one's kernel would open the gates. */
static int is_led(const struct ccl_set *set)
{
    return set->exec->lead != NULL && set->members[set->last].record.op.coll < CCL_NCOLLS;
}

static ncclResult_t fail_captures(const struct ccl_set *set, const struct ccl_op *op)
{
    return ccl_clique_fail(set->exec->clique, ncclInvalidUsage, 1,
                           "nccl%s: rank %d: ranks of a process that shares its GPU with others "
                           "are captured in one group and one graph",
                           ccl_coll_name(op->coll), op->comm->rank);
}

ncclResult_t ccl_meet_gate(struct ccl_set *set, uint16_t member)
{
    struct ccl_exec *exec = set->exec;
    struct ccl_member *m = &set->members[member];
    if (is_led(set)) return fail_captures(set, &m->record.op);
    m->parked = m->own = 0;
    m->gated = 1;
    m->gate = &set->gates[set->ngates++];
    if (ccl_device()->retires)
        return ccl_launch_gate(m->gate, m->record.op.comm, m->record.op.stream, &set->refs);
    TRY(ccl_grow((void **)&exec->holds, exec->nholds, &exec->holds_room, sizeof *exec->holds));
    exec->holds[exec->nholds++] = (struct ccl_hold){set, member, CCL_GATE_WHOLE};
    return m->record.capture != 0 ? ncclSuccess : ccl_gated_add(exec, m->record.op.stream, set);
}

/* These parts of the gates on the stream of the first that lacks them, as many as one kernel takes.
 */
static ncclResult_t raise_stream(struct ccl_exec *exec, size_t first, uint32_t parts)
{
    struct ccl_gates_args args = {.parts = parts};
    const struct ccl_record *record = NULL;
    int rank = CCL_TRACK_ALL;
    for (size_t i = first; i < exec->nholds && args.ngates < CCL_GATES_MAX; i++) {
        struct ccl_hold *hold = &exec->holds[i];
        const struct ccl_member *m = &hold->set->members[hold->member];
        int its = m->record.op.comm->rank;
        if (record == NULL) record = &m->record;
        if (!(hold->parts & parts) || m->record.op.stream != record->op.stream) continue;
        hold->parts &= (uint16_t)~parts;
        rank = args.ngates == 0 || rank == its ? its : CCL_TRACK_ALL;
        args.gates[args.ngates++] = m->gate;
    }
    TRY(ccl_launch_gates(&args, record->op.comm, record->op.stream));
    if (record->capture != 0) return ncclSuccess;
    return ccl_track_add(&exec->track, record->op.stream, rank);
}

ncclResult_t ccl_meet_late(struct ccl_set *set, uint16_t member)
{
    return is_led(set) ? ccl_lead_hold(set, member) : ccl_meet_gate(set, member);
}

/* The gate may be used again when the stream has passed it, which this event tells. */
static ncclResult_t mark_passed(const struct ccl_hold *hold)
{
    const struct ccl_member *m = &hold->set->members[hold->member];
    if (m->record.capture != 0) return ncclSuccess;
    return ccl_device()->base.event_record(m->ready, m->record.op.stream);
}

ncclResult_t ccl_meet_raise(struct ccl_exec *exec, uint32_t parts)
{
    size_t kept = 0;
    for (size_t i = 0; i < exec->nholds; i++)
        if (exec->holds[i].parts & parts) TRY(raise_stream(exec, i, parts));
    for (size_t i = 0; i < exec->nholds; i++)
        if (exec->holds[i].parts != 0)
            exec->holds[kept++] = exec->holds[i];
        else
            TRY(mark_passed(&exec->holds[i]));
    exec->nholds = kept;
    return ncclSuccess;
}

ncclResult_t ccl_meet_hold(struct ccl_set *set, struct ccl_parks *parks)
{
    for (uint16_t i = 0; i < set->nmembers; i++) {
        struct ccl_member *member = &set->members[i];
        if (!member->arrived || !member->fresh) continue;
        member->fresh = 0;
        if (ccl_device()->retires || member->record.capture != 0) TRY(ccl_meet_gate(set, i));
        /* Messages that come behind on the stream may be what the others wait for. */
        else if (set->exec->far.n > 0)
            TRY(ccl_meet_late(set, i));
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

static ncclResult_t fail_streams(struct ccl_clique *clique, const struct ccl_op *op,
                                 const struct ccl_op *last)
{
    static const char advice[] = "each would wait for the other (call them between ncclGroupStart "
                                 "and ncclGroupEnd)";
    if (op->coll < CCL_NCOLLS)
        return ccl_clique_fail(
            clique, ncclInvalidUsage, 1,
            "nccl%s: ranks %d and %d use the same stream but not the same group: %s",
            ccl_coll_name(op->coll), op->comm->rank, last->comm->rank, advice);
    const struct ccl_op *send = op->coll == CCL_SEND ? op : last, *recv = send == op ? last : op;
    return ccl_clique_fail(clique, ncclInvalidUsage, 1,
                           "ranks %d and %d send and receive on the same stream but not in the "
                           "same group: %s",
                           send->comm->rank, recv->comm->rank, advice);
}

/* A gate in front of the kernel, or of another gate for it, on the same stream would wait for ever.
 */
static ncclResult_t check_streams(struct ccl_set *set)
{
    const struct ccl_op *last = &set->members[set->last].record.op;
    for (uint16_t i = 0; i < set->nmembers; i++) {
        const struct ccl_op *op = &set->members[i].record.op;
        int waits = set->members[i].gated || set->members[i].held || set->members[set->last].gated;
        if (i == set->last || !waits || !is_same_stream(op, last)) continue;
        return fail_streams(set->exec->clique, op, last);
    }
    return ncclSuccess;
}

/* A kernel that is captured and one that runs at once never meet. */
static ncclResult_t check_captures(struct ccl_set *set)
{
    const struct ccl_member *last = &set->members[set->last];
    set->capture = last->record.capture;
    for (uint16_t i = 0; i < set->nmembers; i++) {
        const struct ccl_member *member = &set->members[i];
        if ((member->record.capture == 0) == (last->record.capture == 0)) continue;
        const struct ccl_member *in = member->record.capture != 0 ? member : last;
        const struct ccl_member *out = member->record.capture != 0 ? last : member;
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
    for (uint16_t i = 0; set->capture != 0 && i < set->nmembers; i++)
        if (!set->members[i].gated && set->members[i].record.capture != set->capture)
            TRY(ccl_meet_gate(set, i));
    return ncclSuccess;
}

/* Neither held by a gate nor in order behind the kernel's stream as it is. */
static int needs_event(const struct ccl_member *member, cudaStream_t stream)
{
    return !member->gated && (member->own || member->record.op.stream != stream);
}

ncclResult_t ccl_meet_join(struct ccl_set *set, cudaStream_t stream)
{
    const struct chorus_devices *device = &ccl_device()->base;
    TRY(check_streams(set));
    TRY(check_captures(set));
    TRY(gate_strangers(set));
    for (uint16_t i = 0; i < set->nmembers; i++) {
        struct ccl_member *member = &set->members[i];
        if (!needs_event(member, stream)) continue;
        int is_recorded = member->own || member->held;
        if (!is_recorded) TRY(device->event_record(member->ready, member->record.op.stream));
        TRY(device->stream_wait(stream, member->ready));
    }
    return ncclSuccess;
}

ncclResult_t ccl_meet_leave(struct ccl_set *set, cudaStream_t stream)
{
    const struct chorus_devices *device = &ccl_device()->base;
    int recorded = 0;
    for (uint16_t i = 0; i < set->nmembers; i++) {
        struct ccl_member *member = &set->members[i];
        member->fresh = 0;
        if (member->held || !needs_event(member, stream)) continue;
        if (!recorded) TRY(device->event_record(set->done, stream));
        recorded = 1;
        if (!member->own) TRY(device->stream_wait(member->record.op.stream, set->done));
    }
    if (set->ngates > 0) ccl_gated_drop(set->exec, set);
    /* A set with gates is used again when its kernel is done. */
    int needs_end = !ccl_device()->retires && set->ngates > 0 && set->capture == 0;
    if (needs_end && !recorded) TRY(device->event_record(set->done, stream));
    if (set->capture == 0) TRY(ccl_track_add(&set->exec->track, stream, CCL_TRACK_ALL));
    /* Release: parked threads find the recorded event, and their streams joined. */
    atomic_store_explicit(&set->is_launched, 1, memory_order_release);
    return ncclSuccess;
}
