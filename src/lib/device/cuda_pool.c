/* Flags and words: small pieces of memory that kernels and the host poll. Called through the
 * device table.
 *
 * The runtime frees memory only after waiting for the device, and so for kernels that may wait
 * for the very thread that frees. Hence pieces go back to a pool, which lives as long as the
 * process. A piece is cleared when it is taken, whatever state an abort left it in.
 */
#include "device/cuda.h"

#include "base/alloc.h"
#include "base/err.h"

#include <pthread.h>
#include <string.h>

enum { LEAST_BYTES = 256, NCLASSES = 16, SLAB_BYTES = 256 << 10, MAX_DEVICES = 64 };

/* Where a piece comes from; host words have no device. */
struct piece {
    struct piece *next;
    char *memory;
    int device, class;
};

enum { ON_HOST = MAX_DEVICES, NPLACES };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece *idle[NPLACES][NCLASSES];
static struct piece *used;

static size_t class_bytes(int class)
{
    return (size_t)LEAST_BYTES << class;
}

static int find_class(size_t bytes)
{
    int class = 0;
    while (class < NCLASSES && class_bytes(class) < bytes) class ++;
    return class;
}

static cudaError_t make_slab(int place, size_t bytes, char **slab)
{
    void *memory;
    cudaError_t error = place == ON_HOST ? cudaHostAlloc(&memory, bytes, cudaHostAllocPortable)
                                         : cudaMalloc(&memory, bytes);
    *slab = memory;
    return error;
}

/* Cuts a new slab into pieces of one class. Under the lock. */
static ncclResult_t add_slab(int place, int class)
{
    size_t each = class_bytes(class), bytes = each > SLAB_BYTES ? each : SLAB_BYTES;
    char *slab;
    TRY(ccl_cuda_check(make_slab(place, bytes, &slab), "memory for flags"));
    for (size_t at = 0; at + each <= bytes; at += each) {
        struct piece *piece;
        TRY(CCL_NEW(&piece, 1));
        *piece = (struct piece){idle[place][class], slab + at, place, class};
        idle[place][class] = piece;
    }
    return ncclSuccess;
}

static ncclResult_t take(int place, size_t bytes, void **memory)
{
    int class = find_class(bytes);
    if (class == NCLASSES)
        return ccl_err(ncclInternalError, "%zu bytes of flags are asked for", bytes);
    ncclResult_t rc = ncclSuccess;
    pthread_mutex_lock(&lock);
    if (idle[place][class] == NULL) rc = add_slab(place, class);
    struct piece *piece = idle[place][class];
    if (rc == ncclSuccess) {
        idle[place][class] = piece->next;
        piece->next = used;
        used = piece;
        *memory = piece->memory;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

static ncclResult_t give_back(void *memory)
{
    if (memory == NULL) return ncclSuccess;
    pthread_mutex_lock(&lock);
    struct piece **link = &used;
    while (*link != NULL && (*link)->memory != memory) link = &(*link)->next;
    struct piece *piece = *link;
    if (piece != NULL) {
        *link = piece->next;
        piece->next = idle[piece->device][piece->class];
        idle[piece->device][piece->class] = piece;
    }
    pthread_mutex_unlock(&lock);
    if (piece != NULL) return ncclSuccess;
    return ccl_err(ncclInternalError, "%p is no piece of the pool of flags", memory);
}

/* On a stream of its own, which no other one holds up. */
static cudaError_t clear(void *memory, size_t bytes)
{
    cudaStream_t stream;
    cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (error != cudaSuccess) return error;
    error = cudaMemsetAsync(memory, 0, bytes, stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    return error;
}

/* Nothing here belongs to a capture that the calling thread may be in. */
static ncclResult_t take_flags(int device, size_t bytes, void **memory)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    TRY(ccl_cuda_check(cudaThreadExchangeStreamCaptureMode(&mode), "capture mode"));
    ncclResult_t rc = take(device, bytes, memory);
    if (rc == ncclSuccess) rc = ccl_cuda_check(clear(*memory, bytes), "clearing flags");
    TRY(ccl_cuda_check(cudaThreadExchangeStreamCaptureMode(&mode), "capture mode"));
    return rc;
}

ncclResult_t ccl_cuda_flags_alloc(void **memory, size_t bytes)
{
    int device;
    *memory = NULL;
    TRY(ccl_cuda_check(cudaGetDevice(&device), "cudaGetDevice"));
    if (device >= MAX_DEVICES)
        return ccl_err(ncclInvalidUsage, "device %d: at most %d GPUs can be used", device,
                       MAX_DEVICES);
    return take_flags(device, bytes, memory);
}

ncclResult_t ccl_cuda_flags_free(void *memory)
{
    return give_back(memory);
}

ncclResult_t ccl_cuda_words_alloc(void **memory, size_t bytes)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    *memory = NULL;
    TRY(ccl_cuda_check(cudaThreadExchangeStreamCaptureMode(&mode), "capture mode"));
    ncclResult_t rc = take(ON_HOST, bytes, memory);
    TRY(ccl_cuda_check(cudaThreadExchangeStreamCaptureMode(&mode), "capture mode"));
    if (rc == ncclSuccess) memset(*memory, 0, bytes);
    return rc;
}

ncclResult_t ccl_cuda_words_free(void *memory)
{
    return give_back(memory);
}
