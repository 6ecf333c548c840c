/* Ends that processes come to: a peer that is killed or exits without a word, destroy and abort
 * after that, too few descriptors in one of them, forks before and after the first use. */
#define _GNU_SOURCE
#include "core/procs.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 2000 };

/* ---- a peer dies; the survivors destroy, finalize or abort, at once or later ---- */

enum { DESTROY_AT_ONCE, DESTROY, FINALIZE, ABORT, NENDS };

static void end_all(struct kit *kit, int way)
{
    struct kit_rank *rank = &kit->ranks[0];
    if (way != DESTROY_AT_ONCE) kit_await_error(rank, ncclRemoteError, "rank 2 on host");
    if (way == FINALIZE) CHECK_EQ(ncclCommFinalize(rank->comm), ncclRemoteError);
    CHECK_OK(way == ABORT ? ncclCommAbort(rank->comm) : ncclCommDestroy(rank->comm));
    CHECK_EQ(ncclCommAbort(rank->comm), ncclInvalidArgument);
    rank->comm = NULL;
    kit_sync(rank);
    kit_close(kit);
}

/* The victim never calls; the others hang in a collective or in messages with it. */
static void child_dead_peer(void)
{
    struct kit kit;
    int way = atoi(getenv("CORE_WAY"));
    struct kit_op op = kit_simple(way % 2 ? KIT_ALL_TO_ALL : KIT_ALL_REDUCE, COUNT);
    proc_mark();
    proc_open(&kit, 1, COUNT);
    kit_run(&kit, &op);
    if (proc_index() == 2) {
        proc_say('r');
        proc_hear('x');
    }
    CHECK_OK(kit_call(&kit.ranks[0], &op));
    proc_say('r');
    proc_hear('k');
    end_all(&kit, way);
    proc_check_mark();
}

static void test_dead_peer(void)
{
    for (int way = 0; way < NENDS; way++) {
        struct procs procs;
        char text[32];
        snprintf(text, sizeof text, "CORE_WAY=%d", way);
        procs_start(&procs, 3, "child:dead-peer", (const char *const[]){text, NULL});
        for (int i = 0; i < 3; i++) procs_hear(&procs, i, 'r');
        procs_signal(&procs, 2, SIGKILL);
        for (int i = 0; i < 2; i++) procs_say(&procs, i, 'k');
        procs_end(&procs, 2);
    }
}

/* ---- a peer exits before the first call, without destroying ---- */

static void child_gone(void)
{
    struct kit kit;
    proc_mark();
    proc_open(&kit, 1, COUNT);
    struct kit_rank *rank = &kit.ranks[0];
    if (proc_index() == 1) exit(0);
    struct kit_op op = kit_simple((enum kit_coll)atoi(getenv("CORE_COLL")), COUNT);
    ncclResult_t rc = ncclSuccess;
    if (op.coll < KIT_NCOLLS)
        rc = kit_call(rank, &op);
    else
        rc = ncclRecv(kit_given(rank, rank->out), 1, ncclInt8, 1, rank->comm, rank->stream);
    /* The exit may have been seen already. */
    CHECK(rc == ncclSuccess || rc == ncclRemoteError);
    kit_await_error(rank, ncclRemoteError, "rank 1 on host");
    kit_sync(rank);
    CHECK_OK(ncclCommAbort(rank->comm));
    rank->comm = NULL;
    kit_close(&kit);
    proc_check_mark();
}

static void test_gone(void)
{
    for (int coll = 0; coll <= KIT_NCOLLS; coll++) {
        struct procs procs;
        char text[32];
        snprintf(text, sizeof text, "CORE_COLL=%d", coll);
        procs_start(&procs, 2, "child:gone", (const char *const[]){text, NULL});
        procs_end(&procs, -1);
    }
}

/* ---- too few descriptors in one process ---- */

static void allow(int descriptors)
{
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = descriptors > 0 ? (rlim_t)descriptors : limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Either all processes get a communicator that works, or all get an error in time and keep
 * nothing. */
static void child_descriptors(void)
{
    ncclComm_t comm = NULL;
    struct kit_op op = kit_simple(KIT_ALL_TO_ALL, COUNT);
    struct kit kit = {.nranks = 1, .ndevices = 1};
    int me = proc_index();
    proc_mark();
    kit_rank_open(&kit.ranks[0], 3, me, COUNT);
    int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK(lowest >= 0);
    close(lowest);
    if (me == 1) allow(lowest + atoi(getenv("CORE_MORE")));
    ncclResult_t rc = ncclCommInitRank(&comm, 3, proc_id(), me);
    if (me == 1) allow(0);
    NOTE("%d: %s", (int)rc, ncclGetLastError(NULL));
    if (rc == ncclSuccess) {
        kit.ranks[0].comm = comm;
        kit_run(&kit, &op);
    } else {
        CHECK(rc == ncclSystemError || rc == ncclRemoteError || rc == ncclTimeout);
        if (rc == ncclSystemError) CHECK_HAS(ncclGetLastError(NULL), "open files");
        CHECK(comm == NULL);
    }
    kit_close(&kit);
    proc_check_mark();
}

static void test_descriptors(void)
{
    for (int more = 0; more < 26; more++) {
        struct procs procs;
        char text[32];
        snprintf(text, sizeof text, "CORE_MORE=%d", more);
        procs_start(&procs, 3, "child:descriptors",
                    (const char *const[]){text, "CHORUS_INIT_TIMEOUT_MS=1500", NULL});
        procs_end(&procs, -1);
    }
}

/* ---- forks ---- */

static void await_child(pid_t pid)
{
    int status = -1;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
}

static void work_as(int rank, const ncclUniqueId *id)
{
    struct kit kit = {.nranks = 1, .ndevices = 1};
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    kit_rank_open(&kit.ranks[0], 2, rank, COUNT);
    CHECK_OK(ncclCommInitRank(&kit.ranks[0].comm, 2, *id, rank));
    kit_run(&kit, &op);
    kit_close(&kit);
    exit(0);
}

/* Workers that were forked before any use of the library, and with an id that the parent made. */
static void child_fork_first(void)
{
    ncclUniqueId id;
    int ends[2], by_parent = getenv("CORE_BY_PARENT") != NULL;
    pid_t workers[2];
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    if (by_parent) CHECK_OK(ncclGetUniqueId(&id));
    for (int rank = 0; rank < 2; rank++) {
        workers[rank] = fork();
        CHECK(workers[rank] >= 0);
        if (workers[rank] > 0) continue;
        if (!by_parent && rank == 0) {
            CHECK_OK(ncclGetUniqueId(&id));
            CHECK_EQ(write(ends[1], &id, sizeof id), sizeof id);
        }
        if (!by_parent && rank == 1) CHECK_EQ(read(ends[0], &id, sizeof id), sizeof id);
        work_as(rank, &id);
    }
    for (int rank = 0; rank < 2; rank++) await_child(workers[rank]);
}

static void test_fork_first(void)
{
#ifdef __SANITIZE_THREAD__
    SKIP("this sanitizer cannot start threads after a fork");
#endif
    kit_child("child:fork-first", NULL);
#ifndef __SANITIZE_ADDRESS__
    /* The parent has a thread then, which may hold a lock of this sanitizer's allocator in the
     * fork; the children would wait for it for ever. */
    kit_child("child:fork-first", (const char *const[]){"CORE_BY_PARENT=1", NULL});
#endif
}

/* A leak check at a child's exit would miss what only the threads of its parent point to. */
#ifdef __SANITIZE_ADDRESS__
enum { FIRST_WAY = 1 };
#else
enum { FIRST_WAY = 0 };
#endif

/* A child of a process that is at work exits, with and without its exit handlers, or runs another
 * program; then the process itself works on, and its peer sees no death. */
static void child_fork_alive(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    proc_mark();
    proc_open(&kit, 2, COUNT);
    for (int way = FIRST_WAY; way < 3; way++) {
        for (int r = 0; r < kit.nranks; r++) kit_prepare(&kit.ranks[r], &op);
        CHECK_OK(ncclGroupStart());
        for (int r = 0; r < kit.nranks; r++) CHECK_OK(kit_call(&kit.ranks[r], &op));
        CHECK_OK(ncclGroupEnd());
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            if (way == 0) exit(0);
            if (way == 1) execl("/bin/true", "true", (char *)NULL);
            _exit(0);
        }
        await_child(pid);
        for (int r = 0; r < kit.nranks; r++) kit_check(&kit.ranks[r], &op);
        kit_run(&kit, &op);
    }
    kit_close(&kit);
    proc_check_mark();
}

static void test_fork_alive(void)
{
    struct procs procs;
    procs_start(&procs, 2, "child:fork-alive", NULL);
    procs_end(&procs, -1);
}

static const struct test_case cases[] = {
    {"ends after the death of a peer", test_dead_peer, 0},
    {"a peer is gone before the first call", test_gone, 120},
    {"too few descriptors in one process", test_descriptors, 240},
    {"workers that were forked first", test_fork_first, 0},
    {"children of a process at work", test_fork_alive, 0},
    {"child:dead-peer", child_dead_peer, 0},
    {"child:gone", child_gone, 0},
    {"child:descriptors", child_descriptors, 0},
    {"child:fork-first", child_fork_first, 0},
    {"child:fork-alive", child_fork_alive, 0},
};
TEST_LIB_MAIN(cases)
