/* See staging_memory.h. */
#include "gpu/staging_memory.h"

#include "device/cuda_dl.h"
#include "unit/memory.h"
#include "unit/test.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

#define CHUNK      ((size_t)2 << 20)
#define MUST(call) CHECK_EQ(call, 0)

static size_t whole_chunks(size_t bytes)
{
    return (bytes + CHUNK - 1) / CHUNK * CHUNK;
}

static char *map_chunks(size_t bytes, int is_private)
{
    CUmemAllocationProp props = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = is_private ? 0 : CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
    };
    CUmemAccessDesc access = {.location = props.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    __typeof__(cuMemCreate) *create;
    CUdeviceptr base;
    *(void **)&create = test_driver_function("cuMemCreate");
    CHECK_OK(CCL_DRIVER(cuMemAddressReserve, &base, whole_chunks(bytes), 0, 0, 0));
    for (size_t at = 0; at < bytes; at += CHUNK) {
        CUmemGenericAllocationHandle chunk;
        MUST(create(&chunk, CHUNK, &props, 0));
        CHECK_OK(CCL_DRIVER(cuMemMap, base + at, CHUNK, 0, chunk, 0));
        CHECK_OK(CCL_DRIVER(cuMemRelease, chunk));
    }
    CHECK_OK(CCL_DRIVER(cuMemSetAccess, base, whole_chunks(bytes), &access, 1));
    return (char *)(uintptr_t)base;
}

static void unmap_chunks(const struct staging_memory *memory)
{
    CUdeviceptr base = (CUdeviceptr)(uintptr_t)memory->base;
    for (size_t at = 0; at < memory->bytes; at += CHUNK)
        CHECK_OK(CCL_DRIVER(cuMemUnmap, base + at, CHUNK));
    CHECK_OK(CCL_DRIVER(cuMemAddressFree, base, whole_chunks(memory->bytes)));
}

struct staging_memory staging_make(enum staging_kind kind, size_t bytes)
{
    void *base = NULL;
    switch (kind) {
    case STAGING_CHUNKS:
    case STAGING_PRIVATE: base = map_chunks(bytes, kind == STAGING_PRIVATE); break;
    case STAGING_POOL: MUST(cudaMallocAsync(&base, bytes, NULL)); break;
    case STAGING_MANAGED: MUST(cudaMallocManaged(&base, bytes, cudaMemAttachGlobal)); break;
    case STAGING_PINNED: MUST(cudaHostAlloc(&base, bytes, cudaHostAllocPortable)); break;
    case STAGING_REGISTERED:
        base = malloc(bytes);
        CHECK(base != NULL);
        MUST(cudaHostRegister(base, bytes, cudaHostRegisterPortable));
        break;
    default: MUST(cudaMalloc(&base, bytes));
    }
    MUST(cudaDeviceSynchronize());
    return (struct staging_memory){kind, bytes, base};
}

void staging_free(struct staging_memory *memory)
{
    switch (memory->kind) {
    case STAGING_CHUNKS:
    case STAGING_PRIVATE: unmap_chunks(memory); break;
    case STAGING_POOL: MUST(cudaFreeAsync(memory->base, NULL)); break;
    case STAGING_PINNED: MUST(cudaFreeHost(memory->base)); break;
    case STAGING_REGISTERED:
        MUST(cudaHostUnregister(memory->base));
        free(memory->base);
        break;
    default: MUST(cudaFree(memory->base));
    }
    memory->base = NULL;
}
