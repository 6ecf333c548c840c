/* The engine of the host devices: one per process, it runs what the streams of all host devices
 * hold. Used by the host_*.c files only.
 *
 * One mutex guards everything here that is not marked atomic; it is dropped while lanes,
 * retire functions and host functions run. An operation lives in exactly one place: the free
 * list, a queue, the started lanes, the list of host functions, a stream that keeps it, or the
 * hands of one thread.
 */
#ifndef CCL_DEVICE_HOST_ENGINE_H
#define CCL_DEVICE_HOST_ENGINE_H

#include "device/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum {
    CCL_HOST_MAX_DEVICES = 64,
    CCL_HOST_MAX_WAKES = 16,
    CCL_HOST_BACKSTOP_US = 50000, /* longest sleep of a thread that waits for something */
};

enum { CCL_HOST_OPEN, CCL_HOST_BUSY, CCL_HOST_KEEPS };

enum ccl_host_kind { CCL_HOST_KERNEL, CCL_HOST_FUNC, CCL_HOST_RECORD, CCL_HOST_WAIT };

struct ccl_host_queue;

/* One recording of an event. The event, the record operation and each wait hold a reference, so
 * that recording anew or destroying the event disturbs nobody. */
struct ccl_host_record {
    struct ccl_host_record *next; /* free list */
    struct ccl_host_queue *blocked;
    uint64_t time_ns; /* CLOCK_MONOTONIC at completion, valid once done */
    uint32_t refs;
    _Atomic uint64_t done; /* 0 or 1 */
};

/* A lane of a started kernel, or of one that waits in a queue. */
struct ccl_host_lane {
    _Alignas(64) struct ccl_cursor cursor;
    struct ccl_host_op *op;
    struct ccl_host_lane *next;
    uint64_t stamp; /* engine stamp when it last began to run; see host_engine.c */
    uint32_t index;
    uint32_t is_fresh; /* never ran yet */
};

struct ccl_host_op {
    struct ccl_host_op *next;
    struct ccl_host_stream *stream;
    uint64_t seq; /* place in its stream, from 1 */
    enum ccl_host_kind kind;
    uint32_t nlanes, lanes_left, lanes_room;
    struct ccl_host_lane *lanes;
    ccl_host_kernel *host;
    void (*retire)(void *args);
    void (*function)(void *argument);
    void *argument;
    struct ccl_host_record *record;
    _Alignas(64) unsigned char args[CCL_LAUNCH_ARGS_BYTES];
};

/* An in-order hardware queue: operations leave from the head, and only to start. */
struct ccl_host_queue {
    struct ccl_host_op *head, *tail;
    struct ccl_host_queue *next_kicked;  /* list of queues whose head may have become startable */
    struct ccl_host_queue *next_blocked; /* list of queues whose head waits for one record */
    const struct ccl_host_record *blocked_on;
    int is_kicked;
};

struct ccl_host_stream {
    uint32_t magic;
    int device;
    struct ccl_host_queue *queue;
    struct ccl_host_queue own_queue; /* in use when streams do not share queues */
    struct ccl_host_stream *next;    /* free list */
    /* host_keep.c: who has the stream, its small kernel, the list of streams that may keep some. */
    _Atomic uint32_t keep;
    struct ccl_host_op *kept; /* memory for one; of whoever made the stream BUSY */
    struct ccl_host_stream *next_known;
    int is_known;
    uint64_t seq_seen; /* by the watcher: `submitted` at its last look */
    /* Written by whoever made the stream BUSY, `completed` also under the engine lock; read by
     * queries at any time. The release store of `completed` publishes all effects of the
     * operations up to it. */
    _Atomic uint64_t submitted, completed;
};

/* What a waiting thread waits for: *word >= value, or else ready(arg) being true. */
struct ccl_host_goal {
    const _Atomic uint64_t *word;
    uint64_t value;
    int (*ready)(void *arg);
    void *arg;
};

/* A thread inside the engine. It sleeps either on its own word (listed) or on the bell. */
struct ccl_host_thread {
    _Atomic uint32_t woken;
    struct ccl_host_thread *prev, *next;
    const struct ccl_host_goal *goal; /* NULL for a worker */
    int is_listed, is_asleep;         /* asleep: on the bell, as leader */
};

/* An operation to enqueue; what is not its kind's stays zero. */
struct ccl_host_request {
    enum ccl_host_kind kind;
    const struct ccl_launch_spec *spec;
    void (*function)(void *argument);
    void *argument;
    struct ccl_host_record *record;
};

struct ccl_host_engine {
    pthread_mutex_t lock;

    /* Started lanes that no thread runs, least recently run first. */
    struct ccl_host_lane *first, *last;
    uint32_t nfresh;         /* of them, those that never ran */
    uint64_t stamp;          /* number of the latest sweep */
    uint64_t starts, visits; /* lanes ever started; lane runs ever begun */
    uint64_t enqueues;       /* operations ever enqueued */
    uint64_t pending;        /* operations enqueued and not complete */
    struct ccl_host_queue *kicked;
    struct ccl_host_op *func_first, *func_last;

    /* Threads: those sweeping now, the one that sleeps on the bell, the sleepers. */
    uint32_t nactive, max_active;
    struct ccl_host_thread *leader, *watcher;
    struct ccl_host_thread *sleep_first, *sleep_last; /* users in front, workers behind */
    uint64_t leader_stamp; /* sweep that the leader began after it announced itself */
    int is_missed;         /* a lane that the leader did not see since is back, still blocked */
    int is_watch_called;   /* a worker has been woken to become the watcher */
    _Atomic uint32_t is_watched; /* watcher != NULL, for those without the lock */
    uint32_t nbell;              /* threads on the bell that wait for a ready function */

    /* Wakes owed once the lock is dropped. */
    _Atomic uint32_t *wakes[CCL_HOST_MAX_WAKES];
    uint32_t nwakes;
    int owes_ring;
    int has_completed; /* since the waiting threads were last looked at */

    int is_running, is_stopping;
    struct ccl_host_thread *func_thread; /* asleep, to be woken for a host function */

    /* Recycled objects; a destroyed stream keeps its memory so that its handle stays refusable. */
    struct ccl_host_op *free_ops;
    struct ccl_host_record *free_records;
};

extern struct ccl_host_engine ccl_host;

/* host_engine.c: sweeping, waiting, waking. _lock and _unlock bracket every access; _unlock pays
 * the owed wakes. The functions marked (locked) want the lock and return with it. */
void ccl_host_lock(void);
void ccl_host_unlock(void);
void ccl_host_wait(const struct ccl_host_goal *goal);
int ccl_host_help(const struct ccl_host_goal *goal, uint32_t timeout_us);
void ccl_host_session(struct ccl_host_thread *me);                   /* (locked) */
void ccl_host_lead(struct ccl_host_thread *me, uint32_t timeout_us); /* (locked) */
void ccl_host_hand_over(void);                                       /* (locked) */

void ccl_host_relax(void);

/* host_keep.c. _keep takes a small kernel on an idle stream, else 0 and it is to be enqueued;
 * _advance runs what the thread keeps once, _give_own leaves all of it to the engine; _run_kept
 * runs a kept kernel of the stream until `completed` reaches the value (1), else (0) the engine has
 * it; _claim and _release bracket what appends to a stream's queue: they take the stream and the
 * lock. */
int ccl_host_keep(struct ccl_host_stream *stream, const struct ccl_launch_spec *spec);
void ccl_host_advance(void);
void ccl_host_give_own(void);
int ccl_host_run_kept(struct ccl_host_stream *stream, uint64_t value);
void ccl_host_poll_kept(struct ccl_host_stream *stream);
void ccl_host_claim(struct ccl_host_stream *stream);
void ccl_host_release(struct ccl_host_stream *stream);  /* (locked) */
void ccl_host_let_keep(struct ccl_host_stream *stream); /* (locked) */
void ccl_host_end_keep(struct ccl_host_stream *stream); /* (locked) */
uint64_t ccl_host_watch_kept(void);                     /* (locked) */
uint32_t ccl_host_count_kept(void);                     /* (locked) */
int ccl_host_stop_keeping(void);                        /* (locked) */
void ccl_host_forget_kept(void);

/* host_sleep.c: the list of sleeping threads (all locked). */
void ccl_host_follow(struct ccl_host_thread *me, uint32_t timeout_us);
void ccl_host_rest(struct ccl_host_thread *me);
void ccl_host_wake(struct ccl_host_thread *thread);
int ccl_host_wake_one(void);
void ccl_host_wake_watcher(void);
void ccl_host_wake_met(void);
void ccl_host_settle(void);

/* host_queue.c: enqueue, start, complete. */
ncclResult_t ccl_host_enqueue(struct ccl_host_stream *stream, const struct ccl_host_request *req);
void ccl_host_append(struct ccl_host_op *op, struct ccl_host_stream *stream); /* (locked) */
void ccl_host_complete(struct ccl_host_op *op);                               /* (locked) */
ncclResult_t ccl_host_take_op(uint32_t nlanes, struct ccl_host_op **out);     /* (locked) */
void ccl_host_give_op(struct ccl_host_op *op);                                /* (locked) */
void ccl_host_fill_kernel(struct ccl_host_op *op, const struct ccl_launch_spec *spec);
void ccl_host_kick(struct ccl_host_queue *queue);               /* (locked) */
void ccl_host_drain_kicks(void);                                /* (locked) */
ncclResult_t ccl_host_record_new(struct ccl_host_record **out); /* (locked) */
void ccl_host_record_drop(struct ccl_host_record *record);      /* (locked) */
void ccl_host_pool_free(void);                                  /* (locked) */

/* host_worker.c: threads and their life. */
ncclResult_t ccl_host_workers_start(void);
void ccl_host_workers_stop(int even_if_held);
ncclResult_t ccl_host_hold(void);
void ccl_host_drop(void);

/* host_stream.c, host_event.c, host_mem.c: the rest of the table. */
ncclResult_t ccl_host_stream_find(cudaStream_t handle, struct ccl_host_stream **out);
ncclResult_t ccl_host_stream_create(cudaStream_t *stream);
ncclResult_t ccl_host_stream_destroy(cudaStream_t stream);
ncclResult_t ccl_host_stream_sync(cudaStream_t stream);
ncclResult_t ccl_host_stream_query(cudaStream_t stream, int *idle);
ncclResult_t ccl_host_stream_device(cudaStream_t stream, int *device);
ncclResult_t ccl_host_launch(cudaStream_t stream, const struct ccl_launch_spec *spec);
ncclResult_t ccl_host_copy(void *to, const void *from, size_t bytes, cudaStream_t stream);
ncclResult_t ccl_host_fill(void *memory, int byte, size_t bytes, cudaStream_t stream);
ncclResult_t ccl_host_func(cudaStream_t stream, void (*function)(void *), void *argument);
void ccl_host_stream_pool_free(void); /* (locked) */

ncclResult_t ccl_host_event_create(chorus_event_t *event);
ncclResult_t ccl_host_event_destroy(chorus_event_t event);
ncclResult_t ccl_host_event_record(chorus_event_t event, cudaStream_t stream);
ncclResult_t ccl_host_event_wait(cudaStream_t stream, chorus_event_t event);
ncclResult_t ccl_host_event_sync(chorus_event_t event);
ncclResult_t ccl_host_event_query(chorus_event_t event, int *done);
ncclResult_t ccl_host_event_elapsed(chorus_event_t from, chorus_event_t to, float *milliseconds);
void ccl_host_event_pool_free(void); /* (locked) */

const char *ccl_host_mem_fault(int device, const void *memory, size_t bytes);
ncclResult_t ccl_host_mem_alloc(void **memory, size_t bytes);
ncclResult_t ccl_host_mem_free(void *memory);
void ccl_host_mem_count(size_t *total_bytes, size_t *free_bytes);

/* host_arena.c: at least `bytes`, at a page's start and zeroed; NULL when there is no arena, no
 * room, or less than a page asked. Given back with the same bytes and the number that came with
 * it; the memory of a parent process's arena is left alone. */
void *ccl_host_arena_take(size_t bytes, uint32_t *arena_number);
void ccl_host_arena_give(void *memory, size_t bytes, uint32_t arena_number);
void ccl_host_arena(struct ccl_arena *out);

/* host_device.c: the current device of the calling thread. */
int ccl_host_device(void);
uint32_t ccl_host_nworkers(void);

#endif
