/* wait.h: the one door of host-side waits: works on pending kernels while it waits.
 *
 * Whoever blocks inside the library does so here, so nothing waits without an end: `done` must
 * become true when the communicator fails.
 */
#ifndef CCL_CORE_WAIT_H
#define CCL_CORE_WAIT_H

#include <stdint.h>

/* Returns 1 when done(context) is true, 0 when the deadline (ccl_clock_ns) passed first. */
int ccl_wait(int (*done)(void *context), void *context, uint64_t deadline_ns);

#endif
