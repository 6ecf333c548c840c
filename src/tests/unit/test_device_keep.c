/* Unit tests of kept kernels (device/host_keep.c): small kernels of host devices that the calling
 * threads run themselves. The tests of streams run once more with small kernels; the cases here are
 * what only kept kernels do: who runs them, and that none is forgotten.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "unit/device_kit.h"
#include "unit/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define DEV chorus_devices()

enum { LIMIT_MS = 20000, NROUNDS = 200, NTHREADS = 4 };

/* What a kernel that notes its thread and waits for a gate works on. */
struct visit {
    _Atomic uint32_t *gate; /* NULL: none */
    _Atomic uint32_t *done;
    pthread_t *thread;
};

static enum ccl_run run_visit(void *args, uint32_t lane, struct ccl_cursor *cursor)
{
    const struct visit *visit = args;
    (void)lane;
    (void)cursor;
    if (visit->gate != NULL && !atomic_load_explicit(visit->gate, memory_order_acquire))
        return CCL_RUN_BLOCKED;
    *visit->thread = pthread_self();
    /* Release publishes the thread. */
    atomic_store_explicit(visit->done, 1, memory_order_release);
    return CCL_RUN_DONE;
}

static void launch_visit(cudaStream_t stream, struct visit visit)
{
    struct ccl_launch_spec spec = {
        .args = &visit, .args_bytes = sizeof visit, .nlanes = 1, .is_small = 1, .host = run_visit};
    CHECK_OK(ccl_device()->launch(stream, &spec));
    ccl_device()->advance();
}

/* Waits without a call that would run the kernel. */
static void await_done(_Atomic uint32_t *done)
{
    uint64_t end_ns = ccl_clock_deadline_ns(LIMIT_MS);
    while (!atomic_load_explicit(done, memory_order_acquire)) {
        CHECK(ccl_clock_ns() < end_ns);
        sched_yield();
    }
}

/* The first one on a stream goes to the engine, which makes room for those that follow. */
static void warm_up(cudaStream_t stream)
{
    _Atomic uint32_t done = 0;
    pthread_t thread;
    launch_visit(stream, (struct visit){NULL, &done, &thread});
    CHECK_OK(DEV->stream_sync(stream));
}

static void test_caller_runs(void)
{
    cudaStream_t stream = kit_stream();
    warm_up(stream);
    for (int i = 0; i < NROUNDS; i++) {
        _Atomic uint32_t done = 0;
        pthread_t thread;
        launch_visit(stream, (struct visit){NULL, &done, &thread});
        CHECK_EQ(atomic_load(&done), 1);
        CHECK(pthread_equal(thread, pthread_self()));
        CHECK_EQ(kit_is_idle(stream), 1);
    }
    CHECK_OK(DEV->stream_destroy(stream));
}

static void test_forgotten(void)
{
    cudaStream_t stream = kit_stream();
    warm_up(stream);
    for (int i = 0; i < NROUNDS / 10; i++) {
        _Atomic uint32_t gate = 0, done = 0;
        pthread_t thread;
        launch_visit(stream, (struct visit){&gate, &done, &thread});
        CHECK_EQ(atomic_load(&done), 0);
        kit_open(&gate);
        await_done(&done);
        CHECK_OK(DEV->stream_sync(stream));
    }
    CHECK_OK(DEV->stream_destroy(stream));
}

/* The default stream outlives the threads that look after kernels. */
static void test_forgotten_anew(void)
{
    int nthreads = kit_count_threads(0);
    for (int life = 0; life < 3; life++) {
        CHECK_OK(ccl_device()->hold());
        warm_up(NULL);
        _Atomic uint32_t gate = 0, done = 0;
        pthread_t thread;
        launch_visit(NULL, (struct visit){&gate, &done, &thread});
        kit_open(&gate);
        await_done(&done);
        CHECK_OK(DEV->stream_sync(NULL));
        ccl_device()->drop();
        kit_count_threads(nthreads);
        CHECK_OK(ccl_device()->hold());
        atomic_store(&gate, 0);
        atomic_store(&done, 0);
        launch_visit(NULL, (struct visit){&gate, &done, &thread});
        kit_open(&gate);
        await_done(&done);
        CHECK_OK(DEV->stream_sync(NULL));
        ccl_device()->drop();
    }
}

/* Whatever is enqueued behind a kept kernel runs after it, also on other streams. */
static void test_behind(void)
{
    cudaStream_t first = kit_stream(), second = kit_stream();
    chorus_event_t event = kit_event();
    warm_up(first);
    warm_up(second);
    for (int i = 0; i < NROUNDS / 10; i++) {
        _Atomic uint32_t gate = 0, done = 0, next_done = 0;
        pthread_t thread, next;
        launch_visit(first, (struct visit){&gate, &done, &thread});
        CHECK_OK(DEV->event_record(event, first));
        CHECK_OK(DEV->stream_wait(second, event));
        launch_visit(second, (struct visit){&done, &next_done, &next});
        CHECK_EQ(atomic_load(&next_done), 0);
        kit_open(&gate);
        CHECK_OK(DEV->stream_sync(second));
        CHECK_EQ(atomic_load(&next_done), 1);
    }
    CHECK_OK(DEV->event_destroy(event));
    CHECK_OK(DEV->stream_destroy(first));
    CHECK_OK(DEV->stream_destroy(second));
}

static void test_reset_refuses(void)
{
    cudaStream_t stream = kit_stream();
    _Atomic uint32_t gate = 0, done = 0;
    pthread_t thread;
    warm_up(stream);
    launch_visit(stream, (struct visit){&gate, &done, &thread});
    CHECK_EQ(DEV->reset(), ncclInvalidUsage);
    kit_open(&gate);
    CHECK_OK(DEV->stream_destroy(stream));
    CHECK_EQ(atomic_load(&done), 1);
}

/* Threads that launch on, await and query one stream. */
struct crowd {
    cudaStream_t stream;
    _Atomic uint32_t ndone;
};

static enum ccl_run run_count(void *args, uint32_t lane, struct ccl_cursor *cursor)
{
    (void)lane;
    if (cursor->word[0]++ < 3) return CCL_RUN_BLOCKED;
    atomic_fetch_add(*(_Atomic uint32_t *const *)args, 1);
    return CCL_RUN_DONE;
}

static void *join_crowd(void *argument)
{
    struct crowd *crowd = argument;
    _Atomic uint32_t *counter = &crowd->ndone;
    struct ccl_launch_spec spec = {.args = &counter,
                                   .args_bytes = sizeof counter,
                                   .nlanes = 1,
                                   .is_small = 1,
                                   .host = run_count};
    for (int i = 0; i < NROUNDS; i++) {
        if (ccl_device()->launch(crowd->stream, &spec) != ncclSuccess) return argument;
        ccl_device()->advance();
        if (i % 2 == 0) kit_is_idle(crowd->stream);
        if (i % 3 == 0 && DEV->stream_sync(crowd->stream) != ncclSuccess) return argument;
    }
    return DEV->stream_sync(crowd->stream) == ncclSuccess ? NULL : argument;
}

static void test_crowd(void)
{
    struct crowd crowd = {.stream = kit_stream()};
    pthread_t threads[NTHREADS];
    for (int i = 0; i < NTHREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, join_crowd, &crowd), 0);
    for (int i = 0; i < NTHREADS; i++) {
        void *result;
        CHECK_EQ(pthread_join(threads[i], &result), 0);
        CHECK(result == NULL);
    }
    CHECK_EQ(atomic_load(&crowd.ndone), NTHREADS * NROUNDS);
    CHECK_OK(DEV->stream_destroy(crowd.stream));
}

static const struct test_case cases[] = {
    {"the caller runs it", test_caller_runs, 0},
    {"one that nobody awaits is run", test_forgotten, 0},
    {"also after the threads have ended and begun again", test_forgotten_anew, 0},
    {"what is behind it waits", test_behind, 0},
    {"no reset while one is kept", test_reset_refuses, 0},
    {"threads that share a stream", test_crowd, 0},
};
TEST_LIB_MAIN(cases)
