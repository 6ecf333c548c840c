/* GPUs as devices of the drivers, through the CUDA runtime, which is linked statically: without a
 * driver its first call says so. Streams are the runtime's own, so that they fit any libnccl.
 *
 * The current device is per thread, as the runtime keeps it. An error of a call stays with the
 * thread as text, for whoever ends the run.
 */
#include <cuda_runtime_api.h>

#include "harness/devices.h"

#include <stdio.h>
#include <string.h>

enum { ERROR_BYTES = 256 };

static _Thread_local char last_error[ERROR_BYTES];

static ncclResult_t tell(cudaError_t error, const char *call)
{
    if (error == cudaSuccess) return ncclSuccess;
    snprintf(last_error, sizeof last_error, "%s: %s (%s)", call, cudaGetErrorString(error),
             cudaGetErrorName(error));
    return ncclUnhandledCudaError;
}

/* The call's own text goes into the message. */
#define TELL(call) tell((call), #call)

static ncclResult_t cuda_count(int *ndevices)
{
    return TELL(cudaGetDeviceCount(ndevices));
}

static ncclResult_t cuda_set(int device)
{
    return TELL(cudaSetDevice(device));
}

static void format_uuid(const cudaUUID_t *uuid, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "GPU");
    for (int i = 0; i < 16; i++) {
        int dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
        used += (size_t)snprintf(text + used, bytes - used, "%s%02x", dash ? "-" : "",
                                 (unsigned char)uuid->bytes[i]);
    }
}

static ncclResult_t cuda_info(int device, struct perf_device_info *info)
{
    struct cudaDeviceProp properties;
    memset(info, 0, sizeof *info);
    ncclResult_t result = TELL(cudaGetDeviceProperties(&properties, device));
    if (result != ncclSuccess) return result;
    snprintf(info->name, sizeof info->name, "%.63s", properties.name);
    snprintf(info->pci, sizeof info->pci, "%04x:%02x:%02x", (unsigned)properties.pciDomainID,
             (unsigned)properties.pciBusID, (unsigned)properties.pciDeviceID);
    format_uuid(&properties.uuid, info->uuid, sizeof info->uuid);
    info->cache_bytes = (size_t)properties.l2CacheSize;
    result = cuda_set(device);
    if (result != ncclSuccess) return result;
    return TELL(cudaMemGetInfo(&info->free_bytes, &info->total_bytes));
}

static ncclResult_t cuda_alloc(void **memory, size_t bytes)
{
    return TELL(cudaMalloc(memory, bytes));
}

static ncclResult_t cuda_free(void *memory)
{
    return TELL(cudaFree(memory));
}

static ncclResult_t cuda_copy(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    return TELL(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
}

static ncclResult_t cuda_fill(void *memory, int byte, size_t bytes, cudaStream_t stream)
{
    return TELL(cudaMemsetAsync(memory, byte, bytes, stream));
}

/* Non-blocking: the legacy default stream does not wait for it, nor it for that one. */
static ncclResult_t cuda_stream_create(cudaStream_t *stream)
{
    return TELL(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
}

static ncclResult_t cuda_stream_destroy(cudaStream_t stream)
{
    ncclResult_t result = TELL(cudaStreamSynchronize(stream));
    return result != ncclSuccess ? result : TELL(cudaStreamDestroy(stream));
}

static ncclResult_t cuda_stream_sync(cudaStream_t stream)
{
    return TELL(cudaStreamSynchronize(stream));
}

static cudaEvent_t event_of(chorus_event_t event)
{
    return (cudaEvent_t)(void *)event;
}

static ncclResult_t cuda_stream_wait(cudaStream_t stream, chorus_event_t event)
{
    return TELL(cudaStreamWaitEvent(stream, event_of(event), 0));
}

static ncclResult_t cuda_event_create(chorus_event_t *event)
{
    cudaEvent_t made = NULL;
    ncclResult_t result = TELL(cudaEventCreate(&made));
    *event = (chorus_event_t)(void *)made;
    return result;
}

static ncclResult_t cuda_event_destroy(chorus_event_t event)
{
    return TELL(cudaEventDestroy(event_of(event)));
}

static ncclResult_t cuda_event_record(chorus_event_t event, cudaStream_t stream)
{
    return TELL(cudaEventRecord(event_of(event), stream));
}

static ncclResult_t cuda_event_query(chorus_event_t event, int *done)
{
    cudaError_t error = cudaEventQuery(event_of(event));
    *done = error == cudaSuccess;
    return error == cudaErrorNotReady ? ncclSuccess : tell(error, "cudaEventQuery");
}

static ncclResult_t cuda_event_elapsed(chorus_event_t from, chorus_event_t to, float *milliseconds)
{
    return TELL(cudaEventElapsedTime(milliseconds, event_of(from), event_of(to)));
}

/* Calls of other threads, such as the watchdog's, must not end a capture. */
static ncclResult_t cuda_capture_begin(cudaStream_t stream)
{
    return TELL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}

static ncclResult_t cuda_capture_end(cudaStream_t stream, perf_graph_t *graph)
{
    cudaGraph_t captured = NULL;
    cudaGraphExec_t made = NULL;
    ncclResult_t result = TELL(cudaStreamEndCapture(stream, &captured));
    if (result == ncclSuccess) result = TELL(cudaGraphInstantiateWithFlags(&made, captured, 0));
    if (result == ncclSuccess) result = TELL(cudaGraphUpload(made, stream));
    if (captured != NULL) cudaGraphDestroy(captured);
    *graph = (perf_graph_t)(void *)made;
    return result;
}

static ncclResult_t cuda_graph_launch(perf_graph_t graph, cudaStream_t stream)
{
    return TELL(cudaGraphLaunch((cudaGraphExec_t)(void *)graph, stream));
}

static ncclResult_t cuda_graph_destroy(perf_graph_t graph)
{
    return TELL(cudaGraphExecDestroy((cudaGraphExec_t)(void *)graph));
}

static ncclResult_t cuda_values(const struct perf_value_job *job, cudaStream_t stream)
{
    return tell((cudaError_t)perf_cuda_values(job, stream), "a kernel of verification");
}

static const struct perf_device_ops cuda_ops = {
    .kind = "cuda",
    .count = cuda_count,
    .set = cuda_set,
    .info = cuda_info,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .stream_sync = cuda_stream_sync,
    .stream_wait = cuda_stream_wait,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_query = cuda_event_query,
    .event_elapsed = cuda_event_elapsed,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .graph_launch = cuda_graph_launch,
    .graph_destroy = cuda_graph_destroy,
    .values = cuda_values,
};

const struct perf_device_ops *perf_devices_cuda(char *why, size_t bytes)
{
    int ndevices = 0, version = 0;
    cudaError_t error = cudaGetDeviceCount(&ndevices);
    if (error == cudaSuccess && ndevices > 0) return &cuda_ops;
    /* The runtime calls a driver that is not there too old. */
    if (cudaDriverGetVersion(&version) == cudaSuccess && version == 0)
        snprintf(why, bytes, "no CUDA driver is loaded");
    else
        snprintf(why, bytes, "%s",
                 cudaGetErrorString(error != cudaSuccess ? error : cudaErrorNoDevice));
    return NULL;
}

const char *perf_devices_cuda_error(void)
{
    return last_error;
}
