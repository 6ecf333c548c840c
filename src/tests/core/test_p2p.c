/* Send and receive between the ranks of a process: order, sizes, groups, threads, streams, and
 * what must be refused. Every message has a content of its own, so that a swap shows. */
#include "core/kit.h"
#include "unit/memory.h"

#include <stdio.h>
#include <string.h>

enum { COUNT = 512, MESSAGES = 64 };

/* Element i of message `message` from a rank to another. */
static int32_t content(int from, int to, int message, size_t i)
{
    uint32_t state = (uint32_t)from * 7919u + (uint32_t)to * 104729u + (uint32_t)message * 1299709u;
    return (int32_t)(kit_random(&state) + (uint32_t)i);
}

static int32_t *in_of(struct kit_rank *rank, size_t elem)
{
    return (int32_t *)(void *)rank->in + elem;
}

static int32_t *out_of(struct kit_rank *rank, size_t elem)
{
    return (int32_t *)(void *)rank->out + elem;
}

static ncclResult_t send_to(struct kit_rank *rank, size_t elem, size_t count, int peer)
{
    return ncclSend(in_of(rank, elem), count, ncclInt32, peer, rank->comm, rank->stream);
}

static ncclResult_t recv_from(struct kit_rank *rank, size_t elem, size_t count, int peer)
{
    return ncclRecv(out_of(rank, elem), count, ncclInt32, peer, rank->comm, rank->stream);
}

static void clear(struct kit *kit)
{
    for (int r = 0; r < kit->nranks; r++) {
        memset(kit->ranks[r].in, 0x5a, kit->ranks[r].room);
        memset(kit->ranks[r].out, 0x5a, kit->ranks[r].room);
    }
}

static void put(struct kit_rank *rank, size_t elem, size_t count, int to, int message)
{
    for (size_t i = 0; i < count; i++) in_of(rank, elem)[i] = content(rank->rank, to, message, i);
}

static void check(struct kit_rank *rank, size_t elem, size_t count, int from, int message)
{
    for (size_t i = 0; i < count; i++)
        if (out_of(rank, elem)[i] != content(from, rank->rank, message, i))
            FAIL("rank %d, message %d of rank %d: element %zu of %zu is %d, not %d", rank->rank,
                 message, from, i, count, out_of(rank, elem)[i],
                 content(from, rank->rank, message, i));
}

static void sync_all(struct kit *kit)
{
    for (int r = 0; r < kit->nranks; r++) kit_sync(&kit->ranks[r]);
}

/* ---- all-to-all in all orders of calls ---- */

enum { BY_RANK, BY_PEER, SENDS_FIRST, BACKWARDS, SHUFFLED, NORDERS };

struct call {
    int rank, peer, is_send;
};

static int list_calls(int n, struct call *calls, int order)
{
    int ncalls = 0;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            for (int s = 1; s >= 0; s--) {
                struct call by_rank = {a, b, s}, by_peer = {b, a, s};
                calls[ncalls++] = order == BY_PEER ? by_peer : by_rank;
            }
    uint32_t state = 77;
    for (int i = 0; i < ncalls; i++) {
        int j = i;
        if (order == BACKWARDS) j = i < ncalls / 2 ? ncalls - 1 - i : i;
        if (order == SHUFFLED) j = (int)(kit_random(&state) % (uint32_t)ncalls);
        struct call swapped = calls[i];
        calls[i] = calls[j];
        calls[j] = swapped;
    }
    return ncalls;
}

static void post(struct kit *kit, const struct call *call)
{
    struct kit_rank *rank = &kit->ranks[call->rank];
    size_t elem = (size_t)call->peer * COUNT;
    CHECK_OK(call->is_send ? send_to(rank, elem, COUNT, call->peer)
                           : recv_from(rank, elem, COUNT, call->peer));
}

static void run_order(struct kit *kit, int order)
{
    struct call calls[2 * 64];
    int n = kit->nranks, ncalls = list_calls(n, calls, order);
    clear(kit);
    for (int r = 0; r < n; r++)
        for (int p = 0; p < n; p++) put(&kit->ranks[r], (size_t)p * COUNT, COUNT, p, 0);
    CHECK_OK(ncclGroupStart());
    for (int s = 1; s >= 0; s--)
        for (int i = 0; i < ncalls; i++)
            if (order != SENDS_FIRST ? s == 1 : calls[i].is_send == s) post(kit, &calls[i]);
    CHECK_OK(ncclGroupEnd());
    sync_all(kit);
    for (int r = 0; r < n; r++)
        for (int p = 0; p < n; p++) check(&kit->ranks[r], (size_t)p * COUNT, COUNT, p, 0);
}

static void run_orders(void)
{
    for (int n = 1; n <= 8; n++) {
        struct kit kit;
        int ndevices;
        CHECK_OK(chorus_devices()->count(&ndevices));
        kit_open(&kit, n, ndevices < n ? ndevices : n, COUNT);
        for (int order = 0; order < NORDERS; order++) run_order(&kit, order);
        kit_close(&kit);
    }
}

static void child_orders(void)
{
    run_orders();
}

static void test_orders(void)
{
    kit_child("child:orders", (const char *const[]){"CHORUS_HOST_DEVICES=1", NULL});
    kit_child("child:orders", (const char *const[]){"CHORUS_HOST_DEVICES=3", NULL});
    kit_child("child:orders",
              (const char *const[]){"CHORUS_HOST_DEVICES=1", "CHORUS_HOST_QUEUES=1", NULL});
    kit_child("child:orders",
              (const char *const[]){"CHORUS_HOST_DEVICES=2", "CHORUS_HOST_QUEUES=1", NULL});
}

/* ---- a ring in a group, called rank by rank on one shared stream per device ---- */

static void test_default_stream(void)
{
    struct kit kit;
    kit_open(&kit, 4, 2, COUNT);
    clear(&kit);
    for (int r = 0; r < 4; r++) put(&kit.ranks[r], 0, COUNT, (r + 1) % 4, 0);
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < 4; r++) {
        struct kit_rank *rank = &kit.ranks[r];
        CHECK_OK(ncclSend(in_of(rank, 0), COUNT, ncclInt32, (r + 1) % 4, rank->comm, NULL));
        CHECK_OK(ncclRecv(out_of(rank, 0), COUNT, ncclInt32, (r + 3) % 4, rank->comm, NULL));
    }
    CHECK_OK(ncclGroupEnd());
    for (int r = 0; r < 4; r++) {
        CHECK_OK(chorus_devices()->set(test_device(r % 2)));
        CHECK_OK(chorus_devices()->stream_sync(NULL));
        check(&kit.ranks[r], 0, COUNT, (r + 3) % 4, 0);
    }
    CHECK_OK(chorus_devices()->set(0));
    kit_close(&kit);
}

/* ---- order per pair ---- */

/* Sizes differ, so that a message in the wrong place is an error by itself. */
static size_t size_of(int message)
{
    return (size_t)(message * 7 % 8);
}

static void send_many(struct kit_rank *rank, int peer)
{
    for (int m = 0; m < MESSAGES; m++) CHECK_OK(send_to(rank, (size_t)m * 8, size_of(m), peer));
}

static void recv_many(struct kit_rank *rank, int peer)
{
    for (int m = 0; m < MESSAGES; m++) CHECK_OK(recv_from(rank, (size_t)m * 8, size_of(m), peer));
}

static void fill_many(struct kit *kit)
{
    clear(kit);
    for (int m = 0; m < MESSAGES; m++) put(&kit->ranks[0], (size_t)m * 8, size_of(m), 1, m);
}

static void check_many(struct kit *kit)
{
    sync_all(kit);
    for (int m = 0; m < MESSAGES; m++) check(&kit->ranks[1], (size_t)m * 8, size_of(m), 0, m);
}

static void call_many(void *arg, int i)
{
    struct kit *kit = arg;
    if (i == 0) send_many(&kit->ranks[0], 1);
    if (i == 1) recv_many(&kit->ranks[1], 0);
}

static void test_pair_order(void)
{
    for (int ndevices = 1; ndevices <= 2; ndevices++) {
        struct kit kit;
        kit_open(&kit, 2, ndevices, COUNT);
        for (int recv_first = 0; recv_first < 2; recv_first++) {
            fill_many(&kit);
            call_many(&kit, recv_first);
            call_many(&kit, 1 - recv_first);
            check_many(&kit);
            fill_many(&kit);
            CHECK_OK(ncclGroupStart());
            call_many(&kit, recv_first);
            call_many(&kit, 1 - recv_first);
            CHECK_OK(ncclGroupEnd());
            check_many(&kit);
        }
        for (int round = 0; round < 5; round++) {
            fill_many(&kit);
            kit_threads(2, call_many, &kit);
            check_many(&kit);
        }
        kit_close(&kit);
    }
}

/* Two messages of a pair on two streams of the sender, and two of the receiver. */
static void test_two_streams(void)
{
    struct kit kit;
    cudaStream_t more[2];
    kit_open(&kit, 2, 1, COUNT);
    for (int i = 0; i < 2; i++) CHECK_OK(chorus_devices()->stream_create(&more[i]));
    clear(&kit);
    for (int m = 0; m < 2; m++) put(&kit.ranks[0], (size_t)m * 100, 100, 1, m);
    cudaStream_t own[2] = {kit.ranks[0].stream, kit.ranks[1].stream};
    CHECK_OK(send_to(&kit.ranks[0], 0, 100, 1));
    kit.ranks[0].stream = more[0];
    CHECK_OK(send_to(&kit.ranks[0], 100, 100, 1));
    kit.ranks[1].stream = more[1];
    CHECK_OK(recv_from(&kit.ranks[1], 0, 100, 0));
    kit.ranks[1].stream = own[1];
    CHECK_OK(recv_from(&kit.ranks[1], 100, 100, 0));
    kit.ranks[0].stream = own[0];
    sync_all(&kit);
    for (int i = 0; i < 2; i++) CHECK_OK(chorus_devices()->stream_destroy(more[i]));
    for (int m = 0; m < 2; m++) check(&kit.ranks[1], (size_t)m * 100, 100, 0, m);
    kit_close(&kit);
}

/* ---- empty messages and messages to oneself ---- */

static void test_empty(void)
{
    struct kit kit;
    kit_open(&kit, 2, 2, COUNT);
    clear(&kit);
    put(&kit.ranks[0], 0, 5, 1, 1);
    CHECK_OK(ncclSend(NULL, 0, ncclInt32, 1, kit.ranks[0].comm, kit.ranks[0].stream));
    CHECK_OK(send_to(&kit.ranks[0], 0, 5, 1));
    CHECK_OK(ncclRecv(NULL, 0, ncclInt32, 0, kit.ranks[1].comm, kit.ranks[1].stream));
    CHECK_OK(recv_from(&kit.ranks[1], 0, 5, 0));
    sync_all(&kit);
    check(&kit.ranks[1], 0, 5, 0, 1);
    CHECK_EQ(out_of(&kit.ranks[1], 5)[0], 0x5a5a5a5a);
    kit_close(&kit);
}

static void test_self(void)
{
    struct kit kit;
    kit_open(&kit, 1, 1, COUNT);
    clear(&kit);
    for (int m = 0; m < 3; m++) put(&kit.ranks[0], (size_t)m * 10, 10, 0, m);
    CHECK_OK(ncclGroupStart());
    for (int m = 0; m < 3; m++) CHECK_OK(send_to(&kit.ranks[0], (size_t)m * 10, 10, 0));
    for (int m = 0; m < 3; m++) CHECK_OK(recv_from(&kit.ranks[0], (size_t)m * 10, 10, 0));
    CHECK_OK(ncclGroupEnd());
    sync_all(&kit);
    for (int m = 0; m < 3; m++) check(&kit.ranks[0], (size_t)m * 10, 10, 0, m);
    kit_close(&kit);
}

static void test_self_alone(void)
{
    for (int is_send = 0; is_send < 2; is_send++) {
        struct kit kit;
        kit_open(&kit, 2, 1, COUNT);
        struct kit_rank *rank = &kit.ranks[1];
        CHECK_EQ(is_send ? send_to(rank, 0, 1, 1) : recv_from(rank, 0, 1, 1), ncclInvalidUsage);
        CHECK_HAS(ncclGetLastError(NULL),
                  is_send ? "rank 1 sends to itself" : "rank 1 receives from itself");
        kit_await_error(&kit.ranks[0], ncclInvalidUsage, "rank 1");
        kit_close(&kit);
    }
}

/* ---- what must be refused ---- */

static void test_sizes_differ(void)
{
    for (int recv_first = 0; recv_first < 2; recv_first++) {
        struct kit kit;
        kit_open(&kit, 2, 2, COUNT);
        ncclResult_t first, second;
        if (recv_first) {
            first = recv_from(&kit.ranks[1], 0, 4, 0);
            second = send_to(&kit.ranks[0], 0, 5, 1);
        } else {
            first = send_to(&kit.ranks[0], 0, 5, 1);
            second = recv_from(&kit.ranks[1], 0, 4, 0);
        }
        CHECK_EQ(first, ncclSuccess);
        /* Of two devices the sizes meet in the receiver's kernel. */
        CHECK_EQ(second, kit.ndevices == 2 ? ncclSuccess : ncclInvalidUsage);
        for (int r = 0; r < 2; r++)
            kit_await_error(&kit.ranks[r], ncclInvalidUsage,
                            "rank 0 sends 20 bytes to rank 1, which receives 16");
        sync_all(&kit);
        kit_close(&kit);
    }
}

static void test_equal_streams(void)
{
    struct kit kit;
    kit_open(&kit, 2, 1, COUNT);
    cudaStream_t own = kit.ranks[1].stream;
    kit.ranks[1].stream = kit.ranks[0].stream;
    clear(&kit);
    put(&kit.ranks[0], 0, 9, 1, 0);
    CHECK_OK(ncclGroupStart());
    CHECK_OK(send_to(&kit.ranks[0], 0, 9, 1));
    CHECK_OK(recv_from(&kit.ranks[1], 0, 9, 0));
    CHECK_OK(ncclGroupEnd());
    sync_all(&kit);
    check(&kit.ranks[1], 0, 9, 0, 0);
    CHECK_OK(send_to(&kit.ranks[0], 0, 9, 1));
    CHECK_EQ(recv_from(&kit.ranks[1], 0, 9, 0), ncclInvalidUsage);
    CHECK_HAS(ncclGetLastError(NULL), "ranks 0 and 1 send and receive on the same stream");
    kit.ranks[1].stream = own;
    kit_close(&kit);
}

/* ---- threads, 64 messages to every peer in one group each ---- */

static void exchange(void *arg, int i)
{
    struct kit *kit = arg;
    struct kit_rank *rank = &kit->ranks[i];
    int n = kit->nranks;
    CHECK_OK(ncclGroupStart());
    for (int m = 0; m < MESSAGES; m++)
        for (int p = 0; p < n; p++) {
            CHECK_OK(send_to(rank, (size_t)(p * MESSAGES + m) * 8, 8, p));
            CHECK_OK(recv_from(rank, (size_t)(p * MESSAGES + m) * 8, 8, p));
        }
    CHECK_OK(ncclGroupEnd());
    kit_sync(rank);
    for (int m = 0; m < MESSAGES; m++)
        for (int p = 0; p < n; p++) check(rank, (size_t)(p * MESSAGES + m) * 8, 8, p, m);
}

static void test_many_per_peer(void)
{
    for (int ndevices = 1; ndevices <= 4; ndevices += 3) {
        struct kit kit;
        kit_open(&kit, 4, ndevices, COUNT);
        for (int round = 0; round < 10; round++) {
            clear(&kit);
            for (int r = 0; r < 4; r++)
                for (int p = 0; p < 4; p++)
                    for (int m = 0; m < MESSAGES; m++)
                        put(&kit.ranks[r], (size_t)(p * MESSAGES + m) * 8, 8, p, m);
            kit_threads(4, exchange, &kit);
        }
        kit_close(&kit);
    }
}

/* ---- rings of messages, many groups ahead of the device ---- */

enum { RING_GROUPS = 60, RING_BYTES = 512 };

/* Two messages a group whose other halves are called by two other threads. */
static void run_ring(void *arg, int i)
{
    struct kit *kit = arg;
    struct kit_rank *rank = &kit->ranks[i];
    int n = rank->nranks, next = (i + 1) % n, before = (i + n - 1) % n;
    char *from = test_memory_alloc(RING_BYTES), *to = test_memory_alloc(RING_BYTES);
    memset(from, i + 1, RING_BYTES);
    memset(to, 0, RING_BYTES);
    for (int group = 0; group < RING_GROUPS; group++) {
        CHECK_OK(ncclGroupStart());
        CHECK_OK(ncclSend(from, RING_BYTES, ncclInt8, next, rank->comm, rank->stream));
        CHECK_OK(ncclRecv(to, RING_BYTES, ncclInt8, before, rank->comm, rank->stream));
        CHECK_OK(ncclGroupEnd());
    }
    kit_sync(rank);
    memset(from, before + 1, RING_BYTES);
    CHECK_MEM(to, from, RING_BYTES);
    test_memory_free(from);
    test_memory_free(to);
}

static void test_ring(void)
{
    for (int n = 2; n <= 8; n += n == 4 ? 4 : 1) {
        struct kit kit;
        kit_open(&kit, n, 1, 1);
        kit_threads(n, run_ring, &kit);
        kit_close(&kit);
    }
}

static const struct test_case cases[] = {
    {"all-to-all in any order of calls", test_orders, 0},
    {"ring on the default streams", test_default_stream, 0},
    {"order of the messages of a pair", test_pair_order, 0},
    {"messages of a pair on two streams", test_two_streams, 0},
    {"empty messages", test_empty, 0},
    {"messages to oneself", test_self, 0},
    {"messages to oneself without a match", test_self_alone, 0},
    {"sizes differ", test_sizes_differ, 0},
    {"equal streams", test_equal_streams, 0},
    {"64 messages to every peer from threads", test_many_per_peer, 0},
    {"rings of messages, many groups ahead", test_ring, 120},
    {"child:orders", child_orders, 0},
};
TEST_LIB_MAIN(cases)
