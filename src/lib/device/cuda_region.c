/* The pieces and regions of a process, see cuda_import.h. Regions are mapped at their first use,
 * in relaxed capture mode and on their own device; what was unmapped for the limits is mapped
 * again when it is used again.
 *
 * One lock for the lists. What has left them is closed without it.
 */
#include "device/cuda.h"
#include "device/cuda_dl.h"
#include "device/cuda_import.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct ccl_piece {
    struct ccl_piece *next;
    struct ccl_share share;
    CUmemGenericAllocationHandle chunk;
    size_t refs;
};

struct ccl_region {
    struct ccl_region *next;
    int device;
    struct ccl_piece **pieces;
    size_t npieces, bytes;
    char *base;              /* NULL: not mapped */
    struct ccl_block *block; /* what it is a part of, of cudaMalloc */
    size_t refs;             /* importers that know it */
    uint64_t used;           /* when it was, by `turn` */
    _Atomic size_t pins;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ccl_piece *all_pieces;
static struct ccl_region *all_regions;
static uint64_t turn;
static struct ccl_import_limits limits = {1024, (size_t)256 << 30};
static struct ccl_import_usage usage;

void ccl_import_limit(struct ccl_import_limits asked)
{
    pthread_mutex_lock(&lock);
    limits = asked;
    pthread_mutex_unlock(&lock);
}

struct ccl_import_usage ccl_import_usage(void)
{
    pthread_mutex_lock(&lock);
    struct ccl_import_usage seen = usage;
    pthread_mutex_unlock(&lock);
    seen.blocks = ccl_block_count();
    return seen;
}

/* ---- pieces ---- */

static ncclResult_t import_chunk(int fd, CUmemGenericAllocationHandle *chunk)
{
    enum cudaStreamCaptureMode mode = ccl_share_relax();
    ncclResult_t rc = CCL_DRIVER(cuMemImportFromShareableHandle, chunk, (void *)(intptr_t)fd,
                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    ccl_share_restore(mode);
    return rc;
}

static ncclResult_t open_piece(const struct ccl_share *share, int fd, struct ccl_piece **out)
{
    struct ccl_piece *piece;
    TRY(CCL_NEW(&piece, 1));
    piece->share = *share;
    ncclResult_t rc =
        share->kind == CCL_SHARE_CHUNK ? import_chunk(fd, &piece->chunk) : ncclSuccess;
    if (rc != ncclSuccess) {
        ccl_free(piece);
        return rc;
    }
    piece->next = all_pieces;
    all_pieces = piece;
    usage.allocations++;
    CCL_INFO(CCL_LOG_REG, "%llu bytes of another process: opened by %s",
             (unsigned long long)share->bytes,
             share->kind == CCL_SHARE_CHUNK ? "a descriptor" : "an IPC handle");
    *out = piece;
    return ncclSuccess;
}

ncclResult_t ccl_piece_get(const struct ccl_share *share, int fd, struct ccl_piece **out)
{
    ncclResult_t rc = ncclSuccess;
    pthread_mutex_lock(&lock);
    struct ccl_piece *piece = all_pieces;
    while (piece != NULL &&
           (piece->share.process != share->process || piece->share.id != share->id))
        piece = piece->next;
    if (piece == NULL) rc = open_piece(share, fd, &piece);
    if (rc == ncclSuccess) piece->refs++;
    pthread_mutex_unlock(&lock);
    *out = piece;
    return rc;
}

/* The handle of a chunk holds its memory, mapped or not. */
void ccl_piece_put(struct ccl_piece *piece)
{
    pthread_mutex_lock(&lock);
    int is_last = --piece->refs == 0;
    if (is_last) {
        struct ccl_piece **at = &all_pieces;
        while (*at != piece) at = &(*at)->next;
        *at = piece->next;
        usage.allocations--;
    }
    pthread_mutex_unlock(&lock);
    if (!is_last) return;
    if (piece->share.kind == CCL_SHARE_CHUNK) (void)CCL_DRIVER(cuMemRelease, piece->chunk);
    ccl_free(piece);
}

/* ---- mapping ---- */

/* Names what failed to be mapped; the cause has been logged. */
static ncclResult_t say_unmapped(const struct ccl_region *region, ncclResult_t rc)
{
    const struct ccl_share *share = &region->pieces[0]->share;
    char device[33] = "", cause[512];
    for (int i = 0; i < 16; i++) snprintf(device + 2 * i, 3, "%02x", share->device[i]);
    snprintf(cause, sizeof cause, "%s", ccl_err_last());
    return ccl_err(rc, "mapping %zu bytes of another process on GPU %s to device %d: %s",
                   region->bytes, device, region->device, cause);
}

static ncclResult_t map_legacy(struct ccl_region *region)
{
    return ccl_block_open(&region->pieces[0]->share, region->device, &region->block, &region->base);
}

/* Unmaps the first `npieces` chunks and gives the addresses back. */
static ncclResult_t unmap_chunks(const struct ccl_region *region, CUdeviceptr base, size_t npieces)
{
    ncclResult_t rc = ncclSuccess;
    CUdeviceptr at = base;
    for (size_t i = 0; i < npieces; i++) {
        size_t bytes = region->pieces[i]->share.bytes;
        ncclResult_t unmap_rc = CCL_DRIVER(cuMemUnmap, at, bytes);
        if (unmap_rc != ncclSuccess) rc = unmap_rc;
        at += bytes;
    }
    ncclResult_t free_rc = CCL_DRIVER(cuMemAddressFree, base, region->bytes);
    return rc != ncclSuccess ? rc : free_rc;
}

static ncclResult_t map_chunks(struct ccl_region *region)
{
    const CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = region->device},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    CUdeviceptr base;
    size_t i = 0;
    ncclResult_t rc;
    TRY(CCL_DRIVER(cuMemAddressReserve, &base, region->bytes, 0, 0, 0));
    for (CUdeviceptr at = base; i < region->npieces; i++) {
        const struct ccl_piece *piece = region->pieces[i];
        TRY_GOTO(rc, CCL_DRIVER(cuMemMap, at, piece->share.bytes, 0, piece->chunk, 0), fail);
        at += piece->share.bytes;
    }
    TRY_GOTO(rc, CCL_DRIVER(cuMemSetAccess, base, region->bytes, &access, 1), fail);
    region->base = (char *)base;
    return ncclSuccess;
fail:
    (void)unmap_chunks(region, base, i);
    return rc;
}

static ncclResult_t map(struct ccl_region *region)
{
    return region->pieces[0]->share.kind == CCL_SHARE_LEGACY ? map_legacy(region)
                                                             : map_chunks(region);
}

static ncclResult_t unmap(struct ccl_region *region)
{
    if (region->base == NULL) return ncclSuccess;
    if (region->pieces[0]->share.kind == CCL_SHARE_LEGACY) return ccl_block_close(region->block);
    return unmap_chunks(region, (CUdeviceptr)region->base, region->npieces);
}

/* Calls with the region's device as the current one, and in relaxed capture mode. */
static ncclResult_t on_device(struct ccl_region *region,
                              ncclResult_t (*call)(struct ccl_region *region))
{
    int current;
    TRY(ccl_cuda_check(cudaGetDevice(&current), "cudaGetDevice"));
    TRY(ccl_cuda_check(cudaSetDevice(region->device), "cudaSetDevice"));
    enum cudaStreamCaptureMode mode = ccl_share_relax();
    ncclResult_t rc = call(region);
    ccl_share_restore(mode);
    ncclResult_t set_rc = ccl_cuda_check(cudaSetDevice(current), "cudaSetDevice");
    return rc != ncclSuccess ? rc : set_rc;
}

/* ---- regions ---- */

static void free_region(struct ccl_region *region)
{
    for (size_t i = 0; i < region->npieces; i++) ccl_piece_put(region->pieces[i]);
    ccl_free(region->pieces);
    ccl_free(region);
}

static int is_of(const struct ccl_region *region, int device, struct ccl_piece *const *pieces,
                 size_t npieces)
{
    return region->device == device && region->npieces == npieces &&
           memcmp(region->pieces, pieces, npieces * sizeof(struct ccl_piece *)) == 0;
}

ncclResult_t ccl_region_get(int device, struct ccl_piece **pieces, size_t npieces,
                            struct ccl_region **out)
{
    struct ccl_region *made, *found;
    ncclResult_t rc = CCL_NEW(&made, 1);
    if (rc != ncclSuccess) {
        for (size_t i = 0; i < npieces; i++) ccl_piece_put(pieces[i]);
        ccl_free(pieces);
        return rc;
    }
    made->device = device;
    made->pieces = pieces;
    made->npieces = npieces;
    for (size_t i = 0; i < npieces; i++) made->bytes += pieces[i]->share.bytes;
    pthread_mutex_lock(&lock);
    for (found = all_regions; found != NULL; found = found->next)
        if (is_of(found, device, pieces, npieces)) break;
    if (found == NULL) {
        made->next = all_regions;
        all_regions = made;
    }
    *out = found != NULL ? found : made;
    (*out)->refs++;
    pthread_mutex_unlock(&lock);
    if (found != NULL) free_region(made);
    return ncclSuccess;
}

void ccl_region_put(struct ccl_region *region)
{
    pthread_mutex_lock(&lock);
    region->refs--;
    pthread_mutex_unlock(&lock);
}

static ncclResult_t map_for_use(struct ccl_region *region)
{
    if (region->base != NULL) return ncclSuccess;
    ncclResult_t rc = on_device(region, map);
    if (rc != ncclSuccess) return say_unmapped(region, rc);
    usage.regions++;
    usage.bytes += region->bytes;
    return ncclSuccess;
}

ncclResult_t ccl_region_use(struct ccl_region *region, uint64_t offset, size_t bytes,
                            char **address)
{
    if (offset > region->bytes || bytes > region->bytes - offset)
        return ccl_err(ncclRemoteError,
                       "a buffer of another process, %zu bytes at %llu, runs past its %zu bytes",
                       bytes, (unsigned long long)offset, region->bytes);
    pthread_mutex_lock(&lock);
    ncclResult_t rc = map_for_use(region);
    if (rc == ncclSuccess) {
        /* Relaxed: who unmaps reads it under this lock. */
        atomic_fetch_add_explicit(&region->pins, 1, memory_order_relaxed);
        region->used = ++turn;
        *address = region->base + offset;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

void ccl_import_unpin(struct ccl_region *region)
{
    /* Pairs with the load of is_pinned: what the kernels did is over before it is unmapped. */
    if (region != NULL) atomic_fetch_sub_explicit(&region->pins, 1, memory_order_release);
}

static int is_pinned(struct ccl_region *region)
{
    return atomic_load_explicit(&region->pins, memory_order_acquire) != 0;
}

static void count_out(const struct ccl_region *region)
{
    if (region->base == NULL) return;
    usage.regions--;
    usage.bytes -= region->bytes;
}

/* Takes a region out of the list that nobody knows or uses any more. */
static struct ccl_region *take_unused(void)
{
    struct ccl_region **at = &all_regions;
    pthread_mutex_lock(&lock);
    while (*at != NULL && ((*at)->refs != 0 || is_pinned(*at))) at = &(*at)->next;
    struct ccl_region *region = *at;
    if (region != NULL) {
        *at = region->next;
        count_out(region);
    }
    pthread_mutex_unlock(&lock);
    return region;
}

static struct ccl_region *find_oldest(void)
{
    struct ccl_region *oldest = NULL;
    for (struct ccl_region *region = all_regions; region != NULL; region = region->next)
        if (region->base != NULL && !is_pinned(region) &&
            (oldest == NULL || region->used < oldest->used))
            oldest = region;
    return oldest;
}

/* Unmaps the oldest region when there are too many; *done: that was not needed or possible. Under
 * the lock, since a call may want to use it this moment. */
static ncclResult_t unmap_oldest(int *done)
{
    ncclResult_t rc = ncclSuccess;
    pthread_mutex_lock(&lock);
    int is_over = usage.regions > limits.regions || usage.bytes > limits.bytes;
    struct ccl_region *oldest = is_over ? find_oldest() : NULL;
    if (oldest != NULL) {
        rc = on_device(oldest, unmap);
        count_out(oldest);
        oldest->base = NULL;
    }
    *done = oldest == NULL;
    pthread_mutex_unlock(&lock);
    return rc;
}

ncclResult_t ccl_region_collect(void)
{
    ncclResult_t rc = ncclSuccess, first_rc = ncclSuccess;
    for (struct ccl_region *unused = take_unused(); unused != NULL; unused = take_unused()) {
        rc = on_device(unused, unmap);
        if (first_rc == ncclSuccess) first_rc = rc;
        free_region(unused);
    }
    for (int done = 0; !done;) {
        rc = unmap_oldest(&done);
        if (first_rc == ncclSuccess) first_rc = rc;
    }
    return first_rc;
}
