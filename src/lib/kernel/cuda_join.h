/* cuda_join.h: how an executor's kernel meets the streams of its members: gates of work.h.
 *
 * Only the two kernels write a gate and both count, so that launches can be captured and replayed:
 * a gate is up while `raised` is ahead of `gone`.
 */
#ifndef CCL_KERNEL_CUDA_JOIN_H
#define CCL_KERNEL_CUDA_JOIN_H

#include "kernel/dev.h"
#include "kernel/work.h"

/* Spins while *flag is `value`; 0 when the communicator was aborted. Acquire pairs with the
 * release of whoever changes the flag. */
static __device__ __forceinline__ int spin_while(const uint32_t *flag, uint32_t value,
                                                 const uint32_t *abort_word)
{
#pragma unroll 1
    for (uint32_t spins = 1; load_acquire_gpu(flag) == value; spins++)
        if (spins % CCL_SPINS_PER_LOOK == 0 && abort_word != NULL && load_relaxed_sys(abort_word))
            return 0;
    return 1;
}

/* Every CTA waits for all members: their earlier work is visible to it. 0: aborted. */
static __device__ __forceinline__ int join_wait(const struct ccl_gate *gates, uint32_t ngates,
                                                const uint32_t *abort_word)
{
    int is_there = 1;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < ngates && is_there; i += blockDim.x)
        is_there = spin_while(&gates[i].raised, gates[i].gone, abort_word);
    return __syncthreads_and(is_there);
}

/* Whom the kernel tells that it is done, of struct ccl_work or ccl_local_args. */
template <class A> static __device__ __forceinline__ bool join_tells(const A &args)
{
    return args.ngates > 0 || args.done != NULL;
}

/* The last CTA to get here lets the members go, in this process and in others; `arrived` is 0 again
 * then. The fences order the results of all CTAs before that. The word lies in memory of the host:
 * the release publishes them to streams of other processes. */
template <class A> static __device__ __forceinline__ void join_leave(const A &args)
{
    __syncthreads();
    if (threadIdx.x != 0) return;
    __threadfence();
    if (atomicInc(args.arrived, gridDim.x - 1) != gridDim.x - 1) return;
    __threadfence();
#pragma unroll 1
    for (uint32_t i = 0; i < args.ngates; i++)
        store_relaxed_gpu(&args.gates[i].gone, args.gates[i].gone + 1);
    if (args.done != NULL) store_release_sys(args.done, args.done_value);
}

#endif
