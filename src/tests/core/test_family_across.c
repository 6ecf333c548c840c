/* Communicators made from communicators whose ranks are in several processes: split, shrink without
 * a process that was killed, grow by processes that come later, revoke. */
#define _GNU_SOURCE
#include "core/family.h"
#include "core/procs.h"
#include "unit/memory.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNT = FAMILY_COUNT, LOCAL = 2, NPROCS = 3, NRANKS = LOCAL * NPROCS };

static struct kit_op reduce(void)
{
    return kit_simple(KIT_ALL_REDUCE, COUNT);
}

static int global_rank(int local)
{
    return proc_index() * LOCAL + local;
}

/* What is called may come after the failure that it waits for. */
static void call_in_vain(struct kit *kit, ncclResult_t late)
{
    struct kit_op op = reduce();
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < LOCAL; r++) {
        ncclResult_t rc = kit_call(&kit->ranks[r], &op);
        CHECK(rc == ncclSuccess || rc == late);
    }
    ncclResult_t rc = ncclGroupEnd();
    CHECK(rc == ncclSuccess || rc == late);
}

/* ---- split ---- */

static void split(struct kit *kit, const int *colors, int sign)
{
    ncclComm_t comms[LOCAL];
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < LOCAL; r++) {
        int rank = global_rank(r);
        CHECK_OK(ncclCommSplit(kit->ranks[r].comm, colors[rank], sign * rank, &comms[r], NULL));
    }
    CHECK_OK(ncclGroupEnd());
    for (int r = 0; r < LOCAL; r++)
        CHECK_EQ(comms[r] == NULL, colors[global_rank(r)] == NCCL_SPLIT_NOCOLOR);
    family_try(kit, comms);
}

static void child_split(void)
{
    static const int colors[][NRANKS] = {
        {0, 0, 0, 0, 0, 0},   {0, 1, 0, 1, 0, 1},    {0, 0, 1, 1, 2, 2},
        {7, -1, 7, 7, -1, 3}, {-1, -1, -1, 5, 5, 5},
    };
    struct kit kit;
    proc_open(&kit, LOCAL, COUNT);
    for (size_t c = 0; c < TEST_COUNT(colors); c++)
        for (int sign = -1; sign <= 1; sign += 2) split(&kit, colors[c], sign);
    family_use(&kit);
    kit_close(&kit);
}

static void run(const char *name)
{
    struct procs procs;
    procs_start(&procs, NPROCS, name, NULL);
    procs_end(&procs, -1);
}

/* All come to a point, and one of them (-1: none) is killed there. */
static void run_meeting(const char *name, int killed)
{
    struct procs procs;
    procs_start(&procs, NPROCS, name, NULL);
    for (int i = 0; i < NPROCS; i++) procs_hear(&procs, i, 'r');
    if (killed >= 0) procs_signal(&procs, killed, SIGKILL);
    for (int i = 0; i < NPROCS; i++)
        if (i != killed) procs_say(&procs, i, 'k');
    procs_end(&procs, killed);
}

static void test_split(void)
{
    run("child:split");
}

/* ---- shrink ---- */

/* The ranks of one process are left out, in several ways: it does not call, or it is no more. */
static void shrink(struct kit *kit, int proc, int flags)
{
    ncclComm_t comms[LOCAL] = {NULL};
    int excluded[LOCAL] = {proc * LOCAL + 1, proc * LOCAL};
    if (proc_index() == proc) return;
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < LOCAL; r++)
        CHECK_OK(ncclCommShrink(kit->ranks[r].comm, excluded, LOCAL, &comms[r], NULL, flags));
    CHECK_OK(ncclGroupEnd());
    family_try(kit, comms);
}

static void child_shrink(void)
{
    struct kit kit;
    proc_open(&kit, LOCAL, COUNT);
    for (int proc = 0; proc < NPROCS; proc++) shrink(&kit, proc, NCCL_SHRINK_DEFAULT);
    family_use(&kit);
    kit_close(&kit);
}

static void test_shrink(void)
{
    run("child:shrink");
}

static int victim(void)
{
    return atoi(getenv("FAMILY_VICTIM"));
}

/* The others are in a collective when it dies, and go on without it. */
static void child_survive(void)
{
    struct kit kit;
    proc_open(&kit, LOCAL, COUNT);
    family_use(&kit);
    proc_say('r');
    if (proc_index() == victim()) proc_hear('x');
    call_in_vain(&kit, ncclRemoteError);
    proc_hear('k');
    kit_await_error(&kit.ranks[0], ncclRemoteError, "ended without closing its communicator");
    int excluded[LOCAL] = {victim() * LOCAL, victim() * LOCAL + 1};
    ncclComm_t comm = NULL;
    CHECK_EQ(ncclCommShrink(kit.ranks[0].comm, excluded, LOCAL, &comm, NULL, NCCL_SHRINK_DEFAULT),
             ncclRemoteError);
    CHECK_HAS(ncclGetLastError(NULL), "the communicator has failed");
    shrink(&kit, victim(), NCCL_SHRINK_ABORT);
    for (int r = 0; r < LOCAL; r++) kit_sync(&kit.ranks[r]);
    kit_close(&kit);
}

static void test_survive(void)
{
    for (int dead = 0; dead < NPROCS; dead++) {
        char variable[32];
        snprintf(variable, sizeof variable, "%d", dead);
        setenv("FAMILY_VICTIM", variable, 1);
        run_meeting("child:survive", dead);
    }
}

/* The process that leads a shrink is no more, but was not left out. */
static void child_dead_leader(void)
{
    struct kit kit;
    ncclComm_t comm = NULL;
    int excluded[1] = {NRANKS - 1};
    proc_open(&kit, LOCAL, COUNT);
    family_use(&kit);
    proc_say('r');
    proc_hear(proc_index() == 0 ? 'x' : 'k');
    kit_await_error(&kit.ranks[0], ncclRemoteError, "ended without closing its communicator");
    CHECK_EQ(ncclCommShrink(kit.ranks[0].comm, excluded, 1, &comm, NULL, NCCL_SHRINK_ABORT),
             ncclRemoteError);
    CHECK_HAS(ncclGetLastError(NULL), "rank 0 has left the communicator");
    CHECK(comm == NULL);
    kit_close(&kit);
}

static void test_dead_leader(void)
{
    run_meeting("child:dead-leader", 0);
}

/* One dies at any moment of splits that follow each other: the others learn it, wherever they are,
 * long before the time limit of an initialisation. */
static void child_die_splitting(void)
{
    struct kit kit;
    ncclComm_t comms[LOCAL];
    ncclResult_t rc = ncclSuccess;
    proc_open(&kit, LOCAL, COUNT);
    proc_say('r');
    while (rc == ncclSuccess) {
        CHECK_OK(ncclGroupStart());
        for (int r = 0; r < LOCAL && rc == ncclSuccess; r++)
            rc = ncclCommSplit(kit.ranks[r].comm, global_rank(r) % 2, 0, &comms[r], NULL);
        ncclResult_t ended = ncclGroupEnd();
        if (rc == ncclSuccess) rc = ended;
        for (int r = 0; r < LOCAL && rc == ncclSuccess; r++) CHECK_OK(ncclCommDestroy(comms[r]));
    }
    CHECK_EQ(rc, ncclRemoteError);
    for (int r = 0; r < LOCAL; r++) CHECK_OK(ncclCommAbort(kit.ranks[r].comm));
    for (int r = 0; r < LOCAL; r++) kit.ranks[r].comm = NULL;
    kit_close(&kit);
}

static void test_die_splitting(void)
{
    for (int round = 0; round < 12; round++) {
        struct procs procs;
        procs_start(&procs, NPROCS, "child:die-splitting", NULL);
        for (int i = 0; i < NPROCS; i++) procs_hear(&procs, i, 'r');
        nanosleep(&(struct timespec){.tv_nsec = 700000 * (round * 7 % 12)}, NULL);
        procs_signal(&procs, round % NPROCS, SIGKILL);
        procs_end(&procs, round % NPROCS);
    }
}

/* ---- grow ---- */

/* The first process has a communicator; the others come to it, with an id that goes through the
 * environment, which is not that of the first. */
static void child_grow(void)
{
    struct kit kit, grown;
    ncclComm_t comms[LOCAL] = {NULL};
    ncclUniqueId id = proc_id();
    memset(&kit, 0, sizeof kit);
    if (proc_index() == 0) kit_open(&kit, LOCAL, LOCAL, COUNT);
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < LOCAL; r++) {
        int is_new = proc_index() > 0;
        if (is_new) CHECK_OK(chorus_devices()->set(test_device(r % test_devices(LOCAL))));
        CHECK_OK(ncclCommGrow(is_new ? NULL : kit.ranks[r].comm, NRANKS,
                              is_new || r == 1 ? &id : NULL, is_new ? global_rank(r) : -1,
                              &comms[r], NULL));
    }
    CHECK_OK(ncclGroupEnd());
    if (proc_index() == 0) family_use(&kit);
    memset(&grown, 0, sizeof grown);
    grown.nranks = LOCAL;
    for (int r = 0; r < LOCAL; r++) {
        int device;
        CHECK_OK(ncclCommCuDevice(comms[r], &device));
        CHECK_OK(chorus_devices()->set(device));
        kit_rank_open(&grown.ranks[r], NRANKS, global_rank(r), COUNT);
        grown.ranks[r].comm = comms[r];
    }
    CHECK_OK(chorus_devices()->set(test_device(0)));
    if (proc_index() == 0) kit_close(&kit);
    family_use(&grown);
    kit_close(&grown);
}

static void test_grow(void)
{
    run("child:grow");
}

/* ---- revoke ---- */

/* One revokes; the others, who hang in a collective without it, learn it and follow. */
static void child_revoke(void)
{
    static const int colors[NRANKS] = {1, 0, 1, 0, 1, 0};
    struct kit kit;
    struct kit_op op = reduce();
    proc_open(&kit, LOCAL, COUNT);
    family_use(&kit);
    /* What runs elsewhere is not to be ended yet. */
    proc_say('r');
    proc_hear('k');
    if (proc_index() != 1) {
        call_in_vain(&kit, ncclInvalidUsage);
        kit_await_error(&kit.ranks[0], ncclInvalidUsage, "revoked the communicator");
    }
    for (int r = 0; r < LOCAL; r++) CHECK_OK(ncclCommRevoke(kit.ranks[r].comm, 0));
    for (int r = 0; r < LOCAL; r++) kit_sync(&kit.ranks[r]);
    CHECK_EQ(kit_call(&kit.ranks[0], &op), ncclInvalidUsage);
    split(&kit, colors, 1);
    kit_close(&kit);
}

static void test_revoke(void)
{
    run_meeting("child:revoke", -1);
}

static const struct test_case cases[] = {
    {"split across processes", test_split, 0},
    {"shrink across processes", test_shrink, 0},
    {"shrink without a process that was killed", test_survive, 0},
    {"shrink led by a process that was killed", test_dead_leader, 0},
    {"a process dies while all split", test_die_splitting, 0},
    {"child:die-splitting", child_die_splitting, 0},
    {"grow by processes", test_grow, 0},
    {"revoke across processes", test_revoke, 0},
    {"child:split", child_split, 0},
    {"child:shrink", child_shrink, 0},
    {"child:survive", child_survive, 0},
    {"child:dead-leader", child_dead_leader, 0},
    {"child:grow", child_grow, 0},
    {"child:revoke", child_revoke, 0},
};
TEST_LIB_MAIN(cases)
