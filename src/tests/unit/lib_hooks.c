/* The settle and prepare hooks of test programs that use the library. All references are weak:
 * a part that the program does not link has nothing to settle. */
#include "base/doorbell.h"
#include "chorus.h"
#include "unit/test.h"

#include <string.h>

void ccl_boot_quiesce(void) __attribute__((weak));
const struct chorus_devices *chorus_devices(void) __attribute__((weak));
int ccl_bell_self_fd(void) __attribute__((weak));

void test_lib_settle(void)
{
    if (chorus_devices != NULL) chorus_devices()->reset();
    if (ccl_boot_quiesce != NULL) ccl_boot_quiesce();
}

static void do_nothing(void *unused)
{
    (void)unused;
}

/* CUDA runs host functions on a thread that lives as long as the process, and bears its name. */
static void start_driver_thread(const struct chorus_devices *devices)
{
    cudaStream_t stream = NULL;
    if (strcmp(devices->kind, "cuda") != 0 || devices->stream_create(&stream) != ncclSuccess)
        return;
    devices->host_func(stream, do_nothing, NULL);
    devices->stream_sync(stream);
    devices->stream_destroy(stream);
}

/* The doorbell's page and the arena of the host devices live as long as the process. A fault may
 * keep the first block from being made. */
void test_lib_prepare(void)
{
    if (ccl_bell_self_fd != NULL) ccl_bell_self_fd();
    void *block = NULL;
    if (chorus_devices == NULL) return;
    for (int i = 0; i < 2 && block == NULL; i++) chorus_devices()->alloc(&block, 1 << 16);
    chorus_devices()->free(block);
    start_driver_thread(chorus_devices());
}
