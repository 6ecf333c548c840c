/* See foreign_kernels.h. */
#include "gpu/foreign_kernels.h"

#include <cuda_runtime_api.h>

enum { CTAS = 132, THREADS = 512 };

static unsigned long long *counter;

static __device__ unsigned char byte_at(uint64_t seed, uint64_t i)
{
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15ull ^ (i * 0xbf58476d1ce4e5b9ull);
    x ^= x >> 29;
    x *= 0x94d049bb133111ebull;
    return (unsigned char)(x >> 56);
}

static __global__ void fill(struct foreign_range range)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < range.bytes; i += step)
        ((unsigned char *)range.at)[i] = byte_at(range.seed, range.first + i);
}

static __global__ void check(struct foreign_range range, unsigned long long *wrong)
{
    unsigned long long mine = 0;
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < range.bytes; i += step)
        mine += ((volatile unsigned char *)range.at)[i] != byte_at(range.seed, range.first + i);
    if (mine != 0) atomicAdd(wrong, mine);
}

int foreign_load(void)
{
    struct foreign_range none = {};
    cudaError_t error = cudaMalloc((void **)&counter, sizeof *counter);
    if (error != cudaSuccess) return error;
    unsigned long long wrong = 0;
    int rc = foreign_fill(none);
    return rc != cudaSuccess ? rc : foreign_check(none, &wrong);
}

int foreign_fill(struct foreign_range range)
{
    fill<<<CTAS, THREADS>>>(range);
    cudaError_t error = cudaGetLastError();
    return error != cudaSuccess ? error : cudaDeviceSynchronize();
}

int foreign_check(struct foreign_range range, unsigned long long *wrong)
{
    unsigned long long found = 0;
    cudaError_t error = cudaMemsetAsync(counter, 0, sizeof *counter, 0);
    if (error != cudaSuccess) return error;
    check<<<CTAS, THREADS>>>(range, counter);
    error = cudaMemcpy(&found, counter, sizeof found, cudaMemcpyDeviceToHost);
    *wrong += found;
    return error;
}
