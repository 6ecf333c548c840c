/* Buffers that processes reach, where something is missing: peers that die while others read their
 * buffers, that disagree about calls that meet, or that have no memory to share. */
#include "core/procs.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { COUNT = 9000 };

static int env_number(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 0 : atoi(text);
}

/* ---- a process without shared memory ---- */

static void child_poor(void)
{
    struct kit kit;
    struct kit_op op;
    struct chorus_choice choice;
    /* Enough for connections, not for an arena. */
    if (proc_index() == 1)
        CHECK_EQ(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 30, RLIM_INFINITY}), 0);
    proc_mark();
    proc_open(&kit, 1, COUNT);
    for (int coll = 0; coll < KIT_NCOLLS; coll++) {
        op = kit_simple((enum kit_coll)coll, COUNT);
        kit_run(&kit, &op);
        CHECK_OK(chorus_comm_last_choice(kit.ranks[0].comm, &choice));
        CHECK(strcmp(choice.algorithm, "direct") != 0);
    }
    kit_close(&kit);
    proc_check_mark();
}

static void test_poor(void)
{
    struct procs procs;
    procs_start(&procs, 3, "child:poor", NULL);
    procs_end(&procs, -1);
}

/* ---- peers that die or disagree ---- */

static void abort_and_close(struct kit *kit)
{
    CHECK_OK(ncclCommAbort(kit->ranks[0].comm));
    kit->ranks[0].comm = NULL;
    kit_close(kit);
}

/* All are in the middle of direct collectives or large messages when one dies. */
static void child_die(void)
{
    struct kit kit;
    struct kit_op op = kit_simple((enum kit_coll)env_number("CORE_COLL"), 6 * COUNT);
    ncclResult_t rc = ncclSuccess;
    proc_mark();
    proc_open(&kit, 1, 6 * COUNT);
    kit_run(&kit, &op);
    proc_say('r');
    while (rc == ncclSuccess) {
        rc = kit_call(&kit.ranks[0], &op);
        kit_sync(&kit.ranks[0]);
    }
    CHECK_EQ(rc, ncclRemoteError);
    kit_await_error(&kit.ranks[0], ncclRemoteError, "rank 2 on host");
    abort_and_close(&kit);
    proc_check_mark();
}

static void test_die(void)
{
    static const char *const colls[] = {"CORE_COLL=0", "CORE_COLL=5"};
    for (int round = 0; round < 4; round++) {
        struct procs procs;
        procs_start(&procs, 3, "child:die", (const char *const[]){colls[round % 2], NULL});
        for (int i = 0; i < 3; i++) procs_hear(&procs, i, 'r');
        nanosleep(&(struct timespec){.tv_nsec = 10000000 * (round + 1)}, NULL);
        procs_signal(&procs, 2, SIGKILL);
        procs_end(&procs, 2);
    }
}

/* What process 1 calls, and what the others call: the one meets, the other does not, or both. */
#define CALL(coll_, count_, redop_, root_)                                                         \
    {                                                                                              \
        .coll = (coll_), .count = (count_), .type = ncclInt32, .redop = (redop_), .root = (root_), \
    }

static const struct kit_op told[][2] = {
    {CALL(KIT_ALL_REDUCE, 8, ncclSum, 0), CALL(KIT_ALL_REDUCE, COUNT, ncclSum, 0)},
    {CALL(KIT_ALL_REDUCE, COUNT, ncclSum, 0), CALL(KIT_BROADCAST, 8, ncclSum, 0)},
    {CALL(KIT_ALL_REDUCE, COUNT, ncclSum, 0), CALL(KIT_ALL_REDUCE, COUNT, ncclMax, 0)},
    {CALL(KIT_BROADCAST, COUNT, ncclSum, 1), CALL(KIT_REDUCE, COUNT, ncclSum, 0)},
};

static void child_disagree(void)
{
    struct kit kit;
    struct kit_op op = told[env_number("CORE_CASE")][proc_index() != 1];
    proc_mark();
    proc_open(&kit, 1, COUNT);
    ncclResult_t rc = kit_call(&kit.ranks[0], &op);
    CHECK(rc == ncclSuccess || rc == ncclInvalidUsage);
    kit_await_error(&kit.ranks[0], ncclInvalidUsage, "differ");
    kit_sync(&kit.ranks[0]);
    abort_and_close(&kit);
    proc_check_mark();
}

static void test_disagree(void)
{
    for (int c = 0; c < (int)TEST_COUNT(told); c++) {
        char text[32];
        struct procs procs;
        snprintf(text, sizeof text, "CORE_CASE=%d", c);
        procs_start(&procs, 2 + c % 2, "child:disagree", (const char *const[]){text, NULL});
        procs_end(&procs, -1);
    }
}

static void child_sizes(void)
{
    struct kit kit;
    proc_open(&kit, 1, COUNT);
    struct kit_rank *rank = &kit.ranks[0];
    if (proc_index() == 0)
        CHECK_OK(ncclSend(rank->in, 70000, ncclInt8, 1, rank->comm, rank->stream));
    else
        CHECK_OK(ncclRecv(rank->out, 60000, ncclInt8, 0, rank->comm, rank->stream));
    kit_await_error(rank, ncclInvalidUsage, "rank 0 sends 70000 bytes to rank 1, which receives");
    abort_and_close(&kit);
}

static void test_sizes(void)
{
    struct procs procs;
    procs_start(&procs, 2, "child:sizes", NULL);
    procs_end(&procs, -1);
}

static const struct test_case cases[] = {
    {"a process without shared memory", test_poor, 0},
    {"a process dies while others read its buffers", test_die, 0},
    {"processes disagree about calls that meet", test_disagree, 0},
    {"sizes of a large message differ", test_sizes, 0},
    {"child:poor", child_poor, 0},
    {"child:die", child_die, 0},
    {"child:disagree", child_disagree, 0},
    {"child:sizes", child_sizes, 0},
};
TEST_LIB_MAIN(cases)
