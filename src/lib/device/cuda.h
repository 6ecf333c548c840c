/* The CUDA devices, between their files: errors, the functions of the driver that the runtime does
 * not have, and the pieces of the table in cuda_device.c.
 *
 * The runtime is linked statically and finds the driver when it is first used; so one library runs
 * with and without a driver. Only these files and the .cu files see CUDA's headers.
 */
#ifndef CCL_DEVICE_CUDA_H
#define CCL_DEVICE_CUDA_H

#include "device/device.h"

#include <cuda_runtime_api.h>

/* ncclSuccess, or ncclUnhandledCudaError whose text names `what` and the error. */
ncclResult_t ccl_cuda_check(cudaError_t error, const char *what);

/* cuda_mem.c */
const char *ccl_cuda_memory_fault(int device, const void *memory, size_t bytes);
ncclResult_t ccl_cuda_alloc(void **memory, size_t bytes);
ncclResult_t ccl_cuda_free(void *memory);
ncclResult_t ccl_cuda_copy(void *to, const void *from, size_t bytes, cudaStream_t stream);
ncclResult_t ccl_cuda_fill(void *memory, int byte, size_t bytes, cudaStream_t stream);

ncclResult_t ccl_cuda_words_map(void *memory, size_t bytes, void **mapped);
ncclResult_t ccl_cuda_words_unmap(void *memory);
ncclResult_t ccl_cuda_word_write(cudaStream_t stream, uint32_t *word, uint32_t value);
ncclResult_t ccl_cuda_word_take(cudaStream_t stream, uint32_t *word);
ncclResult_t ccl_cuda_word_wait(cudaStream_t stream, const uint32_t *word, uint32_t value);

/* cuda_pool.c */
ncclResult_t ccl_cuda_flags_alloc(void **memory, size_t bytes);
ncclResult_t ccl_cuda_flags_free(void *memory);
ncclResult_t ccl_cuda_words_alloc(void **memory, size_t bytes);
ncclResult_t ccl_cuda_words_free(void *memory);

/* cuda_zone.c */
extern const struct ccl_zone_ops ccl_zones_cuda;

/* cuda_stream.c */
ncclResult_t ccl_cuda_stream_create(cudaStream_t *stream);
ncclResult_t ccl_cuda_stream_destroy(cudaStream_t stream);
ncclResult_t ccl_cuda_stream_sync(cudaStream_t stream);
ncclResult_t ccl_cuda_stream_query(cudaStream_t stream, int *idle);
ncclResult_t ccl_cuda_stream_wait(cudaStream_t stream, chorus_event_t event);
ncclResult_t ccl_cuda_stream_device(cudaStream_t stream, int *device);
ncclResult_t ccl_cuda_stream_capture(cudaStream_t stream, uint64_t *capture);
ncclResult_t ccl_cuda_host_func(cudaStream_t stream, void (*function)(void *), void *argument);
ncclResult_t ccl_cuda_event_create(chorus_event_t *event);
ncclResult_t ccl_cuda_event_destroy(chorus_event_t event);
ncclResult_t ccl_cuda_event_record(chorus_event_t event, cudaStream_t stream);
ncclResult_t ccl_cuda_event_sync(chorus_event_t event);
ncclResult_t ccl_cuda_event_record_outside(chorus_event_t event, cudaStream_t stream);
ncclResult_t ccl_cuda_stream_wait_outside(cudaStream_t stream, chorus_event_t event);
ncclResult_t ccl_cuda_event_query(chorus_event_t event, int *done);
ncclResult_t ccl_cuda_event_elapsed(chorus_event_t from, chorus_event_t to, float *milliseconds);

/* cuda_stock.c */
void ccl_cuda_stock_fill(void);
ncclResult_t ccl_cuda_event_make(chorus_event_t *event);
ncclResult_t ccl_cuda_stream_make(cudaStream_t *stream);

#endif
