/* Probe: how a library recognises a buffer and hands it to another process. For each kind of
 * memory: the ids and ranges that pointer attributes tell, and which exports work. A second process
 * opens each CUDA IPC handle and reads the first word, which is its offset in the allocation, so
 * that handles of pointers into the middle of a block are seen for what they are.
 */
#include "probe/kit.h"

#include <atomic>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CHUNK = 2 << 20 };

struct shared {
    std::atomic<int> posted, answered;
    cudaIpcMemHandle_t handle;
    cudaError_t opened;
    uint32_t word;
};

static __global__ void number(uint32_t *words, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        words[i] = (uint32_t)(i * sizeof(uint32_t));
}

static void number_bytes(void *memory, size_t bytes)
{
    number<<<64, 256>>>((uint32_t *)memory, bytes / 4);
    MUST(cudaDeviceSynchronize());
}

template <typename T> static const char *ask(T *value, CUpointer_attribute what, const void *at)
{
    memset(value, 0, sizeof *value);
    return probe_name(drv.cuPointerGetAttribute(value, what, (CUdeviceptr)at));
}

/* The second process: opens what is posted, reads a word, closes. */
static void serve(struct shared *shared)
{
    for (int n = 1;; n++) {
        while (shared->posted < n) probe_sleep_us(100);
        void *memory;
        shared->opened =
            cudaIpcOpenMemHandle(&memory, shared->handle, cudaIpcMemLazyEnablePeerAccess);
        if (shared->opened == cudaSuccess) {
            MUST(cudaMemcpy(&shared->word, memory, sizeof shared->word, cudaMemcpyDeviceToHost));
            MUST(cudaIpcCloseMemHandle(memory));
        }
        cudaGetLastError();
        shared->answered = n;
    }
}

static void try_ipc(struct shared *shared, const void *at)
{
    cudaError_t rc = cudaIpcGetMemHandle(&shared->handle, (void *)at);
    cudaGetLastError();
    if (rc != cudaSuccess) {
        printf(" ipc %s", probe_name(rc));
        return;
    }
    int n = ++shared->posted;
    while (shared->answered < n) probe_sleep_us(100);
    if (shared->opened == cudaSuccess)
        printf(" ipc ok, opens at offset %u", shared->word);
    else
        printf(" ipc ok, open %s", probe_name(shared->opened));
}

static void try_chunk(const void *at)
{
    CUmemGenericAllocationHandle chunk;
    int fd = -1;
    CUresult rc = drv.cuMemRetainAllocationHandle(&chunk, (void *)at);
    printf("; retain %s", probe_name(rc));
    if (rc != CUDA_SUCCESS) return;
    rc = drv.cuMemExportToShareableHandle(&fd, chunk, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    printf(" %llx, fd %s", (unsigned long long)chunk, probe_name(rc));
    if (rc == CUDA_SUCCESS) close(fd);
    MUST(drv.cuMemRelease(chunk));
}

static void try_dma_buf(const void *at)
{
    int fd = -1;
    CUdeviceptr page = (CUdeviceptr)at & ~(CUdeviceptr)65535;
    CUresult rc =
        drv.cuMemGetHandleForAddressRange(&fd, page, 65536, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    printf("; dma-buf %s", probe_name(rc));
    if (rc == CUDA_SUCCESS) close(fd);
}

static void describe(struct shared *shared, const char *what, const void *at)
{
    unsigned long long id, block_id, kinds;
    unsigned type, legacy, managed;
    CUdeviceptr start, map_start;
    size_t bytes, map_bytes;
    CUmemoryPool pool;
    const char *rc = ask(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at);
    ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at);
    ask(&legacy, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, at);
    ask(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at);
    ask(&kinds, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, at);
    ask(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at);
    ask(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at);
    ask(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at);
    printf(
        "   %s\n      id %s %llu, type %u, managed %u, pool %s, legacy IPC %u, handle types %llx\n",
        what, rc, id, type, managed, pool ? "yes" : "no", legacy, kinds);
    printf("      range at -%lld, %zu KiB;", (long long)((CUdeviceptr)at - start), bytes >> 10);
#if CUDART_VERSION >= 12030
    rc = ask(&block_id, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, at);
    ask(&map_start, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, at);
    ask(&map_bytes, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, at);
    printf(" block id %s %llu, mapping at -%lld, %zu KiB;", rc, block_id,
           (long long)((CUdeviceptr)at - map_start), map_bytes >> 10);
#endif
    rc = probe_name(drv.cuMemGetAddressRange(&start, &bytes, (CUdeviceptr)at));
    printf(" address range %s at -%lld, %zu KiB\n     ", rc, (long long)((CUdeviceptr)at - start),
           bytes >> 10);
    try_ipc(shared, at);
    try_chunk(at);
    try_dma_buf(at);
    printf("\n");
}

static void describe_plain(struct shared *shared)
{
    char *block, *small[3], *again;
    MUST(cudaMalloc(&block, 64 << 20));
    number_bytes(block, 64 << 20);
    describe(shared, "cudaMalloc 64 MiB, start", block);
    describe(shared, "cudaMalloc 64 MiB, at 3 MiB", block + (3 << 20));
    for (char *&p : small) {
        MUST(cudaMalloc(&p, 1024));
        number_bytes(p, 1024);
    }
    describe(shared, "cudaMalloc 1 KiB, first", small[0]);
    describe(shared, "cudaMalloc 1 KiB, second", small[1]);
    printf("      the second lies %lld bytes after the first, in %s 2 MiB\n",
           (long long)(small[1] - small[0]),
           (uintptr_t)small[0] >> 21 == (uintptr_t)small[1] >> 21 ? "the same" : "other");
    MUST(cudaFree(small[1]));
    MUST(cudaMalloc(&again, 1024));
    describe(shared,
             again == small[1] ? "1 KiB freed and allocated again, the same address"
                               : "1 KiB freed and allocated again, another address",
             again);
    MUST(cudaFree(block));
    MUST(cudaMalloc(&again, 64 << 20));
    describe(shared,
             again == block ? "64 MiB freed and allocated again, the same address"
                            : "64 MiB freed and allocated again, another address",
             again);
}

static void describe_chunks(struct shared *shared)
{
    CUdeviceptr range = probe_reserve(4 * CHUNK);
    for (int i = 0; i < 3; i++) probe_map(range + i * CHUNK, CHUNK, probe_chunk(CHUNK, i < 2));
    number_bytes((void *)range, 3 * CHUNK);
    describe(shared, "3 chunks in one range, the first", (void *)range);
    describe(shared, "the second, in its middle", (void *)(range + CHUNK + CHUNK / 2));
    describe(shared, "the third, not exportable", (void *)(range + 2 * CHUNK));
    describe(shared, "past them, reserved only", (void *)(range + 3 * CHUNK));
    MUST(drv.cuMemUnmap(range, CHUNK));
    probe_map(range, CHUNK, probe_chunk(CHUNK, true));
    describe(shared, "the first, another chunk mapped there", (void *)range);
}

static void describe_pools(struct shared *shared)
{
    cudaMemPool_t pool;
    cudaMemPoolProps props = {};
    char *memory, *again;
    MUST(cudaMallocAsync(&memory, 1 << 20, NULL));
    MUST(cudaStreamSynchronize(NULL));
    describe(shared, "cudaMallocAsync 1 MiB, default pool", memory);
    MUST(cudaFreeAsync(memory, NULL));
    MUST(cudaMallocAsync(&again, 1 << 20, NULL));
    describe(shared,
             again == memory ? "freed and allocated again, the same address"
                             : "freed and allocated again, another address",
             again);
    props.allocType = cudaMemAllocationTypePinned;
    props.handleTypes = cudaMemHandleTypePosixFileDescriptor;
    props.location.type = cudaMemLocationTypeDevice;
    MUST(cudaMemPoolCreate(&pool, &props));
    MUST(cudaMallocFromPoolAsync(&memory, 1 << 20, pool, NULL));
    MUST(cudaStreamSynchronize(NULL));
    describe(shared, "cudaMallocAsync 1 MiB, pool for export", memory);
    cudaMemPoolPtrExportData data;
    printf("      cudaMemPoolExportPointer %s\n",
           probe_name(cudaMemPoolExportPointer(&data, memory)));
}

static void describe_host(struct shared *shared)
{
    char *memory;
    int fd = memfd_create("probe", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 65536) != 0) _exit(1);
    MUST(cudaMallocManaged(&memory, 65536));
    describe(shared, "cudaMallocManaged 64 KiB", memory);
    MUST(cudaHostAlloc(&memory, 65536, cudaHostAllocMapped));
    describe(shared, "cudaHostAlloc 64 KiB", memory);
    memory = (char *)mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(cudaHostRegister(memory, 65536, cudaHostRegisterMapped));
    describe(shared, "a memfd page, registered", memory);
    memory = (char *)malloc(65536);
    describe(shared, "malloc", memory);
    free(memory);
}

void probe_identity(int arg)
{
    struct shared *shared = (struct shared *)probe_shared(sizeof *shared);
    (void)arg;
    int me = probe_fork(2);
    probe_open();
    probe_meet(2);
    if (me == 1) serve(shared);
    describe_plain(shared);
    describe_chunks(shared);
    describe_pools(shared);
    describe_host(shared);
}
