/* The monotonic clock and deadlines derived from it. */
#include "base/clock.h"

#include <time.h>

uint64_t ccl_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t ccl_clock_deadline_ns(int64_t timeout_ms)
{
    if (timeout_ms < 0) return UINT64_MAX;
    return ccl_clock_ns() + (uint64_t)timeout_ms * 1000000u;
}

int ccl_clock_poll_ms(uint64_t deadline_ns)
{
    if (deadline_ns == UINT64_MAX) return 1000;
    uint64_t now_ns = ccl_clock_ns();
    if (now_ns >= deadline_ns) return 0;
    uint64_t left_ms = (deadline_ns - now_ns + 999999u) / 1000000u;
    return left_ms > 1000 ? 1000 : (int)left_ms;
}
