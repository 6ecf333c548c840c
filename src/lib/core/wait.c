/* wait.c: waiting by helping. */
#include "core/wait.h"

#include "base/clock.h"
#include "device/device.h"

/* The device looks at the deadline at least this often. */
enum { NAP_US = 100000 };

int ccl_wait(int (*done)(void *context), void *context, uint64_t deadline_ns)
{
    for (;;) {
        if (ccl_device()->help_until(done, context, NAP_US)) return 1;
        if (deadline_ns != UINT64_MAX && ccl_clock_ns() >= deadline_ns) return 0;
    }
}
