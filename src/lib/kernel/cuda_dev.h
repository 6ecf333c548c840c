/* cuda_dev.h: what dev.h is on the GPU: flags in memory that others write, and their order.
 *
 * Included through dev.h by every CUDA file. Scope `gpu` is for flags between kernels of one
 * device, scope `sys` for those that the host or another device writes.
 */
#ifndef CCL_KERNEL_CUDA_DEV_H
#define CCL_KERNEL_CUDA_DEV_H

#include <stdint.h>

#define CCL_DEVICE static __host__ __device__ __forceinline__

/* Spins between two looks at the abort word, which lies in host memory and costs as much as a
 * hundred spins. */
enum { CCL_SPINS_PER_LOOK = 1024 };

static __device__ __forceinline__ uint32_t load_acquire_gpu(const uint32_t *flag)
{
    uint32_t value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}

static __device__ __forceinline__ void store_release_gpu(uint32_t *flag, uint32_t value)
{
    asm volatile("st.release.gpu.global.u32 [%0], %1;" : : "l"(flag), "r"(value) : "memory");
}

static __device__ __forceinline__ void store_relaxed_gpu(uint32_t *flag, uint32_t value)
{
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" : : "l"(flag), "r"(value) : "memory");
}

static __device__ __forceinline__ uint32_t load_relaxed_sys(const uint32_t *flag)
{
    uint32_t value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}

#endif
