/* cuda_launch.h: launching the CUDA kernels, for the CUDA device (device/cuda_launch.c).
 *
 * Plain C without CUDA headers: results are cudaError_t as int, 0 is success. All functions work on
 * the calling thread's current device and neither wait nor allocate, but for ccl_cuda_load.
 */
#ifndef CCL_KERNEL_CUDA_LAUNCH_H
#define CCL_KERNEL_CUDA_LAUNCH_H

#include "kernel/work.h"

struct CUstream_st;

/* Where an operation runs. */
struct ccl_cuda_target {
    struct CUstream_st *stream;
    uint32_t *arrived; /* device memory of the executor, zero; NULL: works that tell nobody */
    uint32_t nsms;
    uint32_t max_ctas; /* 0: as many as pay */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Loads all kernels to the current device. To be called before the first launch there: a kernel
 * that is loaded by its first launch may wait for ever while another stream waits for it. */
int ccl_cuda_load(void);

/* Whether the kernels reduce a type on a GPU of this compute capability (90 for 9.0). */
int ccl_cuda_reduces(int type, int capability);

/* Launches the first body of a work. Steps and buffers of `work` are copied; steps may lie in host
 * memory. Its gates lie in device memory, its abort word and `done` in memory of the host that the
 * GPU reaches; turn, boards, note and error are not used. */
int ccl_cuda_launch_local(const struct ccl_work *work, const struct ccl_cuda_target *target);

/* Launches a work of an executor that has others to talk to: a CTA a channel, all of which run at
 * once with those of the others. Steps, connections and meetings lie in memory of the device
 * (cuda_conn.h, which says what fits), abort word, error, note and `second` in memory of the host
 * that the GPU reaches. Kernels of an executor that share connections or meetings run in the order
 * of their launches, which the caller sees to; turn and boards are not used. The flags
 * CCL_WORK_NEAR and CCL_WORK_COPIES are the caller's. */
int ccl_cuda_launch_sched(const struct ccl_work *work, const struct ccl_cuda_target *target);

/* Holds a stream at a gate until the executor's kernel is done or the communicator aborted. */
int ccl_cuda_launch_gate(struct ccl_gate *gate, const uint32_t *abort_word,
                         struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
