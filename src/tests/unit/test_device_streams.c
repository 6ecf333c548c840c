/* Unit tests of the streams and events of host devices: order, progress without anyone who
 * waits, joins by events, host functions, many waiting threads, shared hardware queues.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/err.h"
#include "unit/device_kit.h"
#include "unit/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEV chorus_devices()

enum { NSTREAMS = 64, NTHREADS = 8, WATCH_MS = 50 };

static void test_order(void)
{
    uint64_t value = 0;
    cudaStream_t stream = kit_stream();
    for (uint64_t i = 0; i < 1000; i++) kit_step(stream, &value, i, i + 1);
    CHECK_OK(DEV->stream_sync(stream));
    CHECK_EQ(value, 1000);
    kit_check_steps();
    CHECK_OK(DEV->stream_destroy(stream));
}

static void test_progress_alone(void)
{
    _Atomic uint32_t gate = 0;
    uint64_t value = 0;
    cudaStream_t stream = kit_stream();
    kit_wait_gate(stream, &gate);
    for (uint64_t i = 0; i < 20; i++) kit_step(stream, &value, i, i + 1);
    uint64_t deadline_ns = ccl_clock_deadline_ns(WATCH_MS);
    while (ccl_clock_ns() < deadline_ns) CHECK_EQ(kit_is_idle(stream), 0);
    kit_open(&gate);
    kit_poll_idle(stream);
    CHECK_EQ(value, 20);
    kit_check_steps();
    CHECK_OK(DEV->stream_destroy(stream));
}

static void test_destroy_waits(void)
{
    for (int i = 0; i < 50; i++) {
        uint64_t value = 0;
        cudaStream_t stream = kit_stream();
        for (uint64_t n = 0; n < 40; n++) kit_step(stream, &value, n, n + 1);
        CHECK_OK(DEV->stream_destroy(stream));
        CHECK_EQ(value, 40);
        kit_check_steps();
    }
}

static void test_events_join(void)
{
    cudaStream_t from = kit_stream(), to = kit_stream();
    chorus_event_t event = kit_event();
    uint64_t value = 0;
    for (uint64_t i = 0; i < 200; i++) {
        kit_step(from, &value, 2 * i, 2 * i + 1);
        CHECK_OK(DEV->event_record(event, from));
        CHECK_OK(DEV->stream_wait(to, event));
        kit_step(to, &value, 2 * i + 1, 2 * i + 2);
        CHECK_OK(DEV->event_record(event, to));
        CHECK_OK(DEV->stream_wait(from, event));
    }
    CHECK_OK(DEV->event_sync(event));
    CHECK_EQ(value, 400);
    kit_check_steps();
    CHECK_OK(DEV->event_destroy(event));
    CHECK_OK(DEV->stream_destroy(from));
    CHECK_OK(DEV->stream_destroy(to));
}

/* A wait is for the recording that was the latest when it was called. */
static void test_wait_captures(void)
{
    _Atomic uint32_t gate = 0;
    cudaStream_t held = kit_stream(), free_one = kit_stream(), waiting = kit_stream();
    chorus_event_t event = kit_event();
    int done = 0;
    kit_wait_gate(held, &gate);
    CHECK_OK(DEV->stream_wait(waiting, event)); /* never recorded: no wait */
    CHECK_OK(DEV->stream_sync(waiting));
    CHECK_OK(DEV->event_query(event, &done));
    CHECK_EQ(done, 1);
    CHECK_OK(DEV->event_record(event, held));
    CHECK_OK(DEV->event_query(event, &done));
    CHECK_EQ(done, 0);
    CHECK_OK(DEV->stream_wait(waiting, event));
    CHECK_OK(DEV->event_record(event, free_one));
    CHECK_OK(DEV->event_sync(event));
    CHECK_OK(DEV->event_destroy(event)); /* with a recording and a wait pending */
    uint64_t deadline_ns = ccl_clock_deadline_ns(WATCH_MS);
    while (ccl_clock_ns() < deadline_ns) CHECK_EQ(kit_is_idle(waiting), 0);
    kit_open(&gate);
    CHECK_OK(DEV->stream_sync(waiting));
    CHECK_OK(DEV->stream_destroy(held));
    CHECK_OK(DEV->stream_destroy(free_one));
    CHECK_OK(DEV->stream_destroy(waiting));
}

static void test_elapsed(void)
{
    _Atomic uint32_t gate = 0;
    cudaStream_t stream = kit_stream();
    chorus_event_t from = kit_event(), to = kit_event();
    float milliseconds = -1;
    CHECK_EQ(DEV->event_elapsed(from, to, &milliseconds), ncclInvalidUsage);
    CHECK_OK(DEV->event_record(from, stream));
    kit_wait_gate(stream, &gate);
    CHECK_OK(DEV->event_record(to, stream));
    CHECK_OK(DEV->event_sync(from));
    CHECK_EQ(DEV->event_elapsed(from, to, &milliseconds), ncclInvalidUsage);
    uint64_t began_ns = ccl_clock_ns(), deadline_ns = ccl_clock_deadline_ns(20);
    while (ccl_clock_ns() < deadline_ns) sched_yield();
    kit_open(&gate);
    CHECK_OK(DEV->event_sync(to));
    CHECK_OK(DEV->event_elapsed(from, to, &milliseconds));
    CHECK(milliseconds >= (float)(deadline_ns - began_ns) * 0.9e-6f);
    CHECK_OK(DEV->event_elapsed(to, from, &milliseconds));
    CHECK(milliseconds < 0);
    CHECK_OK(DEV->event_destroy(from));
    CHECK_OK(DEV->event_destroy(to));
    CHECK_OK(DEV->stream_destroy(stream));
}

/* ---- host functions ---- */

struct lock_and_value {
    pthread_mutex_t lock;
    uint64_t *value;
};

static void add_locked(void *argument)
{
    struct lock_and_value *both = argument;
    pthread_mutex_lock(&both->lock);
    *both->value += 1;
    pthread_mutex_unlock(&both->lock);
}

/* A thread that synchronizes one stream may hold what a function of another stream wants. */
static void test_host_func(void)
{
    uint64_t value = 0, other = 0;
    struct lock_and_value both = {.lock = PTHREAD_MUTEX_INITIALIZER, .value = &value};
    cudaStream_t stream = kit_stream(), second = kit_stream();
    pthread_mutex_lock(&both.lock);
    CHECK_OK(DEV->host_func(stream, add_locked, &both));
    kit_step(stream, &value, 1, 2);
    CHECK_OK(DEV->host_func(stream, add_locked, &both));
    kit_step(stream, &value, 3, 4);
    kit_step(second, &other, 0, 1);
    CHECK_OK(DEV->stream_sync(second));
    CHECK_EQ(other, 1);
    pthread_mutex_unlock(&both.lock);
    CHECK_OK(DEV->stream_sync(stream));
    CHECK_EQ(value, 4);
    kit_check_steps();
    CHECK_OK(DEV->stream_destroy(stream));
    CHECK_OK(DEV->stream_destroy(second));
}

/* ---- many ---- */

static void meet_all(int nrounds)
{
    cudaStream_t streams[NSTREAMS];
    _Atomic uint64_t count = 0;
    for (int s = 0; s < NSTREAMS; s++) streams[s] = kit_stream();
    for (int i = 0; i < nrounds; i++)
        for (int s = 0; s < NSTREAMS; s++)
            kit_meet(streams[s], &count, (uint64_t)(i + 1) * NSTREAMS);
    for (int s = NSTREAMS - 1; s >= 0; s--) CHECK_OK(DEV->stream_sync(streams[s]));
    CHECK_EQ(atomic_load(&count), (uint64_t)nrounds * NSTREAMS);
    for (int s = 0; s < NSTREAMS; s++) CHECK_OK(DEV->stream_destroy(streams[s]));
}

static void child_meet(void)
{
    meet_all(1);
    meet_all(40);
}

static void *sync_stream(void *stream)
{
    CHECK_OK(DEV->stream_sync(stream));
    return NULL;
}

static void test_two_syncs(void)
{
    _Atomic uint32_t gate = 0;
    cudaStream_t stream = kit_stream();
    pthread_t first, second;
    kit_wait_gate(stream, &gate);
    CHECK_EQ(pthread_create(&first, NULL, sync_stream, stream), 0);
    CHECK_EQ(pthread_create(&second, NULL, sync_stream, stream), 0);
    for (int i = 0; i < 100; i++) sched_yield();
    kit_open(&gate);
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    CHECK_EQ(kit_is_idle(stream), 1);
    CHECK_OK(DEV->stream_destroy(stream));
}

struct rank {
    _Atomic uint64_t *count;
    int nrounds;
};

static void *run_rank(void *argument)
{
    const struct rank *rank = argument;
    cudaStream_t stream = kit_stream();
    for (int i = 0; i < rank->nrounds; i++) {
        kit_meet(stream, rank->count, (uint64_t)(i + 1) * NTHREADS);
        CHECK_OK(DEV->stream_sync(stream));
    }
    CHECK_OK(DEV->stream_destroy(stream));
    return NULL;
}

static void run_ranks(int nrounds)
{
    _Atomic uint64_t count = 0;
    struct rank rank = {.count = &count, .nrounds = nrounds};
    pthread_t threads[NTHREADS];
    for (int i = 0; i < NTHREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, run_rank, &rank), 0);
    for (int i = 0; i < NTHREADS; i++) pthread_join(threads[i], NULL);
    CHECK_EQ(atomic_load(&count), (uint64_t)nrounds * NTHREADS);
}

static void test_ranks_as_threads(void)
{
    run_ranks(300);
}

/* ---- random programs ---- */

struct program {
    unsigned seed;
    cudaStream_t streams[4];
    uint64_t values[4], steps[4];
};

/* Enqueues a step of stream `s`; now and then joins another stream first, and then passes that
 * stream's value through, which is wrong unless the join holds. */
static void enqueue_random(struct program *program, chorus_event_t event)
{
    int s = rand_r(&program->seed) % 4, from = rand_r(&program->seed) % 4;
    if (rand_r(&program->seed) % 3 == 0 && s != from) {
        CHECK_OK(DEV->event_record(event, program->streams[from]));
        CHECK_OK(DEV->stream_wait(program->streams[s], event));
        uint64_t at = program->steps[from];
        kit_step(program->streams[s], &program->values[from], at, at + 1);
        program->steps[from] = at + 1;
        CHECK_OK(DEV->event_record(event, program->streams[s]));
        CHECK_OK(DEV->stream_wait(program->streams[from], event));
    } else {
        uint64_t at = program->steps[s]++;
        kit_step(program->streams[s], &program->values[s], at, at + 1);
    }
    if (rand_r(&program->seed) % 16 == 0) CHECK_OK(DEV->stream_sync(program->streams[from]));
}

static void *run_program(void *argument)
{
    struct program *program = argument;
    chorus_event_t event = kit_event();
    for (int s = 0; s < 4; s++) program->streams[s] = kit_stream();
    for (int i = 0; i < 500; i++) enqueue_random(program, event);
    CHECK_OK(DEV->event_destroy(event));
    for (int s = 0; s < 4; s++) CHECK_OK(DEV->stream_destroy(program->streams[s]));
    for (int s = 0; s < 4; s++) CHECK_EQ(program->values[s], program->steps[s]);
    kit_check_steps();
    return NULL;
}

static void child_programs(void)
{
    struct program programs[4];
    pthread_t threads[4];
    memset(programs, 0, sizeof programs);
    for (unsigned i = 0; i < 4; i++) {
        programs[i].seed = 1000 + i;
        NOTE("seed %u", programs[i].seed);
        CHECK_EQ(pthread_create(&threads[i], NULL, run_program, &programs[i]), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

/* ---- hardware queues ---- */

/* `opener` would free `held`, but with one queue the wait in between holds it up. */
static void enqueue_knot(cudaStream_t streams[3], _Atomic uint32_t *gate)
{
    chorus_event_t event = kit_event();
    kit_wait_gate(streams[0], gate);
    CHECK_OK(DEV->event_record(event, streams[0]));
    CHECK_OK(DEV->stream_wait(streams[1], event));
    kit_open_gate(streams[2], gate);
    CHECK_OK(DEV->event_destroy(event));
}

static void destroy_three(cudaStream_t streams[3])
{
    for (int s = 0; s < 3; s++) CHECK_OK(DEV->stream_destroy(streams[s]));
}

static void child_knot_hangs(void)
{
    cudaStream_t streams[3] = {kit_stream(), kit_stream(), kit_stream()};
    _Atomic uint32_t gate = 0;
    enqueue_knot(streams, &gate);
    uint64_t deadline_ns = ccl_clock_deadline_ns(WATCH_MS);
    while (ccl_clock_ns() < deadline_ns) CHECK_EQ(kit_is_idle(streams[2]), 0);
    CHECK_EQ(atomic_load(&gate), 0);
    kit_open(&gate);
    destroy_three(streams);
}

static void child_knot_opens(void)
{
    cudaStream_t streams[3] = {kit_stream(), kit_stream(), kit_stream()};
    _Atomic uint32_t gate = 0;
    enqueue_knot(streams, &gate);
    for (int s = 0; s < 3; s++) kit_poll_idle(streams[s]);
    destroy_three(streams);
}

/* A kernel that has started holds up nobody, even if it is blocked. */
static void child_started_holds_not(void)
{
    cudaStream_t streams[3] = {kit_stream(), kit_stream(), kit_stream()};
    _Atomic uint32_t gate = 0;
    kit_wait_gate(streams[0], &gate);
    kit_wait_gate(streams[1], &gate);
    kit_open_gate(streams[2], &gate);
    for (int s = 0; s < 3; s++) kit_poll_idle(streams[s]);
    destroy_three(streams);
}

static void run_child(const char *name, const char *queues)
{
    static struct test_output output;
    const char *const env[] = {queues, NULL};
    test_exec_case(name, env, &output);
    if (output.code != 0) FAIL("%s with %s: %s%s", name, queues, output.out, output.err);
}

static const char *const queue_counts[] = {"CHORUS_HOST_QUEUES=0", "CHORUS_HOST_QUEUES=1",
                                           "CHORUS_HOST_QUEUES=8"};

static void run_children(const char *name)
{
    for (size_t i = 0; i < TEST_COUNT(queue_counts); i++) run_child(name, queue_counts[i]);
}

static void test_meet(void)
{
    run_children("child:meet");
}

static void test_programs(void)
{
    run_children("child:programs");
}

static void test_knot(void)
{
    run_child("child:knot_opens", queue_counts[0]);
    run_child("child:knot_hangs", queue_counts[1]);
    run_child("child:knot_opens", queue_counts[2]);
}

static void test_started_holds_not(void)
{
    run_children("child:started_holds_not");
}

/* One worker must do for everything. */
static void test_one_thread(void)
{
    run_child("child:meet", "CHORUS_HOST_THREADS=1");
    run_child("child:programs", "CHORUS_HOST_THREADS=1");
    run_child("child:knot_opens", "CHORUS_HOST_THREADS=1");
}

/* The same with kernels that the threads run themselves where they can. */
static void test_small(void)
{
    static const char *const names[] = {
        "order",         "progress_alone", "destroy_waits", "events_join",
        "wait_captures", "host_func",      "two_syncs",     "ranks_as_threads",
        "meet",          "programs",       "knot"};
    for (size_t i = 0; i < TEST_COUNT(names); i++) run_child(names[i], "DEVICE_SMALL=1");
}

static const struct test_case cases[] = {
    {"order", test_order, 0},
    {"progress_alone", test_progress_alone, 0},
    {"destroy_waits", test_destroy_waits, 0},
    {"events_join", test_events_join, 0},
    {"wait_captures", test_wait_captures, 0},
    {"elapsed", test_elapsed, 0},
    {"host_func", test_host_func, 0},
    {"two_syncs", test_two_syncs, 0},
    {"ranks_as_threads", test_ranks_as_threads, 0},
    {"meet", test_meet, 0},
    {"programs", test_programs, 0},
    {"knot", test_knot, 0},
    {"started_holds_not", test_started_holds_not, 0},
    {"one_thread", test_one_thread, 0},
    {"small", test_small, 120},
    {"child:meet", child_meet, 0},
    {"child:programs", child_programs, 0},
    {"child:knot_hangs", child_knot_hangs, 0},
    {"child:knot_opens", child_knot_opens, 0},
    {"child:started_holds_not", child_started_holds_not, 0},
};
TEST_LIB_MAIN(cases)
