/* Flags and words: small pieces of memory that kernels and the host poll. Called through the
 * device table.
 *
 * The runtime frees memory only after waiting for the device, and so for kernels that may wait
 * for the very thread that frees. Hence pieces go back to a pool, which lives as long as the
 * process. New ones are cleared together, so that a call rarely waits for the GPU: what waits for
 * the very thread may hold up all queues. One that was used is cleared when it is taken again,
 * whatever state an abort left it in.
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
    int device, class, is_used;
};

enum { ON_HOST = MAX_DEVICES, NPLACES };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece *idle[2][NPLACES][NCLASSES]; /* new ones, and those that were used */
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

/* On a stream of its own; one that shares its queue may hold it up. */
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

/* Memory of the host is cleared by the host, when it is taken. */
static ncclResult_t make_clear_slab(int place, size_t bytes, char **slab)
{
    TRY(ccl_cuda_check(make_slab(place, bytes, slab), "memory for flags"));
    return place == ON_HOST ? ncclSuccess : ccl_cuda_check(clear(*slab, bytes), "clearing flags");
}

/* Cuts a new slab into pieces of one class. */
static ncclResult_t add_slab(int place, int class)
{
    size_t each = class_bytes(class), bytes = each > SLAB_BYTES ? each : SLAB_BYTES;
    char *slab;
    TRY(make_clear_slab(place, bytes, &slab));
    for (size_t at = 0; at + each <= bytes; at += each) {
        struct piece *piece;
        TRY(CCL_NEW(&piece, 1));
        *piece = (struct piece){NULL, slab + at, place, class, 0};
        pthread_mutex_lock(&lock);
        piece->next = idle[0][place][class];
        idle[0][place][class] = piece;
        pthread_mutex_unlock(&lock);
    }
    return ncclSuccess;
}

/* NULL: there is none. */
static struct piece *take_idle(int place, int class)
{
    pthread_mutex_lock(&lock);
    int is_used = idle[0][place][class] == NULL;
    struct piece *piece = idle[is_used][place][class];
    if (piece != NULL) {
        idle[is_used][place][class] = piece->next;
        piece->next = used;
        used = piece;
    }
    pthread_mutex_unlock(&lock);
    return piece;
}

static ncclResult_t take(int place, size_t bytes, struct piece **out)
{
    int class = find_class(bytes);
    if (class == NCLASSES)
        return ccl_err(ncclInternalError, "%zu bytes of flags are asked for", bytes);
    while ((*out = take_idle(place, class)) == NULL) TRY(add_slab(place, class));
    return ncclSuccess;
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
        piece->is_used = 1;
        piece->next = idle[1][piece->device][piece->class];
        idle[1][piece->device][piece->class] = piece;
    }
    pthread_mutex_unlock(&lock);
    if (piece != NULL) return ncclSuccess;
    return ccl_err(ncclInternalError, "%p is no piece of the pool of flags", memory);
}

/* Nothing here belongs to a capture that the calling thread may be in. */
static ncclResult_t take_flags(int device, size_t bytes, void **memory)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    TRY(ccl_cuda_check(cudaThreadExchangeStreamCaptureMode(&mode), "capture mode"));
    struct piece *piece = NULL;
    ncclResult_t rc = take(device, bytes, &piece);
    if (piece != NULL) *memory = piece->memory;
    if (rc == ncclSuccess && piece->is_used)
        rc = ccl_cuda_check(clear(*memory, bytes), "clearing flags");
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
    struct piece *piece = NULL;
    *memory = NULL;
    TRY(ccl_cuda_check(cudaThreadExchangeStreamCaptureMode(&mode), "capture mode"));
    ncclResult_t rc = take(ON_HOST, bytes, &piece);
    TRY(ccl_cuda_check(cudaThreadExchangeStreamCaptureMode(&mode), "capture mode"));
    TRY(rc);
    *memory = piece->memory;
    memset(*memory, 0, bytes);
    return ncclSuccess;
}

ncclResult_t ccl_cuda_words_free(void *memory)
{
    return give_back(memory);
}
