/* run_sched.h: the interpreter of schedules, one channel of one executor.
 *
 * The same text runs on host and GPU. On the host it is a coroutine: where it would have to wait
 * it leaves a note of whom it waits for and returns, and is resumed at the same step.
 */
#ifndef CCL_KERNEL_RUN_SCHED_H
#define CCL_KERNEL_RUN_SCHED_H

#include "kernel/fifo.h"
#include "kernel/move.h"
#include "kernel/work.h"

/* Where a channel stands; overlays struct ccl_cursor, zero at launch. */
struct sched_at {
    uint32_t gates_open; /* members whose streams have arrived, in order */
    uint32_t round, step;
    uint32_t met; /* this meeting has been announced */
    uint32_t stamped;
};

enum sched_wait { SCHED_GO, SCHED_WAIT };

/* Acquire pairs with the gate kernel's release: the member's earlier work is visible. */
CCL_DEVICE enum sched_wait wait_gates(const struct ccl_work *work, struct sched_at *at)
{
    for (; at->gates_open < work->ngates; at->gates_open++)
        if (!load_acquire32(&work->gates[at->gates_open].reached)) {
            set_note(work->note, CCL_WAIT_GATE, at->gates_open);
            return SCHED_WAIT;
        }
    return SCHED_GO;
}

CCL_DEVICE void publish_slots(const struct ccl_work *work, struct ccl_meet *meet)
{
    for (uint32_t i = 0; i < work->nlocal; i++) meet->table[work->first_local + i] = work->local[i];
    meet->signs[work->self] = work->signature;
}

/* Epochs only grow, and nobody publishes for the next operation before all have left the last
 * meeting of this one, so one table serves all operations. The release of the own epoch publishes
 * the table rows (first meeting) or all stores of the operation (last one). */
CCL_DEVICE enum sched_wait meet_all(const struct ccl_work *work, const struct ccl_step *step,
                                    uint32_t channel, struct sched_at *at)
{
    struct ccl_meet *meet = &work->meets[channel];
    if (!at->met) {
        if (step->flags & CCL_STEP_PUBLISH) publish_slots(work, meet);
        meet->epoch++;
        store_release(&meet->flags[work->self * CCL_MEET_STRIDE], meet->epoch);
        ccl_bell_ring(meet->bell);
        at->met = 1;
    }
    for (uint32_t e = 0; e < work->nexecs; e++) {
        if (load_acquire(&meet->flags[e * CCL_MEET_STRIDE]) >= meet->epoch) continue;
        set_note(work->note, CCL_WAIT_MEET, e);
        return SCHED_WAIT;
    }
    at->met = 0;
    if (step->flags & CCL_STEP_PUBLISH)
        for (uint32_t e = 0; e < work->nexecs; e++)
            if (meet->signs[e] != work->signature) set_error(work->error, CCL_ERROR_MISMATCH);
    return SCHED_GO;
}

/* Elements of the step's piece in this channel and round, and where it starts in its block. A
 * late step has none in the first rounds, the others have none in the last. */
CCL_DEVICE uint64_t piece_bounds(const struct ccl_work *work, const struct ccl_step *step,
                                 uint32_t channel, uint32_t round, uint64_t *start)
{
    if (step->flags & CCL_STEP_LATE) {
        if (round < work->lag) return 0;
        round -= work->lag;
    }
    uint64_t inside = ((uint64_t)round * work->npieces + step->piece) * work->piece_elems;
    uint64_t first = (uint64_t)channel * work->chan_elems;
    if (first >= work->count_elems || inside >= work->chan_elems) return 0;
    *start = first + inside;
    if (*start >= work->count_elems) return 0;
    uint64_t left = work->chan_elems - inside, to_end = work->count_elems - *start;
    if (to_end < left) left = to_end;
    return left < work->piece_elems ? left : work->piece_elems;
}

CCL_DEVICE struct ccl_conn *range_conn(const struct ccl_work *work, const struct ccl_range *range,
                                       uint32_t channel, uint32_t j)
{
    uint32_t link = (uint32_t)(range->first + (int)j * range->hop);
    return work->conns[channel * work->nlinks + link];
}

/* All slots that the step reads are filled and all that it writes are free. */
CCL_DEVICE enum sched_wait wait_slots(const struct ccl_work *work, const struct ccl_step *step,
                                      uint32_t channel)
{
    if (step->in[0].space == CCL_CONN)
        for (uint32_t j = 0; j < step->in[0].count; j++) {
            struct ccl_conn *conn = range_conn(work, &step->in[0], channel, j);
            if (fifo_has_data(conn)) continue;
            set_note(work->note, CCL_WAIT_DATA, conn->peer);
            return SCHED_WAIT;
        }
    if (step->out[0].space == CCL_CONN)
        for (uint32_t j = 0; j < step->out[0].count; j++) {
            struct ccl_conn *conn = range_conn(work, &step->out[0], channel, j);
            if (fifo_has_credit(conn)) continue;
            set_note(work->note, CCL_WAIT_CREDIT, conn->peer);
            return SCHED_WAIT;
        }
    return SCHED_GO;
}

/* A slot says whose operation it belongs to: ranks that disagree are seen where they meet. */
CCL_DEVICE void pass_slots(const struct ccl_work *work, const struct ccl_step *step,
                           uint32_t channel)
{
    if (step->in[0].space == CCL_CONN && !(step->flags & CCL_STEP_KEEP))
        for (uint32_t j = 0; j < step->in[0].count; j++) {
            struct ccl_conn *conn = range_conn(work, &step->in[0], channel, j);
            if (*fifo_meta(conn) != work->signature) set_error(work->error, CCL_ERROR_MISMATCH);
            fifo_release(conn);
        }
    if (step->out[0].space == CCL_CONN && !(step->flags & CCL_STEP_FILL))
        for (uint32_t j = 0; j < step->out[0].count; j++) {
            struct ccl_conn *conn = range_conn(work, &step->out[0], channel, j);
            *fifo_meta(conn) = work->signature;
            fifo_post(conn);
        }
}

CCL_DEVICE enum sched_wait run_step(const struct ccl_work *work, uint32_t channel,
                                    struct sched_at *at)
{
    const struct ccl_step *step = &work->steps[at->step];
    if (step->kind == CCL_MEET) return meet_all(work, step, channel, at);
    uint64_t start = 0;
    uint64_t elems = piece_bounds(work, step, channel, at->round, &start);
    if (elems == 0) return SCHED_GO;
    if (wait_slots(work, step, channel) == SCHED_WAIT) return SCHED_WAIT;
    struct move_at where = {work, step, channel, start, elems};
    if (step->kind == CCL_FOLD)
        move_fold(&where);
    else
        move_map(&where);
    pass_slots(work, step, channel);
    return SCHED_GO;
}

/* Ranks that call different operations may all wait, or not wait at all: each says what it runs on
 * all its connections, and looks at what the others say when it starts and when it waits. */
CCL_DEVICE void stamp_conns(const struct ccl_work *work, uint32_t channel, struct sched_at *at)
{
    for (uint32_t l = 0; l < work->nlinks; l++) {
        const struct ccl_conn *conn = work->conns[channel * work->nlinks + l];
        if (!conn->is_send && fifo_differs(conn, work->signature))
            set_error(work->error, CCL_ERROR_MISMATCH);
        if (!conn->is_send || at->stamped) continue;
        fifo_stamp(conn, work->signature);
        ccl_bell_ring(conn->bell);
    }
    at->stamped = 1;
}

/* Returns 1 when the channel is done or aborted, 0 when it has to wait. */
CCL_DEVICE int run_channel(const struct ccl_work *work, uint32_t channel, struct sched_at *at)
{
    if (load_acquire32(work->abort_word)) return 1;
    if (wait_gates(work, at) == SCHED_WAIT) return 0;
    if (work->nlinks > 0) stamp_conns(work, channel, at);
    for (; at->round < work->nrounds + work->lag; at->round++, at->step = 0)
        for (; at->step < work->nsteps; at->step++) {
            enum sched_wait wait = run_step(work, channel, at);
            if (__atomic_load_n(work->error, __ATOMIC_RELAXED)) return 1;
            if (wait == SCHED_WAIT) return 0;
        }
    set_note(work->note, CCL_WAIT_NONE, 0);
    return 1;
}

#endif
