/* Streams and events of GPUs. An event of the table is the runtime's; those that only order work
 * (event_make) keep no time, and come from a stock (cuda_stock.c).
 *
 * Called through the device table. Waits and queries of an event that was never recorded see it
 * as done, as CUDA defines.
 */
#include "device/cuda.h"

#include "base/err.h"
#include "device/cuda_dl.h"
#include "device/cuda_share.h"

static cudaEvent_t event_of(chorus_event_t event)
{
    return (cudaEvent_t)(void *)event;
}

ncclResult_t ccl_cuda_stream_create(cudaStream_t *stream)
{
    if (stream == NULL) return ccl_err(ncclInvalidArgument, "stream_create: stream is NULL");
    return ccl_cuda_check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking),
                          "cudaStreamCreateWithFlags");
}

ncclResult_t ccl_cuda_stream_destroy(cudaStream_t stream)
{
    TRY(ccl_cuda_stream_sync(stream));
    return ccl_cuda_check(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

ncclResult_t ccl_cuda_stream_sync(cudaStream_t stream)
{
    return ccl_cuda_check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

/* What a query finds, with the error that "not yet" is taken back. */
static ncclResult_t check_query(cudaError_t error, const char *what, int *is_done)
{
    if (is_done == NULL) return ccl_err(ncclInvalidArgument, "%s: the answer is NULL", what);
    *is_done = error == cudaSuccess;
    if (error != cudaErrorNotReady) return ccl_cuda_check(error, what);
    (void)cudaGetLastError();
    return ncclSuccess;
}

ncclResult_t ccl_cuda_stream_query(cudaStream_t stream, int *idle)
{
    return check_query(cudaStreamQuery(stream), "cudaStreamQuery", idle);
}

ncclResult_t ccl_cuda_stream_wait(cudaStream_t stream, chorus_event_t event)
{
    return ccl_cuda_check(cudaStreamWaitEvent(stream, event_of(event), 0), "cudaStreamWaitEvent");
}

/* The runtime works in the current context, and so do events and kernels that meet the stream.
 * Default streams are those of whatever context is current. */
static ncclResult_t find_context(cudaStream_t stream, int *is_current)
{
    CUcontext its = NULL, current = NULL;
    *is_current = 1;
    if ((uintptr_t)stream <= CCL_STREAM_PER_THREAD) return ncclSuccess;
    TRY(CCL_DRIVER(cuCtxGetCurrent, &current));
    TRY(CCL_DRIVER(cuStreamGetCtx, stream, &its));
    *is_current = its == current;
    return ncclSuccess;
}

/* The runtime tells since CUDA 12.8; built by an older one, a stream counts as one of the current
 * device. */
static ncclResult_t find_device(cudaStream_t stream, int *device)
{
#if CUDART_VERSION >= 12080
    return ccl_cuda_check(cudaStreamGetDevice(stream, device), "cudaStreamGetDevice");
#else
    (void)stream;
    return ccl_cuda_check(cudaGetDevice(device), "cudaGetDevice");
#endif
}

ncclResult_t ccl_cuda_stream_device(cudaStream_t stream, int *device)
{
    int current, of_stream, is_current;
    TRY(ccl_cuda_check(cudaGetDevice(&current), "cudaGetDevice"));
    TRY(find_device(stream, &of_stream));
    TRY(find_context(stream, &is_current));
    *device = of_stream == current && !is_current ? CCL_STREAM_OF_OTHER_CONTEXT : of_stream;
    return ncclSuccess;
}

/* The same call has had two forms. */
static cudaError_t capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                unsigned long long *id)
{
#if CUDART_VERSION >= 13000
    return cudaStreamGetCaptureInfo(stream, status, id, NULL, NULL, NULL, NULL);
#else
    return cudaStreamGetCaptureInfo_v2(stream, status, id, NULL, NULL, NULL);
#endif
}

ncclResult_t ccl_cuda_stream_capture(cudaStream_t stream, uint64_t *capture)
{
    enum cudaStreamCaptureStatus status;
    unsigned long long id = 0;
    TRY(ccl_cuda_check(capture_info(stream, &status, &id), "cudaStreamGetCaptureInfo"));
    *capture = status == cudaStreamCaptureStatusActive ? id : 0;
    return ncclSuccess;
}

ncclResult_t ccl_cuda_host_func(cudaStream_t stream, void (*function)(void *), void *argument)
{
    return ccl_cuda_check(cudaLaunchHostFunc(stream, function, argument), "cudaLaunchHostFunc");
}

ncclResult_t ccl_cuda_event_create(chorus_event_t *event)
{
    if (event == NULL) return ccl_err(ncclInvalidArgument, "event_create: event is NULL");
    cudaEvent_t made;
    TRY(ccl_cuda_check(cudaEventCreate(&made), "cudaEventCreate"));
    *event = (chorus_event_t)(void *)made;
    return ncclSuccess;
}

ncclResult_t ccl_cuda_event_destroy(chorus_event_t event)
{
    return ccl_cuda_check(cudaEventDestroy(event_of(event)), "cudaEventDestroy");
}

ncclResult_t ccl_cuda_event_record(chorus_event_t event, cudaStream_t stream)
{
    return ccl_cuda_check(cudaEventRecord(event_of(event), stream), "cudaEventRecord");
}

ncclResult_t ccl_cuda_event_record_outside(chorus_event_t event, cudaStream_t stream)
{
    return ccl_cuda_check(
        cudaEventRecordWithFlags(event_of(event), stream, cudaEventRecordExternal),
        "cudaEventRecordWithFlags");
}

ncclResult_t ccl_cuda_stream_wait_outside(cudaStream_t stream, chorus_event_t event)
{
    return ccl_cuda_check(cudaStreamWaitEvent(stream, event_of(event), cudaEventWaitExternal),
                          "cudaStreamWaitEvent");
}

ncclResult_t ccl_cuda_event_sync(chorus_event_t event)
{
    return ccl_cuda_check(cudaEventSynchronize(event_of(event)), "cudaEventSynchronize");
}

/* Beside a capture of any thread that is not relaxed a query would fail and spoil the capture. */
ncclResult_t ccl_cuda_event_query(chorus_event_t event, int *done)
{
    enum cudaStreamCaptureMode mode = ccl_share_relax();
    ncclResult_t rc = check_query(cudaEventQuery(event_of(event)), "cudaEventQuery", done);
    ccl_share_restore(mode);
    return rc;
}

ncclResult_t ccl_cuda_event_elapsed(chorus_event_t from, chorus_event_t to, float *milliseconds)
{
    if (milliseconds == NULL)
        return ccl_err(ncclInvalidArgument, "event_elapsed: milliseconds is NULL");
    cudaError_t error = cudaEventElapsedTime(milliseconds, event_of(from), event_of(to));
    if (error == cudaErrorNotReady || error == cudaErrorInvalidResourceHandle) {
        (void)cudaGetLastError();
        return ccl_err(ncclInvalidUsage, "event_elapsed: an event is not completed");
    }
    return ccl_cuda_check(error, "cudaEventElapsedTime");
}
