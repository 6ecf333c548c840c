/* pairs.c: matching sends with receives inside the process, halves of messages to other
 * processes, and their launches.
 *
 * No cycle of waiting can arise: the records of a group end are posted at once under the lock, a
 * kernel waits only for parties that were posted before it or with it, and a party has arrived as
 * soon as its kernel starts, though its gate stands behind that kernel on the stream. */
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

/* Takes retired parties off the head of the flight. Acquire pairs with the last retiring kernel
 * that refers to the party. */
static void recycle_parties(struct ccl_clique *clique)
{
    struct ccl_party *party = clique->flying_parties;
    while (party != NULL && atomic_load_explicit(&party->refs, memory_order_acquire) == 0) {
        clique->flying_parties = party->next;
        party->next = clique->free_parties;
        clique->free_parties = party;
        party = clique->flying_parties;
    }
    if (party == NULL) clique->flying_tail = NULL;
}

/* The open party of a rank and stream. Parties are launched in the order of their first call. */
static ncclResult_t find_party(struct ccl_clique *clique, const struct ccl_op *op,
                               struct ccl_party **out)
{
    for (struct ccl_party *party = clique->open_parties; party != NULL; party = party->next)
        if (party->comm == op->comm && party->stream == op->stream) {
            *out = party;
            return ncclSuccess;
        }
    recycle_parties(clique);
    struct ccl_party *party = clique->free_parties;
    if (party != NULL)
        clique->free_parties = party->next;
    else
        TRY(CCL_NEW(&party, 1));
    party->gate = (struct ccl_gate){0, 0};
    party->comm = op->comm;
    party->stream = op->stream;
    party->npairs = 0;
    party->is_open = 1;
    party->has_gate = 0;
    append_party(&clique->open_parties, &clique->open_tail, party);
    *out = party;
    return ncclSuccess;
}

static ncclResult_t add_pair(struct ccl_party *party, const struct ccl_pair *pair)
{
    TRY(ccl_grow((void **)&party->pairs, party->npairs, &party->room, sizeof *party->pairs));
    party->pairs[party->npairs++] = *pair;
    return ncclSuccess;
}

/* ---- pending calls ---- */

static struct ccl_queue *queue_of(struct ccl_clique *clique, int sender, int receiver)
{
    return &clique->queues[sender * clique->topo->nranks + receiver];
}

static ncclResult_t push_pending(struct ccl_clique *clique, struct ccl_queue *queue,
                                 const struct ccl_op *op, struct ccl_party *party)
{
    struct ccl_pending *pending = clique->free_pendings;
    if (pending != NULL)
        clique->free_pendings = pending->next;
    else
        TRY(CCL_NEW(&pending, 1));
    *pending = (struct ccl_pending){
        .coll = op->coll,
        .in = op->in,
        .out = op->out,
        .bytes = op->count_elems * ccl_type_bytes(op->type),
        .party = party,
    };
    party->gate.left++;
    party->has_gate = 1;
    atomic_fetch_add_explicit(&party->refs, 1, memory_order_relaxed);
    if (queue->tail == NULL)
        queue->head = pending;
    else
        queue->tail->next = pending;
    queue->tail = pending;
    return ncclSuccess;
}

static void pop_pending(struct ccl_clique *clique, struct ccl_queue *queue)
{
    struct ccl_pending *pending = queue->head;
    queue->head = pending->next;
    if (queue->head == NULL) queue->tail = NULL;
    pending->next = clique->free_pendings;
    clique->free_pendings = pending;
}

/* The second call of a pair: the copy belongs to its party. The first call's stream needs a gate
 * unless it is the same stream in the same group end, where order does the same. */
static ncclResult_t match(struct ccl_clique *clique, struct ccl_queue *queue,
                          const struct ccl_op *op, struct ccl_party *party)
{
    struct ccl_pending *first = queue->head;
    uint64_t bytes = op->count_elems * ccl_type_bytes(op->type);
    int sender = op->coll == CCL_SEND ? op->comm->rank : op->root;
    int receiver = op->coll == CCL_SEND ? op->root : op->comm->rank;
    uint64_t sent = op->coll == CCL_SEND ? bytes : first->bytes;
    uint64_t received = op->coll == CCL_SEND ? first->bytes : bytes;
    /* Collectives that became messages may differ in more. */
    if (sent != received) ccl_agree_explain(op->comm->exec, &op->comm->call);
    if (sent != received)
        return ccl_clique_fail(clique, ncclInvalidUsage, 1,
                               "rank %d sends %llu bytes to rank %d, which receives %llu", sender,
                               (unsigned long long)sent, receiver, (unsigned long long)received);
    struct ccl_party *other = first->party;
    /* The default stream has one handle on all devices. */
    int same_stream = other->stream == party->stream && other->comm->device == party->comm->device;
    if (same_stream && !other->is_open)
        return ccl_clique_fail(clique, ncclInvalidUsage, 1,
                               "ranks %d and %d send and receive on the same stream but not in "
                               "the same group: each would wait for the other (call them between "
                               "ncclGroupStart and ncclGroupEnd)",
                               sender, receiver);
    struct ccl_pair pair = {
        .src = op->coll == CCL_SEND ? op->in : first->in,
        .dst = op->coll == CCL_SEND ? first->out : op->out,
        .bytes = bytes,
        .gate = same_stream ? NULL : &other->gate,
        .after = -1,
        .role = CCL_PAIR_COPY,
    };
    pop_pending(clique, queue);
    TRY(add_pair(party, &pair));
    if (same_stream) {
        other->gate.left--;
        if (other == party && party->gate.left == 0) party->has_gate = 0;
        atomic_fetch_sub_explicit(&other->refs, 1, memory_order_relaxed);
    }
    return ncclSuccess;
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
        TRY(ccl_clique_conn(comm->clique, &id, CCL_PROTO_SIMPLE, is_send, slot));
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
        .bytes = op->count_elems * ccl_type_bytes(op->type),
        .after = -1,
        .role = is_send ? CCL_PAIR_SEND : CCL_PAIR_RECV,
    };
    TRY(get_conn(op->comm, op->root, is_send, &pair.conn));
    for (uint32_t i = 0; i < party->npairs; i++)
        if (party->pairs[i].conn == pair.conn) pair.after = (int32_t)i;
    return add_pair(party, &pair);
}

ncclResult_t ccl_pairs_post(struct ccl_clique *clique, const struct ccl_record *record)
{
    const struct ccl_op *op = &record->op;
    struct ccl_party *party;
    TRY(find_party(clique, op, &party));
    if (!ccl_clique_is_local(clique, op->root)) return add_half(party, op);
    int is_send = op->coll == CCL_SEND;
    struct ccl_queue *queue =
        queue_of(clique, is_send ? op->comm->rank : op->root, is_send ? op->root : op->comm->rank);
    if (queue->head != NULL && queue->head->coll != op->coll)
        return match(clique, queue, op, party);
    return push_pending(clique, queue, op, party);
}

/* ---- launches ---- */

struct pairs_owner {
    struct ccl_pairs work; /* first: the kernel sees only this part */
    struct ccl_party *party;
};

/* Names the message at which the kernel stopped, if it was one of this party. */
static void report_sizes(const struct ccl_party *party, const struct ccl_call *call)
{
    if (__atomic_load_n(&party->comm->clique->kernel_error, __ATOMIC_RELAXED) == 0) return;
    ccl_agree_explain(party->comm->exec, call);
    for (uint32_t i = 0; i < party->npairs; i++) {
        const struct ccl_pair *pair = &party->pairs[i];
        if (pair->role != CCL_PAIR_RECV || pair->state != CCL_PAIR_MOVING ||
            !fifo_has_data(pair->conn))
            continue;
        uint64_t sent = *fifo_meta(pair->conn) & ~CCL_META_PLACE;
        if (sent == pair->bytes) continue;
        ccl_clique_fail(party->comm->clique, ncclInvalidUsage, 1,
                        "rank %u sends %llu bytes to rank %d, which receives %llu",
                        pair->conn->peer, (unsigned long long)sent, party->comm->rank,
                        (unsigned long long)pair->bytes);
        return;
    }
}

static void retire_pairs(void *args)
{
    struct pairs_owner *owner = args;
    struct ccl_party *party = owner->party;
    struct ncclComm *comm = party->comm;
    report_sizes(party, &owner->work.call);
    if (owner->work.turn != NULL) ccl_turn_pass(owner->work.turn, owner->work.ticket);
    for (uint32_t i = 0; i < owner->work.npairs; i++) {
        struct ccl_party *other = (struct ccl_party *)party->pairs[i].gate;
        if (other != NULL) atomic_fetch_sub_explicit(&other->refs, 1, memory_order_release);
    }
    atomic_fetch_sub_explicit(&party->refs, 1, memory_order_release);
    ccl_launch_retired(comm);
}

static const struct ccl_board *const *boards_of(const struct ccl_clique *clique)
{
    return (const struct ccl_board *const *)clique->boards;
}

static ncclResult_t launch_party(struct ccl_party *party)
{
    struct ncclComm *comm = party->comm;
    struct ccl_clique *clique = comm->clique;
    int has_conns = 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < party->npairs; i++) {
        has_conns |= party->pairs[i].conn != NULL;
        bytes += party->pairs[i].bytes;
    }
    struct pairs_owner owner = {
        .work =
            {
                .pairs = party->pairs,
                .own_gate = party->has_gate ? &party->gate : NULL,
                .boards = clique->topo->nexecs > 1 ? boards_of(clique) : NULL,
                .call = comm->call,
                .npairs = party->npairs,
                .nexecs = clique->topo->nexecs,
                .self = comm->exec->index,
                .abort_word = &clique->abort_word,
                .note = &comm->p2p_note,
                .error = &clique->kernel_error,
                .bell = ccl_bell_self(),
            },
        .party = party,
    };
    struct ccl_launch_spec spec = {
        .args = &owner,
        .args_bytes = sizeof owner,
        .nlanes = 1,
        .is_small = bytes <= CCL_SMALL_BYTES,
        .host = ccl_kernel_pairs,
        .retire = retire_pairs,
    };
    if (has_conns) owner.work.turn = ccl_turn_take(&comm->p2p_turn, &owner.work.ticket);
    atomic_fetch_add_explicit(&party->refs, 1, memory_order_relaxed);
    ncclResult_t rc = ccl_launch(comm, party->stream, &spec);
    if (rc != ncclSuccess) {
        atomic_fetch_sub_explicit(&party->refs, 1, memory_order_relaxed);
        return rc;
    }
    return ncclSuccess;
}

static ncclResult_t check_self(struct ccl_clique *clique, const struct ccl_party *party)
{
    int rank = party->comm->rank;
    const struct ccl_pending *pending = queue_of(clique, rank, rank)->head;
    if (pending == NULL) return ncclSuccess;
    return ccl_clique_fail(clique, ncclInvalidUsage, 1,
                           "rank %d %s itself without the matching call in the same group", rank,
                           pending->coll == CCL_SEND ? "sends to" : "receives from");
}

ncclResult_t ccl_pairs_flush(struct ccl_clique *clique)
{
    ncclResult_t rc = ncclSuccess;
    for (struct ccl_party *party = clique->open_parties; party != NULL; party = party->next) {
        if (rc == ncclSuccess) rc = check_self(clique, party);
        if (rc != ncclSuccess || party->npairs == 0) continue;
        ccl_device()->base.set(party->comm->device);
        rc = launch_party(party);
    }
    /* Behind all kernels, so that none has to pass a gate on a hardware queue that they share. */
    while (clique->open_parties != NULL) {
        struct ccl_party *party = clique->open_parties;
        clique->open_parties = party->next;
        party->is_open = 0;
        append_party(&clique->flying_parties, &clique->flying_tail, party);
        if (rc != ncclSuccess || !party->has_gate) continue;
        ccl_device()->base.set(party->comm->device);
        rc = ccl_launch_gate(&party->gate, party->comm, party->stream, &party->refs);
    }
    clique->open_tail = NULL;
    return rc;
}

void ccl_pairs_free(struct ccl_clique *clique)
{
    struct ccl_party *lists[] = {clique->open_parties, clique->flying_parties,
                                 clique->free_parties};
    for (int i = 0; i < 3; i++)
        while (lists[i] != NULL) {
            struct ccl_party *party = lists[i];
            lists[i] = party->next;
            ccl_free(party->pairs);
            ccl_free(party);
        }
    clique->open_parties = clique->open_tail = NULL;
    clique->flying_parties = clique->flying_tail = clique->free_parties = NULL;
    size_t nranks = clique->topo == NULL ? 0 : clique->topo->nranks;
    for (size_t q = 0; clique->queues != NULL && q < nranks * nranks; q++)
        while (clique->queues[q].head != NULL) pop_pending(clique, &clique->queues[q]);
    while (clique->free_pendings != NULL) {
        struct ccl_pending *pending = clique->free_pendings;
        clique->free_pendings = pending->next;
        ccl_free(pending);
    }
}
