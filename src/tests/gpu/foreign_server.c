/* The two servers of test_foreign: they do what they are asked, one call at a time, and say what
 * came of it. Only this file of the test and its kernels use CUDA.
 */
#define _GNU_SOURCE
#include "gpu/foreign_kernels.h"
#include "gpu/foreign_kit.h"

#include "base/clock.h"
#include "base/err.h"
#include "device/cuda_dl.h"
#include "unit/test.h"

#include <cuda_runtime_api.h>
#include <dirent.h>
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NO_GPU = 77, SPIN_CALLS = 20000, NAP_NS = 50000, WAIT_MS = 5000 };

#define MUST(call) CHECK_EQ(call, 0)

struct block {
    char *base;
    size_t bytes, chunk_bytes;
    enum kit_memory memory;
};

static struct {
    struct ccl_exporter *exporters[KIT_PAIRS];
    struct ccl_importer *importers[KIT_PAIRS];
    struct block blocks[KIT_BLOCKS];
    struct pin {
        struct ccl_imported imported;
        size_t bytes, first; /* its place in the block */
    } pins[KIT_PINS];
    cudaStream_t stream;
    cudaMemPool_t pool;
    __typeof__(cuMemCreate) *create;
} me;

/* ---- memory ---- */

static void map_chunk(char *at, size_t bytes, int is_private)
{
    CUmemAllocationProp props = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = is_private ? 0 : CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
    };
    CUmemAccessDesc access = {.location = props.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle chunk;
    MUST(me.create(&chunk, bytes, &props, 0));
    CHECK_OK(CCL_DRIVER(cuMemMap, (CUdeviceptr)at, bytes, 0, chunk, 0));
    CHECK_OK(CCL_DRIVER(cuMemRelease, chunk));
    CHECK_OK(CCL_DRIVER(cuMemSetAccess, (CUdeviceptr)at, bytes, &access, 1));
}

/* Reserves more than is mapped, as allocators do. */
static void *map_chunks(const struct block *block)
{
    size_t bytes = block->bytes, step = block->chunk_bytes;
    CUdeviceptr base;
    CHECK_OK(CCL_DRIVER(cuMemAddressReserve, &base, 2 * bytes, 0, 0, 0));
    for (size_t at = 0; at < bytes; at += step)
        map_chunk((char *)base + at, step, block->memory == KIT_PRIVATE);
    return (void *)base;
}

static void unmap_chunks(const struct block *block)
{
    CUdeviceptr base = (CUdeviceptr)block->base;
    for (size_t at = 0; at < block->bytes; at += block->chunk_bytes)
        CHECK_OK(CCL_DRIVER(cuMemUnmap, base + at, block->chunk_bytes));
    CHECK_OK(CCL_DRIVER(cuMemAddressFree, base, 2 * block->bytes));
}

static void make_pool(void)
{
    struct cudaMemPoolProps props = {
        .allocType = cudaMemAllocationTypePinned,
        .handleTypes = cudaMemHandleTypePosixFileDescriptor,
        .location = {.type = cudaMemLocationTypeDevice},
    };
    if (me.pool == NULL) MUST(cudaMemPoolCreate(&me.pool, &props));
}

static void alloc(struct block *block)
{
    void *base = NULL;
    size_t bytes = block->bytes;
    switch (block->memory) {
    case KIT_MALLOC: MUST(cudaMalloc(&base, bytes)); break;
    case KIT_CHUNKS:
    case KIT_PRIVATE: base = map_chunks(block); break;
    case KIT_POOL: MUST(cudaMallocAsync(&base, bytes, NULL)); break;
    case KIT_SHARED_POOL:
        make_pool();
        MUST(cudaMallocFromPoolAsync(&base, bytes, me.pool, NULL));
        break;
    case KIT_MANAGED: MUST(cudaMallocManaged(&base, bytes, cudaMemAttachGlobal)); break;
    case KIT_PINNED: MUST(cudaHostAlloc(&base, bytes, cudaHostAllocMapped)); break;
    case KIT_HEAP: base = malloc(bytes); break;
    }
    MUST(cudaDeviceSynchronize());
    block->base = base;
}

static void free_block(struct block *block)
{
    switch (block->memory) {
    case KIT_CHUNKS:
    case KIT_PRIVATE: unmap_chunks(block); break;
    case KIT_POOL:
    case KIT_SHARED_POOL: MUST(cudaFreeAsync(block->base, NULL)); break;
    case KIT_PINNED: MUST(cudaFreeHost(block->base)); break;
    case KIT_HEAP: free(block->base); break;
    default: MUST(cudaFree(block->base));
    }
    MUST(cudaDeviceSynchronize());
    *block = (struct block){0};
}

static void remap(const struct block *block, int chunk)
{
    char *at = block->base + (size_t)chunk * block->chunk_bytes;
    CHECK_OK(CCL_DRIVER(cuMemUnmap, (CUdeviceptr)at, block->chunk_bytes));
    map_chunk(at, block->chunk_bytes, block->memory == KIT_PRIVATE);
}

/* 0: the driver does not tell. */
static uint64_t number_of(const void *base)
{
    CUpointer_attribute asked = (CUpointer_attribute)CCL_POINTER_BLOCK_ID;
    unsigned long long number = 0;
    void *to = &number;
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)base;
    return ccl_driver()->cuPointerGetAttributes(1, &asked, &to, at) == CUDA_SUCCESS ? number : 0;
}

/* ---- calls ---- */

static void begin_capture(const struct kit_call *call)
{
    if (call->capture == 0) return;
    MUST(cudaStreamBeginCapture(me.stream, (enum cudaStreamCaptureMode)(call->capture - 1)));
}

/* The capture must not have noticed what was called meanwhile. */
static void end_capture(const struct kit_call *call)
{
    cudaGraph_t graph;
    if (call->capture == 0) return;
    MUST(cudaStreamEndCapture(me.stream, &graph));
    MUST(cudaGraphDestroy(graph));
}

static struct ccl_sock_wait wait_of(const struct kit_call *call)
{
    int64_t ms = call->timeout_ms != 0 ? (int64_t)call->timeout_ms : WAIT_MS;
    return (struct ccl_sock_wait){.deadline_ns = ccl_clock_deadline_ns(ms)};
}

static void do_export(const struct kit_call *call, struct kit_answer *answer)
{
    struct ccl_sock_wait wait = wait_of(call);
    const char *at = me.blocks[call->block].base + call->offset;
    uint64_t began_ns = ccl_clock_ns();
    begin_capture(call);
    for (int i = 0; i < (call->repeat > 0 ? call->repeat : 1) && answer->rc == ncclSuccess; i++)
        answer->rc =
            ccl_export_buffer(me.exporters[call->pair], at, call->bytes, &wait, &answer->ref);
    end_capture(call);
    answer->ns = (double)(ccl_clock_ns() - began_ns) / (call->repeat > 0 ? call->repeat : 1);
}

static void check_pin(const struct kit_call *call, struct kit_answer *answer)
{
    const struct pin *pin = &me.pins[call->pin];
    MUST(foreign_check(
        (struct foreign_range){pin->imported.address, call->bytes, call->offset, call->seed},
        &answer->wrong));
}

static void do_import(const struct kit_call *call, struct kit_answer *answer)
{
    struct pin *pin = &me.pins[call->pin];
    struct ccl_sock_wait wait = wait_of(call);
    uint64_t began_ns = ccl_clock_ns();
    CHECK(pin->imported.region == NULL);
    begin_capture(call);
    for (int i = 0; i < (call->repeat > 0 ? call->repeat : 1) && answer->rc == ncclSuccess; i++) {
        ccl_import_unpin(pin->imported.region);
        answer->rc = ccl_import_buffer(me.importers[call->pair], &call->ref, call->bytes, &wait,
                                       &pin->imported);
    }
    end_capture(call);
    answer->ns = (double)(ccl_clock_ns() - began_ns) / (call->repeat > 0 ? call->repeat : 1);
    answer->address = (uint64_t)(uintptr_t)pin->imported.address;
    pin->bytes = call->bytes;
    pin->first = call->offset;
    if (answer->rc == ncclSuccess) check_pin(call, answer);
}

/* Part of what is pinned. */
static void look(const struct kit_call *call, struct kit_answer *answer)
{
    const struct pin *pin = &me.pins[call->pin];
    CHECK(call->offset + call->bytes <= pin->bytes);
    MUST(foreign_check((struct foreign_range){pin->imported.address + call->offset, call->bytes,
                                              pin->first + call->offset, call->seed},
                       &answer->wrong));
}

static void write_pin(const struct kit_call *call)
{
    const struct pin *pin = &me.pins[call->pin];
    MUST(foreign_fill(
        (struct foreign_range){pin->imported.address, pin->bytes, pin->first, call->seed}));
}

static void unpin(const struct kit_call *call)
{
    ccl_import_unpin(me.pins[call->pin].imported.region);
    me.pins[call->pin] = (struct pin){0};
}

static void use_block(const struct kit_call *call, struct kit_answer *answer)
{
    struct block *block = &me.blocks[call->block];
    struct foreign_range range = {block->base, block->bytes, 0, call->seed};
    switch (call->op) {
    case KIT_ALLOC:
        CHECK(block->base == NULL);
        *block = (struct block){.bytes = call->bytes, .memory = call->memory};
        block->chunk_bytes = call->chunk_bytes != 0 ? call->chunk_bytes : KIT_CHUNK;
        alloc(block);
        answer->physical = number_of(block->base);
        break;
    case KIT_FREE: free_block(block); break;
    case KIT_REMAP: remap(block, call->chunk); break;
    case KIT_FILL: MUST(foreign_fill(range)); break;
    default:
        range.at = block->base + call->offset;
        range.bytes = call->bytes;
        range.first = call->offset;
        MUST(foreign_check(range, &answer->wrong));
    }
    answer->address = (uint64_t)(uintptr_t)block->base;
}

static void storm(const struct kit_call *call, struct kit_answer *answer)
{
    struct kit_storm storm = {.n = KIT_REFS, .bytes = call->bytes};
    for (int p = 0; p < KIT_PAIRS; p++) {
        storm.exporters[p] = me.exporters[p];
        storm.importers[p] = me.importers[p];
    }
    for (int k = 0; k < KIT_REFS; k++) {
        storm.refs[k] = call->refs[k];
        storm.addresses[k] = me.blocks[k].base;
    }
    answer->wrong = kit_storm(&storm);
}

static void execute(const struct kit_call *call, struct kit_answer *answer)
{
    switch (call->op) {
    case KIT_EXPORT: do_export(call, answer); break;
    case KIT_SWEEP: answer->rc = ccl_export_sweep(me.exporters[call->pair]); break;
    case KIT_IMPORT: do_import(call, answer); break;
    case KIT_LOOK: look(call, answer); break;
    case KIT_WRITE: write_pin(call); break;
    case KIT_UNPIN: unpin(call); break;
    case KIT_COLLECT:
        for (int p = 0; p < KIT_PAIRS && answer->rc == ncclSuccess; p++)
            answer->rc = ccl_import_collect(me.importers[p]);
        break;
    case KIT_LIMIT: ccl_import_limit(call->limits); break;
    case KIT_CLOSE:
        ccl_export_close(me.exporters[call->pair]);
        ccl_import_close(me.importers[call->pair]);
        me.exporters[call->pair] = NULL;
        me.importers[call->pair] = NULL;
        break;
    case KIT_STORM: storm(call, answer); break;
    case KIT_STATE:
    case KIT_QUIT: break;
    default: use_block(call, answer);
    }
}

static int count_fds(void)
{
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL);
    while (readdir(folder) != NULL) n++;
    closedir(folder);
    return n;
}

static void add_state(enum kit_op op, struct kit_answer *answer)
{
    size_t total;
    if (answer->rc != ncclSuccess)
        snprintf(answer->text, sizeof answer->text, "%s", ccl_err_last());
    answer->usage = ccl_import_usage();
    if (op != KIT_STATE) return;
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemGetInfo(&answer->free_bytes, &total));
    answer->nfds = count_fds();
}

static void start(int who, int sockets[KIT_PAIRS])
{
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0) _exit(NO_GPU);
    MUST(cudaSetDevice(0));
    MUST(cudaFree(NULL));
    MUST(foreign_load());
    MUST(cudaStreamCreateWithFlags(&me.stream, cudaStreamNonBlocking));
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(library != NULL);
    *(void **)&me.create = dlsym(library, "cuMemCreate");
    CHECK(me.create != NULL);
    for (int p = 0; p < KIT_PAIRS; p++) {
        if (who == KIT_OWNER)
            CHECK_OK(ccl_export_open(sockets[p], &me.exporters[p]));
        else
            CHECK_OK(ccl_import_open(sockets[p], &me.importers[p]));
    }
}

void kit_serve(struct kit_server *server, int who, int sockets[KIT_PAIRS])
{
    start(who, sockets);
    for (uint32_t turn = 1;; turn++) {
        /* Pairs with kit_start. */
        for (int i = 0; atomic_load_explicit(&server->asked, memory_order_acquire) != turn; i++) {
            if (i < SPIN_CALLS)
                sched_yield();
            else
                nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        }
        struct kit_answer answer = {0};
        execute(&server->call, &answer);
        add_state(server->call.op, &answer);
        server->answer = answer;
        /* Pairs with kit_finish. */
        atomic_store_explicit(&server->answered, turn, memory_order_release);
        if (server->call.op == KIT_QUIT) return;
    }
}
