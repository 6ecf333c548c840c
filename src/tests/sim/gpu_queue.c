/* Streams of the simulated GPU over its hardware queues, each served by a thread.
 *
 * A stream belongs to a queue, which takes its operations in order: one that cannot go on stays at
 * the head and holds up all behind it, of whatever stream. That is a wait whose word or event is
 * not there yet, and what follows a kernel of its stream that still runs. The kernel itself, and a
 * record of an event behind it, hold no queue.
 */
#define _GNU_SOURCE
#include "sim/gpu.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* A client of MPS owns a few of the server's queues, whatever its variable says. */
enum { QUEUES_DEFAULT = 8, QUEUES_MOST = 32, QUEUES_UNDER_MPS = 2 };

struct queue {
    struct sim_op *head, **tail;
    pthread_cond_t filled;
    int is_served;
};

pthread_mutex_t sim_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t sim_changed = PTHREAD_COND_INITIALIZER;
static struct queue queues[QUEUES_MOST];
static struct sim_stream *streams; /* by place */
static struct sim_stream *legacy;
static _Thread_local struct sim_stream *of_thread;

void *sim_need(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (memory == NULL) abort();
    return memory;
}

uint32_t sim_queues(void)
{
    const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    int n = text != NULL ? atoi(text) : QUEUES_DEFAULT;
    return n < 1 ? QUEUES_DEFAULT : n > QUEUES_MOST ? QUEUES_MOST : (uint32_t)n;
}

int sim_launches_block(void)
{
    const char *text = getenv("CUDA_LAUNCH_BLOCKING");
    return text != NULL && atoi(text) != 0;
}

/* ---- streams ---- */

/* They are dealt to the queues by the lowest number that no other stream has, so that streams share
 * a queue only where there are more of them than queues. */
static struct sim_stream *add_stream(void)
{
    struct sim_stream *stream = sim_need(sizeof *stream), **at = &streams;
    uint32_t n = getenv("SIM_GPU_MPS") != NULL ? QUEUES_UNDER_MPS : sim_queues(), place = 0;
    for (; *at != NULL && (*at)->place == place; at = &(*at)->next) place++;
    stream->place = place;
    stream->queue = place % n;
    stream->next = *at;
    *at = stream;
    return stream;
}

struct sim_stream *sim_stream_make(void)
{
    pthread_mutex_lock(&sim_lock);
    struct sim_stream *stream = add_stream();
    pthread_mutex_unlock(&sim_lock);
    return stream;
}

struct sim_stream *sim_stream_of(cudaStream_t handle)
{
    struct sim_stream **named = (uintptr_t)handle == CCL_STREAM_PER_THREAD ? &of_thread : &legacy;
    if ((uintptr_t)handle > CCL_STREAM_PER_THREAD) return (struct sim_stream *)(void *)handle;
    pthread_mutex_lock(&sim_lock);
    if (*named == NULL) *named = add_stream();
    struct sim_stream *stream = *named;
    pthread_mutex_unlock(&sim_lock);
    return stream;
}

static void free_stream(struct sim_stream *stream)
{
    struct sim_stream **at = &streams;
    while (*at != stream) at = &(*at)->next;
    *at = stream->next;
    free(stream);
}

void sim_stream_destroy(struct sim_stream *stream)
{
    pthread_mutex_lock(&sim_lock);
    stream->is_destroyed = 1;
    if (stream->done == stream->queued) free_stream(stream);
    pthread_mutex_unlock(&sim_lock);
}

void sim_stream_drain(struct sim_stream *stream)
{
    pthread_mutex_lock(&sim_lock);
    uint64_t queued = stream->queued;
    while (stream->done < queued) pthread_cond_wait(&sim_changed, &sim_lock);
    pthread_mutex_unlock(&sim_lock);
}

static int has_marked(void)
{
    for (const struct sim_stream *stream = streams; stream != NULL; stream = stream->next)
        if (stream->done < stream->mark) return 1;
    return 0;
}

/* Two threads that drain at a time may wait a little longer than each would. */
void sim_device_drain(void)
{
    pthread_mutex_lock(&sim_lock);
    for (struct sim_stream *stream = streams; stream != NULL; stream = stream->next)
        stream->mark = stream->queued;
    while (has_marked()) pthread_cond_wait(&sim_changed, &sim_lock);
    pthread_mutex_unlock(&sim_lock);
}

int sim_stream_is_idle(struct sim_stream *stream)
{
    pthread_mutex_lock(&sim_lock);
    int is_idle = stream->done == stream->queued;
    pthread_mutex_unlock(&sim_lock);
    return is_idle;
}

/* ---- events ---- */

struct sim_event *sim_event_make(void)
{
    struct sim_event *event = sim_need(sizeof *event);
    event->refs = 1;
    return event;
}

void sim_event_put(struct sim_event *event)
{
    if (event == NULL || --event->refs > 0) return;
    sim_event_put(event->captured);
    free(event->pending);
    free(event);
}

int sim_event_is_done(const struct sim_event *event, uint64_t record)
{
    for (size_t i = 0; i < event->npending; i++)
        if (event->pending[i] == record) return 0;
    return 1;
}

/* Returns the number of a record that is to come. */
static uint64_t add_record(struct sim_event *event)
{
    size_t bytes = (event->npending + 1) * sizeof event->pending[0];
    event->pending = realloc(event->pending, bytes);
    if (event->pending == NULL) abort();
    event->pending[event->npending++] = ++event->issued;
    return event->issued;
}

static void set_recorded(const struct sim_op *op)
{
    struct sim_event *event = op->event;
    size_t i = 0;
    while (event->pending[i] != op->ticket) i++;
    event->pending[i] = event->pending[--event->npending];
    event->done_ns = ccl_clock_ns();
}

/* ---- operations ---- */

static void finish(struct sim_op *op)
{
    struct sim_stream *stream = op->stream;
    stream->done++;
    sim_event_put(op->event);
    if (op->kernel != NULL) sim_kernel_put(op->kernel);
    free(op->kept);
    free(op);
    if (stream->is_destroyed && stream->done == stream->queued) free_stream(stream);
}

/* The words are in memory of the host, which kernels, streams of other processes and processors
 * write; acquire pairs with their release. */
static int is_there(const struct sim_op *op)
{
    uint32_t now = __atomic_load_n(op->word, __ATOMIC_ACQUIRE);
    return op->is_equal ? now == op->value : (int32_t)(now - op->value) >= 0;
}

static int can_start(const struct sim_op *op)
{
    if (op->stream->runs) return op->kind == SIM_RECORD;
    if (op->kind == SIM_FOLLOW) return sim_event_is_done(op->event, op->ticket);
    return op->kind != SIM_AWAIT || is_there(op);
}

static void run_short(struct sim_op *op)
{
    switch (op->kind) {
    case SIM_RECORD: set_recorded(op); break;
    case SIM_STORE:
        /* Release publishes what the stream did before to whoever waits for the word. */
        __atomic_store_n(op->word, op->value, __ATOMIC_RELEASE);
        break;
    case SIM_COPY: memmove(op->to, op->from, op->bytes); break;
    case SIM_FILL: memset(op->to, op->byte, op->bytes); break;
    default: break;
    }
}

static void start(struct sim_op *op)
{
    struct sim_stream *stream = op->stream;
    if (op->kind == SIM_RUN) {
        stream->runs = 1;
        sim_kernel_start(op);
    } else if (stream->runs) {
        struct sim_op **at = &stream->after;
        while (*at != NULL) at = &(*at)->next;
        op->next = NULL;
        *at = op;
    } else {
        run_short(op);
        finish(op);
    }
}

void sim_kernel_done(struct sim_op *op)
{
    struct sim_stream *stream = op->stream;
    struct sim_op *after = stream->after;
    stream->runs = 0;
    stream->after = NULL;
    while (after != NULL) {
        struct sim_op *record = after;
        after = after->next;
        set_recorded(record);
        finish(record);
    }
    finish(op);
    pthread_cond_broadcast(&sim_changed);
}

/* A word changes without a call. */
static void wait_for_change(const struct sim_op *head, uint32_t *naps)
{
    if (head->kind != SIM_AWAIT || head->stream->runs) {
        pthread_cond_wait(&sim_changed, &sim_lock);
        return;
    }
    pthread_mutex_unlock(&sim_lock);
    sim_nap(naps);
    pthread_mutex_lock(&sim_lock);
}

static void *serve(void *argument)
{
    struct queue *queue = argument;
    uint32_t naps = 0;
    pthread_mutex_lock(&sim_lock);
    for (;;) {
        struct sim_op *op = queue->head;
        if (op == NULL) {
            pthread_cond_wait(&queue->filled, &sim_lock);
        } else if (!can_start(op)) {
            wait_for_change(op, &naps);
        } else {
            naps = 0;
            queue->head = op->next;
            if (queue->head == NULL) queue->tail = &queue->head;
            start(op);
            pthread_cond_broadcast(&sim_changed);
        }
    }
    return NULL;
}

static void number(struct sim_op *op)
{
    if (op->kind == SIM_RECORD) {
        op->ticket = add_record(op->event);
        op->event->capture = 0;
    }
    if (op->kind == SIM_FOLLOW) op->ticket = op->event->issued;
}

void sim_queue(struct sim_stream *stream, const struct sim_op *from)
{
    struct queue *queue = &queues[stream->queue];
    struct sim_op *op = sim_need(sizeof *op);
    *op = *from;
    op->next = NULL;
    op->stream = stream;
    if (op->event != NULL) op->event->refs++;
    if (op->kernel != NULL) op->kernel->refs++;
    number(op);
    stream->queued++;
    if (queue->tail == NULL) {
        pthread_cond_init(&queue->filled, NULL);
        queue->tail = &queue->head;
    }
    *queue->tail = op;
    queue->tail = &op->next;
    if (!queue->is_served) {
        queue->is_served = 1;
        sim_thread(serve, queue, "cuda-queue");
    }
    pthread_cond_signal(&queue->filled);
}

ncclResult_t sim_put(struct sim_stream *stream, struct sim_op op)
{
    ncclResult_t rc = ncclSuccess;
    pthread_mutex_lock(&sim_lock);
    if (op.kind == SIM_FOLLOW) rc = sim_capture_join(stream, &op);
    if (rc == ncclSuccess && stream->capture != NULL)
        rc = sim_capture_add(stream, &op);
    else if (rc == ncclSuccess)
        sim_queue(stream, &op);
    pthread_mutex_unlock(&sim_lock);
    return rc;
}
