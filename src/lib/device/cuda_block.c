/* Blocks of other processes' cudaMalloc that are open here, see cuda_import.h.
 *
 * Small allocations share a block of 2 MiB, and the driver refuses to open an allocation where one
 * is open that overlapped it before it was freed. But opening one maps the whole block. So each
 * block is opened once, by the handle of the allocation that is used first, and the others are
 * found by their place in it. A block is known by its owner's number of the physical memory, so
 * that memory given back and got anew at the same address is never taken for the old one.
 *
 * One lock, also while a block is opened or closed, so that none is both at once.
 */
#include "device/cuda.h"
#include "device/cuda_dl.h"
#include "device/cuda_import.h"

#include "base/alloc.h"
#include "base/err.h"

#include <pthread.h>

struct ccl_block {
    struct ccl_block *next;
    uint64_t process, number; /* number 0: unknown, it is for the one who opened it */
    int device;
    void *opened;          /* what the driver gave */
    char *base;            /* of what is mapped, */
    uint64_t first, bytes; /* which is this part of the block */
    size_t refs;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ccl_block *all_blocks;

static int holds(const struct ccl_block *block, const struct ccl_share *share, int device)
{
    return block->number != 0 && block->number == share->block &&
           block->process == share->process && block->device == device &&
           share->place >= block->first &&
           share->place + share->bytes <= block->first + block->bytes;
}

/* The whole block where the driver says that it is mapped, else the allocation. */
static void measure(struct ccl_block *block, const struct ccl_share *share)
{
    CUpointer_attribute asked[] = {(CUpointer_attribute)CCL_POINTER_MAPPING_BASE,
                                   (CUpointer_attribute)CCL_POINTER_MAPPING_BYTES};
    CUdeviceptr base = 0, opened = (CUdeviceptr)(uintptr_t)block->opened;
    size_t bytes = 0;
    void *to[] = {&base, &bytes};
    CUresult result = ccl_driver()->cuPointerGetAttributes(2, asked, to, opened);
    int is_whole = result == CUDA_SUCCESS && base + share->place == opened &&
                   share->place + share->bytes <= bytes;
    block->base = is_whole ? (char *)(uintptr_t)base : block->opened;
    block->first = is_whole ? 0 : share->place;
    block->bytes = is_whole ? bytes : share->bytes;
}

static ncclResult_t open_block(const struct ccl_share *share, int device, struct ccl_block **out)
{
    struct ccl_block *block;
    TRY(CCL_NEW(&block, 1));
    ncclResult_t rc = ccl_cuda_check(
        cudaIpcOpenMemHandle(&block->opened, share->legacy, cudaIpcMemLazyEnablePeerAccess),
        "cudaIpcOpenMemHandle");
    if (rc != ncclSuccess) {
        ccl_free(block);
        return rc;
    }
    block->process = share->process;
    block->number = share->block;
    block->device = device;
    measure(block, share);
    block->next = all_blocks;
    all_blocks = block;
    *out = block;
    return ncclSuccess;
}

ncclResult_t ccl_block_open(const struct ccl_share *share, int device, struct ccl_block **out,
                            char **address)
{
    ncclResult_t rc = ncclSuccess;
    pthread_mutex_lock(&lock);
    struct ccl_block *block = all_blocks;
    while (block != NULL && !holds(block, share, device)) block = block->next;
    if (block == NULL) rc = open_block(share, device, &block);
    if (rc == ncclSuccess) {
        block->refs++;
        *address = block->base + (share->place - block->first);
        *out = block;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

ncclResult_t ccl_block_close(struct ccl_block *block)
{
    ncclResult_t rc = ncclSuccess;
    pthread_mutex_lock(&lock);
    if (--block->refs == 0) {
        struct ccl_block **at = &all_blocks;
        while (*at != block) at = &(*at)->next;
        *at = block->next;
        rc = ccl_cuda_check(cudaIpcCloseMemHandle(block->opened), "cudaIpcCloseMemHandle");
        ccl_free(block);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

size_t ccl_block_count(void)
{
    size_t n = 0;
    pthread_mutex_lock(&lock);
    for (const struct ccl_block *block = all_blocks; block != NULL; block = block->next) n++;
    pthread_mutex_unlock(&lock);
    return n;
}
