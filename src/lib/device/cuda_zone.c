/* Zones of GPUs, see device/zone.h: one chunk of virtual memory each. Such memory is mapped once a
 * process and opened for each device that is to reach it; peer access of the program's own memory
 * is left as it is.
 */
#include "device/cuda.h"
#include "device/cuda_dl.h"
#include "device/cuda_share.h"
#include "device/zone.h"

#include "base/err.h"

/* Every GPU maps memory by chunks of this size. */
enum { CHUNK_BYTES = 2 << 20, MOST_DEVICES = 64 };

static size_t whole_chunks(size_t bytes)
{
    return (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
}

static CUmemGenericAllocationHandle handle_of(const struct ccl_zone *zone)
{
    return (CUmemGenericAllocationHandle)zone->handle;
}

/* Takes the handle over, also when it fails. */
static ncclResult_t map(CUmemGenericAllocationHandle handle, size_t bytes, struct ccl_zone *out)
{
    ncclResult_t rc;
    CUdeviceptr base = 0;
    TRY_GOTO(rc, CCL_DRIVER(cuMemAddressReserve, &base, bytes, 0, 0, 0), fail);
    TRY_GOTO(rc, CCL_DRIVER(cuMemMap, base, bytes, 0, handle, 0), fail);
    *out = (struct ccl_zone){(char *)(uintptr_t)base, bytes, (uint64_t)handle};
    return ncclSuccess;
fail:
    if (base != 0) (void)CCL_DRIVER(cuMemAddressFree, base, bytes);
    (void)CCL_DRIVER(cuMemRelease, handle);
    return rc;
}

static ncclResult_t allow(const struct ccl_zone *zone, const int *devices, size_t n)
{
    CUmemAccessDesc access[MOST_DEVICES];
    if (n > MOST_DEVICES)
        return ccl_err(ncclInvalidUsage, "%zu GPUs of a process; at most %d can be used", n,
                       MOST_DEVICES);
    for (size_t i = 0; i < n; i++)
        access[i] = (CUmemAccessDesc){
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = devices[i]},
            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
    return CCL_DRIVER(cuMemSetAccess, (CUdeviceptr)(uintptr_t)zone->base, zone->bytes, access, n);
}

static void unmap(struct ccl_zone *zone)
{
    CUdeviceptr base = (CUdeviceptr)(uintptr_t)zone->base;
    (void)CCL_DRIVER(cuMemUnmap, base, zone->bytes);
    (void)CCL_DRIVER(cuMemAddressFree, base, zone->bytes);
    (void)CCL_DRIVER(cuMemRelease, handle_of(zone));
    *zone = (struct ccl_zone){NULL, 0, 0};
}

/* On a stream of its own, which no other one holds up. */
static ncclResult_t clear(const struct ccl_zone *zone)
{
    cudaStream_t stream;
    TRY(ccl_cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                       "cudaStreamCreateWithFlags"));
    cudaError_t error = cudaMemsetAsync(zone->base, 0, zone->bytes, stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    return ccl_cuda_check(error, "clearing a zone");
}

static ncclResult_t make_here(int device, size_t bytes, struct ccl_zone *out)
{
    ncclResult_t rc;
    CUmemGenericAllocationHandle handle;
    const CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
    };
    TRY(CCL_DRIVER(cuMemCreate, &handle, whole_chunks(bytes), &properties, 0));
    TRY(map(handle, whole_chunks(bytes), out));
    TRY_GOTO(rc, allow(out, &device, 1), fail);
    TRY_GOTO(rc, clear(out), fail);
    return ncclSuccess;
fail:
    unmap(out);
    return rc;
}

static ncclResult_t make(size_t bytes, struct ccl_zone *out)
{
    int device;
    TRY(ccl_cuda_check(cudaGetDevice(&device), "cudaGetDevice"));
    enum cudaStreamCaptureMode mode = ccl_share_relax();
    ncclResult_t rc = make_here(device, bytes, out);
    ccl_share_restore(mode);
    return rc;
}

static ncclResult_t share(const struct ccl_zone *zone, int *fd)
{
    enum cudaStreamCaptureMode mode = ccl_share_relax();
    ncclResult_t rc = CCL_DRIVER(cuMemExportToShareableHandle, fd, handle_of(zone),
                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    ccl_share_restore(mode);
    return rc;
}

static ncclResult_t open_zone(int fd, size_t bytes, struct ccl_zone *out)
{
    CUmemGenericAllocationHandle handle;
    enum cudaStreamCaptureMode mode = ccl_share_relax();
    ncclResult_t rc = CCL_DRIVER(cuMemImportFromShareableHandle, &handle, (void *)(intptr_t)fd,
                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (rc == ncclSuccess) rc = map(handle, whole_chunks(bytes), out);
    ccl_share_restore(mode);
    return rc;
}

static ncclResult_t reach(const struct ccl_zone *zone, const int *devices, size_t n)
{
    enum cudaStreamCaptureMode mode = ccl_share_relax();
    ncclResult_t rc = allow(zone, devices, n);
    ccl_share_restore(mode);
    return rc;
}

static void close_zone(struct ccl_zone *zone)
{
    if (zone->base == NULL) return;
    enum cudaStreamCaptureMode mode = ccl_share_relax();
    unmap(zone);
    ccl_share_restore(mode);
}

/* Native atomics are what links have that pass lines on whole. */
static enum ccl_zone_link find_link(int device, int other)
{
    int can = 0, atomics = 0;
    if (device == other) return CCL_LINK_ATOMIC;
    cudaError_t error = cudaDeviceCanAccessPeer(&can, device, other);
    if (error == cudaSuccess && can)
        error =
            cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, device, other);
    (void)cudaGetLastError();
    if (error != cudaSuccess || !can) return CCL_LINK_NONE;
    return atomics ? CCL_LINK_ATOMIC : CCL_LINK_PEER;
}

const struct ccl_zone_ops ccl_zones_cuda = {
    .make = make,
    .share = share,
    .open = open_zone,
    .reach = reach,
    .close = close_zone,
    .link = find_link,
};
