/* Time: one monotonic clock for the whole library. */
#ifndef CCL_BASE_CLOCK_H
#define CCL_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t ccl_clock_ns(void);

/* A deadline `timeout_ms` from now; timeout_ms < 0 means never (UINT64_MAX). */
uint64_t ccl_clock_deadline_ns(int64_t timeout_ms);

/* Milliseconds left until a deadline, for poll(2), clamped to [0, 1000] so that a waiting loop
 * looks at its abort flag at least once a second. */
int ccl_clock_poll_ms(uint64_t deadline_ns);

#endif
