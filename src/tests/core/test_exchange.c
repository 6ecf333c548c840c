/* Messages and groups as programs really use them: random matrices with empty legs, many unequal
 * broadcasts in a group, several communicators in one, one side grouped and the other not, no
 * group at all, opposite orders. */
#include "core/procs.h"
#include "unit/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- random matrices: up to three messages from each rank to each, its own included ---- */

enum { MATRIX_RANKS = 4, PER_PAIR = 3, MOST = 300, PAIR_BYTES = PER_PAIR * MOST };

static size_t pair_size(uint32_t seed, int from, int to, int message)
{
    uint32_t state = seed * 31 + (uint32_t)((from * 8 + to) * 8 + message);
    uint32_t pick = kit_random(&state);
    return pick % 10 < 3 ? 0 : 1 + (pick >> 8) % MOST;
}

static int pair_count(uint32_t seed, int from, int to)
{
    uint32_t state = seed * 77 + (uint32_t)(from * 8 + to);
    return (int)(kit_random(&state) % (PER_PAIR + 1));
}

static char pair_byte(uint32_t seed, int from, int to, int message, size_t i)
{
    uint32_t key = seed * 131 + (uint32_t)(from * 59 + to * 17 + message * 5);
    return (char)(key + (uint32_t)i * 7);
}

static size_t pair_at(int peer, int message)
{
    return (size_t)(peer * PAIR_BYTES + message * MOST);
}

static void fill_matrix(struct kit_rank *rank, uint32_t seed)
{
    memset(rank->out, 0x33, rank->room);
    for (int to = 0; to < rank->nranks; to++)
        for (int m = 0; m < PER_PAIR; m++)
            for (size_t i = 0; i < MOST; i++)
                rank->in[pair_at(to, m) + i] = pair_byte(seed, rank->rank, to, m, i);
    kit_push(rank, rank->room);
}

/* Peers in a random order, sends before receives or after; per pair in order. */
static void post_matrix(struct kit_rank *rank, uint32_t seed)
{
    int n = rank->nranks;
    uint32_t state = seed + (uint32_t)rank->rank, first = kit_random(&state);
    for (int m = 0; m < PER_PAIR; m++)
        for (int i = 0; i < 2 * n; i++) {
            int peer = (int)((first + (uint32_t)i) % (uint32_t)n);
            int is_send = (i < n) == (int)(first >> 16 & 1);
            int from = is_send ? rank->rank : peer, to = is_send ? peer : rank->rank;
            size_t bytes = pair_size(seed, from, to, m);
            char *base = (is_send ? rank->in : rank->out) + pair_at(peer, m);
            if (m >= pair_count(seed, from, to)) continue;
            base = bytes == 0 && m % 2 == 0 ? NULL : kit_given(rank, base);
            CHECK_OK(is_send ? ncclSend(base, bytes, ncclInt8, peer, rank->comm, rank->stream)
                             : ncclRecv(base, bytes, ncclUint8, peer, rank->comm, rank->stream));
        }
}

static void check_matrix(struct kit_rank *rank, uint32_t seed)
{
    kit_sync(rank);
    kit_pull(rank, rank->room);
    for (int from = 0; from < rank->nranks; from++)
        for (int m = 0; m < PER_PAIR; m++) {
            int is_sent = m < pair_count(seed, from, rank->rank);
            size_t bytes = is_sent ? pair_size(seed, from, rank->rank, m) : 0;
            for (size_t i = 0; i < MOST; i++) {
                char wanted = i < bytes ? pair_byte(seed, from, rank->rank, m, i) : 0x33;
                if (rank->out[pair_at(from, m) + i] != wanted)
                    FAIL("seed %u: rank %d, message %d of rank %d: byte %zu of %zu differs", seed,
                         rank->rank, m, from, i, bytes);
            }
        }
}

static void run_matrices(struct kit *kit, int rounds)
{
    if (kit_is_slow() || test_on_gpu()) rounds /= 5;
    for (int round = 0; round < rounds; round++) {
        uint32_t seed = 4000u + (uint32_t)round;
        for (int r = 0; r < kit->nranks; r++) fill_matrix(&kit->ranks[r], seed);
        CHECK_OK(ncclGroupStart());
        for (int r = 0; r < kit->nranks; r++) post_matrix(&kit->ranks[r], seed);
        CHECK_OK(ncclGroupEnd());
        for (int r = 0; r < kit->nranks; r++) check_matrix(&kit->ranks[r], seed);
    }
}

/* A rank of a thread: its own group, which the others join when they like. */
static void matrices_of_rank(void *arg, int i)
{
    struct kit alone = {.nranks = 1};
    alone.ranks[0] = ((struct kit *)arg)->ranks[i];
    run_matrices(&alone, 150);
}

static void test_matrices(void)
{
    for (int ndevices = 1; ndevices <= 3; ndevices += 2) {
        struct kit kit;
        kit_open(&kit, MATRIX_RANKS, ndevices, PAIR_BYTES);
        run_matrices(&kit, 200);
        kit_threads(MATRIX_RANKS, matrices_of_rank, &kit);
        kit_close(&kit);
    }
}

static void child_matrices(void)
{
    struct kit kit;
    proc_open(&kit, 2, PAIR_BYTES);
    run_matrices(&kit, 150);
    kit_close(&kit);
}

static void test_matrices_across(void)
{
    static const char *const slots[] = {"CHORUS_SLOT_BYTES=1024", "CHORUS_SLOT_BYTES=131072"};
    for (int s = 0; s < 2; s++) {
        struct procs procs;
        procs_start(&procs, 2, "child:matrices", (const char *const[]){slots[s], NULL});
        procs_end(&procs, -1);
    }
}

/* ---- unequal broadcasts of all roots in one group ---- */

enum { CASTS = 50, CAST_MOST = 8 << 20 };

/* Sizes from 1 byte to 8 MiB, but few are large. */
static size_t cast_size(int cast)
{
    if (cast == CASTS - 1) return CAST_MOST;
    return (size_t)1 + ((size_t)1 << cast % 18) * (size_t)(cast % 3);
}

static void run_casts(struct kit *kit)
{
    int n = kit->ranks[0].nranks;
    size_t total = 0;
    for (int c = 0; c < CASTS; c++) total += cast_size(c);
    char *buffers[KIT_MAX_RANKS];
    for (int r = 0; r < kit->nranks; r++) {
        size_t at = 0;
        buffers[r] = test_memory_alloc(total + 1);
        memset(buffers[r], 0x44, total + 1);
        for (int c = 0; c < CASTS; at += cast_size(c++))
            if (c % n == kit->ranks[r].rank) memset(buffers[r] + at, c, cast_size(c));
    }
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < kit->nranks; r++) {
        struct kit_rank *rank = &kit->ranks[r];
        char *at = buffers[r];
        for (int c = 0; c < CASTS; at += cast_size(c++))
            CHECK_OK(
                ncclBroadcast(at, at, cast_size(c), ncclInt8, c % n, rank->comm, rank->stream));
    }
    CHECK_OK(ncclGroupEnd());
    for (int r = 0; r < kit->nranks; r++) {
        char *at = buffers[r];
        kit_sync(&kit->ranks[r]);
        for (int c = 0; c < CASTS; at += cast_size(c++))
            for (size_t i = 0; i < cast_size(c); i++)
                if (at[i] != (char)c) FAIL("rank %d, broadcast %d, byte %zu", r, c, i);
        CHECK_EQ(*at, 0x44);
    }
    for (int r = 0; r < kit->nranks; r++) test_memory_free(buffers[r]);
}

static void child_casts(void)
{
    struct kit kit;
    proc_open(&kit, 1, 1);
    run_casts(&kit);
    kit_close(&kit);
}

static void test_casts(void)
{
    struct procs procs;
    for (int ndevices = 1; ndevices <= 3; ndevices += 2) {
        struct kit kit;
        kit_open(&kit, 3, ndevices, 1);
        run_casts(&kit);
        kit_close(&kit);
    }
    procs_start(&procs, 3, "child:casts", NULL);
    procs_end(&procs, -1);
}

/* ---- three communicators of different size, ten calls of each rank in one group ---- */

enum { COMMS = 3, CALLS = 10, BLOCK = 50 };

static void run_comms(int by_call)
{
    static struct kit kits[COMMS][CALLS]; /* buffers of a call each, communicators of the first */
    struct kit_op ops[COMMS][CALLS];
    uint32_t state = 6;
    for (int k = 0; k < COMMS; k++)
        for (int c = 0; c < CALLS; c++) {
            int n = 2 + k;
            kit_open(&kits[k][c], n, 1 + k, BLOCK);
            ops[k][c] = kit_simple((enum kit_coll)(kit_random(&state) % KIT_NCOLLS), BLOCK);
            ops[k][c].root = (int)(kit_random(&state) % (uint32_t)n);
            ops[k][c].seed = kit_random(&state);
            for (int r = 0; r < n; r++) {
                struct kit_rank *rank = &kits[k][c].ranks[r];
                CHECK_OK(c > 0 ? ncclCommDestroy(rank->comm) : ncclSuccess);
                rank->comm = kits[k][0].ranks[r].comm;
                kit_prepare(rank, &ops[k][c]);
            }
        }
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < COMMS * CALLS; i++) {
        int k = by_call ? i % COMMS : i / CALLS, c = by_call ? i / COMMS : i % CALLS;
        for (int r = 0; r < 2 + k; r++) CHECK_OK(kit_call(&kits[k][c].ranks[r], &ops[k][c]));
    }
    CHECK_OK(ncclGroupEnd());
    for (int k = 0; k < COMMS; k++)
        for (int c = CALLS - 1; c >= 0; c--)
            for (int r = 0; r < 2 + k; r++) {
                struct kit_rank *rank = &kits[k][c].ranks[r];
                kit_check(rank, &ops[k][c]);
                if (c > 0) rank->comm = NULL;
                kit_rank_close(rank);
            }
}

static void test_comms(void)
{
    run_comms(0);
    run_comms(1);
}

/* ---- no group, one thread ---- */

static void child_alone(void)
{
    for (int ndevices = 1; ndevices <= 3; ndevices++) {
        struct kit kit;
        kit_open(&kit, 3, ndevices, BLOCK);
        for (int coll = 0; coll < KIT_NCOLLS; coll++)
            for (int backwards = 0; backwards < 2; backwards++) {
                struct kit_op op = kit_simple((enum kit_coll)coll, BLOCK);
                for (int r = 0; r < 3; r++) kit_prepare(&kit.ranks[r], &op);
                for (int again = 0; again < 5; again++)
                    for (int r = 0; r < 3; r++)
                        CHECK_OK(kit_call(&kit.ranks[backwards ? 2 - r : r], &op));
                for (int r = 0; r < 3; r++) kit_check(&kit.ranks[r], &op);
            }
        kit_close(&kit);
    }
}

static void test_alone(void)
{
    kit_child("child:alone", (const char *const[]){"CHORUS_HOST_QUEUES=0", NULL});
    kit_child("child:alone", (const char *const[]){"CHORUS_HOST_QUEUES=1", NULL});
    kit_child("child:alone", (const char *const[]){"CHORUS_HOST_QUEUES=8", NULL});
}

/* ---- one side in a group, the other not ---- */

/* Sends and receives `bytes` with the other rank: in a group, or one after the other. */
static void swap_with(struct kit_rank *rank, char *to, char *from, size_t bytes, int order)
{
    int peer = 1 - rank->rank;
    if (order == 0) CHECK_OK(ncclGroupStart());
    for (int i = 0; i < 2; i++)
        CHECK_OK(i == order / 2 ? ncclSend(from, bytes, ncclInt8, peer, rank->comm, rank->stream)
                                : ncclRecv(to, bytes, ncclInt8, peer, rank->comm, rank->stream));
    if (order == 0) CHECK_OK(ncclGroupEnd());
}

struct swap {
    struct kit *kit;
    size_t bytes;
    int orders[2]; /* 0: in a group, 1: sends first, 2: receives first */
};

static void swap_rank(struct kit_rank *rank, size_t bytes, int order)
{
    char *from = test_memory_alloc(bytes), *to = test_memory_alloc(bytes);
    char mine = (char)(40 + rank->rank);
    memset(from, mine, bytes);
    memset(to, 0, bytes);
    swap_with(rank, to, from, bytes, order);
    kit_sync(rank);
    memset(from, 81 - mine, bytes);
    CHECK_MEM(to, from, bytes);
    test_memory_free(from);
    test_memory_free(to);
}

static void swap_one(void *arg, int i)
{
    struct swap *swap = arg;
    swap_rank(&swap->kit->ranks[i], swap->bytes, swap->orders[i]);
}

static const size_t swap_sizes[] = {4, 16 << 20};
static const int swap_orders[][2] = {{0, 1}, {2, 0}, {0, 2}, {1, 2}};

static void child_sides(void)
{
    struct kit kit;
    proc_open(&kit, 1, 1);
    for (size_t o = 0; o < TEST_COUNT(swap_orders); o++)
        for (size_t s = 0; s < TEST_COUNT(swap_sizes); s++)
            swap_rank(&kit.ranks[0], swap_sizes[s], swap_orders[o][proc_index()]);
    kit_close(&kit);
}

static void test_sides(void)
{
    struct procs procs;
    for (int ndevices = 1; ndevices <= 2; ndevices++) {
        struct kit kit;
        kit_open(&kit, 2, ndevices, 1);
        for (size_t o = 0; o < TEST_COUNT(swap_orders); o++)
            for (size_t s = 0; s < TEST_COUNT(swap_sizes); s++) {
                struct swap swap = {&kit, swap_sizes[s], {swap_orders[o][0], swap_orders[o][1]}};
                kit_threads(2, swap_one, &swap);
            }
        kit_close(&kit);
    }
    procs_start(&procs, 2, "child:sides", NULL);
    procs_end(&procs, -1);
}

/* Both send before they receive, on one stream each and without a group: the streams wait for
 * each other for ever, as the program says; only short messages would be done before they are
 * received. An abort ends it, which may overtake the calls of the other rank. */
enum { LONG_BYTES = 40000 };

static void expect_call(ncclResult_t rc)
{
    CHECK(rc == ncclSuccess || rc == ncclRemoteError);
}

static void wait_for_ever(struct kit *kit)
{
    for (int r = 0; r < kit->nranks; r++) {
        struct kit_rank *rank = &kit->ranks[r];
        int peer = 1 - rank->rank;
        const void *in = kit_given(rank, rank->in);
        void *out = kit_given(rank, rank->out);
        expect_call(ncclSend(in, LONG_BYTES, ncclInt8, peer, rank->comm, rank->stream));
        expect_call(ncclRecv(out, LONG_BYTES, ncclInt8, peer, rank->comm, rank->stream));
    }
}

static void child_ever(void)
{
    struct kit kit;
    proc_open(&kit, 1, LONG_BYTES);
    struct kit_rank *rank = &kit.ranks[0];
    wait_for_ever(&kit);
    if (rank->rank == 0) CHECK_OK(ncclCommAbort(rank->comm));
    if (rank->rank == 1) kit_await_error(rank, ncclRemoteError, "rank 0");
    kit_sync(rank);
    if (rank->rank == 1) CHECK_OK(ncclCommAbort(rank->comm));
    rank->comm = NULL;
    kit_close(&kit);
}

static void test_ever(void)
{
    struct kit kit;
    struct procs procs;
    kit_open(&kit, 2, 2, LONG_BYTES);
    wait_for_ever(&kit);
    /* On a GPU both messages are kernels by now. */
    const char *status = test_on_gpu() ? "running" : "(takes no data)";
    for (int r = 0; r < 2; r++) kit_await_status(kit.ranks[r].comm, status);
    for (int r = 0; r < 2; r++) {
        CHECK_OK(ncclCommAbort(kit.ranks[r].comm));
        kit.ranks[r].comm = NULL;
    }
    for (int r = 0; r < 2; r++) kit_sync(&kit.ranks[r]);
    kit_close(&kit);
    procs_start(&procs, 2, "child:ever", NULL);
    procs_end(&procs, -1);
}

/* ---- two communicators in opposite order, between processes and with messages ---- */

static void swap_token(struct kit_rank *rank, const int32_t *token, int32_t *got)
{
    int peer = 1 - rank->rank;
    CHECK_OK(ncclGroupStart());
    CHECK_OK(ncclSend(token, 1, ncclInt32, peer, rank->comm, rank->stream));
    CHECK_OK(ncclRecv(got, 1, ncclInt32, peer, rank->comm, rank->stream));
    CHECK_OK(ncclGroupEnd());
}

/* The id of another communicator, through one that is there. */
static ncclUniqueId spread_id(struct kit_rank *rank)
{
    ncclUniqueId id;
    void *given = kit_given(rank, rank->in);
    if (rank->rank == 0) {
        CHECK_OK(ncclGetUniqueId(&id));
        memcpy(rank->in, &id, sizeof id);
        kit_push(rank, sizeof id);
    }
    CHECK_OK(ncclBroadcast(given, given, sizeof id, ncclInt8, 0, rank->comm, rank->stream));
    kit_sync(rank);
    kit_pull(rank, sizeof id);
    memcpy(&id, rank->in, sizeof id);
    return id;
}

static void child_opposite(void)
{
    struct kit a, b;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, BLOCK);
    int me = proc_index();
    proc_open(&a, 1, BLOCK);
    ncclUniqueId id = spread_id(&a.ranks[0]);
    b.nranks = 1;
    kit_rank_open(&b.ranks[0], 2, me, BLOCK);
    CHECK_OK(ncclCommInitRank(&b.ranks[0].comm, 2, id, me));
    int32_t *tokens = test_memory_alloc(4 * sizeof *tokens), *got = tokens + 2;
    for (int round = 0; round < 40; round++) {
        struct kit_rank *first = me == 0 ? &a.ranks[0] : &b.ranks[0];
        struct kit_rank *second = me == 0 ? &b.ranks[0] : &a.ranks[0];
        for (int i = 0; i < 2; i++) {
            tokens[i] = round * 2 + me;
            got[i] = -1;
        }
        kit_prepare(first, &op);
        kit_prepare(second, &op);
        CHECK_OK(kit_call(first, &op));
        CHECK_OK(kit_call(second, &op));
        swap_token(first, &tokens[0], &got[0]);
        swap_token(second, &tokens[1], &got[1]);
        kit_check(first, &op);
        kit_check(second, &op);
        for (int i = 0; i < 2; i++) CHECK_EQ(got[i], round * 2 + 1 - me);
    }
    test_memory_free(tokens);
    kit_close(&a);
    kit_close(&b);
}

static void test_opposite(void)
{
    struct procs procs;
    procs_start(&procs, 2, "child:opposite", NULL);
    procs_end(&procs, -1);
}

static const struct test_case cases[] = {
    {"random matrices with empty legs", test_matrices, 120},
    {"random matrices across processes", test_matrices_across, 120},
    {"50 unequal broadcasts in a group", test_casts, 120},
    {"three communicators, ten calls each, in a group", test_comms, 0},
    {"a loop over the ranks without a group", test_alone, 0},
    {"one side in a group, the other not", test_sides, 120},
    {"two that wait for each other can be aborted", test_ever, 0},
    {"opposite orders across processes", test_opposite, 0},
    {"child:matrices", child_matrices, 0},
    {"child:casts", child_casts, 0},
    {"child:alone", child_alone, 0},
    {"child:sides", child_sides, 0},
    {"child:ever", child_ever, 0},
    {"child:opposite", child_opposite, 0},
};
TEST_LIB_MAIN(cases)
