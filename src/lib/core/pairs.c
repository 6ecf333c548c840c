/* pairs.c: sends and receives become halves of messages, each in the kernel of its own stream.
 *
 * All halves of a group end on one stream, whatever their ranks, share a kernel: none of them has
 * to wait for another's kernel behind its own. Inside an executor calls are matched as well, since
 * its ranks may use one stream: two calls that would wait for each other are refused. So no cycle
 * of waiting arises that the program did not write.
 */
#include "core/pairs.h"

#include "base/alloc.h"
#include "base/err.h"
#include "core/agree.h"
#include "core/launch.h"
#include "kernel/fifo.h"
#include "kernel/kernel.h"

#include <string.h>

/* ---- parties ---- */

static void append_party(struct ccl_party **head, struct ccl_party **tail, struct ccl_party *party)
{
    party->next = NULL;
    if (*tail == NULL)
        *head = party;
    else
        (*tail)->next = party;
    *tail = party;
}

/* Takes retired parties off the head of the flight. Acquire pairs with retire_pairs. */
static void recycle_parties(struct ccl_exec *exec)
{
    struct ccl_party *party = exec->flying_parties;
    while (party != NULL && !atomic_load_explicit(&party->is_flying, memory_order_acquire)) {
        exec->flying_parties = party->next;
        party->next = exec->free_parties;
        exec->free_parties = party;
        party = exec->flying_parties;
    }
    if (party == NULL) exec->flying_tail = NULL;
}

static ncclResult_t take_party(struct ccl_exec *exec, const struct ccl_op *op,
                               struct ccl_party **out)
{
    recycle_parties(exec);
    struct ccl_party *party = exec->free_parties;
    if (party != NULL)
        exec->free_parties = party->next;
    else
        TRY(CCL_NEW(&party, 1));
    party->stream = op->stream;
    party->npairs = party->ncomms = 0;
    append_party(&exec->open_parties, &exec->open_tail, party);
    *out = party;
    return ncclSuccess;
}

/* The open party of a stream. Parties are launched in the order of their first call. */
static ncclResult_t find_party(struct ccl_exec *exec, const struct ccl_op *op,
                               struct ccl_party **out)
{
    struct ccl_party *party = exec->open_parties;
    while (party != NULL && party->stream != op->stream) party = party->next;
    if (party == NULL) TRY(take_party(exec, op, &party));
    *out = party;
    for (uint32_t i = party->ncomms; i > 0; i--)
        if (party->comms[i - 1] == op->comm) return ncclSuccess;
    TRY(ccl_grow((void **)&party->comms, party->ncomms, &party->comms_room,
                 sizeof(struct ncclComm *)));
    party->comms[party->ncomms++] = op->comm;
    return ncclSuccess;
}

static ncclResult_t add_pair(struct ccl_party *party, const struct ccl_pair *pair)
{
    TRY(ccl_grow((void **)&party->pairs, party->npairs, &party->room, sizeof *party->pairs));
    party->pairs[party->npairs++] = *pair;
    return ncclSuccess;
}

/* ---- pending calls ---- */

static uint64_t bytes_of(const struct ccl_op *op)
{
    return op->count_elems * ccl_type_bytes(op->type);
}

static struct ccl_queue *queue_of(struct ccl_exec *exec, int sender, int receiver)
{
    const uint16_t *slots = exec->view.slot_of;
    int from = slots[sender] - exec->first_slot, to = slots[receiver] - exec->first_slot;
    return &exec->queues[from * exec->nlocal + to];
}

static ncclResult_t push_pending(struct ccl_exec *exec, struct ccl_queue *queue,
                                 const struct ccl_op *op)
{
    struct ccl_pending *pending = exec->free_pendings;
    if (pending != NULL)
        exec->free_pendings = pending->next;
    else
        TRY(CCL_NEW(&pending, 1));
    *pending = (struct ccl_pending){
        .coll = op->coll,
        .rank = op->comm->rank,
        .stream = op->stream,
        .bytes = bytes_of(op),
        .group = exec->ngroups,
    };
    if (queue->tail == NULL)
        queue->head = pending;
    else
        queue->tail->next = pending;
    queue->tail = pending;
    return ncclSuccess;
}

static void pop_pending(struct ccl_exec *exec, struct ccl_queue *queue)
{
    struct ccl_pending *pending = queue->head;
    queue->head = pending->next;
    if (queue->head == NULL) queue->tail = NULL;
    pending->next = exec->free_pendings;
    exec->free_pendings = pending;
}

static ncclResult_t fail_sizes(struct ccl_clique *clique, const struct ccl_op *op,
                               const struct ccl_pending *first)
{
    int is_send = op->coll == CCL_SEND;
    uint64_t bytes = bytes_of(op);
    return ccl_clique_fail(clique, ncclInvalidUsage, 1,
                           "rank %d sends %llu bytes to rank %d, which receives %llu",
                           is_send ? op->comm->rank : first->rank,
                           (unsigned long long)(is_send ? bytes : first->bytes),
                           is_send ? first->rank : op->comm->rank,
                           (unsigned long long)(is_send ? first->bytes : bytes));
}

/* The second call of a message. */
static ncclResult_t match(struct ccl_exec *exec, struct ccl_queue *queue, const struct ccl_op *op)
{
    struct ccl_pending first = *queue->head;
    if (first.bytes != bytes_of(op)) return fail_sizes(exec->clique, op, &first);
    pop_pending(exec, queue);
    if (first.stream != op->stream || first.group == exec->ngroups) return ncclSuccess;
    return ccl_clique_fail(exec->clique, ncclInvalidUsage, 1,
                           "ranks %d and %d send and receive on the same stream but not in the "
                           "same group: each would wait for the other (call them between "
                           "ncclGroupStart and ncclGroupEnd)",
                           op->coll == CCL_SEND ? op->comm->rank : first.rank,
                           op->coll == CCL_SEND ? first.rank : op->comm->rank);
}

/* ---- halves ---- */

static ncclResult_t get_conn(struct ncclComm *comm, int peer, int is_send, struct ccl_conn **out)
{
    if (comm->conns == NULL) TRY(CCL_NEW(&comm->conns, 2 * (size_t)comm->nranks));
    struct ccl_conn **slot = &comm->conns[2 * peer + is_send];
    if (*slot == NULL) {
        struct ccl_fifo_id id = {
            .of_ranks = 1,
            .sender = (uint16_t)(is_send ? comm->rank : peer),
            .receiver = (uint16_t)(is_send ? peer : comm->rank),
        };
        pthread_mutex_lock(&comm->clique->lock);
        ncclResult_t rc = ccl_clique_conn(comm->clique, &id, CCL_PROTO_SIMPLE, is_send, slot);
        pthread_mutex_unlock(&comm->clique->lock);
        TRY(rc);
    }
    *out = *slot;
    return ncclSuccess;
}

static ncclResult_t add_half(struct ccl_party *party, const struct ccl_op *op)
{
    int is_send = op->coll == CCL_SEND;
    struct ccl_pair pair = {
        .src = op->in,
        .dst = op->out,
        .bytes = bytes_of(op),
        .note = op->comm->p2p_note,
        .rank = (uint16_t)op->comm->rank,
        .role = is_send ? CCL_PAIR_SEND : CCL_PAIR_RECV,
    };
    TRY(get_conn(op->comm, op->root, is_send, &pair.conn));
    pair.ticket = pair.conn->ntaken;
    TRY(add_pair(party, &pair));
    pair.conn->ntaken++;
    return ncclSuccess;
}

ncclResult_t ccl_pairs_post(struct ccl_exec *exec, const struct ccl_record *record)
{
    const struct ccl_op *op = &record->op;
    struct ccl_party *party;
    TRY(find_party(exec, op, &party));
    TRY(add_half(party, op));
    return ccl_pairs_match(exec, op);
}

ncclResult_t ccl_pairs_match(struct ccl_exec *exec, const struct ccl_op *op)
{
    if (exec->clique->topo->exec_of[op->root] != exec->index) return ncclSuccess;
    if (exec->member_of[exec->view.slot_of[op->root] - exec->first_slot] == CCL_ELSEWHERE)
        return ncclSuccess;
    int is_send = op->coll == CCL_SEND;
    struct ccl_queue *queue =
        queue_of(exec, is_send ? op->comm->rank : op->root, is_send ? op->root : op->comm->rank);
    if (queue->head != NULL && queue->head->coll != op->coll) return match(exec, queue, op);
    return push_pending(exec, queue, op);
}

/* ---- launches ---- */

struct pairs_owner {
    struct ccl_pairs work; /* first: the kernel sees only this part */
    struct ccl_party *party;
};

/* Names the message at which the kernel stopped, if it was one of this party. */
static void report_sizes(const struct ccl_party *party, const struct ccl_call *call)
{
    struct ccl_clique *clique = party->comms[0]->clique;
    if (__atomic_load_n(&clique->words->error, __ATOMIC_RELAXED) == 0) return;
    ccl_agree_explain(party->comms[0]->exec, call);
    for (uint32_t i = 0; i < party->npairs; i++) {
        const struct ccl_pair *pair = &party->pairs[i];
        if (pair->role != CCL_PAIR_RECV || pair->state != CCL_PAIR_MOVING ||
            !fifo_has_data(pair->conn))
            continue;
        uint64_t sent = *fifo_meta(pair->conn) & ~CCL_META_PLACE;
        if (sent == pair->bytes) continue;
        ccl_clique_fail(clique, ncclInvalidUsage, 1,
                        "rank %u sends %llu bytes to rank %u, which receives %llu",
                        pair->conn->peer, (unsigned long long)sent, pair->rank,
                        (unsigned long long)pair->bytes);
        return;
    }
}

static void retire_pairs(void *args)
{
    struct pairs_owner *owner = args;
    struct ccl_party *party = owner->party;
    struct ncclComm *first = party->comms[0];
    report_sizes(party, &owner->work.call);
    for (uint32_t i = 1; i < party->ncomms; i++) ccl_launch_retired(party->comms[i]);
    /* Release: the party may be used again. With its last rank the clique may go. */
    atomic_store_explicit(&party->is_flying, 0, memory_order_release);
    ccl_launch_retired(first);
}

/* The kernel counts for every rank, the first is counted at the launch. */
static void count_others(struct ccl_party *party, uint32_t by)
{
    for (uint32_t i = 1; i < party->ncomms; i++)
        atomic_fetch_add_explicit(&party->comms[i]->flying, by, memory_order_relaxed);
}

static ncclResult_t launch_party(struct ccl_party *party)
{
    struct ncclComm *comm = party->comms[0];
    struct ccl_clique *clique = comm->clique;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < party->npairs; i++) bytes += party->pairs[i].bytes;
    struct pairs_owner owner = {
        .work = {.pairs = party->pairs,
                 .call = comm->call,
                 .npairs = party->npairs,
                 .nexecs = clique->topo->nexecs,
                 .self = comm->exec->index,
                 .streams = (uint32_t)ccl_launch_streams(clique, bytes),
                 .abort_word = &clique->words->abort,
                 .error = &clique->words->error,
                 .bell = ccl_bell_self()},
        .party = party,
    };
    if (clique->topo->nexecs > 1)
        owner.work.boards = (const struct ccl_board *const *)clique->boards;
    struct ccl_launch_spec spec = {
        .args = &owner,
        .args_bytes = sizeof owner,
        .nlanes = 1,
        .is_small = bytes <= CCL_SMALL_BYTES,
        .host = ccl_kernel_pairs,
        .retire = retire_pairs,
    };
    atomic_store_explicit(&party->is_flying, 1, memory_order_relaxed);
    count_others(party, 1);
    ncclResult_t rc = ccl_launch(comm, party->stream, &spec);
    if (rc == ncclSuccess) return rc;
    count_others(party, UINT32_MAX);
    atomic_store_explicit(&party->is_flying, 0, memory_order_relaxed);
    return rc;
}

ncclResult_t ccl_pairs_check_self(struct ccl_exec *exec, int rank)
{
    const struct ccl_pending *pending = queue_of(exec, rank, rank)->head;
    if (pending == NULL) return ncclSuccess;
    return ccl_clique_fail(exec->clique, ncclInvalidUsage, 1,
                           "rank %d %s itself without the matching call in the same group", rank,
                           pending->coll == CCL_SEND ? "sends to" : "receives from");
}

static ncclResult_t check_self(struct ccl_exec *exec, const struct ccl_party *party)
{
    for (uint32_t i = 0; i < party->ncomms; i++)
        TRY(ccl_pairs_check_self(exec, party->comms[i]->rank));
    return ncclSuccess;
}

ncclResult_t ccl_pairs_flush(struct ccl_exec *exec)
{
    ncclResult_t rc = ncclSuccess;
    for (struct ccl_party *party = exec->open_parties; party != NULL; party = party->next) {
        if (rc == ncclSuccess) rc = check_self(exec, party);
        if (rc != ncclSuccess || party->npairs == 0) continue;
        rc = launch_party(party);
    }
    while (exec->open_parties != NULL) {
        struct ccl_party *party = exec->open_parties;
        exec->open_parties = party->next;
        append_party(&exec->flying_parties, &exec->flying_tail, party);
    }
    exec->open_tail = NULL;
    exec->ngroups++;
    return rc;
}

void ccl_pairs_free(struct ccl_exec *exec)
{
    struct ccl_party *lists[] = {exec->open_parties, exec->flying_parties, exec->free_parties};
    for (int i = 0; i < 3; i++)
        while (lists[i] != NULL) {
            struct ccl_party *party = lists[i];
            lists[i] = party->next;
            ccl_free(party->pairs);
            ccl_free(party->comms);
            ccl_free(party);
        }
    exec->open_parties = exec->open_tail = NULL;
    exec->flying_parties = exec->flying_tail = exec->free_parties = NULL;
    for (size_t q = 0; exec->queues != NULL && q < (size_t)exec->nlocal * exec->nlocal; q++)
        while (exec->queues[q].head != NULL) pop_pending(exec, &exec->queues[q]);
    ccl_free(exec->queues);
    while (exec->free_pendings != NULL) {
        struct ccl_pending *pending = exec->free_pendings;
        exec->free_pendings = pending->next;
        ccl_free(pending);
    }
}
