/* Statistics of a communicator's memory, suspending and resuming: what is given back comes again
 * when it is used, results stay right, and every wrong time is refused on all ranks. */
#define _GNU_SOURCE
#include "core/procs.h"
#include "unit/memory.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 40000, NRANKS = 4, LOCAL = 2, ROUNDS = 8 };

static uint64_t stat_of(ncclComm_t comm, ncclCommMemStat_t stat)
{
    uint64_t value = ~UINT64_C(0);
    CHECK_OK(ncclCommMemStats(comm, stat, &value));
    return value;
}

static uint64_t sum_of(const struct kit *kit, ncclCommMemStat_t stat)
{
    uint64_t sum = 0;
    for (int r = 0; r < kit->nranks; r++) sum += stat_of(kit->ranks[r].comm, stat);
    return sum;
}

/* What all ranks of this process call together. */
static ncclResult_t suspend_all(const struct kit *kit)
{
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < kit->nranks; r++)
        CHECK_OK(ncclCommSuspend(kit->ranks[r].comm, NCCL_SUSPEND_MEM));
    return ncclGroupEnd();
}

static ncclResult_t resume_all(const struct kit *kit)
{
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < kit->nranks; r++) CHECK_OK(ncclCommResume(kit->ranks[r].comm));
    return ncclGroupEnd();
}

/* Collectives and messages that leave something in every ring. */
static void use(struct kit *kit)
{
    struct kit_op reduce = kit_simple(KIT_ALL_REDUCE, COUNT);
    struct kit_op gather = kit_simple(KIT_ALL_GATHER, 3000);
    struct kit_op all = kit_simple(KIT_ALL_TO_ALL, COUNT / 8);
    kit_run(kit, &reduce);
    kit_run(kit, &gather);
    kit_run(kit, &all);
}

/* Pages that are in use by this process, its own and shared ones. */
static long resident_kib(void)
{
    char line[200];
    long anon = -1, shared = -1;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        (void)sscanf(line, "RssAnon: %ld", &anon);
        (void)sscanf(line, "RssShmem: %ld", &shared);
    }
    fclose(file);
    CHECK(anon >= 0 && shared >= 0);
    return anon + shared;
}

static void check_suspended(const struct kit *kit, uint64_t before)
{
    for (int r = 0; r < kit->nranks; r++) {
        ncclComm_t comm = kit->ranks[r].comm;
        CHECK_EQ(stat_of(comm, ncclStatGpuMemSuspended), 1);
        CHECK_EQ(stat_of(comm, ncclStatGpuMemTotal), stat_of(comm, ncclStatGpuMemPersist));
    }
    CHECK_EQ(sum_of(kit, ncclStatGpuMemSuspend), before);
}

static void check_awake(const struct kit *kit)
{
    for (int r = 0; r < kit->nranks; r++) {
        ncclComm_t comm = kit->ranks[r].comm;
        CHECK_EQ(stat_of(comm, ncclStatGpuMemSuspended), 0);
        CHECK_EQ(stat_of(comm, ncclStatGpuMemTotal),
                 stat_of(comm, ncclStatGpuMemPersist) + stat_of(comm, ncclStatGpuMemSuspend));
    }
}

/* On a GPU that has all ranks there is nothing to be given back. */
static void suspend_and_resume(struct kit *kit, int measures)
{
    use(kit);
    check_awake(kit);
    uint64_t bytes = sum_of(kit, ncclStatGpuMemSuspend);
    if (!test_on_gpu()) CHECK(bytes > 0);
    long before = resident_kib();
    CHECK_OK(suspend_all(kit));
    long fell = before - resident_kib();
    NOTE("%llu KiB to give back, %ld KiB less", (unsigned long long)bytes / 1024, fell);
    if (measures) CHECK(fell * 1024 * 10 >= (long)bytes * 9);
    check_suspended(kit, bytes);
    CHECK_OK(resume_all(kit));
    check_awake(kit);
    use(kit);
    if (!test_on_gpu()) CHECK(sum_of(kit, ncclStatGpuMemSuspend) > 0);
}

/* With connections instead of buffers that all reach. */
static void child_ring(void)
{
    struct kit kit;
    kit_open(&kit, NRANKS, NRANKS, COUNT);
    suspend_and_resume(&kit, kit_resident_pages() > 0 && !test_on_gpu());
    for (int round = 1; round < ROUNDS; round++) suspend_and_resume(&kit, 0);
    kit_close(&kit);
}

static void test_ring(void)
{
    kit_child("child:ring", (const char *const[]){"NCCL_ALGO=ring", NULL});
    kit_child("child:ring", (const char *const[]){"NCCL_ALGO=ring", "NCCL_PROTO=LL", NULL});
}

static void child_across(void)
{
    struct kit kit;
    proc_open(&kit, LOCAL, COUNT);
    for (int round = 0; round < (kit_is_slow() ? 2 : ROUNDS); round++) {
        use(&kit);
        check_awake(&kit);
        CHECK_OK(suspend_all(&kit));
        CHECK_EQ(stat_of(kit.ranks[0].comm, ncclStatGpuMemSuspended), 1);
        CHECK_OK(resume_all(&kit));
    }
    use(&kit);
    kit_close(&kit);
}

static void test_across(void)
{
    static const char *const envs[][2] = {
        {NULL}, {"NCCL_ALGO=ring", NULL}, {"NCCL_PROTO=LL", NULL}};
    for (size_t e = 0; e < TEST_COUNT(envs); e++) {
        struct procs procs;
        procs_start(&procs, 3, "child:across", envs[e]);
        procs_end(&procs, -1);
    }
}

/* ---- the wrong time ---- */

static void test_states(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, 64);
    ncclComm_t child = NULL;
    kit_open(&kit, 2, 2, 64);
    ncclComm_t comm = kit.ranks[0].comm;
    CHECK_OK(ncclCommSuspend(comm, 0)); /* nothing is asked for */
    CHECK_EQ(stat_of(comm, ncclStatGpuMemSuspended), 0);
    CHECK_EQ(ncclCommResume(comm), ncclInvalidUsage);
    CHECK_HAS(ncclGetLastError(NULL), "is ready, not suspended");
    CHECK_OK(suspend_all(&kit));
    CHECK_EQ(ncclCommSuspend(comm, NCCL_SUSPEND_MEM), ncclInvalidUsage);
    CHECK_HAS(ncclGetLastError(NULL), "is suspended");
    CHECK_EQ(kit_call(&kit.ranks[0], &op), ncclInvalidUsage);
    CHECK_HAS(ncclGetLastError(NULL), "is suspended");
    CHECK_EQ(ncclSend(kit.ranks[0].in, 1, ncclInt8, 1, comm, kit.ranks[0].stream),
             ncclInvalidUsage);
    CHECK_EQ(ncclCommSplit(comm, 0, 0, &child, NULL), ncclInvalidUsage);
    ncclResult_t error;
    CHECK_OK(ncclCommGetAsyncError(comm, &error));
    CHECK_OK(error);
    CHECK_OK(resume_all(&kit));
    kit_run(&kit, &op);
    /* The ends of one that is suspended. */
    CHECK_OK(suspend_all(&kit));
    CHECK_OK(ncclCommFinalize(comm));
    CHECK_OK(ncclCommAbort(kit.ranks[1].comm));
    kit.ranks[1].comm = NULL;
    kit_close(&kit);
}

static void hold(void *arg)
{
    _Atomic int *open = arg;
    while (!atomic_load(open)) sched_yield();
}

/* All learn who is not ready for it, and go on. */
static void test_busy(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, 64);
    _Atomic int open = 0;
    kit_open(&kit, 3, 3, 64);
    for (int r = 0; r < 3; r++) kit_prepare(&kit.ranks[r], &op);
    CHECK_OK(chorus_devices()->host_func(kit.ranks[1].stream, hold, (void *)&open));
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < 3; r++) CHECK_OK(kit_call(&kit.ranks[r], &op));
    CHECK_OK(ncclGroupEnd());
    CHECK_EQ(suspend_all(&kit), ncclInvalidUsage);
    CHECK_HAS(ncclGetLastError(NULL), "has operations under way");
    atomic_store(&open, 1);
    for (int r = 0; r < 3; r++) kit_check(&kit.ranks[r], &op);
    CHECK_OK(suspend_all(&kit));
    CHECK_OK(resume_all(&kit));
    kit_run(&kit, &op);
    kit_close(&kit);
}

/* A message that was sent and not received would be lost. */
static void test_pending(void)
{
    struct kit kit;
    kit_open(&kit, 2, 2, 64);
    struct kit_rank *from = &kit.ranks[0], *to = &kit.ranks[1];
    memset(from->in, 0x5a, 40);
    CHECK_OK(ncclSend(from->in, 40, ncclInt8, 1, from->comm, from->stream));
    if (!test_on_gpu()) kit_sync(from);
    CHECK_EQ(suspend_all(&kit), ncclInvalidUsage);
    CHECK_HAS(ncclGetLastError(NULL), test_on_gpu() ? "under way" : "has not received all");
    CHECK_OK(ncclRecv(to->out, 40, ncclInt8, 0, to->comm, to->stream));
    for (int r = 0; r < 2; r++) kit_sync(&kit.ranks[r]);
    CHECK(to->out[0] == 0x5a && to->out[39] == 0x5a);
    CHECK_OK(suspend_all(&kit));
    kit_close(&kit);
}

static void child_missing(void)
{
    struct kit kit;
    kit_open(&kit, 2, 2, 64);
    CHECK_EQ(ncclCommSuspend(kit.ranks[0].comm, NCCL_SUSPEND_MEM), ncclRemoteError);
    CHECK_HAS(ncclGetLastError(NULL), "rank 1 of 2 has not joined");
    CHECK_OK(suspend_all(&kit));
    CHECK_EQ(ncclCommResume(kit.ranks[1].comm), ncclRemoteError);
    CHECK_HAS(ncclGetLastError(NULL), "rank 0 has not called");
    CHECK_OK(resume_all(&kit));
    kit_close(&kit);
}

static void test_missing(void)
{
    kit_child("child:missing", (const char *const[]){"CHORUS_INIT_TIMEOUT_MS=300", NULL});
}

/* The second of two in a group is refused as one after the group would be. */
static void test_twice(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    kit_open(&kit, 2, 2, COUNT);
    kit_run(&kit, &op);
    uint64_t bytes = sum_of(&kit, ncclStatGpuMemSuspend);
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < 2; i++) CHECK_OK(ncclCommSuspend(kit.ranks[r].comm, NCCL_SUSPEND_MEM));
    CHECK_EQ(ncclGroupEnd(), ncclInvalidUsage);
    CHECK_HAS(ncclGetLastError(NULL), "ncclCommSuspend: rank");
    CHECK_HAS(ncclGetLastError(NULL), "is suspended");
    check_suspended(&kit, bytes);
    CHECK_OK(resume_all(&kit));
    kit_run(&kit, &op);
    kit_close(&kit);
}

static const struct test_case cases[] = {
    {"suspend: rings of a process", test_ring, 0},
    {"suspend: across processes", test_across, 0},
    {"suspend: states", test_states, 0},
    {"suspend: a rank is busy", test_busy, 0},
    {"suspend: a message is on its way", test_pending, 0},
    {"suspend: a rank does not call", test_missing, 0},
    {"suspend: twice in a group", test_twice, 0},
    {"child:ring", child_ring, 0},
    {"child:across", child_across, 0},
    {"child:missing", child_missing, 0},
};
TEST_LIB_MAIN(cases)
