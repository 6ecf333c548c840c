/* The caller's side on a GPU: device and context stay what they were through every call and every
 * error; every kind of stream works and keeps its order. */
#include "gpu/driver.h"
#include "unit/memory.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 500, RANKS = 4 };

/* ---- context ---- */

static void *wanted;

/* After each call: the thread's context and device are those from before. */
#define SAME(call)                                                                                 \
    do {                                                                                           \
        int device_ = -1;                                                                          \
        call;                                                                                      \
        if (gpu_context() != wanted) FAIL("%s: the context of the caller was changed", #call);     \
        CHECK_OK(chorus_devices()->get(&device_));                                                 \
        CHECK_EQ(device_, 0);                                                                      \
    } while (0)

static void make_calls(cudaStream_t *streams, char **memory)
{
    ncclComm_t comms[2], other;
    ncclUniqueId id;
    ncclRedOp_t redop;
    ncclResult_t error;
    float factor = 2;
    void *block;
    SAME(CHECK_OK(ncclGetUniqueId(&id)));
    SAME(CHECK_OK(ncclCommInitAll(comms, 2, (const int[]){0, 0})));
    SAME(CHECK_OK(
        ncclRedOpCreatePreMulSum(&redop, &factor, ncclFloat32, ncclScalarHostImmediate, comms[0])));
    SAME(CHECK_OK(ncclRedOpDestroy(redop, comms[0])));
    SAME(CHECK_OK(ncclMemAlloc(&block, 4096)));
    SAME(CHECK_OK(ncclMemFree(block)));
    for (int again = 0; again < 2; again++) {
        SAME(CHECK_OK(ncclGroupStart()));
        for (int r = 0; r < 2; r++)
            SAME(CHECK_OK(ncclAllReduce(memory[r], memory[r], COUNT, ncclFloat32, ncclSum, comms[r],
                                        streams[r])));
        SAME(CHECK_OK(ncclGroupEnd()));
    }
    for (int r = 0; r < 2; r++) SAME(CHECK_OK(chorus_devices()->stream_sync(streams[r])));
    SAME(CHECK_EQ(ncclAllReduce(NULL, memory[0], COUNT, ncclFloat32, ncclSum, comms[0], streams[0]),
                  ncclInvalidArgument));
    SAME(CHECK_EQ(ncclBroadcast(memory[0], memory[0], COUNT, ncclFloat32, 7, comms[0], streams[0]),
                  ncclInvalidArgument));
    SAME(CHECK_EQ(ncclCommInitRank(&other, 2, id, 5), ncclInvalidArgument));
    SAME(CHECK(ncclCommInitAll(&other, 1, (const int[]){99}) != ncclSuccess));
    SAME(CHECK_OK(ncclCommGetAsyncError(comms[1], &error)));
    SAME(CHECK_OK(ncclCommFinalize(comms[0])));
    SAME(CHECK_OK(ncclCommFinalize(comms[1])));
    SAME(CHECK_OK(ncclCommDestroy(comms[0])));
    SAME(CHECK_OK(ncclCommDestroy(comms[1])));
    SAME(CHECK_OK(ncclCommInitAll(comms, 2, (const int[]){0, 0})));
    SAME(CHECK_OK(ncclCommAbort(comms[0])));
    SAME(CHECK_OK(ncclCommAbort(comms[1])));
}

static void open_two(cudaStream_t *streams, char **memory)
{
    for (int r = 0; r < 2; r++) {
        CHECK_OK(chorus_devices()->stream_create(&streams[r]));
        CHECK_OK(chorus_devices()->alloc((void **)&memory[r], COUNT * sizeof(float)));
    }
}

static void close_two(cudaStream_t *streams, char **memory)
{
    for (int r = 0; r < 2; r++) {
        CHECK_OK(chorus_devices()->stream_destroy(streams[r]));
        CHECK_OK(chorus_devices()->free(memory[r]));
    }
}

static void test_primary(void)
{
    cudaStream_t streams[2];
    char *memory[2];
    open_two(streams, memory);
    wanted = gpu_context();
    CHECK(wanted != NULL);
    make_calls(streams, memory);
    close_two(streams, memory);
}

/* No event can join a stream of another context to a kernel: it is refused, and nothing else. */
static void refuse_stream(cudaStream_t own, cudaStream_t *streams, char **memory)
{
    ncclComm_t comms[2];
    SAME(CHECK_OK(ncclCommInitAll(comms, 2, (const int[]){0, 0})));
    for (int r = 0; r < 2; r++) {
        SAME(CHECK_EQ(
            ncclAllReduce(memory[r], memory[r], COUNT, ncclFloat32, ncclSum, comms[r], own),
            ncclInvalidUsage));
        CHECK_HAS(ncclGetLastError(NULL), "a context of the program's own");
    }
    SAME(CHECK_OK(ncclGroupStart()));
    for (int r = 0; r < 2; r++)
        SAME(CHECK_OK(ncclAllReduce(memory[r], memory[r], COUNT, ncclFloat32, ncclSum, comms[r],
                                    streams[r])));
    SAME(CHECK_OK(ncclGroupEnd()));
    for (int r = 0; r < 2; r++) {
        SAME(CHECK_OK(chorus_devices()->stream_sync(streams[r])));
        SAME(CHECK_OK(ncclCommDestroy(comms[r])));
    }
}

/* A program that works by the driver, in a context of its own, and calls with streams and memory of
 * the primary one. */
static void child_own(void)
{
    cudaStream_t streams[2];
    char *memory[2];
    gpu_prepare(); /* a child begins without a context */
    void *primary = gpu_context();
    open_two(streams, memory);
    wanted = gpu_context_create();
    cudaStream_t own = gpu_stream_create();
    make_calls(streams, memory);
    refuse_stream(own, streams, memory);
    CHECK_OK(chorus_devices()->stream_destroy(own));
    gpu_context_set(primary);
    close_two(streams, memory);
    gpu_context_destroy(wanted);
}

static void test_own(void)
{
    kit_child("child:own", NULL);
}

/* ---- kinds of streams ---- */

enum kind { NONBLOCKING, BLOCKING, DEFAULT, LEGACY, PER_THREAD, NKINDS };

static cudaStream_t stream_of(enum kind kind, const struct kit_rank *rank, cudaStream_t blocking)
{
    switch (kind) {
    case BLOCKING: return blocking;
    case DEFAULT: return NULL;
    case LEGACY: return GPU_LEGACY;
    case PER_THREAD: return GPU_PER_THREAD;
    default: return rank->stream;
    }
}

/* Ranks of one group: all of a kind (mix 0), or one kind after the other. */
static void run_kinds(struct kit *kit, const cudaStream_t *blocking, enum kind kind, int mix)
{
    cudaStream_t own[RANKS];
    for (int r = 0; r < RANKS; r++) {
        own[r] = kit->ranks[r].stream;
        kit->ranks[r].stream =
            stream_of((enum kind)(((int)kind + r * mix) % NKINDS), &kit->ranks[r], blocking[r]);
    }
    for (int coll = 0; coll < KIT_NCOLLS; coll++) {
        struct kit_op op = kit_simple((enum kit_coll)coll, COUNT);
        op.seed = (uint32_t)coll + (uint32_t)kind;
        kit_run(kit, &op);
    }
    for (int r = 0; r < RANKS; r++) kit->ranks[r].stream = own[r];
}

static void test_kinds(void)
{
    struct kit kit;
    cudaStream_t blocking[RANKS];
    kit_far = 1;
    kit_open(&kit, RANKS, 1, COUNT);
    for (int r = 0; r < RANKS; r++) blocking[r] = gpu_stream_create();
    for (int kind = 0; kind < NKINDS; kind++)
        for (int mix = 0; mix < 2; mix++) run_kinds(&kit, blocking, (enum kind)kind, mix);
    for (int r = 0; r < RANKS; r++) CHECK_OK(chorus_devices()->stream_destroy(blocking[r]));
    kit_close(&kit);
    kit_far = 0;
}

/* A thread per rank, each on its own default stream. */
static void call_per_thread(void *arg, int i)
{
    struct kit *kit = arg;
    struct kit_rank rank = kit->ranks[i];
    rank.stream = GPU_PER_THREAD;
    for (int coll = 0; coll < KIT_NCOLLS; coll++) {
        struct kit_op op = kit_simple((enum kit_coll)coll, COUNT);
        kit_prepare(&rank, &op);
        CHECK_OK(kit_call(&rank, &op));
        kit_check(&rank, &op);
    }
}

static void test_per_thread(void)
{
    struct kit kit;
    kit_far = 1;
    kit_open(&kit, RANKS, 1, COUNT);
    kit_threads(RANKS, call_per_thread, &kit);
    kit_close(&kit);
    kit_far = 0;
}

/* ---- order on a stream: what comes before and after is not waited for by the host ---- */

static void test_order(void)
{
    enum { BYTES = 1 << 20, ROUNDS = 50 };
    const struct chorus_devices *devices = chorus_devices();
    struct kit kit;
    char *memory[RANKS];
    kit_open(&kit, RANKS, 1, 4);
    for (int r = 0; r < RANKS; r++) CHECK_OK(devices->alloc((void **)&memory[r], BYTES));
    for (int round = 0; round < ROUNDS; round++) {
        for (int r = 0; r < RANKS; r++)
            CHECK_OK(devices->fill(memory[r], round + r, BYTES, kit.ranks[r].stream));
        CHECK_OK(ncclGroupStart());
        for (int r = 0; r < RANKS; r++)
            CHECK_OK(ncclAllReduce(memory[r], memory[r], BYTES, ncclUint8, ncclSum,
                                   kit.ranks[r].comm, kit.ranks[r].stream));
        CHECK_OK(ncclGroupEnd());
        for (int r = 0; r < RANKS; r++) {
            unsigned char *seen = test_memory_alloc(BYTES);
            CHECK_OK(devices->copy(seen, memory[r], BYTES, kit.ranks[r].stream));
            kit_sync(&kit.ranks[r]);
            for (int i = 0; i < BYTES; i += 4095) CHECK_EQ(seen[i], (RANKS * round + 6) & 255);
            test_memory_free(seen);
        }
    }
    for (int r = 0; r < RANKS; r++) CHECK_OK(devices->free(memory[r]));
    kit_close(&kit);
}

static const struct test_case cases[] = {
    {"the primary context stays current through calls and errors", test_primary, 0},
    {"a context of the caller's own stays current through calls and errors", test_own, 0},
    {"every kind of stream, alike and mixed", test_kinds, 0},
    {"the default streams of threads", test_per_thread, 0},
    {"work before and after a call keeps its order", test_order, 0},
    {"child:own", child_own, 0},
};

GPU_TEST_MAIN(cases)
