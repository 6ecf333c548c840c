/* Operations: how they are enqueued, leave their hardware queue, and complete.
 *
 * Called by host_stream.c and host_event.c (enqueue) and by the work loop (complete).
 * Invariant: the head of a queue that is neither kicked nor blocked on a record waits for an
 * operation of its own stream that has started; that one's completion kicks the queue.
 */
#include "device/host_engine.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/err.h"

#include <string.h>

enum { MIN_LANES = 4 };

ncclResult_t ccl_host_take_op(uint32_t nlanes, struct ccl_host_op **out)
{
    struct ccl_host_engine *e = &ccl_host;
    struct ccl_host_op *op = e->free_ops;
    if (op != NULL)
        e->free_ops = op->next;
    else
        TRY(CCL_NEW(&op, 1));
    if (nlanes > op->lanes_room) {
        uint32_t room = nlanes < MIN_LANES ? MIN_LANES : nlanes;
        ccl_free(op->lanes);
        op->lanes_room = 0;
        ncclResult_t rc = CCL_NEW(&op->lanes, room);
        if (rc != ncclSuccess) {
            ccl_free(op);
            return rc;
        }
        op->lanes_room = room;
    }
    *out = op;
    return ncclSuccess;
}

void ccl_host_give_op(struct ccl_host_op *op)
{
    op->next = ccl_host.free_ops;
    ccl_host.free_ops = op;
}

void ccl_host_fill_kernel(struct ccl_host_op *op, const struct ccl_launch_spec *spec)
{
    op->kind = CCL_HOST_KERNEL;
    op->host = spec->host;
    op->retire = spec->retire;
    op->nlanes = op->lanes_left = spec->nlanes;
    if (spec->args_bytes > 0) memcpy(op->args, spec->args, spec->args_bytes);
    for (uint32_t i = 0; i < spec->nlanes; i++) {
        struct ccl_host_lane *lane = &op->lanes[i];
        memset(&lane->cursor, 0, sizeof lane->cursor);
        lane->op = op;
        lane->index = i;
        lane->is_fresh = 1;
    }
}

ncclResult_t ccl_host_record_new(struct ccl_host_record **out)
{
    struct ccl_host_engine *e = &ccl_host;
    struct ccl_host_record *record = e->free_records;
    if (record != NULL)
        e->free_records = record->next;
    else
        TRY(CCL_NEW(&record, 1));
    record->refs = 1;
    record->blocked = NULL;
    record->time_ns = 0;
    atomic_store_explicit(&record->done, 0, memory_order_relaxed);
    *out = record;
    return ncclSuccess;
}

void ccl_host_record_drop(struct ccl_host_record *record)
{
    if (record == NULL || --record->refs > 0) return;
    record->next = ccl_host.free_records;
    ccl_host.free_records = record;
}

/* Frees what is kept for recycling. */
void ccl_host_pool_free(void)
{
    struct ccl_host_engine *e = &ccl_host;
    while (e->free_ops != NULL) {
        struct ccl_host_op *op = e->free_ops;
        e->free_ops = op->next;
        ccl_free(op->lanes);
        ccl_free(op);
    }
    while (e->free_records != NULL) {
        struct ccl_host_record *record = e->free_records;
        e->free_records = record->next;
        ccl_free(record);
    }
}

static void start_kernel(struct ccl_host_op *op)
{
    struct ccl_host_engine *e = &ccl_host;
    for (uint32_t i = 0; i < op->nlanes; i++) {
        struct ccl_host_lane *lane = &op->lanes[i];
        /* The sweep that is going on leaves it to the next: nobody is passed over for ever. */
        lane->stamp = e->stamp;
        lane->next = NULL;
        if (e->last != NULL)
            e->last->next = lane;
        else
            e->first = lane;
        e->last = lane;
    }
    e->nfresh += op->nlanes;
    e->starts += op->nlanes;
}

static void start_func(struct ccl_host_op *op)
{
    struct ccl_host_engine *e = &ccl_host;
    op->next = NULL;
    if (e->func_last != NULL)
        e->func_last->next = op;
    else
        e->func_first = op;
    e->func_last = op;
    if (e->func_thread != NULL) {
        ccl_host_wake(e->func_thread);
        e->func_thread = NULL;
    }
}

static void finish_record(struct ccl_host_record *record)
{
    record->time_ns = ccl_clock_ns();
    atomic_store_explicit(&record->done, 1, memory_order_release);
    while (record->blocked != NULL) {
        struct ccl_host_queue *queue = record->blocked;
        record->blocked = queue->next_blocked;
        queue->blocked_on = NULL;
        ccl_host_kick(queue);
    }
}

/* Notes that the head of `queue` may have become startable. */
void ccl_host_kick(struct ccl_host_queue *queue)
{
    struct ccl_host_engine *e = &ccl_host;
    if (queue->is_kicked || queue->head == NULL) return;
    queue->is_kicked = 1;
    queue->next_kicked = e->kicked;
    e->kicked = queue;
}

/* Ends an operation: its stream moves on. The kicked queues are drained by the caller. */
void ccl_host_complete(struct ccl_host_op *op)
{
    struct ccl_host_engine *e = &ccl_host;
    if (op->kind == CCL_HOST_RECORD) finish_record(op->record);
    ccl_host_record_drop(op->record);
    op->record = NULL;
    /* Release pairs with the acquire of queries and waits: whoever sees this count sees what
     * the operation wrote. */
    atomic_store_explicit(&op->stream->completed, op->seq, memory_order_release);
    e->pending--;
    e->has_completed = 1;
    ccl_host_kick(op->stream->queue);
    ccl_host_give_op(op);
}

static void start_op(struct ccl_host_op *op)
{
    switch (op->kind) {
    case CCL_HOST_KERNEL: start_kernel(op); break;
    case CCL_HOST_FUNC: start_func(op); break;
    default: ccl_host_complete(op); break;
    }
}

/* Whether the head may start. A wait for an event that is not done blocks the queue, and all
 * streams that share it, until the record unblocks it. */
static int is_startable(struct ccl_host_queue *queue)
{
    struct ccl_host_op *op = queue->head;
    uint64_t before = atomic_load_explicit(&op->stream->completed, memory_order_relaxed);
    if (before + 1 != op->seq) return 0;
    if (op->kind != CCL_HOST_WAIT) return 1;
    if (atomic_load_explicit(&op->record->done, memory_order_relaxed)) return 1;
    if (queue->blocked_on == NULL) {
        queue->blocked_on = op->record;
        queue->next_blocked = op->record->blocked;
        op->record->blocked = queue;
    }
    return 0;
}

/* Starts all that can start, then wakes those whose goal is met. */
void ccl_host_drain_kicks(void)
{
    struct ccl_host_engine *e = &ccl_host;
    while (e->kicked != NULL) {
        struct ccl_host_queue *queue = e->kicked;
        e->kicked = queue->next_kicked;
        queue->is_kicked = 0;
        while (queue->head != NULL && is_startable(queue)) {
            struct ccl_host_op *op = queue->head;
            queue->head = op->next;
            if (queue->head == NULL) queue->tail = NULL;
            start_op(op);
        }
    }
    ccl_host_wake_met();
}

/* Appends an operation whose number is set. */
void ccl_host_append(struct ccl_host_op *op, struct ccl_host_stream *stream)
{
    struct ccl_host_engine *e = &ccl_host;
    struct ccl_host_queue *queue = stream->queue;
    op->stream = stream;
    op->next = NULL;
    if (queue->tail != NULL)
        queue->tail->next = op;
    else
        queue->head = op;
    queue->tail = op;
    e->pending++;
    e->enqueues++;
    ccl_host_kick(queue);
}

/* Gets hands for new work without a system call in the common case: a small kernel is left to
 * the caller's synchronization or to the watcher; a large one calls others at once. */
static void call_hands(uint32_t nlanes)
{
    struct ccl_host_engine *e = &ccl_host;
    ccl_host_wake_watcher();
    uint32_t want = nlanes < e->max_active ? nlanes : e->max_active;
    for (uint32_t have = e->nactive + 1; have < want; have++)
        if (!ccl_host_wake_one()) break;
}

/* Takes the stream, and the lock while the threads run. */
static ncclResult_t claim_running(struct ccl_host_stream *stream)
{
    for (;;) {
        ccl_host_claim(stream);
        if (ccl_host.is_running) return ncclSuccess;
        ccl_host_drain_kicks();
        ccl_host_release(stream);
        TRY(ccl_host_workers_start());
    }
}

static void fill_op(struct ccl_host_op *op, const struct ccl_host_request *req)
{
    op->kind = req->kind;
    op->function = req->function;
    op->argument = req->argument;
    op->record = req->record;
    if (req->record != NULL) req->record->refs++;
    if (req->spec != NULL) ccl_host_fill_kernel(op, req->spec);
}

ncclResult_t ccl_host_enqueue(struct ccl_host_stream *stream, const struct ccl_host_request *req)
{
    uint32_t nlanes = req->spec != NULL ? req->spec->nlanes : 0;
    struct ccl_host_op *op = NULL;
    TRY(claim_running(stream));
    ncclResult_t rc = ccl_host_take_op(nlanes, &op);
    if (rc == ncclSuccess) {
        fill_op(op, req);
        op->seq = atomic_load_explicit(&stream->submitted, memory_order_relaxed) + 1;
        atomic_store_explicit(&stream->submitted, op->seq, memory_order_release);
        ccl_host_append(op, stream);
        if (req->spec != NULL && req->spec->is_small) ccl_host_let_keep(stream);
    }
    ccl_host_drain_kicks();
    call_hands(nlanes);
    ccl_host_release(stream);
    return rc;
}
