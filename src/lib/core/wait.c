/* wait.c: waiting by helping. */
#include "core/wait.h"

#include "device/device.h"

/* The device looks again at least this often, should a ring of the doorbell be missed. */
enum { NAP_US = 100000 };

void ccl_wait(int (*done)(void *context), void *context)
{
    while (!ccl_device()->help_until(done, context, NAP_US)) {
    }
}
