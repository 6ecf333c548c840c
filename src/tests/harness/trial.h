/* The memory of a verified iteration of one rank: filling it before the call, comparing it after.
 * run_check.c calls one of two implementations: the CPU's, where it sees the memory of the device
 * (trial_host.c), and kernels on the device (trial_device.c). Both find the same.
 */
#ifndef PERF_TRIAL_H
#define PERF_TRIAL_H

#include "harness/buffers.h"
#include "harness/verify.h"

struct perf_trial {
    const struct perf_pattern *pattern;
    struct perf_fill fill;
    struct perf_shape shape;
    struct perf_place place;
    void *scratch;       /* device memory of PERF_TRIAL_SCRATCH bytes, where kernels check */
    cudaStream_t stream; /* the rank's */
};

/* What is compared: two buffers, and a guard before and one behind each. */
enum {
    PERF_TRIAL_RECV,
    PERF_TRIAL_SEND,
    PERF_TRIAL_RECV_GUARDS,
    PERF_TRIAL_SEND_GUARDS = PERF_TRIAL_RECV_GUARDS + 2,
    PERF_TRIAL_PARTS = PERF_TRIAL_SEND_GUARDS + 2
};

/* A row of a table, and the results. */
enum { PERF_TRIAL_ROW = 256 * 8, PERF_TRIAL_SCRATCH = PERF_TRIAL_ROW + 256 };

/* The current device is the rank's. Errors end the run. */
void perf_trial_fill_host(const struct perf_trial *trial);
void perf_trial_compare_host(const struct perf_trial *trial,
                             struct perf_mismatch found[PERF_TRIAL_PARTS]);

/* The same, in order on the rank's stream; fill does not wait for it. */
void perf_trial_fill_device(const struct perf_trial *trial);
void perf_trial_compare_device(const struct perf_trial *trial,
                               struct perf_mismatch found[PERF_TRIAL_PARTS]);

/* One wrong guard byte: `first` is its offset from the start of an area of `bytes` data bytes, so
 * that those before it wrap to large numbers; `offset` is that in the guard. */
void perf_trial_guard(struct perf_mismatch *mismatch, const size_t *bytes, int offset, uint8_t got);

#endif
