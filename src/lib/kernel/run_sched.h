/* run_sched.h: the interpreter of schedules, one channel of one executor.
 *
 * The same text runs on host and GPU. On the host it is a coroutine: where it would have to wait
 * it leaves a note of whom it waits for and returns, and is resumed at the same step.
 */
#ifndef CCL_KERNEL_RUN_SCHED_H
#define CCL_KERNEL_RUN_SCHED_H

#include "kernel/board.h"
#include "kernel/fifo.h"
#include "kernel/ll.h"
#include "kernel/move.h"
#include "kernel/piece.h"
#include "kernel/work.h"

/* Where a channel stands; overlays struct ccl_cursor, zero at launch. */
struct sched_at {
    uint32_t gates_open; /* members whose streams have arrived, in order */
    uint32_t body, round, step;
    uint32_t met;    /* this meeting has been announced */
    uint32_t nwaits; /* runs that ended without anything to go on with */
};

/* OTHER: some buffer is out of reach, the second body runs. */
enum sched_wait { SCHED_GO, SCHED_WAIT, SCHED_OTHER };

/* Acquire pairs with the gate kernel's release: the member's earlier work is visible. */
CCL_DEVICE enum sched_wait wait_gates(const struct ccl_work *work, struct sched_at *at)
{
    for (; at->gates_open < work->ngates; at->gates_open++) {
        const struct ccl_gate *gate = &work->gates[at->gates_open];
        if (load_acquire32(&gate->raised) != gate->gone) continue;
        set_note(work->note, CCL_WAIT_GATE, at->gates_open);
        return SCHED_WAIT;
    }
    return SCHED_GO;
}

/* An executor runs another operation in this one's place: ends the kernel, with a note of whom. */
CCL_DEVICE void disagree(const struct ccl_work *work, uint32_t exec)
{
    set_note(work->note, CCL_WAIT_DISAGREE, exec);
    set_error(work->error, CCL_ERROR_MISMATCH);
}

/* An address of this process as others know it; NULL stays what it is. */
CCL_DEVICE void *publish_address(const struct ccl_meet *meet, uintptr_t base, const void *address)
{
    uintptr_t place = (uintptr_t)address - base;
    if (address == NULL) return NULL;
    return (void *)(place < meet->shared_bytes ? place : CCL_OUT_OF_REACH);
}

/* The factor is read here: its address means nothing to others. */
CCL_DEVICE void publish_slots(const struct ccl_work *work, struct ccl_meet *meet)
{
    uint32_t set = meet->npublished++ & 1;
    for (uint32_t i = 0; i < work->nlocal; i++) {
        const struct ccl_slot *own = &work->local[i];
        uint32_t at = work->first_local + i;
        struct ccl_slot *slot = &meet->published[set * work->nslots + at];
        slot->in = publish_address(meet, meet->bases[at], own->in);
        slot->out = publish_address(meet, meet->bases[at], own->out);
        slot->scalar = own->scalar;
        slot->scalar_at = NULL;
        if (own->scalar_at != NULL)
            memcpy(&slot->scalar, own->scalar_at, ccl_fold_type_bytes(work->type));
    }
    meet->signs[set * work->nexecs + work->self] = work->signature;
}

/* Turns what was published into addresses; 0 when some buffer is out of reach. */
CCL_DEVICE int resolve_slots(const struct ccl_work *work, const struct ccl_meet *meet)
{
    uint32_t set = (meet->npublished - 1) & 1;
    for (uint32_t i = 0; i < work->nslots; i++) {
        struct ccl_slot slot = meet->published[set * work->nslots + i];
        uintptr_t in = (uintptr_t)slot.in, out = (uintptr_t)slot.out;
        if (in == CCL_OUT_OF_REACH || out == CCL_OUT_OF_REACH) return 0;
        if (in != 0) slot.in = (const void *)(in + meet->bases[i]);
        if (out != 0) slot.out = (void *)(out + meet->bases[i]);
        meet->table[i] = slot;
    }
    return 1;
}

/* After the meeting at which all have published. */
CCL_DEVICE enum sched_wait read_published(const struct ccl_work *work, const struct ccl_meet *meet)
{
    uint32_t set = (meet->npublished - 1) & 1;
    for (uint32_t e = 0; e < work->nexecs; e++)
        if (meet->signs[set * work->nexecs + e] != work->signature) disagree(work, e);
    if (resolve_slots(work, meet) || work->nbodies < 2) return SCHED_GO;
    __atomic_store_n(work->second, work->ticket + 1, __ATOMIC_RELAXED);
    return SCHED_OTHER;
}

/* Epochs only grow. The release of the own epoch publishes the slots (first meeting) or all stores
 * of the operation (last one). */
CCL_DEVICE enum sched_wait meet_all(const struct ccl_work *work, const struct ccl_step *step,
                                    uint32_t channel, struct sched_at *at)
{
    struct ccl_meet *meet = &work->meets[channel];
    if (!at->met) {
        if (step->flags & CCL_STEP_PUBLISH) publish_slots(work, meet);
        meet->epoch++;
        store_release(&meet->flags[work->self * CCL_MEET_STRIDE], meet->epoch);
        for (uint32_t i = 0; i < meet->nbells; i++) ccl_bell_ring(meet->bells[i]);
        at->met = 1;
    }
    for (uint32_t e = 0; e < work->nexecs; e++) {
        if (load_acquire(&meet->flags[e * CCL_MEET_STRIDE]) >= meet->epoch) continue;
        set_note(work->note, CCL_WAIT_MEET, e);
        return SCHED_WAIT;
    }
    at->met = 0;
    return step->flags & CCL_STEP_PUBLISH ? read_published(work, meet) : SCHED_GO;
}

CCL_DEVICE int is_ll(const struct move_at *at)
{
    return at->body->proto == CCL_PROTO_LL;
}

/* The message that a step reads from a link is there. LL unpacks it on the way. */
CCL_DEVICE int has_message(const struct move_at *at, const struct ccl_range *range, uint32_t j)
{
    const struct ccl_work *work = at->work;
    struct ccl_conn *conn = range_conn(at, range, j);
    if (!is_ll(at)) return fifo_has_data(conn);
    uint64_t bytes = at->elems * ccl_fold_type_bytes(work->type);
    enum ll_found found = ll_get(conn, work->signature, place_offset(at, range, j), bytes);
    if (found == LL_FOREIGN) disagree(work, conn->peer);
    return found == LL_DATA;
}

/* All slots that the step reads are filled and all that it writes are free. */
CCL_DEVICE enum sched_wait wait_slots(const struct move_at *at)
{
    const struct ccl_range *in = &at->step->in[0], *out = &at->step->out[0];
    for (uint32_t j = 0; out->space == CCL_CONN && j < out->count; j++) {
        struct ccl_conn *conn = range_conn(at, out, j);
        if (is_ll(at) ? ll_has_credit(conn) : fifo_has_credit(conn)) continue;
        set_note(at->work->note, CCL_WAIT_CREDIT, conn->peer);
        return SCHED_WAIT;
    }
    for (uint32_t j = 0; in->space == CCL_CONN && j < in->count; j++) {
        if (has_message(at, in, j)) continue;
        set_note(at->work->note, CCL_WAIT_DATA, range_conn(at, in, j)->peer);
        return SCHED_WAIT;
    }
    return SCHED_GO;
}

/* Gives back the slots that the step has read. One says whose operation it belongs to: ranks that
 * disagree are seen where they meet. */
CCL_DEVICE void release_slots(const struct move_at *at)
{
    const struct ccl_range *in = &at->step->in[0];
    if (in->space != CCL_CONN || at->step->flags & CCL_STEP_KEEP) return;
    for (uint32_t j = 0; j < in->count; j++) {
        struct ccl_conn *conn = range_conn(at, in, j);
        if (is_ll(at)) {
            ll_release(conn);
            continue;
        }
        if (*fifo_meta(conn) != at->work->signature) disagree(at->work, conn->peer);
        fifo_release(conn);
    }
}

/* Sends what the step has written; LL packs it first. */
CCL_DEVICE void post_slots(const struct move_at *at)
{
    const struct ccl_work *work = at->work;
    const struct ccl_range *out = &at->step->out[0];
    int is_filling = at->step->flags & CCL_STEP_FILL;
    if (out->space != CCL_CONN) return;
    uint64_t bytes = at->elems * ccl_fold_type_bytes(work->type);
    for (uint32_t j = 0; j < out->count; j++) {
        struct ccl_conn *conn = range_conn(at, out, j);
        if (is_ll(at)) {
            ll_put(conn, work->signature, place_offset(at, out, j), bytes);
            if (!is_filling) ll_post(conn);
        } else if (!is_filling) {
            *fifo_meta(conn) = work->signature;
            fifo_post(conn);
        }
    }
}

CCL_DEVICE enum sched_wait run_step(const struct ccl_work *work, uint32_t channel,
                                    struct sched_at *at)
{
    const struct ccl_body *body = &work->body[at->body];
    const struct ccl_step *step = &body->steps[at->step];
    if (step->kind == CCL_MEET) return meet_all(work, step, channel, at);
    struct move_at where = {.work = work, .body = body, .step = step, .channel = channel};
    struct ccl_piece piece = find_piece(work, body, step, channel, at->round);
    if (piece.elems == 0) return SCHED_GO;
    where.start = piece.start;
    where.elems = piece.elems;
    if (wait_slots(&where) == SCHED_WAIT) return SCHED_WAIT;
    if (step->kind == CCL_FOLD)
        move_fold(&where);
    else
        move_map(&where);
    post_slots(&where);
    release_slots(&where);
    return SCHED_GO;
}

/* Ranks that call different operations may all wait, and not for each other. 0: some did. */
CCL_DEVICE int look_at_boards(const struct ccl_work *work)
{
    for (uint32_t e = 0; e < work->nexecs; e++) {
        if (e == work->self || !board_differs(work->boards[e], &work->call)) continue;
        disagree(work, e);
        return 0;
    }
    return 1;
}

/* Returns 0 when the channel has to wait, 1 when there is nothing to wait for. */
CCL_DEVICE int wait_channel(const struct ccl_work *work, struct sched_at *at)
{
    if (work->boards == NULL || ++at->nwaits < CCL_LONG_WAIT) return 0;
    return !look_at_boards(work);
}

/* The next step of the round, or the first of the next round; 0 when there is none. */
CCL_DEVICE int find_step(const struct ccl_work *work, struct sched_at *at)
{
    const struct ccl_body *body = &work->body[at->body];
    if (at->step == body->nsteps) {
        at->step = 0;
        at->round++;
    }
    return body->nsteps > 0 && at->round < body->nrounds + body->lag;
}

/* Returns 1 when the channel is done or aborted, 0 when it has to wait. */
CCL_DEVICE int run_channel(const struct ccl_work *work, uint32_t channel, struct sched_at *at)
{
    if (load_acquire32(work->abort_word)) return 1;
    /* Acquire pairs with ccl_turn_pass: the connections stand as the kernel before left them. */
    if (work->turn != NULL && load_acquire(work->turn) != work->ticket) return 0;
    if (wait_gates(work, at) == SCHED_WAIT) return 0;
    while (find_step(work, at)) {
        enum sched_wait wait = run_step(work, channel, at);
        if (__atomic_load_n(work->error, __ATOMIC_RELAXED)) return 1;
        if (wait == SCHED_WAIT) return wait_channel(work, at);
        at->step++;
        if (wait != SCHED_OTHER) continue;
        at->body = 1;
        at->step = 0;
    }
    set_note(work->note, CCL_WAIT_NONE, 0);
    return 1;
}

#endif
