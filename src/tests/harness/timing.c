/* Clocks of the drivers. What is timed, and between which points, is in harness/run_time.c. */
#include "harness/timing.h"

#include <time.h>

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t perf_clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t perf_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

struct timespec perf_clock_until(double seconds)
{
    uint64_t when = read_clock(CLOCK_REALTIME) + (uint64_t)(seconds * 1e9);
    struct timespec until = {(time_t)(when / 1000000000u), (long)(when % 1000000000u)};
    return until;
}
