/* How the ranks of a process come together: one thread in a group, a thread per rank, both mixed,
 * for every collective, 1 to 8 ranks on 1 to 3 devices, with private and with shared hardware
 * queues. And what must be refused: equal streams without a group, ranks that disagree.
 * Parameters are read once per process, so each setting is a child. */
#include "core/kit.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 37, MOST_RANKS = 8 };

static int count_devices(void)
{
    int ndevices;
    CHECK_OK(chorus_devices()->count(&ndevices));
    return ndevices;
}

/* ---- modes of calling ---- */

struct job {
    struct kit *kit;
    const struct kit_op *op;
    int nthreads;
};

/* Thread i calls for ranks i, i + nthreads, …; several in a group. */
static void call_some(void *arg, int i)
{
    struct job *job = arg;
    int several = i + job->nthreads < job->kit->nranks;
    if (several) CHECK_OK(ncclGroupStart());
    for (int r = i; r < job->kit->nranks; r += job->nthreads)
        CHECK_OK(kit_call(&job->kit->ranks[r], job->op));
    if (several) CHECK_OK(ncclGroupEnd());
    for (int r = i; r < job->kit->nranks; r += job->nthreads)
        kit_check(&job->kit->ranks[r], job->op);
}

static void run_threads(struct kit *kit, const struct kit_op *op, int nthreads)
{
    struct job job = {kit, op, nthreads};
    for (int r = 0; r < kit->nranks; r++) kit_prepare(&kit->ranks[r], op);
    kit_threads(nthreads, call_some, &job);
}

static void run_modes(struct kit *kit, const struct kit_op *op)
{
    kit_run(kit, op);
    run_threads(kit, op, kit->nranks);
    if (kit->nranks >= 4) run_threads(kit, op, 2);
}

static void child_modes(void)
{
    static const ncclDataType_t types[] = {ncclInt32, ncclFloat32, ncclUint8, ncclInt64};
    static const ncclRedOp_t redops[] = {ncclSum, ncclMax, ncclMin, ncclSum};
    uint32_t state = 11;
    for (int n = 1; n <= MOST_RANKS; n++) {
        struct kit kit;
        kit_open(&kit, n, count_devices(), COUNT);
        for (int coll = 0; coll < KIT_NCOLLS; coll++)
            for (int in_place = 0; in_place <= kit_has_place((enum kit_coll)coll); in_place++) {
                uint32_t pick = kit_random(&state);
                struct kit_op op = {
                    .coll = (enum kit_coll)coll,
                    .count = 1 + pick % COUNT,
                    .type = types[pick >> 8 & 3],
                    .redop = redops[pick >> 10 & 3],
                    .root = (int)(pick >> 12) % n,
                    .in_place = in_place,
                    .seed = pick,
                };
                run_modes(&kit, &op);
            }
        kit_close(&kit);
    }
}

/* One child per number of devices and of hardware queues. */
static void each_setting(const char *child)
{
    static const int queues[] = {0, 1, 8};
    for (int ndevices = 1; ndevices <= 3; ndevices++)
        for (int q = 0; q < 3; q++) {
            char devices[64], shared[64];
            snprintf(devices, sizeof devices, "CHORUS_HOST_DEVICES=%d", ndevices);
            snprintf(shared, sizeof shared, "CHORUS_HOST_QUEUES=%d", queues[q]);
            kit_child(child, (const char *const[]){devices, shared, NULL});
        }
}

static void test_modes(void)
{
    each_setting("child:modes");
}

/* ---- a call must not wait for its peers ---- */

struct late {
    struct kit *kit;
    const struct kit_op *op;
    _Atomic int called;
};

/* Rank 0 calls and only then lets the others call. */
static void call_late(void *arg, int i)
{
    struct late *late = arg;
    while (i > 0 && !atomic_load(&late->called)) sched_yield();
    CHECK_OK(kit_call(&late->kit->ranks[i], late->op));
    atomic_store(&late->called, 1);
    kit_check(&late->kit->ranks[i], late->op);
}

/* The same with more work on the stream behind the call. In a single hardware queue that work
 * would hold up the other ranks, on a GPU too; with several it must not. */
static void call_late_and_go_on(void *arg, int i)
{
    struct late *late = arg;
    struct kit_rank *rank = &late->kit->ranks[i];
    while (i > 0 && !atomic_load(&late->called)) sched_yield();
    CHECK_OK(kit_call(rank, late->op));
    CHECK_OK(chorus_devices()->fill(rank->in, 0x77, 4, rank->stream));
    atomic_store(&late->called, 1);
    kit_sync(rank);
    memset(rank->in, 0xa5, 4);
    kit_check(rank, late->op);
}

static void child_go_on(void)
{
    for (int ndevices = 1; ndevices <= 2; ndevices++) {
        struct kit kit;
        struct kit_op op = kit_simple(KIT_ALL_GATHER, COUNT);
        struct late late = {.kit = &kit, .op = &op};
        kit_open(&kit, 3, ndevices, COUNT);
        for (int r = 0; r < 3; r++) kit_prepare(&kit.ranks[r], &op);
        kit_threads(3, call_late_and_go_on, &late);
        kit_close(&kit);
    }
}

static void test_go_on(void)
{
    kit_child("child:go-on", (const char *const[]){"CHORUS_HOST_QUEUES=0", NULL});
    kit_child("child:go-on", (const char *const[]){"CHORUS_HOST_QUEUES=8", NULL});
}

static void child_late(void)
{
    for (int n = 2; n <= 4; n++) {
        struct kit kit;
        kit_open(&kit, n, count_devices(), COUNT);
        for (int coll = 0; coll < KIT_NCOLLS; coll++) {
            struct kit_op op = kit_simple((enum kit_coll)coll, COUNT);
            struct late late = {.kit = &kit, .op = &op};
            for (int r = 0; r < n; r++) kit_prepare(&kit.ranks[r], &op);
            kit_threads(n, call_late, &late);
        }
        kit_close(&kit);
    }
}

static void test_late(void)
{
    each_setting("child:late");
}

/* ---- equal streams ---- */

static void share_stream(struct kit *kit, cudaStream_t *own)
{
    *own = kit->ranks[1].stream;
    kit->ranks[1].stream = kit->ranks[0].stream;
}

static void test_equal_streams_in_a_group(void)
{
    struct kit kit;
    cudaStream_t own;
    kit_open(&kit, 3, 1, COUNT);
    share_stream(&kit, &own);
    for (int coll = 0; coll < KIT_NCOLLS; coll++) {
        struct kit_op op = kit_simple((enum kit_coll)coll, COUNT);
        kit_run(&kit, &op);
    }
    kit.ranks[1].stream = own;
    kit_close(&kit);
}

static void test_equal_streams_alone(void)
{
    struct kit kit;
    cudaStream_t own;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    kit_open(&kit, 2, 1, COUNT);
    share_stream(&kit, &own);
    CHECK_OK(kit_call(&kit.ranks[0], &op));
    CHECK_EQ(kit_call(&kit.ranks[1], &op), ncclInvalidUsage);
    CHECK_HAS(ncclGetLastError(NULL), "ranks 0 and 1 use the same stream");
    kit_await_error(&kit.ranks[0], ncclInvalidUsage, "ranks 0 and 1 use the same stream");
    kit.ranks[1].stream = own;
    kit_close(&kit);
}

/* A stream of another device than the rank's would let two executors wait in one queue. */
static void test_stream_of_another_device(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    kit_open(&kit, 2, 2, COUNT);
    cudaStream_t own = kit.ranks[1].stream;
    kit.ranks[1].stream = kit.ranks[0].stream;
    CHECK_EQ(kit_call(&kit.ranks[1], &op), ncclInvalidArgument);
    CHECK_HAS(ncclGetLastError(NULL), "ncclAllReduce: ");
    CHECK_HAS(ncclGetLastError(NULL), "device 0");
    kit.ranks[1].stream = own;
    kit_run(&kit, &op);
    kit_close(&kit);
}

/* ---- ranks that disagree ---- */

struct change {
    const char *what;
    struct kit_op op;
    const char *parts[2]; /* of the text */
};

static void check_change(const struct change *change, int ndevices)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_REDUCE, 8);
    kit_open(&kit, 2, ndevices, COUNT);
    ncclResult_t first = kit_call(&kit.ranks[0], &op);
    ncclResult_t second = kit_call(&kit.ranks[1], &change->op);
    CHECK_EQ(first, ncclSuccess);
    if (ndevices == 1) {
        CHECK_EQ(second, ncclInvalidUsage);
        CHECK_HAS(ncclGetLastError(NULL), "rank 0 called ncclReduce(count 8");
        CHECK_HAS(ncclGetLastError(NULL), change->parts[0]);
        CHECK_HAS(ncclGetLastError(NULL), change->parts[1]);
    }
    for (int r = 0; r < 2; r++) {
        kit_sync(&kit.ranks[r]);
        kit_await_error(&kit.ranks[r], ncclInvalidUsage, "rank");
    }
    kit_close(&kit);
}

static const struct change changes[] = {
    {"count",
     KIT_OP(KIT_REDUCE, 9, ncclInt32, ncclSum, 0),
     {"rank 1 called ncclReduce", "count 9"}},
    {"type", KIT_OP(KIT_REDUCE, 8, ncclFloat32, ncclSum, 0), {"rank 1 called", "datatype 7"}},
    {"op", KIT_OP(KIT_REDUCE, 8, ncclInt32, ncclMax, 0), {"rank 1 called", "op 2"}},
    {"root", KIT_OP(KIT_REDUCE, 8, ncclInt32, ncclSum, 1), {"rank 1 called", "root 1"}},
    {"call", KIT_OP(KIT_ALL_REDUCE, 8, ncclInt32, ncclSum, 0), {"rank 1 called", "ncclAllReduce"}},
};

static void test_disagreement_on_a_device(void)
{
    for (size_t i = 0; i < TEST_COUNT(changes); i++) check_change(&changes[i], 1);
}

static void test_disagreement_between_devices(void)
{
    for (size_t i = 0; i < TEST_COUNT(changes); i++) check_change(&changes[i], 2);
}

/* The same through connections instead of mapped buffers. */
static void child_connected(void)
{
    test_disagreement_between_devices();
}

static void test_disagreement_over_connections(void)
{
    kit_child("child:connected", (const char *const[]){"NCCL_ALGO=oneshot", NULL});
    kit_child("child:connected", (const char *const[]){"NCCL_ALGO=ring", NULL});
}

/* A PreMulSum operator is another operator than an average, though both scale and add. */
static void test_average_is_no_premulsum(void)
{
    struct kit kit;
    float scalar = 0.5f;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, 4), other;
    op.type = ncclFloat32;
    kit_open(&kit, 2, 1, COUNT);
    other = op;
    op.redop = ncclAvg;
    CHECK_OK(ncclRedOpCreatePreMulSum(&other.redop, &scalar, ncclFloat32, ncclScalarHostImmediate,
                                      kit.ranks[1].comm));
    CHECK_OK(kit_call(&kit.ranks[0], &op));
    CHECK_EQ(kit_call(&kit.ranks[1], &other), ncclInvalidUsage);
    kit_await_error(&kit.ranks[0], ncclInvalidUsage, "differs between ranks");
    kit_close(&kit);
}

/* ---- algorithms over connections inside a process ---- */

static void child_algos(void)
{
    static const int sizes[] = {2, 3, 5, MOST_RANKS};
    uint32_t state = 5;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        struct kit kit;
        int n = sizes[i];
        kit_open(&kit, n, n < 3 ? n : 3, 3000);
        for (int coll = 0; coll <= KIT_REDUCE_SCATTER; coll++)
            for (int in_place = 0; in_place < 2; in_place++) {
                struct kit_op op = kit_simple((enum kit_coll)coll, 1 + kit_random(&state) % 3000);
                op.in_place = in_place;
                op.root = (int)(kit_random(&state) % (uint32_t)n);
                op.seed = kit_random(&state);
                run_modes(&kit, &op);
            }
        kit_close(&kit);
    }
}

static void test_algos(void)
{
    static const char *const algos[] = {"NCCL_ALGO=oneshot", "NCCL_ALGO=ring"};
    static const char *const channels[] = {"CHORUS_CHANNELS=1", "CHORUS_CHANNELS=3"};
    for (int a = 0; a < 2; a++)
        for (int c = 0; c < 2; c++)
            kit_child("child:algos",
                      (const char *const[]){algos[a], channels[c], "CHORUS_SLOT_BYTES=1024", NULL});
}

static const struct test_case cases[] = {
    {"every collective, mode, device and queue count", test_modes, 120},
    {"a call does not wait for its peers", test_late, 0},
    {"a call does not hold up what follows", test_go_on, 0},
    {"connections inside a process", test_algos, 240},
    {"equal streams in a group", test_equal_streams_in_a_group, 0},
    {"equal streams without a group", test_equal_streams_alone, 0},
    {"a stream of another device", test_stream_of_another_device, 0},
    {"ranks of a device disagree", test_disagreement_on_a_device, 0},
    {"devices disagree", test_disagreement_between_devices, 0},
    {"devices disagree over connections", test_disagreement_over_connections, 0},
    {"average and PreMulSum disagree", test_average_is_no_premulsum, 0},
    {"child:modes", child_modes, 0},
    {"child:go-on", child_go_on, 0},
    {"child:late", child_late, 0},
    {"child:algos", child_algos, 0},
    {"child:connected", child_connected, 0},
};
TEST_LIB_MAIN(cases)
