/* Blocks of a GPU's memory, copies and fills, and words of the host that streams write and wait
 * for. Called through the device table; for the current device. */
#include "device/cuda.h"

#include "base/err.h"
#include "device/cuda_dl.h"

#include <stdio.h>

ncclResult_t ccl_cuda_alloc(void **memory, size_t bytes)
{
    if (memory == NULL) return ccl_err(ncclInvalidArgument, "alloc: memory is NULL");
    *memory = NULL;
    if (bytes == 0) return ncclSuccess;
    char what[64];
    snprintf(what, sizeof what, "cudaMalloc of %zu bytes", bytes);
    return ccl_cuda_check(cudaMalloc(memory, bytes), what);
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

/* ---- words that several processes map ---- */

ncclResult_t ccl_cuda_words_map(void *memory, size_t bytes, void **mapped)
{
    unsigned flags = cudaHostRegisterPortable | cudaHostRegisterMapped;
    TRY(ccl_cuda_check(cudaHostRegister(memory, bytes, flags), "cudaHostRegister"));
    cudaError_t error = cudaHostGetDevicePointer(mapped, memory, 0);
    /* Streams are given the host's addresses. */
    if (error == cudaSuccess && *mapped == memory) return ncclSuccess;
    cudaHostUnregister(memory);
    TRY(ccl_cuda_check(error, "cudaHostGetDevicePointer"));
    return ccl_err(ncclSystemError, "the device has another address for memory of the host");
}

ncclResult_t ccl_cuda_words_unmap(void *memory)
{
    return ccl_cuda_check(cudaHostUnregister(memory), "cudaHostUnregister");
}

ncclResult_t ccl_cuda_word_write(cudaStream_t stream, uint32_t *word, uint32_t value)
{
    return CCL_DRIVER(cuStreamWriteValue32, stream, (CUdeviceptr)(uintptr_t)word, value,
                      CU_STREAM_WRITE_VALUE_DEFAULT);
}

ncclResult_t ccl_cuda_word_wait(cudaStream_t stream, const uint32_t *word, uint32_t value)
{
    return CCL_DRIVER(cuStreamWaitValue32, stream, (CUdeviceptr)(uintptr_t)word, value,
                      CU_STREAM_WAIT_VALUE_GEQ);
}

ncclResult_t ccl_cuda_word_take(cudaStream_t stream, uint32_t *word)
{
    TRY(CCL_DRIVER(cuStreamWaitValue32, stream, (CUdeviceptr)(uintptr_t)word, 1,
                   CU_STREAM_WAIT_VALUE_EQ));
    return ccl_cuda_word_write(stream, word, 0);
}
