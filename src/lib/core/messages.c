/* messages.c: matching, grouping and launching of messages inside an executor. */
#include "core/messages.h"

#include "base/alloc.h"
#include "base/err.h"
#include "core/launch.h"
#include "core/meet.h"

enum { SENDER, RECEIVER, NROLES };

/* ---- matching ---- */

static uint64_t bytes_of(const struct ccl_op *op)
{
    return op->count_elems * ccl_type_bytes(op->type);
}

static int role_of(const struct ccl_op *op)
{
    return op->coll == CCL_SEND ? SENDER : RECEIVER;
}

static struct ccl_queue_of_sets *queue_of(struct ccl_messages *messages,
                                          const struct ccl_exec *exec, const struct ccl_op *op)
{
    int mine = exec->view.slot_of[op->comm->rank] - exec->first_slot;
    int its = exec->view.slot_of[op->root] - exec->first_slot;
    int is_send = role_of(op) == SENDER;
    return &messages->queues[is_send ? mine * exec->nlocal + its : its * exec->nlocal + mine];
}

static ncclResult_t add_to(struct ccl_set_list *list, struct ccl_set *set)
{
    TRY(ccl_grow((void **)&list->sets, list->n, &list->room, sizeof(struct ccl_set *)));
    list->sets[list->n++] = set;
    return ncclSuccess;
}

static ncclResult_t open_message(struct ccl_exec *exec, struct ccl_queue_of_sets *queue,
                                 struct ccl_set **out)
{
    TRY(ccl_set_take(&exec->messages.sets, exec, NROLES, out));
    if (queue->tail == NULL)
        queue->head = *out;
    else
        queue->tail->next = *out;
    queue->tail = *out;
    return add_to(&exec->messages.opened, *out);
}

static ncclResult_t check_sizes(struct ccl_set *set, const struct ccl_op *op)
{
    int role = role_of(op);
    const struct ccl_op *other = &set->members[!role].record.op;
    if (bytes_of(op) == bytes_of(other)) return ncclSuccess;
    const struct ccl_op *send = role == SENDER ? op : other, *recv = role == SENDER ? other : op;
    return ccl_clique_fail(set->exec->clique, ncclInvalidUsage, 1,
                           "rank %d sends %llu bytes to rank %d, which receives %llu",
                           send->comm->rank, (unsigned long long)bytes_of(send), recv->comm->rank,
                           (unsigned long long)bytes_of(recv));
}

ncclResult_t ccl_messages_post(struct ccl_exec *exec, const struct ccl_record *record)
{
    struct ccl_messages *messages = &exec->messages;
    if (messages->queues == NULL)
        TRY(CCL_NEW(&messages->queues, (size_t)exec->nlocal * exec->nlocal));
    struct ccl_queue_of_sets *queue = queue_of(messages, exec, &record->op);
    struct ccl_set *set = queue->head;
    int role = role_of(&record->op);
    if (set == NULL || set->members[role].arrived) {
        TRY(open_message(exec, queue, &set));
    } else {
        TRY(check_sizes(set, &record->op));
        queue->head = set->next;
        if (queue->head == NULL) queue->tail = NULL;
        TRY(add_to(&messages->complete, set));
    }
    return ccl_set_arrive(set, (uint16_t)role, record);
}

/* ---- launches ---- */

static cudaStream_t stream_of(const struct ccl_set *set, int role)
{
    return set->members[role].record.op.stream;
}

/* Both calls came in this group end, into the same graph or none. */
static int is_together(const struct ccl_set *set)
{
    const struct ccl_member *m = set->members;
    return m[SENDER].fresh && m[RECEIVER].fresh &&
           m[SENDER].record.capture == m[RECEIVER].record.capture;
}

static int has_stream(const struct ccl_set_list *list, cudaStream_t stream)
{
    for (size_t i = 0; i < list->n; i++)
        if (stream_of(list->sets[i], SENDER) == stream ||
            stream_of(list->sets[i], RECEIVER) == stream)
            return 1;
    return 0;
}

static int shares_stream(const struct ccl_set_list *list, const struct ccl_set *set)
{
    return has_stream(list, stream_of(set, SENDER)) || has_stream(list, stream_of(set, RECEIVER));
}

/* Moves a complete message, and those it is connected with by streams, to `together`. */
static ncclResult_t take_together(struct ccl_messages *messages, size_t first)
{
    struct ccl_set_list *from = &messages->complete, *to = &messages->together;
    to->n = 0;
    TRY(add_to(to, from->sets[first]));
    from->sets[first] = NULL;
    for (int more = 1; more;) {
        more = 0;
        for (size_t i = 0; i < from->n; i++) {
            struct ccl_set *set = from->sets[i];
            if (set == NULL || !is_together(set) || !shares_stream(to, set)) continue;
            TRY(add_to(to, set));
            from->sets[i] = NULL;
            more = 1;
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < from->n; i++)
        if (from->sets[i] != NULL) from->sets[kept++] = from->sets[i];
    from->n = kept;
    return ncclSuccess;
}

/* As many messages as fit are one kernel; the last one lets the gates of a single message go. */
static ncclResult_t launch_copies(struct ccl_exec *exec, const struct ccl_set_list *list,
                                  cudaStream_t stream)
{
    const struct ccl_set *first = list->sets[0];
    struct ccl_moves moves = {
        .exec = exec, .comm = first->members[first->last].record.op.comm, .gates_of = first};
    for (size_t i = 0; i < list->n; i++) {
        const struct ccl_member *members = list->sets[i]->members;
        if (moves.n == CCL_MAX_LOCAL) {
            TRY(ccl_launch_moves(&moves, stream));
            moves.n = 0;
        }
        moves.pairs[moves.n].in = members[SENDER].record.op.in;
        moves.pairs[moves.n].out = members[RECEIVER].record.op.out;
        moves.pairs[moves.n++].bytes = bytes_of(&members[SENDER].record.op);
    }
    return ccl_launch_moves(&moves, stream);
}

/* What a message alone does by its set, several do once a stream: the first member found on a
 * stream stands for it. */
static ncclResult_t join_streams(const struct ccl_set_list *list, cudaStream_t stream,
                                 chorus_event_t done)
{
    const struct chorus_devices *device = &ccl_device()->base;
    for (size_t i = 0; i < list->n; i++)
        for (int role = 0; role < NROLES; role++) {
            struct ccl_set_list before = {.sets = list->sets, .n = i};
            cudaStream_t its = stream_of(list->sets[i], role);
            int seen = has_stream(&before, its) ||
                       (role == RECEIVER && stream_of(list->sets[i], SENDER) == its);
            if (its == stream || seen) continue;
            struct ccl_member *member = &list->sets[i]->members[role];
            if (done == NULL) {
                TRY(device->event_record(member->ready, its));
                TRY(device->stream_wait(stream, member->ready));
            } else {
                TRY(device->stream_wait(its, done));
            }
        }
    return ncclSuccess;
}

static ncclResult_t launch_several(struct ccl_exec *exec, const struct ccl_set_list *list)
{
    struct ccl_set *first = list->sets[0];
    cudaStream_t stream = stream_of(first, first->last);
    TRY(join_streams(list, stream, NULL));
    TRY(launch_copies(exec, list, stream));
    TRY(ccl_device()->base.event_record(first->done, stream));
    TRY(join_streams(list, stream, first->done));
    if (first->members[SENDER].record.capture != 0) return ncclSuccess;
    return ccl_track_add(&exec->track, stream, CCL_TRACK_ALL);
}

static ncclResult_t fly(struct ccl_exec *exec, struct ccl_set *set)
{
    set->members[SENDER].fresh = set->members[RECEIVER].fresh = 0;
    TRY(ccl_set_move(set, CCL_SET_LAUNCH));
    ccl_set_fly(&exec->messages.sets, set);
    return ncclSuccess;
}

/* Those of which both calls came in this group end; what is left has one. */
static ncclResult_t launch_together(struct ccl_exec *exec)
{
    struct ccl_messages *messages = &exec->messages;
    for (size_t first = 0; first < messages->complete.n;) {
        if (!is_together(messages->complete.sets[first])) {
            first++;
            continue;
        }
        TRY(take_together(messages, first));
        TRY(launch_several(exec, &messages->together));
        for (size_t i = 0; i < messages->together.n; i++)
            TRY(fly(exec, messages->together.sets[i]));
    }
    return ncclSuccess;
}

/* ---- messages whose calls came apart ---- */

/* The member that called in this group end. */
static uint16_t fresh_of(const struct ccl_set *set)
{
    return set->members[SENDER].fresh ? SENDER : RECEIVER;
}

/* Those of a list that are in this state: opened, or complete. */
static size_t count_on(const struct ccl_set_list *list, enum ccl_set_state state,
                       cudaStream_t stream)
{
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        const struct ccl_set *set = list->sets[i];
        n += set->state == state && stream_of(set, fresh_of(set)) == stream;
    }
    return n;
}

/* No more streams than hardware queues: work of one that shares its queue with a rank's stream
 * would wait for what the program has queued behind a gate there. One is left for the program. */
static size_t count_sides(const struct ccl_exec *exec)
{
    const struct ccl_device_ops *device = ccl_device();
    if (device->queues == NULL) return CCL_SIDES_MAX;
    int rank = exec->clique->topo->first_rank[exec->clique->proc];
    struct ccl_queues queues = device->queues(exec->clique->topo->peers[rank].device);
    if (queues.are_shared || queues.n < exec->nhere + 2u) return 0;
    size_t spare = queues.n - exec->nhere - 1u;
    return spare < CCL_SIDES_MAX ? spare : CCL_SIDES_MAX;
}

/* The executor may have streams of its own, and so many of them are idle or can still be made. */
static int has_sides(const struct ccl_exec *exec, size_t needed)
{
    const struct ccl_messages *messages = &exec->messages;
    size_t most = count_sides(exec), n = most > messages->nsides ? most - messages->nsides : 0;
    if (most == 0) return 0;
    for (size_t i = 0; n < needed && i < messages->nsides; i++) {
        int is_idle = 0;
        (void)ccl_device()->base.event_query(messages->sides[i].done, &is_idle);
        n += is_idle != 0;
    }
    return n >= needed;
}

/* Each takes a kernel that may wait, of which a GPU runs 128 at a time: not for large groups. A
 * graph has no other streams to go to. */
static void find_crowded(const struct ccl_messages *messages, const struct ccl_set_list *list,
                         enum ccl_set_state state, int may_be)
{
    enum { MOST = 16 };
    for (size_t i = 0; i < list->n; i++) {
        struct ccl_set *set = list->sets[i];
        const struct ccl_record *record = &set->members[fresh_of(set)].record;
        size_t n = 0;
        if (set->state == state && record->capture == 0 && may_be)
            n = count_on(&messages->opened, CCL_SET_GATHERING, record->op.stream) +
                count_on(&messages->complete, CCL_SET_COMPLETE, record->op.stream);
        set->is_crowded = n >= 2 && n <= MOST;
    }
}

/* An idle stream: nothing that is launched there waits for anything else. One was counted. */
static ncclResult_t find_side(struct ccl_messages *messages, struct ccl_side **out)
{
    for (size_t i = 0; i < messages->nsides; i++) {
        int is_idle = 1;
        *out = &messages->sides[i];
        TRY(ccl_device()->base.event_query((*out)->done, &is_idle));
        if (is_idle) return ncclSuccess;
    }
    if (messages->nsides == CCL_SIDES_MAX)
        return ccl_err(ncclInternalError, "no stream is idle for a message");
    struct ccl_side *side = &messages->sides[messages->nsides];
    TRY(ccl_device()->stream_make(&side->stream));
    ncclResult_t rc = ccl_device()->event_make(&side->done);
    if (rc != ncclSuccess) {
        ccl_device()->base.stream_destroy(side->stream);
        return rc;
    }
    messages->nsides++;
    *out = side;
    return ncclSuccess;
}

static ncclResult_t launch_on(struct ccl_exec *exec, struct ccl_set *set, cudaStream_t stream)
{
    struct ccl_set_list alone = {.sets = &set, .n = 1};
    TRY(ccl_meet_join(set, stream));
    TRY(launch_copies(exec, &alone, stream));
    return ccl_meet_leave(set, stream);
}

/* Its streams have come to it, or will; none of them waits for it before it is launched. */
static ncclResult_t launch_beside(struct ccl_exec *exec, struct ccl_set *set)
{
    struct ccl_side *side;
    TRY(find_side(&exec->messages, &side));
    TRY(launch_on(exec, set, side->stream));
    return ccl_device()->base.event_record(side->done, side->stream);
}

/* What is before the call in its stream: the kernel of one message waits for that, and not for the
 * others that the stream has in the group. */
static ncclResult_t mark_ready(struct ccl_set *set)
{
    struct ccl_member *m = &set->members[fresh_of(set)];
    m->own = 1;
    return ccl_device()->base.event_record(m->ready, m->record.op.stream);
}

/* All events of crowded streams, before these wait for any message. */
static ncclResult_t mark_crowded(struct ccl_exec *exec)
{
    const struct ccl_set_list *lists[] = {&exec->messages.opened, &exec->messages.complete};
    for (int l = 0; l < 2; l++)
        for (size_t i = 0; i < lists[l]->n; i++)
            if (lists[l]->sets[i]->is_crowded) TRY(mark_ready(lists[l]->sets[i]));
    return ncclSuccess;
}

/* The stream of a crowded one waits for it at the end of the park. */
static ncclResult_t launch_apart(struct ccl_exec *exec, struct ccl_parks *parks)
{
    struct ccl_messages *messages = &exec->messages;
    for (size_t i = 0; i < messages->complete.n; i++) {
        struct ccl_set *set = messages->complete.sets[i];
        if (set->is_crowded) {
            TRY(ccl_park_add(parks, set, fresh_of(set)));
            TRY(launch_beside(exec, set));
        } else {
            TRY(launch_on(exec, set, stream_of(set, set->last)));
        }
        TRY(fly(exec, set));
    }
    messages->complete.n = 0;
    return ncclSuccess;
}

/* Only the caller itself could bring the other half. */
static ncclResult_t check_self(const struct ccl_set *set)
{
    const struct ccl_member *member = &set->members[set->last];
    const struct ccl_op *op = &member->record.op;
    if (op->root != op->comm->rank) return ncclSuccess;
    return ccl_clique_fail(set->exec->clique, ncclInvalidUsage, 1,
                           "rank %d %s itself without the matching call in the same group",
                           op->root, op->coll == CCL_SEND ? "sends to" : "receives from");
}

ncclResult_t ccl_messages_flush(struct ccl_exec *exec, struct ccl_parks *parks)
{
    enum { MOST = 256 };
    struct ccl_messages *messages = &exec->messages;
    TRY(launch_together(exec));
    int may_be =
        messages->opened.n + messages->complete.n <= MOST && has_sides(exec, messages->complete.n);
    find_crowded(messages, &messages->opened, CCL_SET_GATHERING, may_be);
    find_crowded(messages, &messages->complete, CCL_SET_COMPLETE, may_be);
    TRY(mark_crowded(exec));
    TRY(launch_apart(exec, parks));
    for (size_t i = 0; i < messages->opened.n; i++) {
        struct ccl_set *set = messages->opened.sets[i];
        if (set->state != CCL_SET_GATHERING) continue;
        TRY(check_self(set));
        TRY(ccl_meet_hold(set, parks));
    }
    messages->opened.n = 0;
    return ncclSuccess;
}

const struct ccl_op *ccl_messages_waiting(const struct ccl_exec *exec, const struct ncclComm *comm)
{
    size_t nqueues = (size_t)exec->nlocal * exec->nlocal;
    for (size_t q = 0; exec->messages.queues != NULL && q < nqueues; q++) {
        const struct ccl_set *set = exec->messages.queues[q].head;
        if (set != NULL && set->members[set->last].record.op.comm == comm)
            return &set->members[set->last].record.op;
    }
    return NULL;
}

void ccl_messages_free(struct ccl_exec *exec)
{
    struct ccl_messages *messages = &exec->messages;
    size_t nqueues = (size_t)exec->nlocal * exec->nlocal;
    for (size_t q = 0; messages->queues != NULL && q < nqueues; q++)
        for (struct ccl_set *set = messages->queues[q].head, *next; set != NULL; set = next) {
            next = set->next;
            ccl_set_fly(&messages->sets, set);
        }
    ccl_sets_free(&messages->sets);
    for (size_t i = 0; i < messages->nsides; i++) {
        ccl_device()->base.stream_destroy(messages->sides[i].stream);
        ccl_device()->base.event_destroy(messages->sides[i].done);
    }
    ccl_free(messages->queues);
    ccl_free(messages->opened.sets);
    ccl_free(messages->complete.sets);
    ccl_free(messages->together.sets);
}
