/* Probe: small allocations share a block of 2 MiB. What does a second process get when it opens
 * several of them, and when one was freed and its place is used again while it is still open? And
 * does one open make the whole block readable?
 */
#include "probe/kit.h"

#include <atomic>
#include <string.h>

enum op { OPEN, CLOSE, READ };
enum { NSLOTS = 8, BYTES = 4096 };

/* The second process is asked one thing at a time. */
struct shared {
    std::atomic<int> posted, answered;
    enum op op;
    int slot;
    long long offset;
    cudaIpcMemHandle_t handle;
    cudaError_t result;
    char *address;
    CUdeviceptr mapping;
    size_t mapping_bytes;
    uint32_t word;
};

static __global__ void read_word(const char *at, uint32_t *word)
{
    *word = *(const uint32_t *)at;
}

static __global__ void write_words(uint32_t *words, int n, uint32_t value)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) words[i] = value;
}

static void open_slot(struct shared *shared, char **slot)
{
    shared->result =
        cudaIpcOpenMemHandle((void **)slot, shared->handle, cudaIpcMemLazyEnablePeerAccess);
    if (shared->result != cudaSuccess) return;
    shared->address = *slot;
#if CUDART_VERSION >= 12030
    drv.cuPointerGetAttribute(&shared->mapping, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
                              (CUdeviceptr)*slot);
    drv.cuPointerGetAttribute(&shared->mapping_bytes, CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
                              (CUdeviceptr)*slot);
#endif
}

static void serve(struct shared *shared)
{
    char *slots[NSLOTS] = {};
    uint32_t *word;
    MUST(cudaHostAlloc(&word, sizeof *word, cudaHostAllocMapped));
    for (int n = 1;; n++) {
        while (shared->posted < n) probe_sleep_us(50);
        if (shared->op == OPEN) open_slot(shared, &slots[shared->slot]);
        if (shared->op == CLOSE) shared->result = cudaIpcCloseMemHandle(slots[shared->slot]);
        if (shared->op == READ) {
            read_word<<<1, 1>>>(slots[shared->slot] + shared->offset, word);
            shared->result = cudaDeviceSynchronize();
            shared->word = *word;
        }
        cudaGetLastError();
        shared->answered = n;
    }
}

static void ask(struct shared *shared, enum op op, int slot)
{
    shared->op = op;
    shared->slot = slot;
    int n = ++shared->posted;
    while (shared->answered < n) probe_sleep_us(50);
}

static char *allocate(size_t bytes, uint32_t value)
{
    char *memory;
    MUST(cudaMalloc(&memory, bytes));
    write_words<<<1, 256>>>((uint32_t *)memory, (int)(bytes / 4), value);
    MUST(cudaDeviceSynchronize());
    return memory;
}

static unsigned long long block_of(const char *at)
{
    unsigned long long block = 0;
#if CUDART_VERSION >= 12030
    drv.cuPointerGetAttribute(&block, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, (CUdeviceptr)at);
#endif
    return block;
}

static void try_open(struct shared *shared, int slot, const char *at, const char *what)
{
    MUST(cudaIpcGetMemHandle(&shared->handle, (void *)at));
    ask(shared, OPEN, slot);
    printf("   %-58s block %llu: %s", what, block_of(at), probe_name(shared->result));
    if (shared->result == cudaSuccess) {
        printf(" at %p, mapping at -%lld of %zu KiB", (void *)shared->address,
               (long long)((CUdeviceptr)shared->address - shared->mapping),
               shared->mapping_bytes >> 10);
        shared->offset = 0;
        ask(shared, READ, slot);
        printf(", holds %u", shared->word);
    }
    printf("\n");
}

static void try_close(struct shared *shared, int slot, const char *what)
{
    ask(shared, CLOSE, slot);
    printf("   %-58s %s\n", what, probe_name(shared->result));
}

void probe_blocks(int arg)
{
    struct shared *shared = (struct shared *)probe_shared(sizeof *shared);
    (void)arg;
    int me = probe_fork(2);
    probe_open();
    probe_meet(2);
    if (me == 1) serve(shared);
    char *a = allocate(BYTES, 1), *b = allocate(BYTES, 2), *c = allocate(BYTES, 3);
    try_open(shared, 0, a, "a");
    shared->offset = b - a;
    ask(shared, READ, 0);
    printf("   b through a: %s, holds %u (2 is right)\n", probe_name(shared->result), shared->word);
    try_open(shared, 1, a, "a again");
    try_open(shared, 2, b, "b, a is open");
    MUST(cudaFree(a));
    char *d = allocate(BYTES, 4);
    try_open(shared, 3, d, d == a ? "d, a's size and address, a is open" : "d, elsewhere");
    MUST(cudaFree(d));
    char *e = allocate(BYTES / 2, 5);
    try_open(shared, 4, e, e == a ? "e, half of a at its address, a is open" : "e, elsewhere");
    MUST(cudaFree(b));
    MUST(cudaFree(e));
    char *f = allocate(2 * BYTES, 6);
    try_open(shared, 5, f, f == a ? "f, over a and b, which are open" : "f, elsewhere");
    try_close(shared, 0, "a closed once");
    try_close(shared, 1, "a closed twice");
    try_close(shared, 2, "b closed");
    try_open(shared, 6, f, "f, all closed that opened");
    MUST(cudaFree(f));
    MUST(cudaFree(c));
    char *g = allocate(BYTES, 7);
    try_open(shared, 7, g, g == a ? "g, after all were freed, at a's address" : "g, elsewhere");
}
