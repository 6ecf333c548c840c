/* Executors on several GPUs, and on one GPU that is treated as several (CHORUS_GPU_SPLIT): every
 * collective, algorithm and protocol, messages, graphs, processes; with memory of GPUs and of the
 * host between them; what goes wrong. Rows that want more GPUs than there are, are skipped. */
#include "core/procs.h"
#include "gpu/driver.h"
#include "unit/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 5000, MANY = 300, LONG_BYTES = 3 << 20 };

/* A way to have several executors. */
struct world {
    const char *name;
    int ngpus, nranks;
    const char *env[4];
};

#define SPLIT_ENV "CUDA_DEVICE_MAX_CONNECTIONS=32"
static const struct world worlds[] = {
    {"one GPU as two", 1, 2, {"CHORUS_GPU_SPLIT=1", SPLIT_ENV}},
    {"one GPU as three with five ranks", 1, 5, {"CHORUS_GPU_SPLIT=2", SPLIT_ENV}},
    {"one GPU as two through the host",
     1,
     2,
     {"CHORUS_GPU_SPLIT=1", SPLIT_ENV, "NCCL_P2P_DISABLE=1"}},
    {"two GPUs", 2, 2, {NULL}},
    {"two GPUs with five ranks", 2, 5, {NULL}},
    {"two GPUs through the host", 2, 2, {"NCCL_P2P_DISABLE=1"}},
    {"four GPUs with six ranks", 4, 6, {NULL}},
    {"eight GPUs", 8, 8, {NULL}},
};

static const char *text_of(const char *variable)
{
    const char *text = getenv(variable);
    return text != NULL ? text : "";
}

static int number_of(const char *variable)
{
    return atoi(text_of(variable));
}

static int has_gpus(int n)
{
    return test_devices(n) >= n;
}

static void run_world(const struct world *world, const char *child, const char *const more[])
{
    const char *env[16] = {NULL};
    char ranks[32], gpus[32];
    size_t n = 0;
    snprintf(ranks, sizeof ranks, "SPAN_RANKS=%d", world->nranks);
    snprintf(gpus, sizeof gpus, "SPAN_GPUS=%d", world->ngpus);
    env[n++] = ranks;
    env[n++] = gpus;
    for (size_t i = 0; i < 4 && world->env[i] != NULL; i++) env[n++] = world->env[i];
    for (size_t i = 0; more != NULL && more[i] != NULL; i++) env[n++] = more[i];
    NOTE("%s: %s", child, world->name);
    kit_child(child, env);
}

/* Runs a child in every world that this machine has, with some more variables. */
static void each_world(const char *child, const char *const more[])
{
    size_t nrun = 0;
    for (size_t w = 0; w < TEST_COUNT(worlds); w++)
        if (has_gpus(worlds[w].ngpus)) {
            run_world(&worlds[w], child, more);
            nrun++;
        }
    NOTE("%zu of %zu worlds, the others need more GPUs", nrun, TEST_COUNT(worlds));
    CHECK(nrun > 0);
}

/* In one of them: number `turn` in turn. */
static void next_world(size_t turn, const char *child, const char *const more[])
{
    size_t n = 0;
    for (size_t w = 0; w < TEST_COUNT(worlds); w++) n += (size_t)has_gpus(worlds[w].ngpus);
    CHECK(n > 0);
    for (size_t w = 0; w < TEST_COUNT(worlds); w++)
        if (has_gpus(worlds[w].ngpus) && turn-- % n == 0) {
            run_world(&worlds[w], child, more);
            return;
        }
}

static void open_world(struct kit *kit, size_t count)
{
    kit_open(kit, number_of("SPAN_RANKS"), number_of("SPAN_GPUS"), count);
}

/* ---- collectives ---- */

static void run_coll(struct kit *kit, enum kit_coll coll)
{
    static const ncclDataType_t types[] = {ncclInt32, ncclInt8, ncclFloat64, ncclFloat32};
    static const ncclRedOp_t redops[] = {ncclSum, ncclMin, ncclMax, ncclSum};
    static const size_t counts[] = {1, 3, 700, COUNT};
    uint32_t state = 11 + (uint32_t)coll;
    for (size_t c = 0; c < TEST_COUNT(counts); c++)
        for (int in_place = 0; in_place <= kit_has_place(coll); in_place++) {
            uint32_t pick = kit_random(&state);
            struct kit_op op = {
                .coll = coll,
                .count = counts[c],
                .type = types[pick & 3],
                .redop = redops[pick >> 2 & 3],
                .root = (int)(pick >> 4) % kit->nranks,
                .in_place = in_place,
                .seed = pick,
                .in_shift = (int)(pick >> 8 & 7),
                .out_shift = (int)(pick >> 11 & 7),
            };
            if (!kit_try(kit, &op)) return;
        }
}

static void child_all(void)
{
    struct kit kit;
    open_world(&kit, COUNT);
    for (int coll = 0; coll < KIT_NCOLLS; coll++) run_coll(&kit, (enum kit_coll)coll);
    kit_close(&kit);
}

static void test_free(void)
{
    each_world("child:all", NULL);
    each_world("child:all", (const char *const[]){"CHORUS_CHANNELS=1", NULL});
}

static void test_algos(void)
{
    static const char *const algos[] = {"NCCL_ALGO=ring", "NCCL_ALGO=oneshot", "NCCL_ALGO=twoshot",
                                        "NCCL_ALGO=tree", "NCCL_ALGO=logstep"};
    static const char *const protos[] = {"NCCL_PROTO=LL", "NCCL_PROTO=LL128", "NCCL_PROTO=Simple"};
    for (size_t a = 0; a < TEST_COUNT(algos); a++)
        for (size_t p = 0; p < TEST_COUNT(protos); p++) {
            NOTE("%s %s", algos[a], protos[p]);
            next_world(a + p, "child:all",
                       (const char *const[]){algos[a], protos[p], "CHORUS_SLOT_BYTES=4096", NULL});
        }
}

static void call_all(void *arg, int i)
{
    struct kit *kit = arg;
    for (int round = 0; round < 50; round++) {
        struct kit_op op = kit_simple((enum kit_coll)(round % KIT_NCOLLS), 100 + (size_t)round);
        op.seed = (uint32_t)round;
        kit_prepare(&kit->ranks[i], &op);
        CHECK_OK(kit_call(&kit->ranks[i], &op));
        kit_check(&kit->ranks[i], &op);
    }
}

static void child_threads(void)
{
    struct kit kit;
    open_world(&kit, COUNT);
    kit_threads(kit.nranks, call_all, &kit);
    kit_close(&kit);
}

static void test_threads(void)
{
    each_world("child:threads", NULL);
}

/* ---- messages ---- */

static char message_byte(int from, int to, size_t i)
{
    return (char)((unsigned)(from * 37 + to * 11) + i * 7);
}

/* Every rank sends MANY short messages to the next one, in one group on its stream: more halves
 * than the arguments of a kernel hold. */
static void run_many(struct kit *kit)
{
    int n = kit->nranks;
    for (int r = 0; r < n; r++) {
        struct kit_rank *rank = &kit->ranks[r];
        memset(rank->out, 0, rank->room);
        for (size_t i = 0; i < MANY * 8; i++) rank->in[i] = message_byte(r, (r + 1) % n, i);
    }
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < n; r++) {
        struct kit_rank *rank = &kit->ranks[r];
        for (size_t m = 0; m < MANY; m++) {
            CHECK_OK(
                ncclSend(rank->in + 8 * m, m % 9, ncclInt8, (r + 1) % n, rank->comm, rank->stream));
            CHECK_OK(ncclRecv(rank->out + 8 * m, m % 9, ncclInt8, (r + n - 1) % n, rank->comm,
                              rank->stream));
        }
    }
    CHECK_OK(ncclGroupEnd());
    for (int r = 0; r < n; r++) {
        kit_sync(&kit->ranks[r]);
        for (size_t m = 0; m < MANY; m++)
            for (size_t i = 0; i < m % 9 && i < 8; i++)
                CHECK_EQ(kit->ranks[r].out[8 * m + i], message_byte((r + n - 1) % n, r, 8 * m + i));
    }
}

/* Long ones pass their FIFO several times, at odd addresses, both ways at once. */
static void run_long(struct kit *kit, size_t bytes)
{
    int n = kit->nranks;
    for (int r = 0; r < n; r++) {
        struct kit_rank *rank = &kit->ranks[r];
        memset(rank->out, 0, bytes + 16);
        for (size_t i = 0; i < bytes; i++) rank->in[3 + i] = message_byte(r, n - 1 - r, i);
    }
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < n; r++) {
        struct kit_rank *rank = &kit->ranks[r];
        int peer = n - 1 - r;
        CHECK_OK(ncclSend(rank->in + 3, bytes, ncclInt8, peer, rank->comm, rank->stream));
        CHECK_OK(ncclRecv(rank->out + 5, bytes, ncclInt8, peer, rank->comm, rank->stream));
    }
    CHECK_OK(ncclGroupEnd());
    for (int r = 0; r < n; r++) {
        const char *out = kit->ranks[r].out;
        kit_sync(&kit->ranks[r]);
        for (size_t i = 0; i < bytes; i++)
            if (out[5 + i] != message_byte(n - 1 - r, r, i))
                FAIL("rank %d, byte %zu of %zu differs", r, i, bytes);
        CHECK_EQ(out[4], 0);
        CHECK_EQ(out[5 + bytes], 0);
    }
}

static void child_messages(void)
{
    struct kit kit;
    open_world(&kit, LONG_BYTES / 8);
    for (int again = 0; again < 3; again++) {
        run_many(&kit);
        run_long(&kit, 1);
        run_long(&kit, 100000);
        run_long(&kit, LONG_BYTES);
    }
    kit_close(&kit);
}

static void test_messages(void)
{
    each_world("child:messages", NULL);
}

/* ---- graphs ---- */

static void prepare_all(struct kit *kit, const struct kit_op *op)
{
    for (int r = 0; r < kit->nranks; r++) kit_prepare(&kit->ranks[r], op);
}

static void call_group(struct kit *kit, const struct kit_op *op)
{
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < kit->nranks; r++) CHECK_OK(kit_call(&kit->ranks[r], op));
    CHECK_OK(ncclGroupEnd());
}

/* Each rank's stream captures by itself; the first calls of the communicator are in graphs. Seeds
 * that three divides have the buffers at the same place. */
static void run_graphs(struct kit *kit, enum kit_coll coll)
{
    struct kit_op op = kit_simple(coll, 1000);
    void *graphs[KIT_MAX_RANKS];
    prepare_all(kit, &op);
    for (int r = 0; r < kit->nranks; r++) {
        CHECK_OK(chorus_devices()->set(kit->ranks[r].device));
        gpu_capture_begin(kit->ranks[r].stream);
    }
    call_group(kit, &op);
    for (int r = 0; r < kit->nranks; r++) {
        CHECK_OK(chorus_devices()->set(kit->ranks[r].device));
        graphs[r] = gpu_capture_end(kit->ranks[r].stream);
    }
    for (int round = 0; round < 6; round++) {
        op.seed = 3 * (uint32_t)round;
        prepare_all(kit, &op);
        for (int r = 0; r < kit->nranks && round % 3 < 2; r++) {
            CHECK_OK(chorus_devices()->set(kit->ranks[r].device));
            gpu_graph_launch(graphs[r], kit->ranks[r].stream);
        }
        if (round % 3 == 2) call_group(kit, &op);
        for (int r = 0; r < kit->nranks; r++) kit_check(&kit->ranks[r], &op);
    }
    for (int r = 0; r < kit->nranks; r++) gpu_graph_destroy(graphs[r]);
}

static void child_graphs(void)
{
    struct kit kit;
    open_world(&kit, COUNT);
    run_graphs(&kit, KIT_ALL_REDUCE);
    run_graphs(&kit, KIT_ALL_TO_ALL);
    run_graphs(&kit, KIT_BROADCAST);
    kit_close(&kit);
}

static void test_graphs(void)
{
    each_world("child:graphs", NULL);
}

/* ---- processes ---- */

static void child_process(void)
{
    struct kit kit;
    proc_open(&kit, number_of("SPAN_LOCAL"), COUNT);
    for (int coll = 0; coll < KIT_NCOLLS; coll++) run_coll(&kit, (enum kit_coll)coll);
    kit_close(&kit);
}

static void run_processes(int nprocs, const char *const env[])
{
    struct procs procs;
    procs_start(&procs, nprocs, "child:process", env);
    procs_end(&procs, -1);
}

/* Processes share the GPU in turns where no MPS runs: few operations take long. */
static void test_processes(void)
{
    run_processes(2, (const char *const[]){"SPAN_LOCAL=1", "CHORUS_GPU_SPLIT=1", NULL});
    run_processes(2, (const char *const[]){"SPAN_LOCAL=2", "CHORUS_GPU_SPLIT=1", NULL});
    run_processes(
        2, (const char *const[]){"SPAN_LOCAL=1", "CHORUS_GPU_SPLIT=1", "NCCL_P2P_DISABLE=1", NULL});
}

/* Local rank i of each process is on GPU i: executors whose ranks are in several processes. */
static void test_both(void)
{
    if (!has_gpus(2)) SKIP("needs 2 GPUs");
    run_processes(2, (const char *const[]){"SPAN_LOCAL=2", NULL});
    run_processes(3, (const char *const[]){"SPAN_LOCAL=2", NULL});
}

/* ---- what goes wrong ---- */

static void child_refused(void)
{
    ncclComm_t comms[2];
    CHECK_EQ(ncclCommInitAll(comms, 2, (const int[]){0, 0}), ncclInvalidUsage);
    CHECK_HAS(ncclGetLastError(NULL), "NCCL_P2P_DISABLE=1");
    CHECK_HAS(ncclGetLastError(NULL), "NCCL_SHM_DISABLE=1");
}

static void test_refused(void)
{
    kit_child("child:refused", (const char *const[]){"CHORUS_GPU_SPLIT=1", "NCCL_P2P_DISABLE=1",
                                                     "NCCL_SHM_DISABLE=1", "GPU_COLD=1", NULL});
}

/* The last rank does not call. */
static void child_missing(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    open_world(&kit, COUNT);
    for (int r = 0; r + 1 < kit.nranks; r++) CHECK_OK(kit_call(&kit.ranks[r], &op));
    kit_await_status(kit.ranks[0].comm, "waits for");
    for (int r = 0; r < kit.nranks; r++) {
        CHECK_OK(ncclCommAbort(kit.ranks[r].comm));
        kit.ranks[r].comm = NULL;
    }
    for (int r = 0; r < kit.nranks; r++) kit_sync(&kit.ranks[r]);
    kit_close(&kit);
}

static void test_missing(void)
{
    each_world("child:missing", NULL);
}

static void child_disagree(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT), other = kit_simple(KIT_ALL_REDUCE, 7);
    open_world(&kit, COUNT);
    int last = kit.nranks - 1;
    for (int r = 0; r < last; r++) CHECK_OK(kit_call(&kit.ranks[r], &op));
    ncclResult_t rc = kit_call(&kit.ranks[last], &other);
    CHECK(rc == ncclSuccess || rc == ncclInvalidUsage);
    kit_await_error(&kit.ranks[0], ncclInvalidUsage, "count 7");
    for (int r = 0; r <= last; r++) kit_sync(&kit.ranks[r]);
    kit_close(&kit);
}

static void test_disagree(void)
{
    each_world("child:disagree", NULL);
}

/* Communicators come until the ledger says no; what they have is there again afterwards. */
static void child_full(void)
{
    enum { MOST = 200 };
    static ncclComm_t comms[MOST][2];
    int counts[2];
    for (int again = 0; again < 2; again++) {
        int n = 0;
        while (n < MOST && ncclCommInitAll(comms[n], 2, (const int[]){0, 0}) == ncclSuccess) n++;
        CHECK(n > 4 && n < MOST);
        CHECK_HAS(ncclGetLastError(NULL), "destroy some");
        counts[again] = n;
        while (n-- > 0)
            for (int r = 0; r < 2; r++) CHECK_OK(ncclCommDestroy(comms[n][r]));
    }
    CHECK_EQ(counts[0], counts[1]);
}

static void test_full(void)
{
    kit_child("child:full", (const char *const[]){"CHORUS_GPU_SPLIT=1", "CHORUS_SLOT_BYTES=4096",
                                                  "GPU_COLD=1", NULL});
}

static const struct test_case cases[] = {
    {"every collective, from one thread", test_free, 120},
    {"every algorithm and protocol", test_algos, 300},
    {"a thread a rank", test_threads, 120},
    {"many messages, and long ones", test_messages, 120},
    {"graphs before and between eager calls", test_graphs, 120},
    {"a process an executor", test_processes, 120},
    {"executors and processes that cross", test_both, 120},
    {"nothing is left between GPUs", test_refused, 0},
    {"a rank that does not call is named, an abort ends it", test_missing, 120},
    {"ranks that disagree are named", test_disagree, 120},
    {"communicators that no longer fit a GPU are refused", test_full, 120},
    {"child:all", child_all, 100},
    {"child:threads", child_threads, 100},
    {"child:messages", child_messages, 100},
    {"child:graphs", child_graphs, 100},
    {"child:process", child_process, 100},
    {"child:refused", child_refused, 0},
    {"child:missing", child_missing, 0},
    {"child:disagree", child_disagree, 0},
    {"child:full", child_full, 100},
};
GPU_TEST_MAIN(cases)
