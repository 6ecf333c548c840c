/* Kernels that fill and verify device memory; see cuda_values.h. A warp takes a block of 256
 * elements at a time, so that the rotation of its columns is computed once for 8 elements of a
 * lane. Called by cuda_device.c; what the elements are comes from mixing.h and the tables.
 */
#include "harness/cuda_values.h"

#include "harness/mixing.h"

#include <cuda_runtime.h>

enum { THREADS = 256, WARP = 32, WARPS = THREADS / WARP, MOST_BLOCKS = 1056 };

/* A thread for each byte of a guard (PERF_GUARD_BYTES of verify.h). */
enum { GUARD_BYTES = THREADS };

__device__ static void note(struct perf_value_result *result, unsigned long long wrong,
                            unsigned long long first)
{
    if (wrong == 0) return;
    atomicAdd(&result->wrong, wrong);
    atomicMax(&result->first_inverted, ~first);
}

template <typename T>
__global__ void __launch_bounds__(THREADS) walk(const __grid_constant__ perf_value_job job)
{
    __shared__ T row[PERF_COLUMNS];
    if (job.row != nullptr) row[threadIdx.x] = static_cast<const T *>(job.row)[threadIdx.x];
    __syncthreads();
    uint64_t base = perf_stream_base(job.seed, job.stream), last = job.from + job.elems - 1;
    unsigned turn = perf_stream_turn(job.stream), lane = threadIdx.x % WARP;
    uint64_t block = job.from / PERF_COLUMNS + blockIdx.x * WARPS + threadIdx.x / WARP;
    unsigned long long wrong = 0, first = 0;
    for (; block <= last / PERF_COLUMNS; block += gridDim.x * WARPS) {
        unsigned rotation = perf_rotation(job.seed, block);
        for (unsigned i = lane; i < PERF_COLUMNS; i += WARP) {
            uint64_t index = block * PERF_COLUMNS + i;
            if (index < job.from || index > last) continue;
            unsigned column = (rotation + i) & 255;
            T value =
                job.row != nullptr
                    ? row[column]
                    : static_cast<T>(perf_stream_element(base, index, sizeof(T), column ^ turn));
            T *at = static_cast<T *>(job.at) + (index - job.from);
            if (job.mode == PERF_VALUES_FILL) {
                *at = value;
            } else if (job.mode == PERF_VALUES_FILL_OTHERS) {
                *at = static_cast<T>(~value);
            } else if (*at != value) {
                if (wrong++ == 0) first = job.first + (index - job.from);
            }
        }
    }
    note(job.result, wrong, first);
}

/* Thread i stands for byte i of the guard before the area, or behind it in the second block. The
 * bytes are those of perf_guard_fill. */
__global__ void __launch_bounds__(THREADS) guard(const __grid_constant__ perf_value_job job)
{
    unsigned offset = threadIdx.x;
    uint8_t intact = static_cast<uint8_t>(offset * 37 % 251 + 1);
    uint8_t *bytes = static_cast<uint8_t *>(job.at);
    uint8_t *at = blockIdx.x == 0 ? bytes - GUARD_BYTES + offset : bytes + job.elems + offset;
    if (job.mode == PERF_GUARDS_FILL)
        *at = intact;
    else
        note(job.result + blockIdx.x, *at != intact, offset);
}

static cudaError_t launch(const void *kernel, unsigned blocks, const perf_value_job *job,
                          cudaStream_t stream)
{
    void *arguments[] = {const_cast<perf_value_job *>(job)};
    return cudaLaunchKernel(kernel, dim3(blocks), dim3(THREADS), arguments, 0, stream);
}

template <typename T> static cudaError_t launch_walk(const perf_value_job *job, cudaStream_t stream)
{
    uint64_t last = job->from + job->elems - 1;
    uint64_t blocks = last / PERF_COLUMNS - job->from / PERF_COLUMNS + 1;
    uint64_t wanted = (blocks + WARPS - 1) / WARPS;
    unsigned grid = wanted < MOST_BLOCKS ? static_cast<unsigned>(wanted) : MOST_BLOCKS;
    return launch(reinterpret_cast<const void *>(walk<T>), grid, job, stream);
}

static const void *const kernels[] = {
    reinterpret_cast<const void *>(walk<uint8_t>),  reinterpret_cast<const void *>(walk<uint16_t>),
    reinterpret_cast<const void *>(walk<uint32_t>), reinterpret_cast<const void *>(walk<uint64_t>),
    reinterpret_cast<const void *>(guard),
};

/* To ask for the attributes of a kernel loads it. */
static cudaError_t load()
{
    cudaFuncAttributes attributes;
    cudaError_t error = cudaSuccess;
    for (const void *kernel : kernels)
        if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, kernel);
    return error;
}

int perf_cuda_values(const struct perf_value_job *job, struct CUstream_st *stream)
{
    if (job->mode == PERF_VALUES_LOAD) return load();
    if (job->mode == PERF_GUARDS_FILL || job->mode == PERF_GUARDS_COMPARE)
        return launch(reinterpret_cast<const void *>(guard), 2, job, stream);
    if (job->elems == 0) return cudaSuccess;
    switch (job->type_bytes) {
    case 1: return launch_walk<uint8_t>(job, stream);
    case 2: return launch_walk<uint16_t>(job, stream);
    case 4: return launch_walk<uint32_t>(job, stream);
    case 8: return launch_walk<uint64_t>(job, stream);
    default: return cudaErrorInvalidValue;
    }
}
