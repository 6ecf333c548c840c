/* What exporters send to importers (cuda_foreign.h): one message of fixed size for each allocation
 * of a span, in order, and one to take a span back. Plain data; both processes run the same
 * library.
 */
#ifndef CCL_DEVICE_CUDA_SHARE_H
#define CCL_DEVICE_CUDA_SHARE_H

#include <cuda_runtime_api.h>
#include <stdint.h>

enum ccl_share_kind {
    CCL_SHARE_FREED,  /* the span's memory is gone; nothing else in the message counts */
    CCL_SHARE_LEGACY, /* of cudaMalloc, by its IPC handle */
    CCL_SHARE_CHUNK,  /* of virtual memory; a descriptor goes with the message */
};

struct ccl_share {
    uint64_t process; /* a random number of the owner: process ids recur, also on one host */
    uint64_t span, id, bytes;
    uint64_t block, place; /* of cudaMalloc: the block that holds it (0: unknown), from where */
    uint32_t kind, index, count, spare;
    uint8_t device[16]; /* the UUID, for texts */
    cudaIpcMemHandle_t legacy;
};
_Static_assert(sizeof(struct ccl_share) == 144, "of one size in all builds");

/* Between these two, calls are allowed that a capture of this thread would forbid. */
static inline enum cudaStreamCaptureMode ccl_share_relax(void)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

static inline void ccl_share_restore(enum cudaStreamCaptureMode mode)
{
    cudaThreadExchangeStreamCaptureMode(&mode);
}

#endif
