/* The table of the CUDA devices, and what a GPU is. Found by ccl_device() where a driver and a
 * device work, or CHORUS_DEVICE says so.
 *
 * The current device is the calling thread's, as the runtime and the driver have it; the core sets
 * it for its calls and sets it back.
 */
#include "device/cuda.h"

#include "base/clock.h"
#include "base/err.h"
#include "device/cuda_dl.h"
#include "device/foreign.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

ncclResult_t ccl_cuda_check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess) return ncclSuccess;
    (void)cudaGetLastError(); /* told here; it is not the next call's */
    return ccl_err(ncclUnhandledCudaError, "%s: %s (%s)", what, cudaGetErrorString(error),
                   cudaGetErrorName(error));
}

int ccl_cuda_count(const char **why)
{
    int n = 0;
    cudaError_t error = cudaGetDeviceCount(&n);
    (void)cudaGetLastError();
    if (why != NULL) *why = error == cudaSuccess ? "no device" : cudaGetErrorString(error);
    return error == cudaSuccess ? n : 0;
}

static ncclResult_t get_count(int *ndevices)
{
    if (ndevices == NULL) return ccl_err(ncclInvalidArgument, "count: ndevices is NULL");
    return ccl_cuda_check(cudaGetDeviceCount(ndevices), "cudaGetDeviceCount");
}

static ncclResult_t get_device(int *device)
{
    if (device == NULL) return ccl_err(ncclInvalidArgument, "get: device is NULL");
    return ccl_cuda_check(cudaGetDevice(device), "cudaGetDevice");
}

static ncclResult_t set_device(int device)
{
    cudaError_t error = cudaSetDevice(device);
    if (error != cudaErrorInvalidDevice) return ccl_cuda_check(error, "cudaSetDevice");
    (void)cudaGetLastError();
    return ccl_err(ncclInvalidArgument, "set: device %d does not exist; there are %d GPUs", device,
                   ccl_cuda_count(NULL));
}

enum { MAX_DEVICES = 64 };

/* The context in which the runtime works on a device, once it is known. */
static CUcontext known[MAX_DEVICES];

/* Nothing is to be done where the thread works in that context already. */
static ncclResult_t enter(int device, void **before)
{
    CUcontext current = NULL, ours = NULL;
    TRY(CCL_DRIVER(cuCtxGetCurrent, &current));
    *before = current;
    if (device < MAX_DEVICES) ours = __atomic_load_n(&known[device], __ATOMIC_RELAXED);
    if (current != NULL && current == ours) return ncclSuccess;
    TRY(set_device(device));
    TRY(CCL_DRIVER(cuCtxGetCurrent, &ours));
    if (device < MAX_DEVICES) __atomic_store_n(&known[device], ours, __ATOMIC_RELAXED);
    return ncclSuccess;
}

static void leave(void *before)
{
    CUcontext current = NULL;
    if (CCL_DRIVER(cuCtxGetCurrent, &current) == ncclSuccess && current != before)
        CCL_DRIVER(cuCtxSetCurrent, (CUcontext)before);
}

/* Memory is asked of the device that is current meanwhile. */
static ncclResult_t count_memory(int device, struct chorus_device_info *info)
{
    int current;
    TRY(get_device(&current));
    TRY(set_device(device));
    cudaError_t error = cudaMemGetInfo(&info->free_bytes, &info->total_bytes);
    TRY(set_device(current));
    return ccl_cuda_check(error, "cudaMemGetInfo");
}

static ncclResult_t get_info(int device, struct chorus_device_info *info)
{
    if (info == NULL) return ccl_err(ncclInvalidArgument, "info: info is NULL");
    struct cudaDeviceProp properties;
    TRY(ccl_cuda_check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties"));
    memset(info, 0, sizeof *info);
    snprintf(info->name, sizeof info->name, "%.*s", (int)sizeof info->name - 1, properties.name);
    snprintf(info->pci, sizeof info->pci, "%04x:%02x:%02x", properties.pciDomainID,
             properties.pciBusID, properties.pciDeviceID);
    return count_memory(device, info);
}

/* The UUID, of a MIG slice its own. */
static ncclResult_t get_identity(int device, char text[64])
{
    struct cudaDeviceProp properties;
    TRY(ccl_cuda_check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties"));
    int used = snprintf(text, 64, "cuda ");
    for (int i = 0; i < 16; i++)
        used += snprintf(text + used, 64 - (size_t)used, "%02x",
                         (unsigned)(unsigned char)properties.uuid.bytes[i]);
    return ncclSuccess;
}

static uint32_t count_lanes(int device)
{
    int n = 0;
    if (cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) return 1;
    return (uint32_t)n;
}

/* As the driver reads its variable when it starts. */
static uint32_t count_connections(void)
{
    enum { DEFAULT = 8, MOST = 32 };
    static uint32_t known_n; /* 0: not asked yet; whoever asks finds the same */
    uint32_t n = __atomic_load_n(&known_n, __ATOMIC_RELAXED);
    if (n != 0) return n;
    const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    int asked = text != NULL ? atoi(text) : DEFAULT;
    n = asked < 1 ? DEFAULT : asked > MOST ? MOST : (uint32_t)asked;
    __atomic_store_n(&known_n, n, __ATOMIC_RELAXED);
    return n;
}

/* A driver that does not know of MPS counts as if it were there. */
static int is_under_mps(int device)
{
    enum { MPS_ENABLED = 133 };       /* cudaDevAttrMpsEnabled, since CUDA 12 */
    static int known_as[MAX_DEVICES]; /* 0: not asked yet, 1: no, 2: yes */
    int answer = 1, as = 0;
    if (device < MAX_DEVICES) as = __atomic_load_n(&known_as[device], __ATOMIC_RELAXED);
    if (as != 0) return as == 2;
    enum cudaDeviceAttr attribute = (enum cudaDeviceAttr)MPS_ENABLED;
    if (cudaDeviceGetAttribute(&answer, attribute, device) != cudaSuccess) (void)cudaGetLastError();
    if (device < MAX_DEVICES)
        __atomic_store_n(&known_as[device], answer != 0 ? 2 : 1, __ATOMIC_RELAXED);
    return answer != 0;
}

static struct ccl_queues count_queues(int device)
{
    return (struct ccl_queues){.n = count_connections(), .are_shared = is_under_mps(device)};
}

static ncclResult_t get_capability(int device, int *capability)
{
    int major, minor;
    TRY(ccl_cuda_check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                       "cudaDeviceGetAttribute"));
    TRY(ccl_cuda_check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
                       "cudaDeviceGetAttribute"));
    *capability = 10 * major + minor;
    return ncclSuccess;
}

static ncclResult_t launch(cudaStream_t stream, const struct ccl_launch_spec *spec)
{
    return ccl_cuda_check((cudaError_t)spec->cuda(spec->args, stream), "kernel launch");
}

static int launches_block(void)
{
    static int asked; /* 0: not asked yet, 1: no, 2: yes; whoever asks finds the same */
    int answer = __atomic_load_n(&asked, __ATOMIC_RELAXED);
    if (answer == 0) {
        const char *text = getenv("CUDA_LAUNCH_BLOCKING");
        answer = text != NULL && atoi(text) != 0 ? 2 : 1;
        __atomic_store_n(&asked, answer, __ATOMIC_RELAXED);
    }
    return answer == 2;
}

/* There is none: memory of a GPU reaches other processes by handles. */
static void get_arena(struct ccl_arena *out)
{
    *out = (struct ccl_arena){.fd = -1};
}

/* The GPU needs no thread of ours. */
static void advance(void)
{
}

static ncclResult_t hold(void)
{
    return ncclSuccess;
}

static void drop(void)
{
}

static ncclResult_t reset(void)
{
    return ncclSuccess;
}

/* Looks again at once for SPIN_US, then gives the core away, then sleeps a little in between: what
 * is waited for here takes as long as kernels of a program may take. */
static int help_until(int (*ready)(void *arg), void *arg, uint32_t timeout_us)
{
    enum { SPIN_US = 20, YIELD_US = 1000, NAP_NS = 50000 };
    uint64_t start_ns = ccl_clock_ns();
    for (;;) {
        if (ready(arg)) return 1;
        uint64_t past_us = (ccl_clock_ns() - start_ns) / 1000;
        if (past_us >= timeout_us) return 0;
        if (past_us >= YIELD_US)
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        else if (past_us >= SPIN_US)
            sched_yield();
    }
}

static const struct ccl_foreign_ops foreign = {
    .export_open = ccl_export_open,
    .export_close = ccl_export_close,
    .export_buffer = ccl_export_buffer,
    .export_sweep = ccl_export_sweep,
    .import_open = ccl_import_open,
    .import_close = ccl_import_close,
    .import_buffer = ccl_import_buffer,
    .import_unpin = ccl_import_unpin,
    .import_read = ccl_import_read,
    .import_collect = ccl_import_collect,
    .staging_can_stand_for = ccl_staging_can_stand_for,
    .staging_take = ccl_staging_take,
    .staging_mark = ccl_staging_mark,
    .staging_follow = ccl_staging_follow,
    .staging_put = ccl_staging_put,
};

const struct ccl_device_ops ccl_device_cuda = {
    .base =
        {
            .size = sizeof(struct chorus_devices),
            .kind = "cuda",
            .count = get_count,
            .get = get_device,
            .set = set_device,
            .info = get_info,
            .alloc = ccl_cuda_alloc,
            .free = ccl_cuda_free,
            .stream_create = ccl_cuda_stream_create,
            .stream_destroy = ccl_cuda_stream_destroy,
            .stream_sync = ccl_cuda_stream_sync,
            .stream_query = ccl_cuda_stream_query,
            .stream_wait = ccl_cuda_stream_wait,
            .event_create = ccl_cuda_event_create,
            .event_destroy = ccl_cuda_event_destroy,
            .event_record = ccl_cuda_event_record,
            .event_sync = ccl_cuda_event_sync,
            .event_query = ccl_cuda_event_query,
            .event_elapsed = ccl_cuda_event_elapsed,
            .copy = ccl_cuda_copy,
            .fill = ccl_cuda_fill,
            .host_func = ccl_cuda_host_func,
            .reset = reset,
        },
    .enter = enter,
    .leave = leave,
    .identity = get_identity,
    .memory_fault = ccl_cuda_memory_fault,
    .lanes = count_lanes,
    .stream_device = ccl_cuda_stream_device,
    .queues = count_queues,
    .capability = get_capability,
    .capture = ccl_cuda_stream_capture,
    .stock_fill = ccl_cuda_stock_fill,
    .event_make = ccl_cuda_event_make,
    .stream_make = ccl_cuda_stream_make,
    .event_record_outside = ccl_cuda_event_record_outside,
    .stream_wait_outside = ccl_cuda_stream_wait_outside,
    .flags_alloc = ccl_cuda_flags_alloc,
    .flags_free = ccl_cuda_flags_free,
    .words_alloc = ccl_cuda_words_alloc,
    .words_free = ccl_cuda_words_free,
    .words_map = ccl_cuda_words_map,
    .words_unmap = ccl_cuda_words_unmap,
    .word_write = ccl_cuda_word_write,
    .word_wait = ccl_cuda_word_wait,
    .word_take = ccl_cuda_word_take,
    .foreign = &foreign,
    .zones = &ccl_zones_cuda,
    .launch = launch,
    .launches_block = launches_block,
    .arena = get_arena,
    .advance = advance,
    .hold = hold,
    .drop = drop,
    .help_until = help_until,
};
