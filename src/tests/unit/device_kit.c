/* Kernels and waits that the tests of the host devices share. Every kernel follows the rule of
 * device.h: it never blocks, and rings the bell after it published something.
 */
#include "unit/device_kit.h"

#include "base/clock.h"
#include "base/doorbell.h"
#include "unit/test.h"

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>

enum { POLL_LIMIT_MS = 20000 };

struct gate_args {
    _Atomic uint32_t *gate;
};

struct meet_args {
    _Atomic uint64_t *count;
    uint64_t target;
};

struct step_args {
    uint64_t *value;
    uint64_t from, to;
};

static void launch(cudaStream_t stream, ccl_host_kernel *kernel, const void *args, size_t bytes)
{
    struct ccl_launch_spec spec = {.args = args, .args_bytes = bytes, .nlanes = 1, .host = kernel};
    spec.is_small = getenv("DEVICE_SMALL") != NULL;
    CHECK_OK(ccl_device()->launch(stream, &spec));
    if (spec.is_small) ccl_device()->advance();
}

void kit_open(_Atomic uint32_t *gate)
{
    /* Release pairs with the acquire of run_gate: what came before the opening. */
    atomic_store_explicit(gate, 1, memory_order_release);
    ccl_bell_ring(ccl_bell_self());
}

static enum ccl_run run_gate(void *args, uint32_t lane, struct ccl_cursor *cursor)
{
    const struct gate_args *gate = args;
    (void)lane;
    (void)cursor;
    return atomic_load_explicit(gate->gate, memory_order_acquire) ? CCL_RUN_DONE : CCL_RUN_BLOCKED;
}

void kit_wait_gate(cudaStream_t stream, _Atomic uint32_t *gate)
{
    launch(stream, run_gate, &(struct gate_args){gate}, sizeof(struct gate_args));
}

static enum ccl_run run_opener(void *args, uint32_t lane, struct ccl_cursor *cursor)
{
    const struct gate_args *gate = args;
    (void)lane;
    (void)cursor;
    kit_open(gate->gate);
    return CCL_RUN_DONE;
}

void kit_open_gate(cudaStream_t stream, _Atomic uint32_t *gate)
{
    launch(stream, run_opener, &(struct gate_args){gate}, sizeof(struct gate_args));
}

static enum ccl_run run_meet(void *args, uint32_t lane, struct ccl_cursor *cursor)
{
    const struct meet_args *meet = args;
    (void)lane;
    if (cursor->word[0] == 0) {
        cursor->word[0] = 1;
        uint64_t count = atomic_fetch_add_explicit(meet->count, 1, memory_order_acq_rel) + 1;
        if (count >= meet->target) ccl_bell_ring(ccl_bell_self());
    }
    uint64_t count = atomic_load_explicit(meet->count, memory_order_acquire);
    return count >= meet->target ? CCL_RUN_DONE : CCL_RUN_BLOCKED;
}

void kit_meet(cudaStream_t stream, _Atomic uint64_t *count, uint64_t target)
{
    launch(stream, run_meet, &(struct meet_args){count, target}, sizeof(struct meet_args));
}

static _Atomic uint32_t nwrong_steps;

static enum ccl_run run_step(void *args, uint32_t lane, struct ccl_cursor *cursor)
{
    const struct step_args *step = args;
    (void)lane;
    (void)cursor;
    if (*step->value != step->from) atomic_fetch_add(&nwrong_steps, 1);
    *step->value = step->to;
    return CCL_RUN_DONE;
}

void kit_check_steps(void)
{
    CHECK_EQ(atomic_load(&nwrong_steps), 0);
}

void kit_step(cudaStream_t stream, uint64_t *value, uint64_t from, uint64_t to)
{
    launch(stream, run_step, &(struct step_args){value, from, to}, sizeof(struct step_args));
}

int kit_is_idle(cudaStream_t stream)
{
    int idle = -1;
    CHECK_OK(chorus_devices()->stream_query(stream, &idle));
    return idle;
}

void kit_poll_idle(cudaStream_t stream)
{
    uint64_t deadline_ns = ccl_clock_deadline_ns(POLL_LIMIT_MS);
    while (!kit_is_idle(stream)) {
        if (ccl_clock_ns() > deadline_ns) FAIL("stream %p is not idle after 20 s", (void *)stream);
        sched_yield();
    }
}

cudaStream_t kit_stream(void)
{
    cudaStream_t stream = NULL;
    CHECK_OK(chorus_devices()->stream_create(&stream));
    return stream;
}

chorus_event_t kit_event(void)
{
    chorus_event_t event = NULL;
    CHECK_OK(chorus_devices()->event_create(&event));
    return event;
}

static int count_tasks(void)
{
    int ntasks = 0;
    DIR *folder = opendir("/proc/self/task");
    CHECK(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        ntasks += entry->d_name[0] != '.';
    closedir(folder);
    return ntasks;
}

int kit_count_threads(int want)
{
    /* A joined thread stays in the list for a moment. */
    uint64_t deadline_ns = ccl_clock_deadline_ns(POLL_LIMIT_MS);
    int ntasks = count_tasks();
    while (want > 0 && ntasks != want && ccl_clock_ns() < deadline_ns) {
        sched_yield();
        ntasks = count_tasks();
    }
    return ntasks;
}
