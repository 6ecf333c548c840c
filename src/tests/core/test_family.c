/* Communicators made from communicators in a process: split, shrink, revoke; what they get
 * wrong, who is missing, and what an abort does to them. */
#define _GNU_SOURCE
#include "core/family.h"
#include "unit/memory.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = FAMILY_COUNT, MAX = 16 };

/* ---- split ---- */

struct split {
    int colors[MAX], keys[MAX];
};

static void call_split(const struct kit *kit, const struct split *split, ncclComm_t *comms)
{
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < kit->nranks; r++) {
        comms[r] = (ncclComm_t)(void *)&comms[r];
        CHECK_OK(
            ncclCommSplit(kit->ranks[r].comm, split->colors[r], split->keys[r], &comms[r], NULL));
        CHECK(comms[r] == NULL);
    }
    CHECK_OK(ncclGroupEnd());
}

/* Rank r's place among those of its color: by key, then by rank of the parent. */
static int place_of(const struct split *split, int nranks, int r)
{
    int place = 0;
    for (int q = 0; q < nranks; q++)
        if (split->colors[q] == split->colors[r])
            place += split->keys[q] < split->keys[r] || (split->keys[q] == split->keys[r] && q < r);
    return place;
}

static void check_places(const struct kit *kit, const struct split *split, ncclComm_t *comms)
{
    for (int r = 0; r < kit->nranks; r++) {
        int rank, device;
        CHECK_EQ(comms[r] == NULL, split->colors[r] == NCCL_SPLIT_NOCOLOR);
        if (comms[r] == NULL) continue;
        CHECK_OK(ncclCommUserRank(comms[r], &rank));
        CHECK_OK(ncclCommCuDevice(comms[r], &device));
        CHECK_EQ(rank, place_of(split, kit->nranks, r));
        CHECK_EQ(device, kit->ranks[r].device);
    }
}

/* The new communicators of one color, out of all. */
static void pick(const struct split *split, int color, int n, ncclComm_t *all, ncclComm_t *picked)
{
    for (int r = 0; r < n; r++) picked[r] = split->colors[r] == color ? all[r] : NULL;
}

static void split_and_use(struct kit *kit, const struct split *split)
{
    ncclComm_t comms[MAX], picked[MAX];
    call_split(kit, split, comms);
    check_places(kit, split, comms);
    for (int color = 0; color < 4; color++) {
        struct kit child;
        pick(split, color, kit->nranks, comms, picked);
        family_adopt(&child, kit, picked);
        if (child.nranks > 0) family_use(&child);
        kit_close(&child);
    }
    family_use(kit);
}

static void test_split(void)
{
    static const struct split splits[] = {
        {{0}, {0}},
        {{0, 1, 0, 1, 0, 1, 0, 1}, {0}},
        {{0, 0, 1, 1, 2, 2, 3, 3}, {7, 6, 5, 4, 3, 2, 1, 0}},
        {{0, -1, -1, 0, 0, -1, 1, 0}, {-5, 0, 0, -5, 9, 0, 0, -2147483647}},
        {{-1, -1, -1, -1, -1, -1, -1, -1}, {0}},
    };
    static const int sizes[] = {1, 2, 5, 8};
    for (size_t n = 0; n < TEST_COUNT(sizes); n++)
        for (int ndevices = 1; ndevices <= 8; ndevices *= 2) {
            struct kit kit;
            kit_open(&kit, sizes[n], ndevices, COUNT);
            for (size_t s = 0; s < TEST_COUNT(splits); s++) split_and_use(&kit, &splits[s]);
            kit_close(&kit);
        }
}

/* A rank to a thread, each in a call of its own. */
struct threads {
    struct kit kit;
    struct split split;
    ncclComm_t comms[MAX];
};

static void split_in_thread(void *arg, int r)
{
    struct threads *threads = arg;
    CHECK_OK(ncclCommSplit(threads->kit.ranks[r].comm, threads->split.colors[r],
                           threads->split.keys[r], &threads->comms[r], NULL));
}

static void test_split_threads(void)
{
    struct threads threads = {.split = {{1, 0, 1, 0, 1}, {0}}};
    kit_open(&threads.kit, 5, 3, COUNT);
    for (int round = 0; round < 3; round++) {
        kit_threads(5, split_in_thread, &threads);
        check_places(&threads.kit, &threads.split, threads.comms);
        for (int color = 0; color < 2; color++) {
            ncclComm_t picked[MAX];
            pick(&threads.split, color, 5, threads.comms, picked);
            family_try(&threads.kit, picked);
        }
    }
    kit_close(&threads.kit);
}

/* A communicator, one of the same ranks and two of its halves: ten calls each in one group. */
static void test_one_group(void)
{
    static const struct split all = {{0}, {3, 2, 1, 0}}, halves = {{0, 1, 0, 1}, {0}};
    struct kit kits[4];
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    ncclComm_t comms[MAX], picked[MAX];
    kit_open(&kits[0], 4, 2, COUNT);
    call_split(&kits[0], &all, comms);
    family_adopt(&kits[1], &kits[0], comms);
    call_split(&kits[0], &halves, comms);
    for (int color = 0; color < 2; color++) {
        pick(&halves, color, 4, comms, picked);
        family_adopt(&kits[2 + color], &kits[0], picked);
    }
    for (int k = 0; k < 4; k++)
        for (int r = 0; r < kits[k].nranks; r++) kit_prepare(&kits[k].ranks[r], &op);
    CHECK_OK(ncclGroupStart());
    for (int call = 0; call < 40; call++) {
        struct kit *kit = &kits[call % 4];
        for (int r = 0; r < kit->nranks; r++) CHECK_OK(kit_call(&kit->ranks[r], &op));
    }
    CHECK_OK(ncclGroupEnd());
    for (int k = 0; k < 4; k++)
        for (int r = 0; r < kits[k].nranks; r++) kit_check(&kits[k].ranks[r], &op);
    for (int k = 0; k < 4; k++) kit_close(&kits[k]);
}

/* Parents end before their children, and before children of those. */
static void test_generations(void)
{
    static const struct split halves = {{0, 0, 0, 0, 1, 1, 1, 1}, {0}};
    static const struct split pairs = {{0, 0, 1, 1}, {0}};
    struct kit kit, half, pair;
    ncclComm_t comms[MAX], picked[MAX];
    kit_open(&kit, 8, 2, COUNT);
    call_split(&kit, &halves, comms);
    for (int r = 0; r < 4; r++) CHECK_OK(ncclCommDestroy(comms[r]));
    pick(&halves, 1, 8, comms, picked);
    family_adopt(&half, &kit, picked);
    kit_close(&kit);
    family_use(&half);
    call_split(&half, &pairs, comms);
    for (int r = 0; r < 2; r++) CHECK_OK(ncclCommDestroy(comms[r]));
    pick(&pairs, 1, 4, comms, picked);
    family_adopt(&pair, &half, picked);
    kit_close(&half);
    family_use(&pair);
    kit_close(&pair);
}

/* Without a configuration the child has its parent's, with one it has that. */
static void test_split_config(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm, same, other;
    ncclUniqueId id;
    config.blocking = 0;
    CHECK_OK(ncclGetUniqueId(&id));
    CHECK_OK(ncclCommInitRank(&comm, 1, id, 0));
    CHECK_OK(ncclCommSplit(comm, 0, 0, &same, NULL));
    CHECK_OK(ncclCommFinalize(same));
    CHECK_OK(ncclCommSplit(comm, 0, 0, &other, &config));
    ncclResult_t rc = ncclCommFinalize(other), error = rc;
    CHECK_EQ(rc, ncclInProgress);
    while (error == ncclInProgress) CHECK_OK(ncclCommGetAsyncError(other, &error));
    CHECK_OK(error);
    CHECK_OK(ncclCommDestroy(other));
    config.minCTAs = -1;
    CHECK_EQ(ncclCommSplit(comm, 0, 0, &other, &config), ncclInvalidArgument);
    CHECK_OK(ncclCommDestroy(same));
    CHECK_OK(ncclCommDestroy(comm));
}

/* Who calls something else ends the call of all, and the communicator is as before. */
static void test_disagree(void)
{
    struct kit kit;
    ncclComm_t comms[3] = {NULL};
    int excluded = 2;
    kit_open(&kit, 3, 2, COUNT);
    CHECK_OK(ncclGroupStart());
    CHECK_OK(ncclCommShrink(kit.ranks[0].comm, &excluded, 1, &comms[0], NULL, 0));
    CHECK_OK(ncclCommSplit(kit.ranks[1].comm, 0, 0, &comms[1], NULL));
    ncclResult_t rc = ncclGroupEnd();
    CHECK_EQ(rc, ncclInvalidUsage);
    CHECK_HAS(ncclGetLastError(NULL), "ranks disagree");
    for (int r = 0; r < 3; r++) CHECK(comms[r] == NULL);
    family_use(&kit);
    kit_close(&kit);
}

/* In a process of its own with a short time limit. */
static void child_missing(void)
{
    struct kit kit;
    ncclComm_t comm = NULL;
    int excluded[2] = {0, 3};
    kit_open(&kit, 4, 2, COUNT);
    CHECK_EQ(ncclCommSplit(kit.ranks[1].comm, 0, 0, &comm, NULL), ncclRemoteError);
    CHECK_HAS(ncclGetLastError(NULL), "ncclCommSplit: rank 1: rank 0 has not called within");
    CHECK_EQ(ncclCommSplit(kit.ranks[0].comm, 0, 0, &comm, NULL), ncclRemoteError);
    CHECK_HAS(ncclGetLastError(NULL), "ncclCommSplit: rank 0: ranks 1,2,3 of 4 have not joined");
    CHECK_EQ(ncclCommShrink(kit.ranks[2].comm, excluded, 2, &comm, NULL, 0), ncclRemoteError);
    CHECK_HAS(ncclGetLastError(NULL), "ncclCommShrink: rank 2: rank 1 has not called within");
    CHECK_EQ(ncclCommGrow(kit.ranks[2].comm, 5, NULL, -1, &comm, NULL), ncclRemoteError);
    CHECK_HAS(ncclGetLastError(NULL), "the rank that holds the id has not called");
    CHECK(comm == NULL);
    family_use(&kit);
    kit_close(&kit);
}

static void test_missing(void)
{
    kit_child("child:missing", (const char *const[]){"CHORUS_INIT_TIMEOUT_MS=300", NULL});
}

/* ---- an abort while a call waits for others ---- */

struct aborted {
    struct kit kit;
    ncclComm_t comm;
    _Atomic int begun;
    int excluded;
};

static void split_or_abort(void *arg, int i)
{
    struct aborted *aborted = arg;
    ncclComm_t parent = aborted->kit.ranks[aborted->excluded].comm;
    if (i == 0) {
        atomic_store(&aborted->begun, 1);
        ncclResult_t rc = ncclCommSplit(parent, 0, 0, &aborted->comm, NULL);
        CHECK(rc != ncclSuccess && rc != ncclTimeout);
        return;
    }
    while (!atomic_load(&aborted->begun)) sched_yield();
    int64_t start = kit_now_ms();
    CHECK_OK(ncclCommAbort(parent));
    CHECK(kit_now_ms() - start < 5000);
}

static void test_abort(void)
{
    for (int who = 0; who < 2; who++) {
        struct aborted aborted = {.excluded = who};
        kit_open(&aborted.kit, 3, 2, COUNT);
        kit_threads(2, split_or_abort, &aborted);
        CHECK(aborted.comm == NULL);
        aborted.kit.ranks[who].comm = NULL;
        for (int r = 0; r < 3; r++) {
            if (r == who) continue;
            CHECK_OK(ncclCommAbort(aborted.kit.ranks[r].comm));
            aborted.kit.ranks[r].comm = NULL;
        }
        kit_close(&aborted.kit);
    }
}

/* ---- shrink ---- */

struct shrink {
    int nranks, n, excluded[MAX];
};

static int is_excluded(const struct shrink *shrink, int r)
{
    for (int i = 0; i < shrink->n; i++)
        if (shrink->excluded[i] == r) return 1;
    return 0;
}

static void call_shrink(const struct kit *kit, const struct shrink *shrink, int flags,
                        ncclComm_t *comms)
{
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < kit->nranks; r++) {
        int list[MAX];
        comms[r] = NULL;
        if (is_excluded(shrink, r)) continue;
        memcpy(list, shrink->excluded, sizeof list);
        CHECK_OK(ncclCommShrink(kit->ranks[r].comm, list, shrink->n, &comms[r], NULL, flags));
        for (int i = 1; i < shrink->n; i++) CHECK(list[i - 1] < list[i]);
    }
    CHECK_OK(ncclGroupEnd());
    for (int r = 0, next = 0; r < kit->nranks; r++) {
        int rank;
        if (is_excluded(shrink, r)) continue;
        CHECK_OK(ncclCommUserRank(comms[r], &rank));
        CHECK_EQ(rank, next++);
    }
}

static void test_shrink(void)
{
    static const struct shrink shrinks[] = {
        {2, 1, {0}}, {2, 1, {1}},          {5, 2, {3, 1}},
        {8, 1, {0}}, {8, 4, {7, 5, 3, 1}}, {8, 7, {7, 6, 5, 0, 1, 2, 3}},
    };
    for (size_t s = 0; s < TEST_COUNT(shrinks); s++)
        for (int ndevices = 1; ndevices <= 4; ndevices++) {
            struct kit kit, child;
            ncclComm_t comms[MAX];
            kit_open(&kit, shrinks[s].nranks, ndevices, COUNT);
            for (int round = 0; round < 2; round++) {
                call_shrink(&kit, &shrinks[s], NCCL_SHRINK_DEFAULT, comms);
                family_adopt(&child, &kit, comms);
                CHECK_EQ(child.nranks, shrinks[s].nranks - shrinks[s].n);
                family_use(&child);
                kit_close(&child);
                family_use(&kit);
            }
            kit_close(&kit);
        }
}

/* A collective hangs because a rank never calls: the others go on without it. */
static void test_shrink_abort(void)
{
    static const struct shrink without_2 = {4, 1, {2}};
    for (int ndevices = 1; ndevices <= 4; ndevices++) {
        struct kit kit;
        struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
        ncclComm_t comms[MAX];
        kit_open(&kit, 4, ndevices, COUNT);
        for (int r = 0; r < 4; r++)
            if (r != 2) CHECK_OK(kit_call(&kit.ranks[r], &op));
        call_shrink(&kit, &without_2, NCCL_SHRINK_ABORT, comms);
        for (int r = 0; r < 4; r++) kit_sync(&kit.ranks[r]);
        CHECK_EQ(kit_call(&kit.ranks[0], &op), ncclInvalidUsage);
        CHECK_HAS(ncclGetLastError(NULL), "is revoked");
        family_try(&kit, comms);
        kit_close(&kit);
    }
}

static void test_shrink_disagree(void)
{
    struct kit kit;
    ncclComm_t comms[4] = {NULL};
    int one[1] = {3}, two[2] = {3, 2};
    kit_open(&kit, 4, 2, COUNT);
    CHECK_OK(ncclGroupStart());
    CHECK_OK(ncclCommShrink(kit.ranks[0].comm, two, 2, &comms[0], NULL, 0));
    CHECK_OK(ncclCommShrink(kit.ranks[1].comm, one, 1, &comms[1], NULL, 0));
    CHECK_EQ(ncclGroupEnd(), ncclInvalidUsage);
    CHECK_HAS(ncclGetLastError(NULL), "ranks disagree");
    CHECK(comms[0] == NULL && comms[1] == NULL);
    family_use(&kit);
    kit_close(&kit);
}

/* ---- revoke ---- */

static void test_revoke(void)
{
    static const struct split halves = {{0, 1, 0, 1}, {0}};
    static const struct shrink without_3 = {4, 1, {3}};
    for (int ndevices = 1; ndevices <= 4; ndevices++) {
        struct kit kit;
        struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
        ncclComm_t comms[MAX], picked[MAX];
        ncclResult_t error;
        kit_open(&kit, 4, ndevices, COUNT);
        for (int r = 0; r < 3; r++) CHECK_OK(kit_call(&kit.ranks[r], &op));
        CHECK_EQ(ncclCommRevoke(kit.ranks[0].comm, 1), ncclInvalidArgument);
        CHECK_HAS(ncclGetLastError(NULL), "revokeFlags 0x1");
        CHECK_OK(ncclCommRevoke(kit.ranks[0].comm, 0));
        CHECK_OK(ncclCommGetAsyncError(kit.ranks[0].comm, &error));
        CHECK_OK(error);
        CHECK_EQ(ncclCommRevoke(kit.ranks[0].comm, 0), ncclInvalidArgument);
        CHECK_HAS(ncclGetLastError(NULL), "already revoked");
        kit_await_error(&kit.ranks[3], ncclInvalidUsage, "rank 0 on host");
        for (int r = 1; r < 4; r++) CHECK_OK(ncclCommRevoke(kit.ranks[r].comm, 0));
        for (int r = 0; r < 4; r++) kit_sync(&kit.ranks[r]);
        CHECK_EQ(kit_call(&kit.ranks[1], &op), ncclInvalidUsage);
        CHECK_HAS(ncclGetLastError(NULL), "is revoked");
        CHECK_EQ(ncclCommFinalize(kit.ranks[1].comm), ncclInvalidArgument);
        call_split(&kit, &halves, comms);
        pick(&halves, 0, 4, comms, picked);
        family_try(&kit, picked);
        pick(&halves, 1, 4, comms, picked);
        family_try(&kit, picked);
        call_shrink(&kit, &without_3, NCCL_SHRINK_DEFAULT, comms);
        family_try(&kit, comms);
        kit_close(&kit);
    }
    CHECK_OK(ncclCommRevoke(NULL, 0));
}

static const struct test_case cases[] = {
    {"split: colors, keys, sizes, devices", test_split, 0},
    {"split: a rank to a thread", test_split_threads, 0},
    {"split: parents end before children", test_generations, 0},
    {"split: parent and children in one group", test_one_group, 0},
    {"split: configurations", test_split_config, 0},
    {"split: ranks that call something else", test_disagree, 0},
    {"split, shrink, grow: ranks that do not call", test_missing, 0},
    {"child:missing", child_missing, 0},
    {"split: abort while it waits", test_abort, 0},
    {"shrink: lists, sizes, devices", test_shrink, 0},
    {"shrink: without a rank that hangs", test_shrink_abort, 0},
    {"shrink: ranks that exclude others", test_shrink_disagree, 0},
    {"revoke: a collective that hangs, then split and shrink", test_revoke, 0},
};
TEST_LIB_MAIN(cases)
