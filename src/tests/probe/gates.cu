/* Probe: what gates cost the kernels beside them. A gate is one thread that spins on a word, in
 * device or in pinned host memory, with or without a sleep in the loop. Victims are bound by
 * memory or by arithmetic, come in many waves or fill the device once, and use shared memory or
 * not: a gate takes a slot of an SM, so kernels that fill SMs exactly may need a second wave.
 */
#include "probe/kit.h"

enum { MAX_GATES = 32, REPEATS = 5, LAUNCHES = 3, CHAINS = 8 };
static const int gate_counts[] = {1, 2, 4, 8, 16, 32};
enum { NCOUNTS = sizeof gate_counts / sizeof gate_counts[0] };

struct gate_kind {
    const char *name;
    bool on_host;
    unsigned sleep_ns;
    int carveout; /* -1: as the driver likes */
};
static const struct gate_kind kinds[] = {
    {"device word", false, 0, -1},
    {"host word", true, 0, -1},
    {"device word, sleep 200 ns", false, 200, -1},
    {"host word, sleep 1 us", true, 1000, -1},
    {"host word, sleep 1 us, all shared memory", true, 1000, cudaSharedmemCarveoutMaxShared},
};

struct victim {
    const char *name;
    bool copies;
    int ctas, threads, shared_bytes, rounds;
};
static const struct victim victims[] = {
    {"copy, 1056 x 512", true, 1056, 512, 0, 0},
    {"copy, 264 x 512", true, 264, 512, 0, 0},
    {"multiply, 16896 x 256", false, 16896, 256, 0, 250},
    {"multiply, 264 x 1024, fills", false, 264, 1024, 0, 4000},
    {"multiply, 2112 x 256, 48 KiB", false, 2112, 256, 48 << 10, 2000},
    {"multiply, 132 x 256, 227 KiB", false, 132, 256, 227 << 10, 32000},
    {"multiply, 1056 x 256, 227 KiB", false, 1056, 256, 227 << 10, 4000},
};
enum { NVICTIMS = sizeof victims / sizeof victims[0] };

static __global__ void gate(volatile uint32_t *word, uint32_t target, unsigned sleep_ns,
                            volatile uint32_t *up)
{
    *up = target;
    while (*word < target) {
        if (sleep_ns != 0) __nanosleep(sleep_ns);
    }
}

static __global__ void copy_words(const uint4 *src, uint4 *dst, size_t n)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += 4 * step) {
        uint4 v[4];
        for (int k = 0; k < 4; k++)
            if (i + k * step < n) v[k] = src[i + k * step];
        for (int k = 0; k < 4; k++)
            if (i + k * step < n) dst[i + k * step] = v[k];
    }
}

static __global__ void multiply(float *out, int rounds)
{
    float v[CHAINS];
    for (int k = 0; k < CHAINS; k++) v[k] = (float)(threadIdx.x + k);
    for (int r = 0; r < rounds; r++) {
#pragma unroll
        for (int k = 0; k < CHAINS; k++) v[k] = __fmaf_rn(v[k], 1.0001f, 0.5f);
    }
    float sum = 0;
    for (int k = 0; k < CHAINS; k++) sum += v[k];
    if (sum == -1.0f) *out = sum;
}

struct scene {
    cudaStream_t stream, opener, gates[MAX_GATES];
    cudaEvent_t begin, end;
    uint32_t *host_word, *device_word, *up;
    uint4 *src, *dst;
    size_t words;
    uint32_t turn;
};

static void launch_victim(struct scene *s, const struct victim *v)
{
    if (v->copies)
        copy_words<<<v->ctas, v->threads, 0, s->stream>>>(s->src, s->dst, s->words);
    else
        multiply<<<v->ctas, v->threads, v->shared_bytes, s->stream>>>((float *)s->dst, v->rounds);
}

static double time_victim(struct scene *s, const struct victim *v)
{
    double us[REPEATS];
    launch_victim(s, v);
    for (int r = 0; r < REPEATS; r++) {
        float ms;
        MUST(cudaEventRecord(s->begin, s->stream));
        for (int i = 0; i < LAUNCHES; i++) launch_victim(s, v);
        MUST(cudaEventRecord(s->end, s->stream));
        MUST(cudaEventSynchronize(s->end));
        MUST(cudaEventElapsedTime(&ms, s->begin, s->end));
        us[r] = ms * 1e3 / LAUNCHES;
    }
    MUST(cudaGetLastError());
    return probe_median(us, REPEATS);
}

static void close_gates(struct scene *s, const struct gate_kind *kind, int n)
{
    uint32_t *word = kind->on_host ? s->host_word : s->device_word;
    MUST(
        cudaFuncSetAttribute(gate, cudaFuncAttributePreferredSharedMemoryCarveout, kind->carveout));
    s->turn++;
    for (int i = 0; i < n; i++)
        gate<<<1, 1, 0, s->gates[i]>>>(word, s->turn, kind->sleep_ns, s->up + 16 * i);
    for (int i = 0; i < n; i++) {
        while (*(volatile uint32_t *)(s->up + 16 * i) < s->turn) {
        }
    }
}

/* Opens the gates; returns the time until all are gone. */
static double open_gates(struct scene *s, const struct gate_kind *kind, int n)
{
    double began_us = probe_now_us();
    if (kind->on_host)
        *(volatile uint32_t *)s->host_word = s->turn;
    else
        MUST(drv.cuStreamWriteValue32(s->opener, (CUdeviceptr)s->device_word, s->turn, 0));
    for (int i = 0; i < n; i++) MUST(cudaStreamSynchronize(s->gates[i]));
    return probe_now_us() - began_us;
}

static void time_kind(struct scene *s, const struct gate_kind *kind, const double *alone_us)
{
    double ratio[NVICTIMS][NCOUNTS], open_us[NCOUNTS];
    for (int c = 0; c < NCOUNTS; c++) {
        close_gates(s, kind, gate_counts[c]);
        for (int v = 0; v < NVICTIMS; v++) ratio[v][c] = time_victim(s, &victims[v]) / alone_us[v];
        open_us[c] = open_gates(s, kind, gate_counts[c]);
    }
    printf("   gates: %s\n", kind->name);
    for (int v = 0; v < NVICTIMS; v++) {
        printf("     %-32s", victims[v].name);
        for (int c = 0; c < NCOUNTS; c++) printf(" %6.3f", ratio[v][c]);
        printf("\n");
    }
    printf("     %-32s", "us until all are gone");
    for (int c = 0; c < NCOUNTS; c++) printf(" %6.1f", open_us[c]);
    printf("\n");
}

static void open_scene(struct scene *s)
{
    s->words = ((size_t)256 << 20) / sizeof(uint4);
    MUST(cudaMalloc(&s->src, s->words * sizeof(uint4)));
    MUST(cudaMalloc(&s->dst, s->words * sizeof(uint4)));
    MUST(cudaMemset(s->src, 1, s->words * sizeof(uint4)));
    MUST(cudaMalloc(&s->device_word, 4096));
    MUST(cudaMemset(s->device_word, 0, 4096));
    MUST(cudaHostAlloc(&s->host_word, 4096, cudaHostAllocMapped));
    MUST(cudaHostAlloc(&s->up, 4096, cudaHostAllocMapped));
    *s->host_word = 0;
    for (int i = 0; i < 1024; i++) s->up[i] = 0;
    MUST(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&s->opener, cudaStreamNonBlocking));
    for (int i = 0; i < MAX_GATES; i++)
        MUST(cudaStreamCreateWithFlags(&s->gates[i], cudaStreamNonBlocking));
    MUST(cudaEventCreate(&s->begin));
    MUST(cudaEventCreate(&s->end));
    MUST(cudaFuncSetAttribute(multiply, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 << 10));
    gate<<<1, 1, 0, s->stream>>>(s->host_word, 0, 0, s->up);
    MUST(cudaDeviceSynchronize());
}

void probe_gates(int arg)
{
    struct scene scene = {};
    double alone_us[NVICTIMS];
    (void)arg;
    probe_open();
    open_scene(&scene);
    for (int v = 0; v < NVICTIMS; v++) {
        time_victim(&scene, &victims[v]);
        alone_us[v] = time_victim(&scene, &victims[v]);
        printf("   alone: %-32s %8.1f us\n", victims[v].name, alone_us[v]);
    }
    printf("   time over time alone with 1, 2, 4, 8, 16, 32 gates\n");
    for (const struct gate_kind &kind : kinds) time_kind(&scene, &kind, alone_us);
}
