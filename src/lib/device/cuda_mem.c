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

/* Of managed memory any GPU may use any part. */
static const char *find_fault(int device, const char *address)
{
    unsigned type = 0, is_managed = 0;
    int owner = -1;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *to[] = {&type, &is_managed, &owner};
    if (CCL_DRIVER(cuPointerGetAttributes, 3, asked, to, (CUdeviceptr)(uintptr_t)address) !=
        ncclSuccess)
        return "cannot be examined";
    if (is_managed) return NULL;
    if (type != CU_MEMORYTYPE_DEVICE) return "is no memory of a GPU";
    return owner == device ? NULL : "is memory of another GPU";
}

const char *ccl_cuda_memory_fault(int device, const void *memory, size_t bytes)
{
    const char *first = memory;
    const char *fault = find_fault(device, first);
    return fault != NULL ? fault : find_fault(device, first + bytes - 1);
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
