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

static __device__ __forceinline__ uint32_t load_acquire_sys(const uint32_t *flag)
{
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}

static __device__ __forceinline__ void store_release_sys(uint32_t *flag, uint32_t value)
{
    asm volatile("st.release.sys.global.u32 [%0], %1;" : : "l"(flag), "r"(value) : "memory");
}

static __device__ __forceinline__ void add_release_sys(uint32_t *word, uint32_t value)
{
    asm volatile("red.release.sys.global.add.u32 [%0], %1;" : : "l"(word), "r"(value) : "memory");
}

/* 1 when the word was `from` and became `to`. */
static __device__ __forceinline__ int exchange_gpu(uint32_t *word, uint32_t from, uint32_t to)
{
    uint32_t was;
    asm volatile("atom.acq_rel.gpu.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(was)
                 : "l"(word), "r"(from), "r"(to)
                 : "memory");
    return was == from;
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

/* Between executors: scope `gpu` when all are on this device, else `sys`. */
static __device__ __forceinline__ uint64_t load_acquire_near(const uint64_t *flag, uint32_t is_near)
{
    uint64_t value;
    if (is_near)
        asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(flag) : "memory");
    else
        asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(flag) : "memory");
    return value;
}

static __device__ __forceinline__ void store_release_near(uint64_t *flag, uint64_t value,
                                                          uint32_t is_near)
{
    if (is_near)
        asm volatile("st.release.gpu.global.u64 [%0], %1;" : : "l"(flag), "l"(value) : "memory");
    else
        asm volatile("st.release.sys.global.u64 [%0], %1;" : : "l"(flag), "l"(value) : "memory");
}

static __device__ __forceinline__ void fence_near(uint32_t is_near)
{
    if (is_near)
        __threadfence();
    else
        __threadfence_system();
}

static __device__ __forceinline__ void store_relaxed_sys(uint64_t *at, uint64_t value)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" : : "l"(at), "l"(value) : "memory");
}

/* 16 bytes whose halves of 8 are whole: lines of LL and LL128, pairs of meetings. */
static __device__ __forceinline__ uint4 load_line(const void *at)
{
    uint4 v;
    asm volatile("ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at)
                 : "memory");
    return v;
}

static __device__ __forceinline__ void store_line(void *at, uint4 v)
{
    asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1,%2,%3,%4};"
                 :
                 : "l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

#endif
