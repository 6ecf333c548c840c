/* Blocks of a GPU's memory, copies and fills. Called through the device table; for the current
 * device. */
#include "device/cuda.h"

#include "base/err.h"

ncclResult_t ccl_cuda_alloc(void **memory, size_t bytes)
{
    if (memory == NULL) return ccl_err(ncclInvalidArgument, "alloc: memory is NULL");
    *memory = NULL;
    if (bytes == 0) return ncclSuccess;
    return ccl_cuda_check(cudaMalloc(memory, bytes), "cudaMalloc");
}

ncclResult_t ccl_cuda_free(void *memory)
{
    return ccl_cuda_check(cudaFree(memory), "cudaFree");
}

ncclResult_t ccl_cuda_copy(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    return ccl_cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream),
                          "cudaMemcpyAsync");
}

ncclResult_t ccl_cuda_fill(void *memory, int byte, size_t bytes, cudaStream_t stream)
{
    return ccl_cuda_check(cudaMemsetAsync(memory, byte, bytes, stream), "cudaMemsetAsync");
}
