/* kernel.h: the kernels that core launches (through device/device.h). Those of host devices are
 * coroutines over their launch arguments.
 */
#ifndef CCL_KERNEL_KERNEL_H
#define CCL_KERNEL_KERNEL_H

#include "device/device.h"
#include "kernel/work.h"

/* Raises the gate, stays until it is let go or the communicator is aborted. */
struct ccl_gate_args {
    struct ccl_gate *gate;
    const uint32_t *abort_word;
    struct ccl_bell *bell;
};

/* The same for several gates of one stream at a time, on a GPU; or the two parts one after the
 * other, so that a stream that has come to a message waits for others before it is held. */
enum { CCL_GATES_MAX = 480 };
enum ccl_gate_part { CCL_GATE_RAISE = 1, CCL_GATE_STAY = 2, CCL_GATE_WHOLE = 3 };
struct ccl_gates_args {
    const uint32_t *abort_word;
    uint32_t ngates, parts;
    struct ccl_gate *gates[CCL_GATES_MAX];
};

/* On a GPU, stays until a word in memory of the host is `value` or later. */
struct ccl_await_args {
    const uint32_t *word;
    uint32_t value;
};

/* The same for GPUs: they launch the kernel. NULL in a library without CUDA. */
#ifdef __cplusplus
extern "C" {
#endif
/* Loads all of them to the current device (cuda_launch.h). */
int ccl_cuda_load(void) CCL_OF_CUDA;
/* Whether a GPU of this compute capability reduces a type (cuda_launch.h). */
int ccl_cuda_reduces(int type, int capability) CCL_OF_CUDA;
int ccl_cuda_kernel_sched(const void *args, cudaStream_t stream) CCL_OF_CUDA;
int ccl_cuda_kernel_gates(const void *args, cudaStream_t stream) CCL_OF_CUDA;
int ccl_cuda_kernel_await(const void *args, cudaStream_t stream) CCL_OF_CUDA;
/* struct ccl_cuda_pairs */
int ccl_cuda_kernel_pairs(const void *args, cudaStream_t stream) CCL_OF_CUDA;
/* struct ccl_raise_args, ccl_takes_args */
int ccl_cuda_kernel_raise(const void *args, cudaStream_t stream) CCL_OF_CUDA;
int ccl_cuda_kernel_takes(const void *args, cudaStream_t stream) CCL_OF_CUDA;
#ifdef __cplusplus
}
#endif

enum ccl_run ccl_kernel_sched(void *args, uint32_t lane, struct ccl_cursor *cursor);
enum ccl_run ccl_kernel_pairs(void *args, uint32_t lane, struct ccl_cursor *cursor);
enum ccl_run ccl_kernel_gate(void *args, uint32_t lane, struct ccl_cursor *cursor);
/* struct ccl_rma */
enum ccl_run ccl_kernel_rma(void *args, uint32_t lane, struct ccl_cursor *cursor);

#endif
