/* Times the two figures that the host devices are built for; not part of make test.
 *
 * Prints one line each: enqueue + sync of an empty kernel by one thread, and a round of eight
 * streams whose kernels meet at a shared counter, enqueued and then synchronized by one thread.
 */
#include "base/clock.h"
#include "base/doorbell.h"
#include "device/device.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { NSTREAMS = 8, NROUNDS = 20000, NREPEATS = 5 };

static void must(ncclResult_t rc)
{
    if (rc != ncclSuccess) exit(1);
}

static enum ccl_run run_empty(void *args, uint32_t lane, struct ccl_cursor *cursor)
{
    (void)args;
    (void)lane;
    (void)cursor;
    return CCL_RUN_DONE;
}

struct meet {
    _Atomic uint64_t *count;
    uint64_t target;
};

static enum ccl_run run_meet(void *args, uint32_t lane, struct ccl_cursor *cursor)
{
    const struct meet *meet = args;
    (void)lane;
    if (cursor->word[0] == 0) {
        cursor->word[0] = 1;
        uint64_t count = atomic_fetch_add_explicit(meet->count, 1, memory_order_acq_rel) + 1;
        if (count == meet->target) ccl_bell_ring(ccl_bell_self());
    }
    uint64_t count = atomic_load_explicit(meet->count, memory_order_acquire);
    return count >= meet->target ? CCL_RUN_DONE : CCL_RUN_BLOCKED;
}

static double time_empty(cudaStream_t stream)
{
    const struct ccl_device_ops *ops = ccl_device();
    struct ccl_launch_spec spec = {.nlanes = 1, .host = run_empty};
    uint64_t began_ns = ccl_clock_ns();
    for (int i = 0; i < NROUNDS; i++) {
        must(ops->launch(stream, &spec));
        must(ops->base.stream_sync(stream));
    }
    return (double)(ccl_clock_ns() - began_ns) / NROUNDS / 1000;
}

static double time_meet(cudaStream_t *streams)
{
    const struct ccl_device_ops *ops = ccl_device();
    _Atomic uint64_t count = 0;
    struct meet meet = {.count = &count};
    struct ccl_launch_spec spec = {
        .args = &meet, .args_bytes = sizeof meet, .nlanes = 1, .host = run_meet};
    uint64_t began_ns = ccl_clock_ns();
    for (int i = 0; i < NROUNDS; i++) {
        meet.target = (uint64_t)(i + 1) * NSTREAMS;
        for (int s = 0; s < NSTREAMS; s++) must(ops->launch(streams[s], &spec));
        for (int s = 0; s < NSTREAMS; s++) must(ops->base.stream_sync(streams[s]));
    }
    return (double)(ccl_clock_ns() - began_ns) / NROUNDS / 1000;
}

int main(void)
{
    const struct chorus_devices *devices = chorus_devices();
    cudaStream_t streams[NSTREAMS];
    double best_empty_us = 1e30, best_meet_us = 1e30;
    for (int s = 0; s < NSTREAMS; s++) must(devices->stream_create(&streams[s]));
    for (int i = 0; i < NREPEATS; i++) {
        double empty_us = time_empty(streams[0]), meet_us = time_meet(streams);
        if (empty_us < best_empty_us) best_empty_us = empty_us;
        if (meet_us < best_meet_us) best_meet_us = meet_us;
    }
    printf("empty kernel, enqueue and sync: %.2f us (target 1.5)\n", best_empty_us);
    printf("%d streams that meet, one round: %.2f us (target 8)\n", NSTREAMS, best_meet_us);
    for (int s = 0; s < NSTREAMS; s++) must(devices->stream_destroy(streams[s]));
    return 0;
}
