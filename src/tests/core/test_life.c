/* Life of communicators inside a process: many ranks, many communicators, ends in any order, abort
 * of what hangs, initialisations that fail, what chorus_comm_status says meanwhile. */
#define _GNU_SOURCE
#include "core/kit.h"
#include "unit/memory.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 64 };

static int current_device(void)
{
    int device;
    CHECK_OK(chorus_devices()->get(&device));
    return device;
}

/* ---- making ---- */

static void test_sizes(void)
{
    static const int sizes[] = {1, 2, 11, 16, 64};
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        struct kit kit;
        struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
        kit_open(&kit, sizes[i], 8, COUNT);
        for (int r = 0; r < sizes[i]; r++) {
            int rank, size, device;
            CHECK_OK(ncclCommUserRank(kit.ranks[r].comm, &rank));
            CHECK_OK(ncclCommCount(kit.ranks[r].comm, &size));
            CHECK_OK(ncclCommCuDevice(kit.ranks[r].comm, &device));
            CHECK_EQ(rank, r);
            CHECK_EQ(size, sizes[i]);
            CHECK_EQ(device, test_device(r % 8));
        }
        kit_run(&kit, &op);
        kit_close(&kit);
    }
    CHECK_EQ(current_device(), 0);
}

struct threads {
    int nranks, ndevices;
    ncclUniqueId id;
    struct kit_op op;
};

/* A rank that lives in one thread from its start to its end. */
static void live(void *arg, int i)
{
    struct threads *threads = arg;
    struct kit_rank rank;
    int device = test_device(i % threads->ndevices);
    CHECK_OK(chorus_devices()->set(device));
    kit_rank_open(&rank, threads->nranks, i, COUNT);
    CHECK_OK(ncclCommInitRank(&rank.comm, threads->nranks, threads->id, i));
    CHECK_EQ(current_device(), device);
    kit_prepare(&rank, &threads->op);
    CHECK_OK(kit_call(&rank, &threads->op));
    kit_check(&rank, &threads->op);
    CHECK_EQ(current_device(), device);
    kit_rank_close(&rank);
    CHECK_EQ(current_device(), device);
}

static void test_rank_threads(void)
{
    static const int sizes[] = {2, 8, 64};
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        struct threads threads = {sizes[i], 8, {{0}}, kit_simple(KIT_ALL_GATHER, COUNT)};
        CHECK_OK(ncclGetUniqueId(&threads.id));
        kit_threads(sizes[i], live, &threads);
    }
}

/* Nothing but an initialisation. */
static void test_nothing(void)
{
    struct kit kit;
    kit_open(&kit, 5, 3, 1);
    kit_close(&kit);
}

enum { MANY = 32 };

/* 32 communicators of two ranks, made, used and ended from 64 threads at once. */
static void live_in_many(void *arg, int i)
{
    struct threads *threads = arg;
    live(&threads[i / 2], i % 2);
}

static void test_many_at_once(void)
{
    static struct threads threads[MANY];
    for (int c = 0; c < MANY; c++) {
        threads[c] = (struct threads){2, 1 + c % 2, {{0}}, kit_simple(KIT_REDUCE_SCATTER, COUNT)};
        CHECK_OK(ncclGetUniqueId(&threads[c].id));
    }
    kit_threads(2 * MANY, live_in_many, threads);
}

static void test_many_held(void)
{
    static struct kit kits[MANY];
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    for (int c = 0; c < MANY; c++) kit_open(&kits[c], 2, 1 + c % 2, COUNT);
    for (int c = 0; c < MANY; c++) kit_run(&kits[c], &op);
    for (int c = 0; c < MANY; c += 2) kit_close(&kits[c]);
    for (int c = 1; c < MANY; c += 2) kit_run(&kits[c], &op);
    for (int c = MANY - 1; c > 0; c -= 2) kit_close(&kits[c]);
}

/* ---- ending ---- */

static void test_any_order(void)
{
    static const int orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}};
    for (size_t o = 0; o < TEST_COUNT(orders); o++) {
        struct kit kit;
        struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
        kit_open(&kit, 4, 1 + (int)o, COUNT);
        kit_run(&kit, &op);
        for (int i = 0; i < 4; i++) {
            struct kit_rank *rank = &kit.ranks[orders[o][i]];
            CHECK_OK(ncclCommDestroy(rank->comm));
            rank->comm = NULL;
            CHECK_EQ(current_device(), 0);
        }
        kit_close(&kit);
    }
}

/* A host function that holds a stream until it is told to go on. */
static void hold(void *arg)
{
    _Atomic int *open = arg;
    while (!atomic_load(open)) sched_yield();
}

struct drain {
    struct kit *kit;
    struct kit_op op;
    _Atomic int open, ended[4];
    int finalizes;
};

/* Destroys (or finalizes) at once; the work must be done when that returns. */
static void end_early(void *arg, int i)
{
    struct drain *drain = arg;
    struct kit_rank *rank = &drain->kit->ranks[i];
    if (drain->finalizes) CHECK_OK(ncclCommFinalize(rank->comm));
    if (!drain->finalizes) CHECK_OK(ncclCommDestroy(rank->comm));
    CHECK(atomic_load(&drain->open));
    atomic_store(&drain->ended[i], 1);
    if (drain->finalizes) CHECK_OK(ncclCommDestroy(rank->comm));
    rank->comm = NULL;
    kit_check(rank, &drain->op);
}

static void open_later(void *arg, int i)
{
    struct drain *drain = arg;
    if (i < 4) {
        end_early(arg, i);
        return;
    }
    /* Gives wrong early returns a chance to show; right ones never depend on it. */
    usleep(20000);
    for (int r = 0; r < 4; r++) CHECK_EQ(atomic_load(&drain->ended[r]), 0);
    atomic_store(&drain->open, 1);
}

static void test_drain(void)
{
    for (int finalizes = 0; finalizes < 2; finalizes++)
        for (int ndevices = 1; ndevices <= 2; ndevices++) {
            struct kit kit;
            struct drain drain = {&kit, kit_simple(KIT_ALL_REDUCE, COUNT), 0, {0}, finalizes};
            kit_open(&kit, 4, ndevices, COUNT);
            for (int r = 0; r < 4; r++) kit_prepare(&kit.ranks[r], &drain.op);
            CHECK_OK(chorus_devices()->host_func(kit.ranks[1].stream, hold, (void *)&drain.open));
            CHECK_OK(ncclGroupStart());
            for (int r = 0; r < 4; r++) CHECK_OK(kit_call(&kit.ranks[r], &drain.op));
            CHECK_OK(ncclGroupEnd());
            kit_threads(5, open_later, &drain);
            kit_close(&kit);
        }
}

static void test_finalize_twice(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    kit_open(&kit, 2, 2, COUNT);
    kit_run(&kit, &op);
    CHECK_OK(ncclCommFinalize(kit.ranks[0].comm));
    CHECK_EQ(ncclCommFinalize(kit.ranks[0].comm), ncclInvalidArgument);
    CHECK_HAS(ncclGetLastError(NULL), "already finalized");
    CHECK_EQ(kit_call(&kit.ranks[0], &op), ncclInvalidUsage);
    CHECK_HAS(ncclGetLastError(NULL), "is finalized");
    kit_close(&kit);
}

/* ---- abort ---- */

struct hang {
    struct kit kit;
    struct kit_op op;
    _Atomic int waiting;
};

/* Ranks but the last call and wait; the last thread aborts rank 0 while they hang. */
static void hang_or_abort(void *arg, int i)
{
    struct hang *hang = arg;
    int others = hang->kit.nranks - 1;
    struct kit_rank *rank = &hang->kit.ranks[i];
    if (i < others) {
        CHECK_OK(kit_call(rank, &hang->op));
        atomic_fetch_add(&hang->waiting, 1);
        kit_sync(rank);
        if (i > 0) kit_await_error(rank, ncclRemoteError, "rank 0 on host");
        return;
    }
    while (atomic_load(&hang->waiting) < others) sched_yield();
    usleep(5000);
    int64_t start = kit_now_ms();
    CHECK_OK(ncclCommAbort(hang->kit.ranks[0].comm));
    hang->kit.ranks[0].comm = NULL;
    CHECK(kit_now_ms() - start < 1000);
}

static void test_abort_hang(void)
{
    for (int ndevices = 1; ndevices <= 3; ndevices++) {
        struct hang hang = {.op = kit_simple(KIT_ALL_REDUCE, COUNT)};
        kit_open(&hang.kit, 3, ndevices, COUNT);
        kit_threads(3, hang_or_abort, &hang);
        kit_close(&hang.kit);
    }
}

/* One thread aborts all, one after the other, in the middle of a collective without rank 3. */
static void test_abort_all(void)
{
    for (int ndevices = 1; ndevices <= 4; ndevices++) {
        struct kit kit;
        struct kit_op op = kit_simple(KIT_ALL_TO_ALL, COUNT);
        kit_open(&kit, 4, ndevices, COUNT);
        for (int r = 0; r < 3; r++) CHECK_OK(kit_call(&kit.ranks[r], &op));
        int64_t start = kit_now_ms();
        for (int r = 0; r < 4; r++) {
            CHECK_OK(ncclCommAbort(kit.ranks[r].comm));
            kit.ranks[r].comm = NULL;
        }
        CHECK(kit_now_ms() - start < 1000);
        for (int r = 0; r < 4; r++) kit_sync(&kit.ranks[r]);
        kit_close(&kit);
    }
}

/* A pending message and a destroyed peer. */
static void test_abort_message(void)
{
    struct kit kit;
    kit_open(&kit, 2, 2, COUNT);
    struct kit_rank *rank = &kit.ranks[0];
    /* A shorter one is done at once. */
    CHECK_OK(ncclSend(rank->in, COUNT, ncclInt32, 1, rank->comm, rank->stream));
    /* A GPU's ranks meet before anything is sent. */
    kit_await_status(rank->comm, test_on_gpu()
                                     ? "Send to rank 1: waits for ranks 1 (have not called)"
                                     : "Send to rank 1: waits for ranks 1 (takes no data)");
    CHECK_OK(ncclCommDestroy(kit.ranks[1].comm));
    kit.ranks[1].comm = NULL;
    CHECK_OK(ncclCommAbort(rank->comm));
    rank->comm = NULL;
    kit_sync(rank);
    kit_close(&kit);
}

/* The handle is there as soon as the call of another thread has begun. */
struct starting {
    ncclUniqueId id;
    ncclComm_t comm;
    ncclResult_t result;
};

static void init_or_abort(void *arg, int i)
{
    struct starting *starting = arg;
    if (i == 0) {
        starting->result = ncclCommInitRank(&starting->comm, 2, starting->id, 0);
        return;
    }
    ncclComm_t comm;
    while ((comm = __atomic_load_n(&starting->comm, __ATOMIC_ACQUIRE)) == NULL) sched_yield();
    usleep(10000);
    kit_await_status(comm, "initialising");
    int64_t start = kit_now_ms();
    CHECK_OK(ncclCommAbort(comm));
    CHECK(kit_now_ms() - start < 1000);
}

static void test_abort_init(void)
{
    struct starting starting = {.comm = NULL};
    CHECK_OK(ncclGetUniqueId(&starting.id));
    int64_t start = kit_now_ms();
    kit_threads(2, init_or_abort, &starting);
    CHECK(starting.result != ncclSuccess);
    CHECK(starting.comm == NULL);
    CHECK(kit_now_ms() - start < 2000);
}

/* ---- initialisations that fail ---- */

static void child_missing(void)
{
    ncclUniqueId id;
    ncclComm_t comms[3];
    CHECK_OK(chorus_devices()->set(test_device(2)));
    CHECK_OK(ncclGetUniqueId(&id));
    int64_t start = kit_now_ms();
    /* Without a configuration nobody knows whether the program's header has ncclTimeout. */
    CHECK_EQ(ncclCommInitRank(&comms[0], 2, id, 0), ncclRemoteError);
    CHECK_HAS(ncclGetLastError(NULL), "1");
    CHECK(kit_now_ms() - start < 3000);
    CHECK(comms[0] == NULL);
    static const struct {
        unsigned version;
        ncclResult_t code;
    } headers[] = {
        {NCCL_VERSION_CODE, ncclTimeout}, {23000, ncclTimeout}, {22907, ncclRemoteError}};
    for (size_t i = 0; i < TEST_COUNT(headers); i++) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.version = headers[i].version;
        CHECK_OK(ncclGetUniqueId(&id));
        CHECK_EQ(ncclCommInitRankConfig(&comms[0], 2, id, 0, &config), headers[i].code);
        CHECK_HAS(ncclGetLastError(NULL), "rank 1 of 2 has not joined within 400 ms");
    }
    CHECK_OK(ncclGetUniqueId(&id));
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < 3; r++)
        if (r != 1) CHECK_OK(ncclCommInitRank(&comms[r], 3, id, r));
    CHECK_EQ(ncclGroupEnd(), ncclRemoteError);
    NOTE("%s", ncclGetLastError(NULL));
    CHECK_HAS(ncclGetLastError(NULL), "rank");
    CHECK_HAS(ncclGetLastError(NULL), "1");
    CHECK(comms[0] == NULL && comms[2] == NULL);
    CHECK_EQ(current_device(), test_device(2));
}

static void test_missing(void)
{
    kit_child("child:missing", (const char *const[]){"CHORUS_INIT_TIMEOUT_MS=400", NULL});
}

/* Two calls for one rank: no initialisation of the group succeeds, the text names the rank. */
static void test_rank_twice(void)
{
    ncclUniqueId id;
    ncclComm_t comms[3];
    CHECK_OK(ncclGetUniqueId(&id));
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < 3; r++) CHECK_OK(ncclCommInitRank(&comms[r], 3, id, r == 2 ? 1 : r));
    ncclResult_t rc = ncclGroupEnd();
    CHECK(rc != ncclSuccess && rc != ncclInternalError && rc != ncclTimeout);
    NOTE("%d: %s", (int)rc, ncclGetLastError(NULL));
    CHECK_HAS(ncclGetLastError(NULL), "rank 1");
    for (int r = 0; r < 3; r++) CHECK(comms[r] == NULL);
}

/* ---- status ---- */

static void test_status(void)
{
    for (int ndevices = 1; ndevices <= 3; ndevices++) {
        struct kit kit;
        struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
        kit_open(&kit, 3, ndevices, COUNT);
        kit_await_status(kit.ranks[0].comm, "idle");
        kit_run(&kit, &op);
        kit_await_status(kit.ranks[1].comm, "idle");
        for (int r = 0; r < 3; r++) kit_prepare(&kit.ranks[r], &op);
        CHECK_OK(kit_call(&kit.ranks[0], &op));
        kit_await_status(kit.ranks[0].comm, "AllReduce #1: waits for ");
        if (kit.ndevices == 1) kit_await_status(kit.ranks[0].comm, "ranks 1,2 (have not called)");
        if (kit.ndevices == 2) kit_await_status(kit.ranks[0].comm, "ranks 2 (have not called)");
        if (kit.ndevices == 3) kit_await_status(kit.ranks[0].comm, "ranks 1");
        /* Of a GPU it is not known whose call a stream works on. */
        if (!test_on_gpu()) kit_await_status(kit.ranks[1].comm, "idle");
        CHECK_OK(kit_call(&kit.ranks[2], &op));
        if (kit.ndevices == 1) kit_await_status(kit.ranks[2].comm, "ranks 1 (have not called)");
        CHECK_OK(kit_call(&kit.ranks[1], &op));
        for (int r = 0; r < 3; r++) kit_check(&kit.ranks[r], &op);
        for (int r = 0; r < 3; r++) kit_await_status(kit.ranks[r].comm, "idle");
        kit_close(&kit);
    }
}

/* A rank whose group is done with but whose kernel waits for a stream is not idle. */
static void test_status_of_members(void)
{
    struct kit kit;
    _Atomic int open = 0;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    kit_open(&kit, 3, 1, COUNT);
    for (int r = 0; r < 3; r++) kit_prepare(&kit.ranks[r], &op);
    CHECK_OK(chorus_devices()->host_func(kit.ranks[0].stream, hold, (void *)&open));
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < 3; r++) CHECK_OK(kit_call(&kit.ranks[r], &op));
    CHECK_OK(ncclGroupEnd());
    /* On a GPU the call is the stream's from here on, and the library keeps no name for it. */
    const char *status = test_on_gpu() ? "running" : "AllReduce #0";
    for (int r = 0; r < 3; r++) kit_await_status(kit.ranks[r].comm, status);
    atomic_store(&open, 1);
    for (int r = 0; r < 3; r++) kit_check(&kit.ranks[r], &op);
    for (int r = 0; r < 3; r++) kit_await_status(kit.ranks[r].comm, "idle");
    kit_close(&kit);
}

/* ---- nothing is kept ---- */

static void child_cycles(void)
{
    long early = 0;
    for (int round = 0; round < 200; round++) {
        struct kit kit;
        struct kit_op op = kit_simple((enum kit_coll)(round % KIT_NCOLLS), COUNT);
        kit_open(&kit, 4, 1 + round % 4, COUNT);
        kit_run(&kit, &op);
        if (round % 5 == 0) {
            for (int r = 0; r < 3; r++) CHECK_OK(kit_call(&kit.ranks[r], &op));
            for (int r = 0; r < 4; r++) {
                CHECK_OK(ncclCommAbort(kit.ranks[r].comm));
                kit.ranks[r].comm = NULL;
            }
        }
        kit_close(&kit);
        if (round == 50) early = kit_resident_pages();
    }
    long more = kit_resident_pages() - early;
    NOTE("%ld pages more", more);
    CHECK(more < 256);
}

static void test_cycles(void)
{
    kit_child("child:cycles", NULL);
}

static const struct test_case cases[] = {
    {"1 to 64 ranks on 8 devices", test_sizes, 0},
    {"a thread per rank", test_rank_threads, 0},
    {"initialisation and nothing else", test_nothing, 0},
    {"32 communicators from 64 threads", test_many_at_once, 0},
    {"32 communicators held", test_many_held, 0},
    {"destroy in any order", test_any_order, 0},
    {"destroy and finalize drain", test_drain, 0},
    {"finalize twice", test_finalize_twice, 0},
    {"abort while a rank is missing", test_abort_hang, 0},
    {"abort of all, one after the other", test_abort_all, 0},
    {"abort of a message", test_abort_message, 0},
    {"abort of an initialisation", test_abort_init, 0},
    {"a rank is missing at the initialisation", test_missing, 0},
    {"a rank is there twice", test_rank_twice, 0},
    {"status of waits", test_status, 0},
    {"status of all members", test_status_of_members, 0},
    {"200 communicators one after the other", test_cycles, 0},
    {"child:missing", child_missing, 0},
    {"child:cycles", child_cycles, 0},
};
TEST_LIB_MAIN(cases)
