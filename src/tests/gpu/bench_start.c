/* Two figures that scripts/gpu-bars wants: what a copy within the GPU reaches, and what
 * ncclCommInitAll takes once the context is there. Linked with libnccl.so.2, as a user's program
 * is, so that another one can be preloaded. Usage: bench_start RANKS; prints "copy GB/s" and "init
 * ms first, then the least of further ones". */
#define _GNU_SOURCE
#include "nccl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { COPY_BYTES = 1 << 30, COPIES = 20, AGAIN = 3, MAX_RANKS = 64 };

static void fail(const char *what, int code)
{
    fprintf(stderr, "bench_start: %s: %d\n", what, code);
    exit(3);
}

#define DRIVER(name, types, ...)                                                                   \
    do {                                                                                           \
        int(*function_) types;                                                                     \
        void *library_ = dlopen("libcuda.so.1", RTLD_NOW);                                         \
        *(void **)&function_ = library_ != NULL ? dlsym(library_, name) : NULL;                    \
        if (function_ == NULL) fail("no driver with " name, 0);                                    \
        int error_ = function_(__VA_ARGS__);                                                       \
        if (error_ != 0) fail(name, error_);                                                       \
    } while (0)

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* The primary context, as the runtime uses it. */
static void open_context(void)
{
    void *context;
    DRIVER("cuInit", (unsigned), 0);
    DRIVER("cuDevicePrimaryCtxRetain", (void **, int), &context, 0);
    DRIVER("cuCtxSetCurrent", (void *), context);
}

/* Bytes read and written. */
static double copy_gb_per_s(void)
{
    unsigned long long from, to;
    double start = 0;
    DRIVER("cuMemAlloc_v2", (unsigned long long *, size_t), &from, COPY_BYTES);
    DRIVER("cuMemAlloc_v2", (unsigned long long *, size_t), &to, COPY_BYTES);
    for (int i = -2; i < COPIES; i++) {
        if (i == 0) {
            DRIVER("cuCtxSynchronize", (void), );
            start = now_ms();
        }
        DRIVER("cuMemcpyDtoDAsync_v2", (unsigned long long, unsigned long long, size_t, void *), to,
               from, COPY_BYTES, NULL);
    }
    DRIVER("cuCtxSynchronize", (void), );
    double took_ms = now_ms() - start;
    DRIVER("cuMemFree_v2", (unsigned long long), from);
    DRIVER("cuMemFree_v2", (unsigned long long), to);
    return 2.0 * COPY_BYTES * COPIES / took_ms / 1e6;
}

static double init_ms(int nranks)
{
    ncclComm_t comms[MAX_RANKS];
    int devices[MAX_RANKS] = {0};
    double start = now_ms();
    ncclResult_t rc = ncclCommInitAll(comms, nranks, devices);
    double took_ms = now_ms() - start;
    if (rc != ncclSuccess) fail(ncclGetLastError(NULL), (int)rc);
    for (int r = 0; r < nranks; r++) ncclCommDestroy(comms[r]);
    return took_ms;
}

int main(int argc, char **argv)
{
    int nranks = argc == 2 ? atoi(argv[1]) : 0;
    if (nranks < 1 || nranks > MAX_RANKS) fail("usage: bench_start RANKS", argc);
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
    open_context();
    printf("copy %.1f\n", copy_gb_per_s());
    double first = init_ms(nranks), least = first;
    for (int i = 0; i < AGAIN; i++) {
        double next = init_ms(nranks);
        if (next < least) least = next;
    }
    printf("init %.1f %.1f\n", first, least);
    return 0;
}
