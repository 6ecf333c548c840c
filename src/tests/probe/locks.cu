/* Probe: which calls of one thread wait while another thread of the process is inside a call that
 * waits for a stream. A library whose thread has to act before that stream goes on may not make
 * them. The stream waits for a word that this process sets in the end.
 */
#include "probe/kit.h"

#include <atomic>
#include <functional>
#include <stdlib.h>
#include <thread>
#include <unistd.h>

enum { BYTES = 1 << 20, LIMIT_US = 300000, SETTLE_US = 50000 };

struct shared {
    cudaIpcMemHandle_t handle;
};

static __global__ void nothing(void)
{
}

struct world {
    struct shared *shared;
    cudaStream_t held, idle;
    cudaEvent_t event;
    uint32_t *word;
    void *device, *pinned, *pageable;
};

struct call {
    const char *name;
    std::function<void(struct world &)> make;
};

/* The calls that hold a thread until the stream is done. */
static const struct call holders[] = {
    {"copy to pageable memory",
     [](struct world &w) {
         MUST(cudaMemcpyAsync(w.pageable, w.device, BYTES, cudaMemcpyDefault, w.held));
     }},
    {"copy from pageable memory",
     [](struct world &w) {
         MUST(cudaMemcpyAsync(w.device, w.pageable, BYTES, cudaMemcpyDefault, w.held));
     }},
    {"cudaStreamSynchronize", [](struct world &w) { MUST(cudaStreamSynchronize(w.held)); }},
    {"cudaDeviceSynchronize", [](struct world &) { MUST(cudaDeviceSynchronize()); }},
    {"cudaMalloc + cudaFree",
     [](struct world &) {
         void *memory;
         MUST(cudaMalloc(&memory, 64 << 20));
         MUST(cudaFree(memory));
     }},
};

static void import_chunk(struct world &)
{
    int fd;
    CUmemGenericAllocationHandle chunk = probe_chunk(2 << 20, true), again;
    MUST(drv.cuMemExportToShareableHandle(&fd, chunk, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    MUST(drv.cuMemImportFromShareableHandle(&again, (void *)(uintptr_t)fd,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    CUdeviceptr at = probe_reserve(2 << 20);
    probe_map(at, 2 << 20, again);
    close(fd);
}

/* What a library may have to do meanwhile. */
static const struct call calls[] = {
    {"launch", [](struct world &w) { nothing<<<1, 1, 0, w.idle>>>(); }},
    {"cudaEventRecord", [](struct world &w) { MUST(cudaEventRecord(w.event, w.idle)); }},
    {"cudaStreamWaitEvent", [](struct world &w) { MUST(cudaStreamWaitEvent(w.idle, w.event, 0)); }},
    {"cudaEventQuery", [](struct world &w) { (void)cudaEventQuery(w.event); }},
    {"stream write",
     [](struct world &w) {
         MUST(drv.cuStreamWriteValue32(w.idle, (CUdeviceptr)(uintptr_t)(w.word + 1), 1, 0));
     }},
    {"copy to pinned memory",
     [](struct world &w) {
         MUST(cudaMemcpyAsync(w.pinned, w.device, BYTES, cudaMemcpyDefault, w.idle));
     }},
    {"cudaPointerGetAttributes",
     [](struct world &w) {
         cudaPointerAttributes attributes;
         MUST(cudaPointerGetAttributes(&attributes, w.device));
     }},
    {"cudaEventCreate",
     [](struct world &) {
         cudaEvent_t event;
         MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
     }},
    {"cudaStreamCreate",
     [](struct world &) {
         cudaStream_t stream;
         MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
     }},
    {"cudaMalloc",
     [](struct world &) {
         void *memory;
         MUST(cudaMalloc(&memory, 64 << 20));
     }},
    {"cudaIpcGetMemHandle",
     [](struct world &w) {
         cudaIpcMemHandle_t handle;
         MUST(cudaIpcGetMemHandle(&handle, w.device));
     }},
    {"cudaIpcOpenMemHandle",
     [](struct world &w) {
         void *memory;
         MUST(cudaIpcOpenMemHandle(&memory, w.shared->handle, cudaIpcMemLazyEnablePeerAccess));
     }},
    {"import and map a chunk", import_chunk},
};
enum { NHOLDERS = sizeof holders / sizeof holders[0], NCALLS = sizeof calls / sizeof calls[0] };

/* True: it came back while the holder was inside its call; *waits: the holder was. */
static bool comes_back(struct world &world, const struct call &holder, const struct call &call,
                       bool *waits)
{
    std::atomic<int> is_held(1), is_back(0);
    *(volatile uint32_t *)world.word = 0;
    MUST(drv.cuStreamWaitValue32(world.held, (CUdeviceptr)(uintptr_t)world.word, 1, 0));
    std::thread inside([&] {
        holder.make(world);
        is_held = 0;
    });
    probe_sleep_us(SETTLE_US);
    bool was_held = is_held;
    std::thread caller([&] {
        call.make(world);
        is_back = 1;
    });
    double end_us = probe_now_us() + LIMIT_US;
    while (!is_back && probe_now_us() < end_us) probe_sleep_us(500);
    bool result = is_back;
    *(volatile uint32_t *)world.word = 1;
    inside.join();
    caller.join();
    MUST(cudaDeviceSynchronize());
    *waits = was_held;
    return result;
}

static void ask(struct shared *shared)
{
    struct world world = {};
    world.shared = shared;
    MUST(cudaStreamCreateWithFlags(&world.held, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&world.idle, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&world.event, cudaEventDisableTiming));
    MUST(cudaHostAlloc(&world.word, 4096, cudaHostAllocMapped));
    MUST(cudaMalloc(&world.device, BYTES));
    MUST(cudaHostAlloc(&world.pinned, BYTES, cudaHostAllocDefault));
    world.pageable = malloc(BYTES);
    nothing<<<1, 1, 0, world.idle>>>();
    MUST(cudaDeviceSynchronize());
    for (int h = 0; h < NHOLDERS; h++) {
        printf("   inside %s, these wait:", holders[h].name);
        int nwait = 0;
        bool waits = true;
        for (int c = 0; c < NCALLS && waits; c++)
            if (!comes_back(world, holders[h], calls[c], &waits) && waits)
                printf("%s %s", nwait++ > 0 ? "," : "", calls[c].name);
        printf("%s\n", !waits ? " it does not wait itself" : nwait > 0 ? "" : " none");
    }
}

void probe_locks(int arg)
{
    (void)arg;
    struct shared *shared = (struct shared *)probe_shared(sizeof *shared);
    int me = probe_fork(2);
    probe_open();
    if (me == 1) {
        void *memory;
        MUST(cudaMalloc(&memory, BYTES));
        MUST(cudaIpcGetMemHandle(&shared->handle, memory));
    }
    probe_meet(2);
    if (me == 0) ask(shared);
    probe_meet(2);
    probe_join(me);
}
