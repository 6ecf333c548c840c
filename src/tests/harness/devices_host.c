/* Host devices of the loaded library as devices of the drivers: the table that chorus_devices()
 * gives, which another library does not have.
 */
#include "harness/devices.h"
#include "harness/library.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Of the last level; some machines do not tell. */
static size_t cache_bytes(void)
{
    static const int levels[] = {_SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE,
                                 _SC_LEVEL2_CACHE_SIZE};
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        long bytes = sysconf(levels[i]);
        if (bytes > 0) return (size_t)bytes;
    }
    return 0;
}

static ncclResult_t host_info(int device, struct perf_device_info *info)
{
    struct chorus_device_info got;
    memset(info, 0, sizeof *info);
    ncclResult_t result = perf_library_devices()->info(device, &got);
    if (result != ncclSuccess) return result;
    memcpy(info->name, got.name, sizeof info->name);
    memcpy(info->pci, got.pci, sizeof info->pci);
    info->total_bytes = got.total_bytes;
    info->free_bytes = got.free_bytes;
    info->cache_bytes = cache_bytes();
    return ncclSuccess;
}

const struct perf_device_ops *perf_devices_host(char *why, size_t bytes)
{
    static struct perf_device_ops ops;
    const struct chorus_devices *devices = perf_library_devices();
    if (devices == NULL || strcmp(devices->kind, "host") != 0) {
        snprintf(why, bytes, "%s has no host devices", perf_library_path());
        return NULL;
    }
    ops = (struct perf_device_ops){
        .kind = "host",
        .host_visible = 1,
        .count = devices->count,
        .set = devices->set,
        .info = host_info,
        .alloc = devices->alloc,
        .free = devices->free,
        .copy = devices->copy,
        .fill = devices->fill,
        .stream_create = devices->stream_create,
        .stream_destroy = devices->stream_destroy,
        .stream_sync = devices->stream_sync,
        .stream_wait = devices->stream_wait,
        .event_create = devices->event_create,
        .event_destroy = devices->event_destroy,
        .event_record = devices->event_record,
        .event_query = devices->event_query,
        .event_elapsed = devices->event_elapsed,
    };
    return &ops;
}
