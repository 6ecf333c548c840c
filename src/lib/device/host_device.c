/* The table of the host devices, and what a host device is.
 *
 * Found by ccl_device(). Host devices belong to their process: after fork() a child must not use
 * those of its parent (their threads and locks did not come along); it may exec or exit.
 */
#include "device/host_engine.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/param.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STAT_BYTES = 1024, START_FIELD = 22 };

static _Thread_local int current_device;

int ccl_host_device(void)
{
    return current_device;
}

static int count_devices(void)
{
    return (int)ccl_param_int(CCL_PARAM_HOST_DEVICES);
}

static ncclResult_t check_device(const char *function, int device)
{
    if (device >= 0 && device < count_devices()) return ncclSuccess;
    return ccl_err(ncclInvalidArgument,
                   "%s: device %d does not exist; there are %d host devices (CHORUS_HOST_DEVICES)",
                   function, device, count_devices());
}

static ncclResult_t get_count(int *ndevices)
{
    if (ndevices == NULL) return ccl_err(ncclInvalidArgument, "count: ndevices is NULL");
    *ndevices = count_devices();
    return ncclSuccess;
}

static ncclResult_t get_device(int *device)
{
    if (device == NULL) return ccl_err(ncclInvalidArgument, "get: device is NULL");
    *device = current_device;
    return ncclSuccess;
}

static ncclResult_t set_device(int device)
{
    TRY(check_device("set", device));
    current_device = device;
    return ncclSuccess;
}

static ncclResult_t enter(int device, void **before)
{
    *before = (void *)(uintptr_t)current_device;
    if (device == current_device) return ncclSuccess;
    return set_device(device);
}

static void leave(void *before)
{
    current_device = (int)(uintptr_t)before;
}

static ncclResult_t get_info(int device, struct chorus_device_info *info)
{
    if (info == NULL) return ccl_err(ncclInvalidArgument, "info: info is NULL");
    TRY(check_device("info", device));
    memset(info, 0, sizeof *info);
    snprintf(info->name, sizeof info->name, "host device %d", device);
    snprintf(info->pci, sizeof info->pci, "host:%02d", device);
    ccl_host_mem_count(&info->total_bytes, &info->free_bytes);
    return ncclSuccess;
}

/* Start time of this process in clock ticks since boot; with the pid it names a process for
 * ever. The program's name in front may hold blanks and brackets, so fields count from its end. */
static ncclResult_t read_start_time(unsigned long long *ticks)
{
    char text[STAT_BYTES];
    FILE *file = fopen("/proc/self/stat", "re");
    if (file == NULL)
        return ccl_err(ncclSystemError, "opening /proc/self/stat: %s", strerror(errno));
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < START_FIELD; field++) at = strchr(at + 1, ' ');
    *ticks = at == NULL ? 0 : strtoull(at, NULL, 10);
    return ncclSuccess;
}

static ncclResult_t get_identity(int device, char text[64])
{
    unsigned long long ticks;
    TRY(check_device("identity", device));
    TRY(read_start_time(&ticks));
    snprintf(text, 64, "host %ld %llu %d", (long)getpid(), ticks, device);
    return ncclSuccess;
}

static uint32_t count_lanes(int device)
{
    (void)device;
    return ccl_host_nworkers();
}

static ncclResult_t alloc_words(void **memory, size_t bytes)
{
    return ccl_alloc(memory, 1, bytes);
}

static ncclResult_t free_words(void *memory)
{
    ccl_free(memory);
    return ncclSuccess;
}

static int help_until(int (*ready)(void *arg), void *arg, uint32_t timeout_us)
{
    struct ccl_host_goal goal = {.ready = ready, .arg = arg};
    if (ready != NULL && ready(arg)) return 1;
    ccl_host_give_own();
    return ccl_host_help(&goal, timeout_us);
}

static ncclResult_t reset(void)
{
    struct ccl_host_engine *e = &ccl_host;
    ccl_host_lock();
    unsigned long long pending = e->pending + ccl_host_count_kept();
    ccl_host_unlock();
    if (pending > 0)
        return ccl_err(ncclInvalidUsage, "reset: %llu operations are still queued", pending);
    ccl_host_workers_stop(1);
    ccl_host_lock();
    if (e->pending == 0) {
        ccl_host_forget_kept();
        ccl_host_stream_pool_free();
        ccl_host_event_pool_free();
        ccl_host_pool_free();
    }
    ccl_host_unlock();
    return ncclSuccess;
}

const struct ccl_device_ops ccl_device_host = {
    .base =
        {
            .size = sizeof(struct chorus_devices),
            .kind = "host",
            .count = get_count,
            .get = get_device,
            .set = set_device,
            .info = get_info,
            .alloc = ccl_host_mem_alloc,
            .free = ccl_host_mem_free,
            .stream_create = ccl_host_stream_create,
            .stream_destroy = ccl_host_stream_destroy,
            .stream_sync = ccl_host_stream_sync,
            .stream_query = ccl_host_stream_query,
            .stream_wait = ccl_host_event_wait,
            .event_create = ccl_host_event_create,
            .event_destroy = ccl_host_event_destroy,
            .event_record = ccl_host_event_record,
            .event_sync = ccl_host_event_sync,
            .event_query = ccl_host_event_query,
            .event_elapsed = ccl_host_event_elapsed,
            .copy = ccl_host_copy,
            .fill = ccl_host_fill,
            .host_func = ccl_host_func,
            .reset = reset,
        },
    .retires = 1,
    .enter = enter,
    .leave = leave,
    .identity = get_identity,
    .memory_fault = ccl_host_mem_fault,
    .lanes = count_lanes,
    .stream_device = ccl_host_stream_device,
    .event_make = ccl_host_event_create,
    .stream_make = ccl_host_stream_create,
    .flags_alloc = alloc_words,
    .flags_free = free_words,
    .words_alloc = alloc_words,
    .words_free = free_words,
    .launch = ccl_host_launch,
    .arena = ccl_host_arena,
    .advance = ccl_host_advance,
    .hold = ccl_host_hold,
    .drop = ccl_host_drop,
    .help_until = help_until,
};
