/* Processes that die, stop, leave or abort, and messages that do not fit: the others learn it in
 * time, with rank and host named, can abort, and keep nothing. */
#define _GNU_SOURCE
#include "core/procs.h"
#include "unit/memory.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 3000, SEEN_LIMIT_MS = 2000 };

static int victim(void)
{
    return proc_count() - 1;
}

static int proc_local(void)
{
    const char *text = getenv("CORE_LOCAL");
    return text == NULL ? 1 : atoi(text);
}

/* The text names the rank and this host. */
static void check_death(struct kit_rank *rank)
{
    char who[300], host[200] = "";
    gethostname(host, sizeof host - 1);
    snprintf(who, sizeof who, "rank %d on host %s", victim() * proc_local(), host);
    kit_await_error(rank, ncclRemoteError, who);
}

static void abort_all(struct kit *kit)
{
    int64_t start = kit_now_ms();
    for (int r = 0; r < kit->nranks; r++) {
        CHECK_OK(ncclCommAbort(kit->ranks[r].comm));
        kit->ranks[r].comm = NULL;
    }
    CHECK(kit_now_ms() - start < 1000);
    kit_close(kit);
}

/* ---- death ---- */

/* 'w': waits in a call that the victim never makes, or not at all. */
static void die_while(struct kit *kit, int calls)
{
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    for (int r = 0; r < kit->nranks; r++) kit_prepare(&kit->ranks[r], &op);
    kit_run(kit, &op);
    if (proc_index() == victim()) {
        proc_say('r');
        proc_hear('x');
    }
    if (calls) {
        CHECK_OK(ncclGroupStart());
        for (int r = 0; r < kit->nranks; r++) CHECK_OK(kit_call(&kit->ranks[r], &op));
        CHECK_OK(ncclGroupEnd());
    }
    proc_say('r');
    proc_hear('k');
    int64_t start = kit_now_ms();
    check_death(&kit->ranks[0]);
    for (int r = 0; r < kit->nranks; r++) kit_sync(&kit->ranks[r]);
    CHECK(kit_now_ms() - start < SEEN_LIMIT_MS);
}

static void run_death(int calls)
{
    struct kit kit;
    proc_mark();
    proc_open(&kit, proc_local(), COUNT);
    die_while(&kit, calls);
    abort_all(&kit);
    proc_check_mark();
}

static void child_die_in_call(void)
{
    run_death(1);
}

static void child_die_idle(void)
{
    run_death(0);
}

static void run_kill(const char *name, const char *const env[])
{
    struct procs procs;
    procs_start(&procs, 3, name, env);
    for (int i = 0; i < 3; i++) procs_hear(&procs, i, 'r');
    procs_signal(&procs, 2, SIGKILL);
    for (int i = 0; i < 2; i++) procs_say(&procs, i, 'k');
    procs_end(&procs, 2);
}

static void test_die_in_call(void)
{
    run_kill("child:die-in-call", NULL);
    run_kill("child:die-in-call", (const char *const[]){"NCCL_ALGO=ring", NULL});
}

static void test_die_idle(void)
{
    run_kill("child:die-idle", NULL);
    run_kill("child:die-idle", (const char *const[]){"CORE_LOCAL=2", NULL});
}

/* All are in the middle of many calls when one dies. */
static void child_die_busy(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    ncclResult_t rc = ncclSuccess;
    proc_mark();
    proc_open(&kit, 1, COUNT);
    proc_say('r');
    while (rc == ncclSuccess) {
        rc = kit_call(&kit.ranks[0], &op);
        kit_sync(&kit.ranks[0]);
    }
    CHECK_EQ(rc, ncclRemoteError);
    check_death(&kit.ranks[0]);
    abort_all(&kit);
    proc_check_mark();
}

static void test_die_busy(void)
{
    for (int round = 0; round < 3; round++) {
        struct procs procs;
        procs_start(&procs, 3, "child:die-busy", NULL);
        for (int i = 0; i < 3; i++) procs_hear(&procs, i, 'r');
        nanosleep(&(struct timespec){.tv_nsec = 20000000 * (round + 1)}, NULL);
        procs_signal(&procs, 2, SIGKILL);
        procs_end(&procs, 2);
    }
}

/* Process 0 waits in its initialisation for 1, which starts late; 2 has joined and dies. */
static void child_die_in_init(void)
{
    ncclComm_t comm = NULL;
    char host[200] = "";
    gethostname(host, sizeof host - 1);
    proc_mark();
    if (proc_index() == 1) proc_hear('k');
    proc_say('r');
    ncclResult_t rc = ncclCommInitRank(&comm, 3, proc_id(), proc_index());
    CHECK_EQ(rc, ncclRemoteError);
    CHECK_HAS(ncclGetLastError(NULL), "rank 2");
    CHECK_HAS(ncclGetLastError(NULL), host);
    CHECK(comm == NULL);
    if (proc_index() == 0) proc_say('e');
    proc_check_mark();
}

static void test_die_in_init(void)
{
    struct procs procs;
    procs_start(&procs, 3, "child:die-in-init", NULL);
    procs_hear(&procs, 0, 'r');
    procs_hear(&procs, 2, 'r');
    /* Long enough for both to have joined the session; too short only makes the test weaker. */
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    int64_t start = kit_now_ms();
    procs_signal(&procs, 2, SIGKILL);
    procs_hear(&procs, 0, 'e');
    CHECK(kit_now_ms() - start < SEEN_LIMIT_MS);
    procs_say(&procs, 1, 'k');
    procs_hear(&procs, 1, 'r');
    procs_end(&procs, 2);
}

/* ---- a stop is no death ---- */

static void child_stop(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    proc_open(&kit, 1, COUNT);
    kit_run(&kit, &op);
    proc_say('r');
    kit_prepare(&kit.ranks[0], &op);
    if (proc_index() == 1) proc_hear('g');
    CHECK_OK(kit_call(&kit.ranks[0], &op));
    kit_check(&kit.ranks[0], &op);
    kit_run(&kit, &op);
    kit_close(&kit);
}

static void test_stop(void)
{
    struct procs procs;
    procs_start(&procs, 3, "child:stop", NULL);
    for (int i = 0; i < 3; i++) procs_hear(&procs, i, 'r');
    procs_signal(&procs, 1, SIGSTOP);
    procs_say(&procs, 1, 'g');
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    procs_signal(&procs, 1, SIGCONT);
    procs_end(&procs, -1);
}

/* ---- leaving while others wait ---- */

static void child_leave(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    proc_mark();
    proc_open(&kit, 1, COUNT);
    kit_run(&kit, &op);
    if (proc_index() == 1) {
        kit_close(&kit);
        proc_check_mark();
        return;
    }
    CHECK_OK(kit_call(&kit.ranks[0], &op));
    kit_await_status(kit.ranks[0].comm, test_on_gpu() ? "waits for ranks 1 (have not called)"
                                                      : "waits for data from ranks 1");
    kit_await_status(kit.ranks[0].comm, "AllReduce #1");
    kit_await_status(kit.ranks[0].comm, "the process of rank 1 has left");
    abort_all(&kit);
    proc_check_mark();
}

static void test_leave(void)
{
    struct procs procs;
    procs_start(&procs, 2, "child:leave", NULL);
    procs_end(&procs, -1);
}

/* The same with messages. */
static void child_leave_message(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    proc_open(&kit, 1, COUNT);
    kit_run(&kit, &op);
    struct kit_rank *rank = &kit.ranks[0];
    if (proc_index() == 0) {
        CHECK_OK(ncclRecv(kit_given(rank, rank->out), 1, ncclInt8, 1, rank->comm, rank->stream));
        kit_await_status(rank->comm, "Recv from rank 1");
        kit_await_status(rank->comm, "the process of rank 1 has left");
        abort_all(&kit);
        return;
    }
    kit_close(&kit);
}

static void test_leave_message(void)
{
    struct procs procs;
    procs_start(&procs, 2, "child:leave-message", NULL);
    procs_end(&procs, -1);
}

/* ---- abort ---- */

static void child_abort(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    proc_mark();
    proc_open(&kit, 1, COUNT);
    kit_run(&kit, &op);
    if (proc_index() != 1) {
        CHECK_OK(kit_call(&kit.ranks[0], &op));
        proc_say('r');
        kit_sync(&kit.ranks[0]);
        kit_await_error(&kit.ranks[0], ncclRemoteError, "rank 1 on host");
        kit_await_error(&kit.ranks[0], ncclRemoteError, "aborted the communicator");
    } else {
        proc_hear('a');
    }
    abort_all(&kit);
    proc_check_mark();
}

static void test_abort(void)
{
    struct procs procs;
    procs_start(&procs, 3, "child:abort", NULL);
    procs_hear(&procs, 0, 'r');
    procs_hear(&procs, 2, 'r');
    procs_say(&procs, 1, 'a');
    procs_end(&procs, -1);
}

/* ---- messages that do not fit ---- */

static void child_sizes(void)
{
    struct kit kit;
    proc_open(&kit, 1, COUNT);
    struct kit_rank *rank = &kit.ranks[0];
    void *buffer = kit_given(rank, rank->in);
    ncclResult_t rc = proc_index() == 0
                          ? ncclSend(buffer, 20, ncclInt8, 1, rank->comm, rank->stream)
                          : ncclRecv(buffer, 16, ncclInt8, 0, rank->comm, rank->stream);
    CHECK(rc == ncclSuccess || rc == ncclInvalidUsage); /* it may find the other half there */
    kit_await_error(rank, ncclInvalidUsage, "rank 0 sends 20 bytes to rank 1, which receives 16");
    abort_all(&kit);
}

static void test_sizes(void)
{
    struct procs procs;
    procs_start(&procs, 2, "child:sizes", NULL);
    procs_end(&procs, -1);
}

/* ---- many communicators one after the other ---- */

/* Each round has an id of its own: rank 0 sends it in the communicator before. */
static void child_cycles(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, 64);
    ncclUniqueId id = proc_id(), next = id;
    long pages[4];
    proc_mark();
    for (int round = 0; round < 80; round++) {
        struct kit_rank *rank = &kit.ranks[0];
        kit.nranks = 1;
        kit_rank_open(rank, 2, proc_index(), 64);
        CHECK_OK(ncclCommInitRank(&rank->comm, 2, id, proc_index()));
        kit_run(&kit, &op);
        if (proc_index() == 0) CHECK_OK(ncclGetUniqueId(&next));
        memcpy(rank->in, &next, sizeof next);
        CHECK_OK(
            ncclBroadcast(rank->in, rank->out, sizeof id, ncclInt8, 0, rank->comm, rank->stream));
        kit_sync(rank);
        memcpy(&id, rank->out, sizeof id);
        kit_rank_close(rank);
        if (round % 20 == 19) pages[round / 20] = kit_resident_pages();
    }
    /* What is kept of each round adds up in every part; a pool grows once. */
    long least = LONG_MAX;
    for (int part = 1; part < 4; part++)
        if (pages[part] - pages[part - 1] < least) least = pages[part] - pages[part - 1];
    NOTE("%ld, %ld, %ld and %ld pages after 20, 40, 60 and 80 rounds", pages[0], pages[1], pages[2],
         pages[3]);
    CHECK(least < 32);
    proc_check_mark();
}

static void test_cycles(void)
{
    struct procs procs;
    procs_start(&procs, 2, "child:cycles", NULL);
    procs_end(&procs, -1);
}

static const struct test_case cases[] = {
    {"a process dies in a collective", test_die_in_call, 0},
    {"a process dies while all are idle", test_die_idle, 0},
    {"a process dies while all are busy", test_die_busy, 0},
    {"a process dies during the initialisation", test_die_in_init, 0},
    {"a process stops for a second", test_stop, 0},
    {"a process leaves while another waits", test_leave, 0},
    {"a process leaves before its message", test_leave_message, 0},
    {"a process aborts", test_abort, 0},
    {"sizes of a message differ", test_sizes, 0},
    {"80 communicators one after the other", test_cycles, 0},
    {"child:die-in-call", child_die_in_call, 0},
    {"child:die-idle", child_die_idle, 0},
    {"child:die-busy", child_die_busy, 0},
    {"child:die-in-init", child_die_in_init, 0},
    {"child:stop", child_stop, 0},
    {"child:leave", child_leave, 0},
    {"child:leave-message", child_leave_message, 0},
    {"child:abort", child_abort, 0},
    {"child:sizes", child_sizes, 0},
    {"child:cycles", child_cycles, 0},
};
TEST_LIB_MAIN(cases)
