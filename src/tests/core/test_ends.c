/* Lives of communicators that go wrong or end in an unusual way, inside a process: ids used twice,
 * wrong ranks, ends of what has failed, two that hang, aborts that race an initialisation, two
 * threads on one communicator, too few descriptors, failures repeated many times. */
#define _GNU_SOURCE
#include "core/procs.h"
#include "unit/memory.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { COUNT = 64 };

static void abort_all(struct kit *kit)
{
    for (int r = 0; r < kit->nranks; r++) {
        if (kit->ranks[r].comm != NULL) CHECK_OK(ncclCommAbort(kit->ranks[r].comm));
        kit->ranks[r].comm = NULL;
    }
}

/* ---- ids and ranks ---- */

struct starts {
    ncclUniqueId id;
    int nranks;
    ncclComm_t comms[KIT_MAX_RANKS];
    ncclResult_t results[KIT_MAX_RANKS];
    char texts[KIT_MAX_RANKS][512];
};

static void start_rank(void *arg, int i)
{
    struct starts *starts = arg;
    starts->results[i] = ncclCommInitRank(&starts->comms[i], starts->nranks, starts->id, i);
    snprintf(starts->texts[i], sizeof starts->texts[i], "%s", ncclGetLastError(NULL));
}

/* An id makes one communicator. A second use fails on all ranks, while the first communicator
 * lives and when it is gone, and leaves the first alone. */
static void child_id_twice(void)
{
    static struct starts starts;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    struct kit kit = {.nranks = 2, .ndevices = 1};
    CHECK_OK(ncclGetUniqueId(&starts.id));
    starts.nranks = 2;
    kit_threads(2, start_rank, &starts);
    for (int r = 0; r < 2; r++) {
        CHECK_OK(starts.results[r]);
        kit_rank_open(&kit.ranks[r], 2, r, COUNT);
        kit.ranks[r].comm = starts.comms[r];
    }
    for (int gone = 0; gone < 2; gone++) {
        if (gone) kit_close(&kit);
        kit_threads(2, start_rank, &starts);
        for (int r = 0; r < 2; r++) {
            NOTE("%d: %s", (int)starts.results[r], starts.texts[r]);
            CHECK(starts.results[r] != ncclSuccess && starts.comms[r] == NULL);
            CHECK(strlen(starts.texts[r]) > 10);
        }
        if (!gone) kit_run(&kit, &op);
    }
}

static void test_id_twice(void)
{
    kit_child("child:id-twice", (const char *const[]){"CHORUS_INIT_TIMEOUT_MS=2000", NULL});
}

/* Arguments that cannot be right are refused at once and reach nobody else. */
static void test_wrong_rank(void)
{
    static const int wrong[][2] = {{2, -1}, {2, 2}, {2, 99}, {0, 0}, {-1, 0}, {1, 1}};
    static struct starts starts;
    CHECK_OK(ncclGetUniqueId(&starts.id));
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        ncclComm_t comm = NULL;
        CHECK_EQ(ncclCommInitRank(&comm, wrong[i][0], starts.id, wrong[i][1]), ncclInvalidArgument);
        CHECK(comm == NULL);
    }
    starts.nranks = 2;
    kit_threads(2, start_rank, &starts);
    for (int r = 0; r < 2; r++) CHECK_OK(starts.results[r]);
    for (int r = 0; r < 2; r++) CHECK_OK(ncclCommDestroy(starts.comms[r]));
}

/* ---- ends of a communicator that has failed ---- */

/* How it fails: ranks disagree; a rank aborts while the others wait; or it does not fail at all
 * and is finalized. */
enum { DISAGREE, PEER_ABORTS, FINALIZED, NWAYS };

static void make_fail(struct kit *kit, int way)
{
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT), other = kit_simple(KIT_ALL_REDUCE, 3);
    if (way == FINALIZED) {
        kit_run(kit, &op);
        for (int r = 0; r < kit->nranks; r++) CHECK_OK(ncclCommFinalize(kit->ranks[r].comm));
        return;
    }
    CHECK_OK(kit_call(&kit->ranks[0], &op));
    if (way == DISAGREE) {
        ncclResult_t rc = kit_call(&kit->ranks[1], &other);
        CHECK(rc == ncclSuccess || rc == ncclInvalidUsage);
    } else {
        CHECK_OK(ncclCommAbort(kit->ranks[1].comm));
        kit->ranks[1].comm = NULL;
    }
    kit_await_error(&kit->ranks[0], way == DISAGREE ? ncclInvalidUsage : ncclRemoteError, "rank");
}

static void end_twice(struct kit_rank *rank, int aborts)
{
    ncclResult_t error;
    ncclComm_t comm = rank->comm;
    if (comm == NULL) return;
    CHECK_OK(aborts ? ncclCommAbort(comm) : ncclCommDestroy(comm));
    CHECK_EQ(ncclCommDestroy(comm), ncclInvalidArgument);
    CHECK_EQ(ncclCommAbort(comm), ncclInvalidArgument);
    CHECK_EQ(ncclCommFinalize(comm), ncclInvalidArgument);
    CHECK_EQ(ncclCommGetAsyncError(comm, &error), ncclInvalidArgument);
    rank->comm = NULL;
}

static void test_failed_ends(void)
{
    for (int way = 0; way < NWAYS; way++)
        for (int ndevices = 1; ndevices <= 2; ndevices++)
            for (int aborts = 0; aborts < 2; aborts++) {
                struct kit kit;
                kit_open(&kit, 2, ndevices, COUNT);
                make_fail(&kit, way);
                for (int twice = 0; twice < 2; twice++)
                    for (int r = 0; r < 2; r++)
                        if (kit.ranks[r].comm != NULL)
                            CHECK(ncclCommFinalize(kit.ranks[r].comm) != ncclSuccess);
                for (int r = 0; r < 2; r++) end_twice(&kit.ranks[r], aborts);
                kit_close(&kit);
            }
}

/* ---- two that hang ---- */

/* Two communicators on the same devices, a rank missing in each: the abort of one neither waits
 * for the other nor ends it. */
static void child_two_hang(void)
{
    for (int ndevices = 1; ndevices <= 3; ndevices++)
        for (int first = 0; first < 2; first++) {
            struct kit kits[2];
            struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
            ncclResult_t error;
            for (int k = 0; k < 2; k++) kit_open(&kits[k], 3, ndevices, COUNT);
            for (int r = 0; r < 2; r++)
                for (int k = 0; k < 2; k++) CHECK_OK(kit_call(&kits[k].ranks[r], &op));
            abort_all(&kits[first]);
            CHECK_OK(ncclCommGetAsyncError(kits[1 - first].ranks[0].comm, &error));
            CHECK_EQ(error, ncclSuccess);
            abort_all(&kits[1 - first]);
            for (int k = 0; k < 2; k++) kit_close(&kits[k]);
        }
}

static void test_two_hang(void)
{
    kit_child("child:two-hang", (const char *const[]){"CHORUS_HOST_QUEUES=0", NULL});
    kit_child("child:two-hang", (const char *const[]){"CHORUS_HOST_QUEUES=1", NULL});
    kit_child("child:two-hang", (const char *const[]){"NCCL_ALGO=ring", NULL});
}

/* ---- aborts that race an initialisation ---- */

struct race {
    ncclUniqueId id;
    ncclComm_t comms[2];
    ncclResult_t results[2];
    int spins;
    _Atomic int ended;
};

/* Threads 0 and 1 initialise, thread 2 aborts rank 0 at some moment of that. */
static void race_abort(void *arg, int i)
{
    struct race *race = arg;
    if (i < 2) {
        race->results[i] = ncclCommInitRank(&race->comms[i], 2, race->id, i);
        if (i == 0) atomic_store(&race->ended, 1);
        return;
    }
    ncclComm_t comm = NULL;
    for (int ended = 0; comm == NULL && !ended;) {
        ended = atomic_load(&race->ended); /* before the look: a handle that is left is found */
        comm = __atomic_load_n(&race->comms[0], __ATOMIC_ACQUIRE);
        if (comm == NULL) sched_yield();
    }
    if (comm == NULL) return;
    for (int s = 0; s < race->spins; s++) sched_yield();
    /* Too late when the initialisation has just failed; the handle is known to be dead then. */
    ncclResult_t rc = ncclCommAbort(comm);
    CHECK(rc == ncclSuccess || rc == ncclInvalidArgument);
}

/* Where the abort comes before rank 0 has reached the session, rank 1 misses it until the limit of
 * initialisations, which is short here. */
static void child_race_abort(void)
{
    int nfailed = 0, rounds = 150;
    uint32_t state = 3;
    proc_mark();
    for (int round = 0; round < rounds; round++) {
        struct race race = {.comms = {NULL, NULL}, .spins = 1 << kit_random(&state) % 11};
        CHECK_OK(ncclGetUniqueId(&race.id));
        kit_threads(3, race_abort, &race);
        nfailed += race.results[0] != ncclSuccess;
        if (race.results[1] == ncclSuccess) CHECK_OK(ncclCommAbort(race.comms[1]));
        if (race.results[0] != ncclSuccess) CHECK(race.comms[0] == NULL);
    }
    NOTE("%d of %d initialisations were aborted", nfailed, rounds);
    proc_check_mark();
}

static void test_race_abort(void)
{
    kit_child("child:race-abort", (const char *const[]){"CHORUS_INIT_TIMEOUT_MS=100", NULL});
}

/* ---- two threads on one communicator ---- */

enum { THREAD_CALLS = 150 };

struct shared {
    struct kit kit;
    struct kit_rank second[4]; /* buffers and streams of the second threads */
};

static struct kit_rank *rank_of_thread(struct shared *shared, int i)
{
    return i % 2 == 0 ? &shared->kit.ranks[i / 2] : &shared->second[i / 2];
}

/* Thread i belongs to rank i / 2. All calls are alike, so that any two may meet. */
static void call_shared(void *arg, int i)
{
    struct kit_rank *rank = rank_of_thread(arg, i);
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    void *handle;
    for (int c = 0; c < THREAD_CALLS; c++) {
        kit_prepare(rank, &op);
        CHECK_OK(ncclCommRegister(rank->comm, rank->in, rank->room, &handle));
        CHECK_OK(kit_call(rank, &op));
        kit_check(rank, &op);
        CHECK_OK(ncclCommDeregister(rank->comm, handle));
    }
}

/* The same with operators of their own, which come and go meanwhile. */
static void scale_shared(void *arg, int i)
{
    struct kit_rank *rank = rank_of_thread(arg, i);
    int32_t two = 2;
    for (int c = 0; c < THREAD_CALLS; c++) {
        ncclRedOp_t redop[3];
        int32_t *in = (int32_t *)(void *)rank->in, *out = (int32_t *)(void *)rank->out;
        for (int o = 0; o < 3; o++)
            CHECK_OK(ncclRedOpCreatePreMulSum(&redop[o], &two, ncclInt32, ncclScalarHostImmediate,
                                              rank->comm));
        for (int e = 0; e < COUNT; e++) in[e] = rank->rank + e;
        CHECK_OK(ncclAllReduce(in, out, COUNT, ncclInt32, redop[c % 3], rank->comm, rank->stream));
        for (int o = 0; o < 3; o++) CHECK_OK(ncclRedOpDestroy(redop[o], rank->comm));
        kit_sync(rank);
        for (int e = 0; e < COUNT; e++) CHECK_EQ(out[e], 2 * (3 + 3 * e));
    }
}

static void child_shared(void)
{
    for (int ndevices = 1; ndevices <= 3; ndevices++) {
        static struct shared shared;
        kit_open(&shared.kit, 3, ndevices, COUNT);
        for (int r = 0; r < 3; r++) {
            CHECK_OK(chorus_devices()->set(test_device(r % ndevices)));
            kit_rank_open(&shared.second[r], 3, r, COUNT);
            shared.second[r].comm = shared.kit.ranks[r].comm;
        }
        CHECK_OK(chorus_devices()->set(0));
        kit_threads(6, call_shared, &shared);
        kit_threads(6, scale_shared, &shared);
        for (int r = 0; r < 3; r++) {
            shared.second[r].comm = NULL;
            kit_rank_close(&shared.second[r]);
        }
        kit_close(&shared.kit);
    }
}

static void test_shared(void)
{
    kit_child("child:shared", NULL);
    kit_child("child:shared", (const char *const[]){"NCCL_ALGO=ring", NULL});
}

/* ---- failures, again and again, keep nothing ---- */

/* The parent names a file of schedules that is missing or broken. */
static void child_broken_file(void)
{
    ncclComm_t comms[2];
    long early = 0;
    proc_mark();
    for (int round = 0; round < 100; round++) {
        CHECK_EQ(ncclCommInitAll(comms, 2, NULL), ncclInvalidUsage);
        CHECK(strlen(ncclGetLastError(NULL)) > 10);
        CHECK(comms[0] == NULL && comms[1] == NULL);
        if (round == 30) early = kit_resident_pages();
    }
    CHECK(kit_resident_pages() - early < 64);
    proc_check_mark();
}

static void test_broken_file(void)
{
    char path[] = P_tmpdir "/chorus-schedule-XXXXXX", setting[80];
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK(write(fd, "schedule AllReduce\nranks 0 x\n", 29) == 29);
    close(fd);
    snprintf(setting, sizeof setting, "CHORUS_SCHEDULE_FILE=%s", path);
    kit_child("child:broken-file", (const char *const[]){setting, NULL});
    unlink(path);
    kit_child("child:broken-file", (const char *const[]){setting, NULL});
}

static void child_failing_calls(void)
{
    struct kit kit;
    void *handle;
    ncclRedOp_t redop;
    long early = 0;
    proc_mark();
    kit_open(&kit, 2, 2, COUNT);
    ncclComm_t comm = kit.ranks[0].comm;
    for (int round = 0; round < 3000; round++) {
        CHECK_EQ(ncclCommRegister(comm, NULL, 64, &handle), ncclInvalidArgument);
        CHECK_EQ(ncclCommRegister(comm, kit.ranks[0].in, 0, &handle), ncclInvalidArgument);
        CHECK_EQ(ncclCommDeregister(comm, &handle), ncclInvalidUsage);
        CHECK_EQ(ncclRedOpCreatePreMulSum(&redop, NULL, ncclInt8, ncclScalarDevice, comm),
                 ncclInvalidArgument);
        CHECK_EQ(ncclMemAlloc(&handle, SIZE_MAX / 2),
                 test_on_gpu() ? ncclUnhandledCudaError : ncclSystemError);
        CHECK_OK(ncclCommRegister(comm, kit.ranks[0].in, 64, &handle));
        CHECK_OK(ncclCommDeregister(comm, handle));
        if (round == 1000) early = kit_resident_pages();
    }
    CHECK(kit_resident_pages() - early < 64);
    kit_close(&kit);
    proc_check_mark();
}

static void test_failing_calls(void)
{
    kit_child("child:failing-calls", NULL);
}

/* ---- too few descriptors ---- */

static int lowest_free_descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    close(fd);
    return fd;
}

static int is_free_again(void *used)
{
    return lowest_free_descriptor() == *(int *)used;
}

enum { MOST_MORE = 60 };

/* Initialisation with any number of descriptors works or fails with a text that says so, keeps
 * none of them, and works again when there are enough. */
static void child_descriptors(void)
{
    struct rlimit all;
    struct kit_op op = kit_simple(KIT_ALL_TO_ALL, COUNT);
    int nfailed = 0;
    /* What the first one opens for the process, on a GPU by its driver, stays. */
    ncclComm_t first[4];
    CHECK_OK(ncclCommInitAll(first, 4, NULL));
    for (int r = 0; r < 4; r++) CHECK_OK(ncclCommDestroy(first[r]));
    proc_mark();
    int used = lowest_free_descriptor();
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &all), 0);
    for (int more = 0; more < MOST_MORE; more++) {
        ncclComm_t comms[4];
        struct rlimit few = {(rlim_t)(used + more), all.rlim_max};
        CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
        ncclResult_t rc = ncclCommInitAll(comms, 4, NULL);
        char text[512];
        snprintf(text, sizeof text, "%s", ncclGetLastError(NULL));
        CHECK_EQ(setrlimit(RLIMIT_NOFILE, &all), 0);
        nfailed += rc != ncclSuccess;
        if (rc != ncclSuccess) {
            NOTE("%d more: %d, %s", more, (int)rc, text);
            CHECK_EQ(rc, ncclSystemError);
            CHECK_HAS(text, "Too many open files");
        }
        for (int r = 0; r < 4 && rc == ncclSuccess; r++) CHECK_OK(ncclCommDestroy(comms[r]));
        kit_until(is_free_again, &used, 10000, "the end of what a failed call had opened");
    }
    NOTE("%d of %d failed", nfailed, MOST_MORE);
    CHECK(nfailed > 0 && nfailed < MOST_MORE);
    struct kit kit;
    kit_open(&kit, 4, 2, COUNT);
    kit_run(&kit, &op);
    kit_close(&kit);
    proc_check_mark();
}

static void test_descriptors(void)
{
    kit_child("child:descriptors", NULL);
}

static const struct test_case cases[] = {
    {"an id for a second communicator", test_id_twice, 0},
    {"a wrong rank harms nobody", test_wrong_rank, 0},
    {"ends of a communicator that has failed", test_failed_ends, 0},
    {"two communicators hang, one is aborted", test_two_hang, 0},
    {"aborts that race an initialisation", test_race_abort, 120},
    {"two threads on one communicator", test_shared, 120},
    {"a broken file of schedules, 100 times", test_broken_file, 0},
    {"failing calls, 3,000 times", test_failing_calls, 0},
    {"too few descriptors", test_descriptors, 120},
    {"child:id-twice", child_id_twice, 0},
    {"child:two-hang", child_two_hang, 0},
    {"child:race-abort", child_race_abort, 0},
    {"child:shared", child_shared, 0},
    {"child:broken-file", child_broken_file, 0},
    {"child:failing-calls", child_failing_calls, 0},
    {"child:descriptors", child_descriptors, 0},
};
TEST_LIB_MAIN(cases)
