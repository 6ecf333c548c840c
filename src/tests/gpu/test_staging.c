/* Ranks in several processes on one GPU whose buffers lie in memory of every kind, most of which
 * the process that runs the kernels cannot map: the results are those of any other memory, and
 * nothing beside the buffers is written. */
#include "core/procs.h"
#include "gpu/driver.h"
#include "gpu/staging_memory.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 20000, PROCS = 3, LOCAL = 2 };

static void run_procs(int n, const char *name)
{
    struct procs procs;
    procs_start(&procs, n, name, NULL);
    procs_end(&procs, -1);
}

/* ---- ranks whose buffers are of certain kinds ---- */

struct dressed {
    struct staging_memory in, out;
};

static struct dressed dress(struct kit_rank *rank, int in, int out)
{
    struct dressed dressed = {
        staging_make((enum staging_kind)(in % STAGING_NKINDS), rank->room),
        staging_make((enum staging_kind)(out % STAGING_NKINDS), rank->room),
    };
    CHECK_OK(chorus_devices()->free(rank->far_in));
    CHECK_OK(chorus_devices()->free(rank->far_out));
    rank->far_in = dressed.in.base;
    rank->far_out = dressed.out.base;
    return dressed;
}

/* The rank gets back what kit_rank_close frees. */
static void undress(struct kit_rank *rank, struct dressed *dressed)
{
    kit_sync(rank);
    staging_free(&dressed->in);
    staging_free(&dressed->out);
    CHECK_OK(chorus_devices()->alloc((void **)&rank->far_in, rank->room));
    CHECK_OK(chorus_devices()->alloc((void **)&rank->far_out, rank->room));
}

static struct kit_op pick_op(enum kit_coll coll, size_t count, int in_place, uint32_t *state)
{
    static const ncclDataType_t types[] = {ncclInt32, ncclInt8, ncclInt64, ncclFloat32};
    static const ncclRedOp_t redops[] = {ncclSum, ncclMin, ncclMax, ncclSum};
    uint32_t pick = kit_random(state);
    return (struct kit_op){
        .coll = coll,
        .count = count,
        .type = types[pick & 3],
        .redop = redops[pick >> 2 & 3],
        .root = (int)(pick >> 4) % (PROCS * LOCAL),
        .in_place = in_place,
        .spare = (int)(pick >> 12 & 1),
        .seed = pick,
    };
}

static void run_all(struct kit *kit, uint32_t *state)
{
    static const size_t counts[] = {1, 700, 5001};
    for (int coll = 0; coll < KIT_NCOLLS; coll++)
        for (size_t c = 0; c < TEST_COUNT(counts); c++)
            for (int in_place = 0; in_place <= kit_has_place((enum kit_coll)coll); in_place++) {
                struct kit_op op = pick_op((enum kit_coll)coll, counts[c], in_place, state);
                kit_run(kit, &op);
            }
}

static void child_kinds(void)
{
    struct kit kit;
    struct dressed dressed[LOCAL];
    uint32_t state = 1;
    kit_far = 1;
    proc_open(&kit, LOCAL, COUNT);
    for (int turn = 0; turn < STAGING_NKINDS; turn++) {
        for (int i = 0; i < LOCAL; i++) {
            int r = kit.ranks[i].rank;
            dressed[i] = dress(&kit.ranks[i], r + turn, 2 * r + 3 * turn);
        }
        run_all(&kit, &state);
        for (int i = 0; i < LOCAL; i++) undress(&kit.ranks[i], &dressed[i]);
    }
    kit_close(&kit);
}

static void test_kinds(void)
{
    run_procs(PROCS, "child:kinds");
}

/* ---- calls in flight ---- */

/* Two streams of a rank in turn, never idle at once, with growing sizes: neither what a call has
 * copied nor what it waits for is touched by the next. */
static void child_streams(void)
{
    enum { CALLS = 120 };
    struct kit kit;
    struct kit_rank twins[2];
    struct kit_op ops[2];
    struct dressed dressed[2];
    uint32_t state = 7;
    kit_far = 1;
    proc_open(&kit, 1, COUNT);
    for (int t = 0; t < 2; t++) {
        kit_rank_open(&twins[t], PROCS, kit.ranks[0].rank, COUNT);
        twins[t].comm = kit.ranks[0].comm;
        dressed[t] = dress(&twins[t], STAGING_POOL + t, STAGING_PINNED + t);
    }
    for (int i = 0; i < CALLS; i++) {
        int t = i % 2;
        if (i >= 2) kit_check(&twins[t], &ops[t]);
        size_t count = 1 + (size_t)i % 40 * (COUNT / 40);
        ops[t] = pick_op((enum kit_coll)(kit_random(&state) % KIT_NCOLLS), count, 0, &state);
        ops[t].root %= PROCS;
        kit_prepare(&twins[t], &ops[t]);
        CHECK_OK(kit_call(&twins[t], &ops[t]));
    }
    for (int t = 0; t < 2; t++) {
        kit_check(&twins[t], &ops[t]);
        undress(&twins[t], &dressed[t]);
        twins[t].comm = NULL;
        kit_rank_close(&twins[t]);
    }
    kit_close(&kit);
}

static void test_streams(void)
{
    run_procs(PROCS, "child:streams");
}

/* ---- graphs ---- */

/* Two graphs that are replayed in turn with other inputs, and calls between them. Seeds that three
 * divides have the buffers at the same place. */
static void child_graphs(void)
{
    enum { REPLAYS = 5 };
    static const enum kit_coll colls[] = {KIT_ALL_REDUCE, KIT_ALL_GATHER};
    struct kit kit;
    struct dressed dressed;
    void *graphs[2];
    kit_far = 1;
    proc_open(&kit, 1, COUNT);
    struct kit_rank *rank = &kit.ranks[0];
    dressed = dress(rank, STAGING_POOL + rank->rank, STAGING_PRIVATE + rank->rank);
    for (int g = 0; g < 2; g++) {
        struct kit_op op = kit_simple(colls[g], COUNT);
        gpu_capture_begin(rank->stream);
        CHECK_OK(kit_call(rank, &op));
        graphs[g] = gpu_capture_end(rank->stream);
    }
    for (uint32_t i = 0; i < 3 * REPLAYS; i++) {
        struct kit_op op = kit_simple(i % 3 < 2 ? colls[i % 3] : KIT_REDUCE_SCATTER, COUNT);
        op.seed = 3 * i;
        kit_prepare(rank, &op);
        if (i % 3 < 2)
            gpu_graph_launch(graphs[i % 3], rank->stream);
        else
            CHECK_OK(kit_call(rank, &op));
        kit_check(rank, &op);
    }
    for (int g = 0; g < 2; g++) gpu_graph_destroy(graphs[g]);
    undress(rank, &dressed);
    kit_close(&kit);
}

static void test_graphs(void)
{
    run_procs(PROCS, "child:graphs");
}

/* ---- messages ---- */

enum { MESSAGES = 4, MESSAGE_BYTES = 100000 };

static unsigned char letter(int from, int message, size_t at)
{
    return (unsigned char)((size_t)(from * 71 + message * 13) + at * 7 + at / 251);
}

static void copy(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    CHECK_OK(chorus_devices()->copy(to, from, bytes, stream));
    CHECK_OK(chorus_devices()->stream_sync(stream));
}

static void exchange(struct kit_rank *rank, const struct staging_memory *out,
                     const struct staging_memory *in)
{
    int n = rank->nranks, to = (rank->rank + 1) % n, from = (rank->rank + n - 1) % n;
    static unsigned char image[MESSAGES * MESSAGE_BYTES];
    for (size_t i = 0; i < sizeof image; i++)
        image[i] = letter(rank->rank, (int)(i / MESSAGE_BYTES), i % MESSAGE_BYTES);
    copy(out->base, image, sizeof image, rank->stream);
    CHECK_OK(ncclGroupStart());
    for (size_t m = 0; m < MESSAGES; m++) {
        size_t bytes = MESSAGE_BYTES >> 3 * m;
        CHECK_OK(
            ncclSend(out->base + m * MESSAGE_BYTES, bytes, ncclInt8, to, rank->comm, rank->stream));
        CHECK_OK(ncclRecv(in->base + m * MESSAGE_BYTES, bytes, ncclInt8, from, rank->comm,
                          rank->stream));
    }
    CHECK_OK(ncclGroupEnd());
    copy(image, in->base, sizeof image, rank->stream);
    for (size_t m = 0; m < MESSAGES; m++)
        for (size_t i = 0; i < (size_t)MESSAGE_BYTES >> 3 * m; i++)
            if (image[m * MESSAGE_BYTES + i] != letter(from, (int)m, i))
                FAIL("message %zu of rank %d: byte %zu is wrong", m, from, i);
}

static void child_messages(void)
{
    struct kit kit;
    proc_open(&kit, 1, 1);
    struct kit_rank *rank = &kit.ranks[0];
    for (int turn = 0; turn < STAGING_NKINDS; turn++) {
        struct staging_memory memory[2];
        for (int i = 0; i < 2; i++)
            memory[i] =
                staging_make((enum staging_kind)((rank->rank + turn * (i + 1)) % STAGING_NKINDS),
                             MESSAGES * MESSAGE_BYTES);
        for (int again = 0; again < 10; again++) exchange(rank, &memory[0], &memory[1]);
        for (int i = 0; i < 2; i++) staging_free(&memory[i]);
    }
    kit_close(&kit);
}

static void test_messages(void)
{
    run_procs(PROCS, "child:messages");
}

/* ---- factors that lie on the device ---- */

static void reduce_scaled(struct kit_rank *rank, const struct staging_memory *factor)
{
    static float image[COUNT];
    float own = (float)(rank->rank + 1);
    ncclRedOp_t redop;
    for (int i = 0; i < COUNT; i++) image[i] = (float)(i % 9);
    copy(rank->far_in, image, sizeof image, rank->stream);
    copy(factor->base, &own, sizeof own, rank->stream);
    CHECK_OK(
        ncclRedOpCreatePreMulSum(&redop, factor->base, ncclFloat32, ncclScalarDevice, rank->comm));
    CHECK_OK(ncclAllReduce(rank->far_in, rank->far_out, COUNT, ncclFloat32, redop, rank->comm,
                           rank->stream));
    CHECK_OK(ncclRedOpDestroy(redop, rank->comm));
    copy(image, rank->far_out, sizeof image, rank->stream);
    float sum = (float)(rank->nranks * (rank->nranks + 1)) / 2;
    for (int i = 0; i < COUNT; i++)
        if (image[i] != sum * (float)(i % 9)) FAIL("element %d is %g", i, (double)image[i]);
}

static void child_factors(void)
{
    struct kit kit;
    kit_far = 1;
    proc_open(&kit, 1, COUNT);
    for (int kind = 0; kind < STAGING_NKINDS; kind++) {
        struct staging_memory factor = staging_make((enum staging_kind)kind, sizeof(float));
        reduce_scaled(&kit.ranks[0], &factor);
        staging_free(&factor);
    }
    kit_close(&kit);
}

static void test_factors(void)
{
    run_procs(PROCS, "child:factors");
}

/* ---- memory that CUDA does not know ---- */

static int has_error(void *arg)
{
    ncclResult_t error;
    CHECK_OK(ncclCommGetAsyncError(((struct kit_rank *)arg)->comm, &error));
    return error != ncclSuccess;
}

static void child_unknown(void)
{
    struct kit kit;
    kit_far = 1;
    proc_open(&kit, 1, COUNT);
    struct kit_rank *rank = &kit.ranks[0];
    if (proc_index() == 0) {
        (void)ncclAllReduce(rank->far_in, rank->far_out, COUNT, ncclInt32, ncclSum, rank->comm,
                            rank->stream);
        kit_until(has_error, rank, 10000, "the error of the other rank");
    } else {
        void *memory = malloc(COUNT * sizeof(int32_t));
        CHECK_EQ(ncclAllReduce(memory, rank->far_out, COUNT, ncclInt32, ncclSum, rank->comm,
                               rank->stream),
                 ncclInvalidUsage);
        CHECK_HAS(ncclGetLastError(NULL), "use memory of CUDA");
        free(memory);
    }
    CHECK_OK(ncclCommAbort(rank->comm));
    rank->comm = NULL;
    kit_close(&kit);
}

static void test_unknown(void)
{
    run_procs(2, "child:unknown");
}

static const struct test_case cases[] = {
    {"all kinds of memory among the ranks", test_kinds, 120},
    {"calls in flight on two streams", test_streams, 120},
    {"graphs", test_graphs, 120},
    {"messages", test_messages, 120},
    {"factors on the device", test_factors, 120},
    {"memory that CUDA does not know is refused", test_unknown, 120},
    {"child:kinds", child_kinds, 110},
    {"child:streams", child_streams, 110},
    {"child:graphs", child_graphs, 110},
    {"child:messages", child_messages, 110},
    {"child:factors", child_factors, 110},
    {"child:unknown", child_unknown, 110},
};
GPU_TEST_MAIN(cases)
