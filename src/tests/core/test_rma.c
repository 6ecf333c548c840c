/* Puts, signals and waits between the ranks of a process: what is written, in which order, that
 * waits take what they wait for and nothing else, and how they end when a peer does. */
#include "core/windows.h"
#include "unit/memory.h"

#include <stdio.h>
#include <string.h>

enum { MIB = 1 << 20, GUARD = 64, MANY = 1000, ROUNDS = 50 };

static int before(const struct kit *kit, int i)
{
    return (i + kit->nranks - 1) % kit->nranks;
}

static int behind(const struct kit *kit, int i)
{
    return (i + 1) % kit->nranks;
}

static void sync_all(struct kit *kit)
{
    for (int i = 0; i < kit->nranks; i++) kit_sync(&kit->ranks[i]);
}

/* ---- what is written ---- */

/* Every rank puts to the next one, in one group; bytes beside the target stay as they were. */
static void run_ring(struct windows *windows, size_t bytes, size_t from, size_t to)
{
    struct kit *kit = windows->kit;
    for (int i = 0; i < kit->nranks; i++) {
        windows_fill(windows, i, from, bytes, (uint32_t)(bytes + (size_t)i));
        windows_set(windows, i, to - GUARD, bytes + 2 * (size_t)GUARD, 0x5a);
    }
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < kit->nranks; i++) {
        struct windows_put put = {from, to, bytes, behind(kit, i)};
        CHECK_OK(windows_put(windows, i, &put));
        CHECK_OK(windows_wait(windows, i, before(kit, i), 1));
    }
    CHECK_OK(ncclGroupEnd());
    for (int i = 0; i < kit->nranks; i++) {
        windows_expect_byte(windows, i, to - GUARD, GUARD, 0x5a);
        windows_expect(windows, i, to, bytes, (uint32_t)(bytes + (size_t)before(kit, i)));
        windows_expect_byte(windows, i, to + bytes, GUARD, 0x5a);
    }
}

static void test_sizes(void)
{
    static const size_t sizes[] = {0,    1,       2,       3,           15,     16,
                                   17,   63,      64,      65,          1000,   4095,
                                   4096, 4097,    131071,  131072,      131073, MIB - 1,
                                   MIB,  MIB + 1, 2 * MIB, 3 * MIB + 7, 8 * MIB};
    for (int ndevices = 1; ndevices <= 3; ndevices += 2) {
        struct kit kit;
        struct windows windows;
        kit_open(&kit, 3, test_devices(ndevices), 1);
        windows_open(&windows, &kit, 2 * (8 * (size_t)MIB + 256));
        for (size_t s = 0; s < TEST_COUNT(sizes); s++)
            run_ring(&windows, sizes[s], s % 16, windows.bytes / 2 + GUARD + s * 5 % 16);
        windows_close(&windows);
        kit_close(&kit);
    }
}

static void test_types(void)
{
    struct kit kit;
    struct windows windows;
    kit_open(&kit, 2, 1, 1);
    windows_open(&windows, &kit, 4096);
    for (int type = 0; type < ncclNumTypes; type++) {
        size_t bytes = 7 * kit_type_bytes((ncclDataType_t)type);
        windows_fill(&windows, 0, 0, bytes, (uint32_t)type);
        windows_set(&windows, 1, 2048, bytes + GUARD, 0x5a);
        CHECK_OK(ncclPutSignal(windows.ranks[0].memory, 7, (ncclDataType_t)type, 1,
                               windows.ranks[0].win, 2048, 0, 0, 0, kit.ranks[0].comm,
                               kit.ranks[0].stream));
        CHECK_OK(windows_wait(&windows, 1, 0, 1));
        windows_expect(&windows, 1, 2048, bytes, (uint32_t)type);
        windows_expect_byte(&windows, 1, 2048 + bytes, GUARD, 0x5a);
    }
    windows_close(&windows);
    kit_close(&kit);
}

/* The last byte of a window, its whole, an empty put to its end, and oneself. */
static void test_edges(void)
{
    struct kit kit;
    struct windows windows;
    kit_open(&kit, 2, test_devices(2), 1);
    windows_open(&windows, &kit, 5000);
    struct windows_put puts[] = {
        {4999, 4999, 1, 1}, {0, 0, 5000, 1}, {5000, 5000, 0, 1}, {0, 2500, 2500, 0}};
    for (size_t p = 0; p < TEST_COUNT(puts); p++) {
        int peer = puts[p].peer;
        windows_fill(&windows, 0, 0, 5000, (uint32_t)p);
        CHECK_OK(windows_put(&windows, 0, &puts[p]));
        CHECK_OK(windows_wait(&windows, peer, 0, 1));
        kit_sync(&kit.ranks[peer]);
    }
    windows_fill(&windows, 0, 0, 2500, 9);
    CHECK_OK(windows_put(&windows, 0, &puts[3]));
    CHECK_OK(windows_wait(&windows, 0, 0, 1));
    windows_expect(&windows, 0, 2500, 2500, 9);
    windows_close(&windows);
    kit_close(&kit);
}

static void test_alone(void)
{
    struct kit kit;
    struct windows windows;
    kit_open(&kit, 1, 1, 1);
    windows_open(&windows, &kit, 2 * (size_t)MIB);
    run_ring(&windows, MIB / 2 + 1, 3, MIB + GUARD);
    windows_close(&windows);
    kit_close(&kit);
}

/* ---- threads ---- */

/* Both neighbours put into two halves of the target, round after round; a rank tells both when it
 * has looked. */
static void run_both_ways(void *arg, int i)
{
    struct windows *windows = arg;
    struct kit *kit = windows->kit;
    size_t bytes = windows->bytes / 4;
    int left = before(kit, i), right = behind(kit, i);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct windows_put to_left = {0, 3 * bytes, bytes, left},
                           to_right = {bytes, 2 * bytes, bytes, right};
        windows_fill(windows, i, 0, bytes, round * 100 + (uint32_t)i);
        windows_fill(windows, i, bytes, bytes, round * 100 + 50 + (uint32_t)i);
        CHECK_OK(windows_put(windows, i, &to_left));
        CHECK_OK(windows_put(windows, i, &to_right));
        CHECK_OK(windows_wait(windows, i, left, 1));
        CHECK_OK(windows_wait(windows, i, right, 1));
        windows_expect(windows, i, 2 * bytes, bytes, round * 100 + 50 + (uint32_t)left);
        windows_expect(windows, i, 3 * bytes, bytes, round * 100 + (uint32_t)right);
        CHECK_OK(windows_signal(windows, i, left));
        CHECK_OK(windows_signal(windows, i, right));
        CHECK_OK(windows_wait(windows, i, left, 1));
        CHECK_OK(windows_wait(windows, i, right, 1));
    }
    kit_sync(&kit->ranks[i]);
}

static void test_both_ways(void)
{
    for (int n = 3; n <= 8; n += 5) {
        struct kit kit;
        struct windows windows;
        kit_open(&kit, n, test_devices(2), 1);
        windows_open(&windows, &kit, 40000);
        kit_threads(n, run_both_ways, &windows);
        windows_close(&windows);
        kit_close(&kit);
    }
}

/* A token goes round: each rank sends on what it has got, without looking. */
static void test_chain(void)
{
    struct kit kit;
    struct windows windows;
    kit_open(&kit, 4, test_devices(2), 1);
    windows_open(&windows, &kit, 2 * 5000);
    windows_fill(&windows, 0, 0, 5000, 4711);
    struct windows_put on = {0, 0, 5000, 0};
    for (int i = 3; i >= 0; i--) { /* the first to go on calls last */
        on.peer = behind(&kit, i);
        if (i > 0) CHECK_OK(windows_wait(&windows, i, i - 1, 1));
        if (i < 3) CHECK_OK(windows_put(&windows, i, &on));
    }
    sync_all(&kit);
    windows_expect(&windows, 3, 0, 5000, 4711);
    windows_close(&windows);
    kit_close(&kit);
}

/* ---- signals ---- */

static void test_many_ahead(void)
{
    struct kit kit;
    struct windows windows;
    kit_open(&kit, 2, test_devices(2), 1);
    windows_open(&windows, &kit, 4096);
    for (int i = 0; i < MANY; i++) CHECK_OK(windows_signal(&windows, 0, 1));
    kit_sync(&kit.ranks[0]);
    CHECK_OK(windows_wait(&windows, 1, 0, 1));
    CHECK_OK(windows_wait(&windows, 1, 0, MANY - 3));
    CHECK_OK(windows_wait(&windows, 1, 0, 2));
    kit_sync(&kit.ranks[1]);
    /* All were taken: the next wait is for the next signal. */
    CHECK_OK(windows_wait(&windows, 1, 0, 1));
    kit_await_status(kit.ranks[1].comm, "WaitSignal: waits for a signal of ranks 0");
    CHECK_OK(windows_signal(&windows, 0, 1));
    sync_all(&kit);
    windows_close(&windows);
    kit_close(&kit);
}

/* One call waits for several peers and for several signals of one; each is taken once. */
static void test_several_peers(void)
{
    struct kit kit;
    struct windows windows;
    kit_open(&kit, 4, test_devices(2), 1);
    windows_open(&windows, &kit, 4096);
    const ncclWaitSignalDesc_t descs[] = {{2, 1, 0, 0}, {1, 2, 0, 0}, {3, 3, 0, 0}, {1, 1, 0, 0}};
    ncclWaitSignalDesc_t given[TEST_COUNT(descs)];
    memcpy(given, descs, sizeof given);
    CHECK_OK(ncclWaitSignal((int)TEST_COUNT(descs), given, kit.ranks[0].comm, kit.ranks[0].stream));
    memset(given, 0x5a, sizeof given); /* they were read */
    for (int i = 0; i < 3; i++) CHECK_OK(windows_signal(&windows, 1, 0));
    for (int i = 0; i < 3; i++) CHECK_OK(windows_signal(&windows, 3, 0));
    kit_await_status(kit.ranks[0].comm, "WaitSignal: waits for a signal of ranks 2");
    CHECK_OK(windows_signal(&windows, 2, 0));
    sync_all(&kit);
    windows_close(&windows);
    kit_close(&kit);
}

/* More descriptions than a kernel takes. */
static void test_many_descs(void)
{
    enum { NDESCS = 200 };
    static ncclWaitSignalDesc_t descs[NDESCS];
    struct kit kit;
    struct windows windows;
    kit_open(&kit, 2, 1, 1);
    windows_open(&windows, &kit, 4096);
    for (int d = 0; d < NDESCS; d++) descs[d] = (ncclWaitSignalDesc_t){1, d % 2, 0, 0};
    CHECK_OK(ncclGroupStart());
    for (int d = 0; d < NDESCS; d++) CHECK_OK(windows_signal(&windows, d % 2, 0));
    CHECK_OK(ncclWaitSignal(NDESCS, descs, kit.ranks[0].comm, kit.ranks[0].stream));
    CHECK_OK(ncclGroupEnd());
    sync_all(&kit);
    windows_close(&windows);
    kit_close(&kit);
}

/* Two streams of a rank take signals of one peer: all of them, none twice. */
static void test_two_streams(void)
{
    struct kit kit;
    struct windows windows;
    cudaStream_t other;
    kit_open(&kit, 2, 1, 1);
    windows_open(&windows, &kit, 4096);
    CHECK_OK(chorus_devices()->stream_create(&other));
    for (int round = 0; round < ROUNDS; round++) {
        ncclWaitSignalDesc_t desc = {1, 0, 0, 0};
        for (int i = 0; i < 4; i++) {
            CHECK_OK(windows_wait(&windows, 1, 0, 1));
            CHECK_OK(ncclWaitSignal(1, &desc, kit.ranks[1].comm, other));
        }
        for (int i = 0; i < 8; i++) CHECK_OK(windows_signal(&windows, 0, 1));
        sync_all(&kit);
        CHECK_OK(chorus_devices()->stream_sync(other));
    }
    CHECK_OK(chorus_devices()->stream_destroy(other));
    windows_close(&windows);
    kit_close(&kit);
}

/* ---- groups ---- */

/* Puts to one place go in the order of their calls. */
static void test_group_order(void)
{
    enum { NPUTS = 64, BYTES = 3000 };
    struct kit kit;
    struct windows windows;
    kit_open(&kit, 2, test_devices(2), 1);
    windows_open(&windows, &kit, (NPUTS + 1) * (size_t)BYTES);
    for (uint32_t p = 0; p < NPUTS; p++) windows_fill(&windows, 0, p * BYTES, BYTES, p);
    CHECK_OK(ncclGroupStart());
    for (size_t p = 0; p < NPUTS; p++) {
        struct windows_put put = {p * BYTES, NPUTS * (size_t)BYTES, BYTES, 1};
        CHECK_OK(windows_put(&windows, 0, &put));
    }
    CHECK_OK(windows_wait(&windows, 1, 0, NPUTS));
    CHECK_OK(ncclGroupEnd());
    windows_expect(&windows, 1, NPUTS * (size_t)BYTES, BYTES, NPUTS - 1);
    windows_close(&windows);
    kit_close(&kit);
}

/* Ranks that share a stream wait for each other in one group. */
static void test_equal_streams(void)
{
    struct kit kit;
    struct windows windows;
    kit_open(&kit, 4, 1, 1);
    windows_open(&windows, &kit, 4096);
    cudaStream_t own[4];
    for (int i = 0; i < 4; i++) own[i] = kit.ranks[i].stream;
    for (int i = 0; i < 4; i++) kit.ranks[i].stream = own[0];
    run_ring(&windows, 1000, 3, 2048);
    for (int i = 0; i < 4; i++) kit.ranks[i].stream = own[i];
    windows_close(&windows);
    kit_close(&kit);
}

/* A group of all kinds of operations of one communicator. */
static void test_mixed_group(void)
{
    struct kit kit;
    struct windows windows;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, 1000);
    kit_open(&kit, 3, 1, 1000);
    windows_open(&windows, &kit, 4096);
    for (int i = 0; i < kit.nranks; i++) {
        kit_prepare(&kit.ranks[i], &op);
        windows_fill(&windows, i, 0, 1000, (uint32_t)i);
    }
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < kit.nranks; i++) {
        struct windows_put put = {0, 2048, 1000, behind(&kit, i)};
        CHECK_OK(kit_call(&kit.ranks[i], &op));
        CHECK_OK(windows_put(&windows, i, &put));
        CHECK_OK(windows_wait(&windows, i, before(&kit, i), 1));
    }
    CHECK_OK(ncclGroupEnd());
    for (int i = 0; i < kit.nranks; i++) {
        kit_check(&kit.ranks[i], &op);
        windows_expect(&windows, i, 2048, 1000, (uint32_t)before(&kit, i));
    }
    windows_close(&windows);
    kit_close(&kit);
}

/* ---- ends ---- */

static void test_abort(void)
{
    struct kit kit;
    struct windows windows;
    kit_open(&kit, 3, test_devices(2), 1);
    windows_open(&windows, &kit, 4096);
    CHECK_OK(windows_wait(&windows, 0, 1, 1));
    CHECK_OK(windows_wait(&windows, 2, 1, 1));
    kit_await_status(kit.ranks[2].comm, "WaitSignal: waits for a signal of ranks 1");
    CHECK_OK(ncclCommAbort(kit.ranks[1].comm));
    kit.ranks[1].comm = NULL;
    kit_await_error(&kit.ranks[0], ncclRemoteError, "rank 1 on host");
    kit_await_error(&kit.ranks[2], ncclRemoteError, "rank 1 on host");
    sync_all(&kit);
    CHECK_EQ(windows_signal(&windows, 0, 2), ncclRemoteError);
    for (int i = 0; i < 3; i += 2) {
        CHECK_OK(ncclCommAbort(kit.ranks[i].comm));
        kit.ranks[i].comm = NULL;
    }
    windows_close(&windows);
    kit_close(&kit);
}

/* A rank aborts what it waits for itself. */
static void test_abort_own(void)
{
    struct kit kit;
    struct windows windows;
    kit_open(&kit, 2, 1, 1);
    windows_open(&windows, &kit, 4096);
    CHECK_OK(windows_wait(&windows, 0, 1, 5));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ncclCommAbort(kit.ranks[i].comm));
        kit.ranks[i].comm = NULL;
    }
    sync_all(&kit);
    windows_close(&windows);
    kit_close(&kit);
}

static const struct test_case cases[] = {
    {"rma: every size to 8 MiB, at any place", test_sizes, 120},
    {"rma: every type", test_types, 0},
    {"rma: edges of a window, and oneself", test_edges, 0},
    {"rma: a rank alone", test_alone, 0},
    {"rma: both ways, from threads", test_both_ways, 120},
    {"rma: a rank sends on what it was sent", test_chain, 0},
    {"rma: a thousand signals ahead", test_many_ahead, 0},
    {"rma: a wait for several peers", test_several_peers, 0},
    {"rma: a wait for two hundred", test_many_descs, 0},
    {"rma: two streams take signals of one peer", test_two_streams, 0},
    {"rma: puts of a group keep their order", test_group_order, 0},
    {"rma: equal streams", test_equal_streams, 0},
    {"rma: a group of collectives and puts", test_mixed_group, 0},
    {"rma: an abort ends waits and names its rank", test_abort, 0},
    {"rma: an abort of the own wait", test_abort_own, 0},
};
TEST_LIB_MAIN(cases)
