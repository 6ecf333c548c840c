/* dev.h: the few operations that host and GPU do differently: flags in memory that another
 * thread, process or GPU writes. The interpreter uses only these names.
 */
#ifndef CCL_KERNEL_DEV_H
#define CCL_KERNEL_DEV_H

#ifdef __CUDACC__
#include "kernel/cuda_dev.h"
#else

#include "base/doorbell.h"

#include <stdint.h>

#define CCL_DEVICE static inline

CCL_DEVICE uint64_t load_acquire(const uint64_t *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

CCL_DEVICE void store_release(uint64_t *flag, uint64_t value)
{
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

CCL_DEVICE uint32_t load_acquire32(const uint32_t *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

CCL_DEVICE void store_release32(uint32_t *flag, uint32_t value)
{
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

/* The note and the error word are hints: no data is published by them. */
CCL_DEVICE void set_note(uint64_t *note, uint32_t kind, uint32_t peer)
{
    __atomic_store_n(note, (uint64_t)kind << 32 | peer, __ATOMIC_RELAXED);
}

CCL_DEVICE void set_error(uint32_t *error, uint32_t code)
{
    uint32_t none = 0;
    __atomic_compare_exchange_n(error, &none, code, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

#endif
#endif
