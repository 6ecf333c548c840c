/* wait.c: waiting by helping. */
#include "core/wait.h"

#include "base/clock.h"
#include "device/device.h"

enum { NAP_US = 1000 };

int ccl_wait(int (*done)(void *context), void *context, uint64_t deadline_ns)
{
    while (!done(context)) {
        if (deadline_ns != UINT64_MAX && ccl_clock_ns() >= deadline_ns) return 0;
        ccl_device()->help(NAP_US);
    }
    return 1;
}
