/* bench_bulk.cu: copies from one source to several targets by the unit for bulk copies of sm_90: a
 * thread of each CTA brings chunks to shared memory and sends each to all targets. Tells whether
 * large writes in a row come closer to the ceiling than the vectors of kernel/cuda_local.h.
 */
#include "gpu/bench.h"

#include <stdio.h>

enum { AHEAD = 3, NSLOTS = 2 * AHEAD, MOST_TARGETS = 8 };

struct bulk_args {
    const char *from;
    char *to[MOST_TARGETS];
    uint32_t ntargets, chunk_bytes, nchunks;
};

[[maybe_unused]] static __device__ uint32_t shared_at(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
static __device__ void wait_filled(uint32_t barrier, uint32_t parity)
{
    uint32_t is_filled = 0;
    while (!is_filled)
        asm volatile("{ .reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(is_filled)
                     : "r"(barrier), "r"(parity)
                     : "memory");
}

static __device__ void fill_slot(uint32_t slot, uint32_t barrier, const char *from, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(barrier), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];"
                 :
                 : "r"(slot), "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

static __device__ void send_slot(char *to, uint32_t slot, uint32_t bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :
                 : "l"(to), "r"(slot), "r"(bytes)
                 : "memory");
}
#endif

__global__ void __launch_bounds__(32) bulk_copy(const __grid_constant__ struct bulk_args args)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) char slots[];
    __shared__ __align__(8) uint64_t barriers[NSLOTS];
    uint32_t first = blockIdx.x, hop = gridDim.x, bytes = args.chunk_bytes;
    if (threadIdx.x != 0) return;
    for (int s = 0; s < NSLOTS; s++)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(shared_at(&barriers[s])));
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
    uint32_t n = first < args.nchunks ? (args.nchunks - first + hop - 1) / hop : 0;
    for (uint32_t i = 0; i < n + AHEAD; i++) {
        if (i >= NSLOTS && i < n)
            asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(AHEAD - 1) : "memory");
        uint32_t slot = i % NSLOTS;
        if (i < n)
            fill_slot(shared_at(slots) + slot * bytes, shared_at(&barriers[slot]),
                      args.from + (uint64_t)(first + i * hop) * bytes, bytes);
        if (i < AHEAD) continue;
        uint32_t ready = i - AHEAD, place = ready % NSLOTS;
        wait_filled(shared_at(&barriers[place]), ready / NSLOTS & 1);
        uint64_t at = (uint64_t)(first + ready * hop) * bytes;
        for (uint32_t t = 0; t < args.ntargets; t++)
            send_slot(args.to[t] + at, shared_at(slots) + place * bytes, bytes);
        asm volatile("cp.async.bulk.commit_group;" : : : "memory");
    }
    asm volatile("cp.async.bulk.wait_group 0;" : : : "memory");
#endif
}

struct bulk_run {
    struct bench *bench;
    struct bulk_args args;
    uint32_t ctas;
};

static void launch_bulk(void *what, uint32_t)
{
    const struct bulk_run *run = (const struct bulk_run *)what;
    bulk_copy<<<run->ctas, 32, NSLOTS * run->args.chunk_bytes, run->bench->gpu.stream>>>(run->args);
    CK(cudaPeekAtLastError());
}

__global__ void count_differences(const uint64_t *a, const uint64_t *b, uint64_t n, unsigned *count)
{
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        if (a[i] != b[i]) atomicAdd(count, 1);
}

__global__ void write_numbers(uint64_t *to, uint64_t n)
{
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) to[i] = i * 77 + 1;
}

static unsigned check_bulk(struct bulk_run *run, uint64_t bytes)
{
    unsigned *count, found;
    cudaStream_t stream = run->bench->gpu.stream;
    CK(cudaMalloc((void **)&count, sizeof *count));
    CK(cudaMemsetAsync(count, 0, sizeof *count, stream));
    write_numbers<<<512, 512, 0, stream>>>((uint64_t *)run->args.from, bytes / 8);
    for (uint32_t t = 0; t < run->args.ntargets; t++)
        CK(cudaMemsetAsync(run->args.to[t], 0xff, bytes, stream));
    launch_bulk(run, 0);
    for (uint32_t t = 0; t < run->args.ntargets; t++)
        count_differences<<<512, 512, 0, stream>>>(
            (const uint64_t *)run->args.from, (const uint64_t *)run->args.to[t], bytes / 8, count);
    CK(cudaStreamSynchronize(stream));
    CK(cudaMemcpy(&found, count, sizeof found, cudaMemcpyDeviceToHost));
    CK(cudaFree(count));
    return found;
}

void bench_bulk(struct bench *bench)
{
    enum { BYTES = 128 << 20 };
    static const struct {
        uint32_t chunk_bytes, ctas_per_sm;
    } ways[] = {{4096, 1}, {4096, 4}, {8192, 1}, {8192, 4}, {16384, 1}, {16384, 2}, {32768, 1}};
    if (bench->gpu.capability < 90) return;
    CK(cudaFuncSetAttribute(bulk_copy, cudaFuncAttributeMaxDynamicSharedMemorySize,
                            NSLOTS * 32768));
    printf("bulk copies of 128 MiB, TB/s read and written, to 1, 2, 4, 8 targets\n");
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        struct bulk_run run = {};
        run.bench = bench;
        run.ctas = ways[w].ctas_per_sm * (uint32_t)bench->gpu.nsms;
        run.args.chunk_bytes = ways[w].chunk_bytes;
        run.args.nchunks = BYTES / ways[w].chunk_bytes;
        run.args.from = bench->pool;
        for (uint64_t t = 0; t < MOST_TARGETS; t++)
            run.args.to[t] = bench->pool + (t + 1) * ((uint64_t)BYTES + 4096);
        printf("chunks of %5u, %u CTAs an SM:", ways[w].chunk_bytes, ways[w].ctas_per_sm);
        for (uint32_t k = 1; k <= MOST_TARGETS; k *= 2) {
            struct bench_launcher launcher = {launch_bulk, &run};
            run.args.ntargets = k;
            unsigned wrong = check_bulk(&run, BYTES);
            double us = bench_stream_us(bench, launcher, 6);
            printf("  %.3f%s", (double)BYTES * (k + 1) / us / 1e6, wrong ? " WRONG" : "");
        }
        printf("\n");
    }
}
