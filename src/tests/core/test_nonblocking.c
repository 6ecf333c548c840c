/* Communicators with blocking = 0: what waits for other ranks returns ncclInProgress, is polled,
 * and meanwhile refuses everything else; how it fails and is aborted. */
#define _GNU_SOURCE
#include "core/family.h"
#include "unit/memory.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = FAMILY_COUNT, MAX = 8, LIMIT_MS = 20000 };

static ncclConfig_t nonblocking(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
}

/* Polls until the call on it is over; returns how it ended. */
static ncclResult_t settle(ncclComm_t comm)
{
    ncclResult_t state = ncclInProgress;
    int64_t end = kit_now_ms() + LIMIT_MS;
    while (state == ncclInProgress) {
        CHECK_OK(ncclCommGetAsyncError(comm, &state));
        CHECK(kit_now_ms() < end);
        sched_yield();
    }
    return state;
}

static void check_started(ncclResult_t rc)
{
    CHECK(rc == ncclInProgress || rc == ncclSuccess);
}

/* n ranks of one thread in a group, as a kit. */
static void open_kit(struct kit *kit, int n, int ndevices)
{
    ncclConfig_t config = nonblocking();
    ncclComm_t comms[MAX];
    ncclUniqueId id;
    memset(kit, 0, sizeof *kit);
    kit->nranks = n;
    kit->ndevices = test_devices(ndevices);
    CHECK_OK(ncclGetUniqueId(&id));
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < n; r++) {
        CHECK_OK(chorus_devices()->set(test_device(r % kit->ndevices)));
        check_started(ncclCommInitRankConfig(&comms[r], n, id, r, &config));
        CHECK(comms[r] != NULL);
    }
    CHECK_EQ(ncclGroupEnd(), ncclInProgress);
    for (int r = 0; r < n; r++) {
        CHECK_OK(settle(comms[r]));
        CHECK_OK(chorus_devices()->set(test_device(r % kit->ndevices)));
        kit_rank_open(&kit->ranks[r], n, r, COUNT);
        kit->ranks[r].comm = comms[r];
    }
    CHECK_OK(chorus_devices()->set(test_device(0)));
}

static void test_life(void)
{
    for (int n = 1; n <= MAX; n = n * 2)
        for (int ndevices = 1; ndevices <= 4; ndevices += 3) {
            struct kit kit;
            open_kit(&kit, n, ndevices);
            family_use(&kit);
            for (int r = 0; r < n; r++) check_started(ncclCommFinalize(kit.ranks[r].comm));
            for (int r = 0; r < n; r++) CHECK_OK(settle(kit.ranks[r].comm));
            struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
            CHECK_EQ(kit_call(&kit.ranks[0], &op), ncclInvalidUsage);
            kit_close(&kit);
        }
}

/* Without a group: each call returns before the other ranks have called. */
static void test_one_by_one(void)
{
    ncclConfig_t config = nonblocking();
    ncclComm_t comms[3];
    ncclUniqueId id;
    CHECK_OK(ncclGetUniqueId(&id));
    for (int r = 0; r < 3; r++)
        CHECK_EQ(ncclCommInitRankConfig(&comms[r], 3, id, r, &config), ncclInProgress);
    for (int r = 2; r >= 0; r--) CHECK_OK(settle(comms[r]));
    for (int r = 0; r < 3; r++) CHECK_OK(ncclCommDestroy(comms[r]));
}

/* Everything but the query and the abort is refused meanwhile. */
static void check_refusals(ncclComm_t comm)
{
    ncclComm_t other = NULL;
    ncclResult_t state;
    char byte[4];
    int number, excluded = 1;
    CHECK_EQ(ncclCommCount(comm, &number), ncclInvalidArgument);
    CHECK_HAS(ncclGetLastError(NULL), "progress");
    CHECK_EQ(ncclCommUserRank(comm, &number), ncclInvalidArgument);
    CHECK_EQ(ncclAllReduce(byte, byte, 1, ncclInt8, ncclSum, comm, NULL), ncclInvalidArgument);
    CHECK_EQ(ncclSend(byte, 1, ncclInt8, 0, comm, NULL), ncclInvalidArgument);
    CHECK_EQ(ncclCommSplit(comm, 0, 0, &other, NULL), ncclInvalidArgument);
    CHECK_EQ(ncclCommShrink(comm, &excluded, 1, &other, NULL, 0), ncclInvalidArgument);
    CHECK_EQ(ncclCommFinalize(comm), ncclInvalidArgument);
    CHECK_EQ(ncclCommDestroy(comm), ncclInvalidArgument);
    CHECK_EQ(ncclCommRevoke(comm, 0), ncclInvalidArgument);
    CHECK_OK(ncclCommGetAsyncError(comm, &state));
    CHECK_EQ(state, ncclInProgress);
    CHECK(other == NULL);
}

static void test_in_progress(void)
{
    ncclConfig_t config = nonblocking();
    ncclComm_t comm;
    ncclUniqueId id;
    CHECK_OK(ncclGetUniqueId(&id));
    CHECK_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
    check_refusals(comm);
    int64_t start = kit_now_ms();
    CHECK_OK(ncclCommAbort(comm));
    CHECK(kit_now_ms() - start < 5000);
    CHECK_EQ(ncclCommAbort(comm), ncclInvalidArgument);
}

/* In a process of its own with a short time limit. */
static void child_fails(void)
{
    ncclConfig_t config = nonblocking();
    ncclComm_t comms[2];
    ncclUniqueId id;
    int number;
    for (int aborts = 0; aborts < 2; aborts++) {
        CHECK_OK(ncclGetUniqueId(&id));
        CHECK_OK(ncclGroupStart());
        for (int r = 0; r < 2; r++)
            check_started(ncclCommInitRankConfig(&comms[r], 3, id, r, &config));
        CHECK_EQ(ncclGroupEnd(), ncclInProgress);
        for (int r = 0; r < 2; r++) {
            ncclResult_t rc = settle(comms[r]);
            CHECK(rc == ncclTimeout || rc == ncclInternalError);
            CHECK_EQ(ncclCommCount(comms[r], &number), ncclInvalidArgument);
            CHECK_HAS(ncclGetLastError(NULL), "not initialised: that failed");
            CHECK_OK(aborts ? ncclCommAbort(comms[r]) : ncclCommDestroy(comms[r]));
        }
    }
}

static void test_fails(void)
{
    kit_child("child:fails", (const char *const[]){"CHORUS_INIT_TIMEOUT_MS=300", NULL});
}

static void use_children(const struct kit *kit, ncclComm_t *comms)
{
    for (int r = 0; r < kit->nranks; r++)
        if (comms[r] != NULL) CHECK_OK(settle(comms[r]));
    family_try(kit, comms);
}

/* The parent is busy until the call is over, and the new handle NULL. */
static void test_family(void)
{
    struct kit kit;
    ncclComm_t comms[4] = {NULL};
    ncclUniqueId id;
    int excluded[1] = {2};
    open_kit(&kit, 4, 2);
    CHECK_EQ(ncclCommSplit(kit.ranks[0].comm, 0, 0, &comms[0], NULL), ncclInProgress);
    CHECK(comms[0] == NULL);
    check_refusals(kit.ranks[0].comm);
    for (int r = 1; r < 4; r++)
        CHECK_EQ(ncclCommSplit(kit.ranks[r].comm, 0, 0, &comms[r], NULL), ncclInProgress);
    for (int r = 0; r < 4; r++) CHECK_OK(settle(kit.ranks[r].comm));
    use_children(&kit, comms);
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < 4; r++) {
        comms[r] = NULL;
        if (r == excluded[0]) continue;
        check_started(ncclCommShrink(kit.ranks[r].comm, excluded, 1, &comms[r], NULL, 0));
    }
    CHECK_EQ(ncclGroupEnd(), ncclInProgress);
    for (int r = 0; r < 4; r++) CHECK_OK(settle(kit.ranks[r].comm));
    use_children(&kit, comms);
    CHECK_OK(ncclCommGetUniqueId(kit.ranks[0].comm, &id));
    ncclConfig_t config = nonblocking();
    ncclComm_t grown[5] = {NULL};
    for (int r = 0; r < 4; r++)
        CHECK_EQ(ncclCommGrow(kit.ranks[r].comm, 5, r == 0 ? &id : NULL, -1, &grown[r], NULL),
                 ncclInProgress);
    CHECK_EQ(ncclCommGrow(NULL, 5, &id, 4, &grown[4], &config), ncclInProgress);
    for (int r = 0; r < 4; r++) CHECK_OK(settle(kit.ranks[r].comm));
    for (int r = 0; r < 5; r++) {
        int rank;
        CHECK_OK(settle(grown[r]));
        CHECK_OK(ncclCommUserRank(grown[r], &rank));
        CHECK_EQ(rank, r);
    }
    family_use(&kit);
    kit_close(&kit);
    for (int r = 0; r < 5; r++) CHECK_OK(ncclCommDestroy(grown[r]));
}

/* A split that waits for ranks which never call. */
static void test_abort_split(void)
{
    for (int who = 0; who < 2; who++) {
        struct kit kit;
        ncclComm_t comm = NULL;
        open_kit(&kit, 3, 2);
        CHECK_EQ(ncclCommSplit(kit.ranks[who].comm, 0, 0, &comm, NULL), ncclInProgress);
        int64_t start = kit_now_ms();
        CHECK_OK(ncclCommAbort(kit.ranks[who].comm));
        CHECK(kit_now_ms() - start < 5000);
        CHECK(comm == NULL);
        kit.ranks[who].comm = NULL;
        kit_await_error(&kit.ranks[2], ncclRemoteError, "aborted the communicator");
        for (int r = 0; r < 3; r++)
            if (r != who) {
                CHECK_OK(ncclCommAbort(kit.ranks[r].comm));
                kit.ranks[r].comm = NULL;
            }
        kit_close(&kit);
    }
}

/* What failed is told by the parent until its next call. */
static void child_split_fails(void)
{
    struct kit kit;
    ncclComm_t comms[2] = {NULL};
    open_kit(&kit, 2, 1);
    CHECK_EQ(ncclCommSplit(kit.ranks[1].comm, 0, 0, &comms[1], NULL), ncclInProgress);
    CHECK_EQ(settle(kit.ranks[1].comm), ncclTimeout);
    CHECK(comms[1] == NULL);
    for (int r = 0; r < 2; r++)
        CHECK_EQ(ncclCommSplit(kit.ranks[r].comm, 0, 0, &comms[r], NULL), ncclInProgress);
    for (int r = 0; r < 2; r++) CHECK_OK(settle(kit.ranks[r].comm));
    use_children(&kit, comms);
    kit_close(&kit);
}

static void test_split_fails(void)
{
    kit_child("child:split-fails", (const char *const[]){"CHORUS_INIT_TIMEOUT_MS=2000", NULL});
}

/* A group waits for all that it begins or for nothing. */
static void test_mixed(void)
{
    ncclConfig_t config = nonblocking();
    ncclComm_t comms[2];
    ncclUniqueId id;
    CHECK_OK(ncclGetUniqueId(&id));
    CHECK_OK(ncclGroupStart());
    check_started(ncclCommInitRankConfig(&comms[0], 2, id, 0, &config));
    CHECK_OK(ncclCommInitRank(&comms[1], 2, id, 1));
    CHECK_EQ(ncclGroupEnd(), ncclInvalidArgument);
    CHECK_HAS(ncclGetLastError(NULL), "blocking and non-blocking communicators");
    CHECK(comms[0] == NULL && comms[1] == NULL);
}

static void child_variable(void)
{
    ncclConfig_t config = nonblocking(), usual = NCCL_CONFIG_INITIALIZER;
    ncclResult_t wanted = getenv("NCCL_COMM_BLOCKING")[0] == '1' ? ncclSuccess : ncclInProgress;
    ncclComm_t comm, pair[2];
    ncclUniqueId id;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ncclGetUniqueId(&id));
        CHECK_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, i ? &config : &usual), wanted);
        CHECK_OK(settle(comm));
        CHECK_OK(ncclCommDestroy(comm));
    }
    CHECK_OK(ncclCommInitAll(pair, 2, NULL)); /* always blocks */
    for (int r = 0; r < 2; r++) CHECK_OK(ncclCommDestroy(pair[r]));
}

static void test_variable(void)
{
    kit_child("child:variable", (const char *const[]){"NCCL_COMM_BLOCKING=0", NULL});
    kit_child("child:variable", (const char *const[]){"NCCL_COMM_BLOCKING=1", NULL});
}

static const struct test_case cases[] = {
    {"nonblocking: life, 1 to 8 ranks", test_life, 0},
    {"nonblocking: one by one without a group", test_one_by_one, 0},
    {"nonblocking: refusals and abort while in progress", test_in_progress, 0},
    {"nonblocking: an initialisation that fails", test_fails, 0},
    {"nonblocking: split, shrink, grow", test_family, 0},
    {"nonblocking: abort of a split", test_abort_split, 0},
    {"nonblocking: a split that fails", test_split_fails, 0},
    {"nonblocking: not with blocking ones in a group", test_mixed, 0},
    {"nonblocking: NCCL_COMM_BLOCKING", test_variable, 0},
    {"child:fails", child_fails, 0},
    {"child:split-fails", child_split_fails, 0},
    {"child:variable", child_variable, 0},
};
TEST_LIB_MAIN(cases)
