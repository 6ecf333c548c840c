/* The parts that the probes share, see kit.h. The processes of a probe are one process group, so
 * that a failed check ends them all and main.cu can end those that hang. Nothing here waits
 * without a limit but probe_meet, which a failed process ends by ending the group.
 */
#include "probe/kit.h"

#include <algorithm>
#include <atomic>
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct probe_driver drv;

struct rendezvous {
    std::atomic<int> arrived, turn;
};
static struct rendezvous *rendezvous;

static void give_up(const char *call, const char *name, const char *file, int line)
{
    const char *base = strrchr(file, '/');
    printf("   failed: %s:%d: %s: %s\n", base ? base + 1 : file, line, call, name);
    fflush(stdout);
    kill(0, SIGKILL);
}

void probe_check(cudaError_t rc, const char *call, const char *file, int line)
{
    if (rc != cudaSuccess) give_up(call, probe_name(rc), file, line);
}

void probe_check(CUresult rc, const char *call, const char *file, int line)
{
    if (rc != CUDA_SUCCESS) give_up(call, probe_name(rc), file, line);
}

const char *probe_name(cudaError_t rc)
{
    if (rc == cudaSuccess) return "ok";
    const char *name = cudaGetErrorName(rc);
    return strncmp(name, "cudaError", 9) == 0 ? name + 9 : name;
}

const char *probe_name(CUresult rc)
{
    const char *name = NULL;
    if (rc == CUDA_SUCCESS) return "ok";
    if (drv.cuGetErrorName == NULL || drv.cuGetErrorName(rc, &name) != CUDA_SUCCESS) return "?";
    return strncmp(name, "CUDA_ERROR_", 11) == 0 ? name + 11 : name;
}

void probe_open(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) give_up("dlopen", "no libcuda.so.1", __FILE__, __LINE__);
#define X(name) drv.name = (decltype(&::name))dlsym(library, PROBE_STRING(name));
    PROBE_ENTRIES(X)
#undef X
    MUST(cudaSetDevice(0));
    MUST(cudaFree(NULL));
}

double probe_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

void probe_sleep_us(unsigned us)
{
    struct timespec time = {us / 1000000, (long)(us % 1000000) * 1000};
    nanosleep(&time, NULL);
}

double probe_median(double *values, int n)
{
    std::sort(values, values + n);
    return values[n / 2];
}

bool probe_drained(cudaStream_t stream, int limit_ms)
{
    double end_us = probe_now_us() + limit_ms * 1e3;
    for (;;) {
        cudaError_t rc = cudaStreamQuery(stream);
        if (rc == cudaSuccess) return true;
        if (rc != cudaErrorNotReady) MUST(rc);
        if (probe_now_us() > end_us) return false;
    }
}

void *probe_shared(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) give_up("mmap", "no memory", __FILE__, __LINE__);
    return memory;
}

int probe_fork(int n)
{
    rendezvous = (struct rendezvous *)probe_shared(sizeof *rendezvous);
    fflush(stdout);
    for (int i = 1; i < n; i++) {
        if (fork() == 0) return i;
    }
    return 0;
}

void probe_meet(int n)
{
    int turn = rendezvous->turn.load();
    if (rendezvous->arrived.fetch_add(1) + 1 == n) {
        rendezvous->arrived.store(0);
        rendezvous->turn.store(turn + 1);
        return;
    }
    while (rendezvous->turn.load() == turn) sched_yield();
}

void probe_join(int me)
{
    fflush(stdout);
    if (me != 0) _exit(0);
    while (wait(NULL) > 0) {
    }
}

static CUmemAllocationProp chunk_props(bool exportable)
{
    CUmemAllocationProp props;
    memset(&props, 0, sizeof props);
    props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    if (exportable) props.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return props;
}

CUmemGenericAllocationHandle probe_chunk(size_t bytes, bool exportable)
{
    CUmemAllocationProp props = chunk_props(exportable);
    CUmemGenericAllocationHandle chunk;
    MUST(drv.cuMemCreate(&chunk, bytes, &props, 0));
    return chunk;
}

CUdeviceptr probe_reserve(size_t bytes)
{
    CUdeviceptr at;
    MUST(drv.cuMemAddressReserve(&at, bytes, 0, 0, 0));
    return at;
}

void probe_map(CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle chunk)
{
    CUmemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    MUST(drv.cuMemMap(at, bytes, 0, chunk, 0));
    MUST(drv.cuMemSetAccess(at, bytes, &access, 1));
}
