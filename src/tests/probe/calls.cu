/* Probe: what single calls cost the host, so that the enqueue path is built of the cheap ones: how
 * a library finds the device and the capture of a stream, identifies a buffer, joins streams. Each
 * figure is the median of batches; a batch that queues work starts on an idle device.
 */
#include "probe/kit.h"

#include <functional>
#include <unistd.h>

enum { BATCHES = 15, CALLS = 200 };

struct bench {
    cudaStream_t stream, other;
    cudaEvent_t event, done;
    char *device, *chunk;
    uint32_t *pinned;
    CUdeviceptr pinned_at;
    CUcontext context;
};

static void time_call(const char *name, const std::function<void(void)> &call)
{
    double ns[BATCHES];
    for (int b = 0; b < BATCHES; b++) {
        MUST(cudaDeviceSynchronize());
        double began_us = probe_now_us();
        for (int i = 0; i < CALLS; i++) call();
        ns[b] = (probe_now_us() - began_us) * 1e3 / CALLS;
    }
    printf("   %-52s %8.0f ns\n", name, probe_median(ns, BATCHES));
}

static void open_bench(struct bench *b)
{
    void *at;
    probe_open();
    MUST(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&b->other, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&b->event, cudaEventDisableTiming));
    MUST(cudaEventCreateWithFlags(&b->done, cudaEventDisableTiming));
    MUST(cudaEventRecord(b->done, b->stream));
    MUST(cudaMalloc(&b->device, 64 << 20));
    b->chunk = (char *)probe_reserve(2 << 20);
    probe_map((CUdeviceptr)b->chunk, 2 << 20, probe_chunk(2 << 20, true));
    MUST(cudaHostAlloc(&b->pinned, 4096, cudaHostAllocMapped));
    b->pinned[0] = 0;
    MUST(cudaHostGetDevicePointer(&at, b->pinned, 0));
    b->pinned_at = (CUdeviceptr)at;
    MUST(drv.cuCtxGetCurrent(&b->context));
}

static void time_device(struct bench *b)
{
    int device;
    CUdevice current;
    CUcontext context;
    unsigned flags;
    time_call("cudaGetDevice", [&] { MUST(cudaGetDevice(&device)); });
    time_call("cudaSetDevice, the same", [&] { MUST(cudaSetDevice(0)); });
    time_call("cudaGetDevice + cudaSetDevice", [&] {
        MUST(cudaGetDevice(&device));
        MUST(cudaSetDevice(device));
    });
#if CUDART_VERSION >= 12080
    time_call("cudaStreamGetDevice", [&] { MUST(cudaStreamGetDevice(b->stream, &device)); });
#endif
    time_call("cuStreamGetCtx, user stream",
              [&] { MUST(drv.cuStreamGetCtx(b->stream, &context)); });
    time_call("cuStreamGetCtx, NULL", [&] { MUST(drv.cuStreamGetCtx(NULL, &context)); });
    time_call("cuCtxGetCurrent", [&] { MUST(drv.cuCtxGetCurrent(&context)); });
    time_call("cuCtxGetDevice", [&] { MUST(drv.cuCtxGetDevice(&current)); });
    time_call("cuCtxPushCurrent + cuCtxPopCurrent", [&] {
        MUST(drv.cuCtxPushCurrent(b->context));
        MUST(drv.cuCtxPopCurrent(&context));
    });
    time_call("cudaStreamGetFlags", [&] { MUST(cudaStreamGetFlags(b->stream, &flags)); });
    time_call("cudaPeekAtLastError", [&] { MUST(cudaPeekAtLastError()); });
}

static void time_capture(struct bench *b)
{
    cudaStreamCaptureStatus status;
    unsigned long long id;
    struct stream_kind {
        const char *name;
        cudaStream_t stream;
    } kinds[] = {{"user", b->stream}, {"NULL", NULL}, {"per thread", cudaStreamPerThread}};
    for (const struct stream_kind &kind : kinds) {
        char name[80];
        snprintf(name, sizeof name, "cudaStreamIsCapturing, %s", kind.name);
        time_call(name, [&] { MUST(cudaStreamIsCapturing(kind.stream, &status)); });
        snprintf(name, sizeof name, "cudaStreamGetCaptureInfo, %s", kind.name);
        time_call(name, [&] { MUST(cudaStreamGetCaptureInfo(kind.stream, &status, &id)); });
    }
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    time_call("cudaThreadExchangeStreamCaptureMode, twice", [&] {
        MUST(cudaThreadExchangeStreamCaptureMode(&mode));
        MUST(cudaThreadExchangeStreamCaptureMode(&mode));
    });
}

static void time_buffers(struct bench *b)
{
    unsigned long long id;
    CUdeviceptr base;
    size_t bytes;
    cudaPointerAttributes attributes;
    cudaIpcMemHandle_t handle;
    CUmemGenericAllocationHandle chunk;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                   CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *answers[] = {&id, &base, &bytes};
    CUdeviceptr at = (CUdeviceptr)b->device + 4096;
    time_call("cuPointerGetAttribute BUFFER_ID",
              [&] { MUST(drv.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at)); });
    time_call("cuPointerGetAttributes id, start, size",
              [&] { MUST(drv.cuPointerGetAttributes(3, asked, answers, at)); });
    time_call("cudaPointerGetAttributes",
              [&] { MUST(cudaPointerGetAttributes(&attributes, (void *)at)); });
    time_call("cuMemGetAddressRange", [&] { MUST(drv.cuMemGetAddressRange(&base, &bytes, at)); });
    time_call("cudaIpcGetMemHandle", [&] { MUST(cudaIpcGetMemHandle(&handle, b->device)); });
    time_call("cuMemRetainAllocationHandle + cuMemRelease", [&] {
        MUST(drv.cuMemRetainAllocationHandle(&chunk, b->chunk));
        MUST(drv.cuMemRelease(chunk));
    });
    MUST(drv.cuMemRetainAllocationHandle(&chunk, b->chunk));
    time_call("cuMemExportToShareableHandle + close", [&] {
        int fd;
        MUST(drv.cuMemExportToShareableHandle(&fd, chunk, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                              0));
        close(fd);
    });
}

static void count_call(void *word)
{
    ++*(volatile uint32_t *)word;
}

static void time_queue(struct bench *b)
{
    time_call("cudaStreamQuery, idle", [&] { MUST(cudaStreamQuery(b->stream)); });
    time_call("cudaEventQuery, done", [&] { MUST(cudaEventQuery(b->done)); });
    time_call("cudaEventRecord", [&] { MUST(cudaEventRecord(b->event, b->stream)); });
    time_call("cuEventRecord", [&] { MUST(drv.cuEventRecord(b->event, b->stream)); });
    time_call("cudaEventRecord + cudaStreamWaitEvent by another", [&] {
        MUST(cudaEventRecord(b->event, b->stream));
        MUST(cudaStreamWaitEvent(b->other, b->event, 0));
    });
    time_call("cudaStreamWaitEvent, done, by another",
              [&] { MUST(cudaStreamWaitEvent(b->other, b->done, 0)); });
    time_call("cudaStreamWaitEvent, done, by its own",
              [&] { MUST(cudaStreamWaitEvent(b->stream, b->done, 0)); });
    time_call("cuStreamWriteValue32, host word",
              [&] { MUST(drv.cuStreamWriteValue32(b->stream, b->pinned_at, 1, 0)); });
    time_call("cuStreamWaitValue32, satisfied", [&] {
        MUST(drv.cuStreamWaitValue32(b->stream, b->pinned_at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    });
    time_call("cudaLaunchHostFunc",
              [&] { MUST(cudaLaunchHostFunc(b->stream, count_call, b->pinned + 64)); });
    time_call("cudaMemcpyAsync, 1 KiB within the device", [&] {
        MUST(cudaMemcpyAsync(b->device, b->device + 65536, 1024, cudaMemcpyDeviceToDevice,
                             b->stream));
    });
    time_call("cudaEventCreateWithFlags + cudaEventDestroy", [&] {
        cudaEvent_t event;
        MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        MUST(cudaEventDestroy(event));
    });
}

/* What one stream may be asked while another one of this thread captures, per capture mode. */
static void ask_beside_capture(struct bench *b)
{
    static const struct {
        const char *name;
        cudaStreamCaptureMode mode;
    } modes[] = {{"global", cudaStreamCaptureModeGlobal},
                 {"thread", cudaStreamCaptureModeThreadLocal},
                 {"relaxed", cudaStreamCaptureModeRelaxed}};
    printf("   beside a capture:  IsCapturing(NULL)  StreamQuery(other)  EventQuery  Record(other)"
           "  end\n");
    for (const auto &m : modes) {
        cudaStreamCaptureStatus status;
        cudaGraph_t graph = NULL;
        MUST(cudaStreamBeginCapture(b->stream, m.mode));
        const char *null = probe_name(cudaStreamIsCapturing(NULL, &status));
        const char *query = probe_name(cudaStreamQuery(b->other));
        const char *event = probe_name(cudaEventQuery(b->done));
        const char *record = probe_name(cudaEventRecord(b->event, b->other));
        printf("   %-7s  %s  %s  %s  %s  %s\n", m.name, null, query, event, record,
               probe_name(cudaStreamEndCapture(b->stream, &graph)));
        cudaGetLastError();
        if (graph) MUST(cudaGraphDestroy(graph));
        MUST(cudaDeviceSynchronize());
    }
}

void probe_calls(int arg)
{
    struct bench bench;
    (void)arg;
    open_bench(&bench);
    time_device(&bench);
    time_capture(&bench);
    time_buffers(&bench);
    time_queue(&bench);
    ask_beside_capture(&bench);
}
