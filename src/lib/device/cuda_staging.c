/* Buffers that stand in for memory that cannot be exported, see cuda_foreign.h: of cudaMalloc,
 * kept as long as the process lives.
 *
 * They are never freed: cudaFree waits for all that the device does, and so for streams that may
 * wait for the very thread that frees. One lock for the list of idle ones.
 */
#include "device/cuda.h"
#include "device/cuda_dl.h"
#include "device/cuda_foreign.h"
#include "device/cuda_share.h"

#include "base/alloc.h"
#include "base/err.h"

#include <pthread.h>

/* Of whole blocks, so that any driver exports them. A buffer may be larger than asked by MAX_WASTE
 * times, beyond a block. */
enum { BLOCK_BYTES = 2 << 20, MAX_WASTE = 4 };

struct owned {
    struct ccl_staging staging; /* first */
    struct owned *next;
    int device;
    cudaEvent_t used;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct owned *idle;

int ccl_staging_can_stand_for(const void *address)
{
    CUpointer_attribute asked = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    unsigned type = 0;
    void *to = &type;
    return CCL_DRIVER(cuPointerGetAttributes, 1, &asked, &to, (CUdeviceptr)(uintptr_t)address) ==
               ncclSuccess &&
           type != 0;
}

/* An error of the query is one of the device's, which finishes nothing any more. */
static int fits(const struct owned *owned, int device, size_t bytes)
{
    return owned->device == device && owned->staging.bytes >= bytes &&
           owned->staging.bytes <= MAX_WASTE * bytes + BLOCK_BYTES &&
           cudaEventQuery(owned->used) != cudaErrorNotReady;
}

static struct owned *take_idle(int device, size_t bytes)
{
    struct owned **at = &idle;
    pthread_mutex_lock(&lock);
    while (*at != NULL && !fits(*at, device, bytes)) at = &(*at)->next;
    struct owned *found = *at;
    if (found != NULL) *at = found->next;
    pthread_mutex_unlock(&lock);
    (void)cudaGetLastError();
    return found;
}

static ncclResult_t make(int device, size_t bytes, struct owned **out)
{
    struct owned *made;
    ncclResult_t rc;
    TRY(CCL_NEW(&made, 1));
    made->device = device;
    made->staging.bytes = (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
    TRY_GOTO(rc, ccl_cuda_event_make((chorus_event_t *)(void *)&made->used), fail);
    void *memory;
    TRY_GOTO(rc, ccl_cuda_check(cudaMalloc(&memory, made->staging.bytes), "memory for staging"),
             fail);
    made->staging.memory = memory;
    *out = made;
    return ncclSuccess;
fail:
    if (made->used != NULL) cudaEventDestroy(made->used);
    ccl_free(made);
    return rc;
}

ncclResult_t ccl_staging_take(size_t bytes, struct ccl_staging **out)
{
    int device;
    ncclResult_t rc = ncclSuccess;
    TRY(ccl_cuda_check(cudaGetDevice(&device), "cudaGetDevice"));
    enum cudaStreamCaptureMode mode = ccl_share_relax();
    struct owned *owned = take_idle(device, bytes);
    if (owned == NULL) rc = make(device, bytes, &owned);
    ccl_share_restore(mode);
    if (rc == ncclSuccess) *out = &owned->staging;
    return rc;
}

ncclResult_t ccl_staging_follow(struct ccl_staging *staging, cudaStream_t stream)
{
    struct owned *owned = (struct owned *)staging;
    return ccl_cuda_check(cudaStreamWaitEvent(stream, owned->used, 0), "cudaStreamWaitEvent");
}

ncclResult_t ccl_staging_mark(struct ccl_staging *staging, cudaStream_t stream)
{
    struct owned *owned = (struct owned *)staging;
    return ccl_cuda_check(cudaEventRecord(owned->used, stream), "cudaEventRecord");
}

void ccl_staging_put(struct ccl_staging *staging)
{
    struct owned *owned = (struct owned *)staging;
    if (owned == NULL) return;
    pthread_mutex_lock(&lock);
    owned->next = idle;
    idle = owned;
    pthread_mutex_unlock(&lock);
}
