/* Handles of initialisations that fail: whoever may still cancel one of them finds it in place,
 * and none is given to two. Looks at the library's internals, which no program sees. */
#include "core/kit.h"

#include "core/comm.h"
#include "core/group.h"

enum { NO_DEVICE = 1000000, NTAKEN = 200, NTHREADS = 4, ROUNDS = 60 };

/* An initialisation that has failed, with a handle that is not dropped. */
static struct ncclComm *fail_job(ncclComm_t *handle)
{
    struct ncclComm *comm;
    struct ccl_init_args args = {
        .comm = handle, .nranks = 1, .device = NO_DEVICE, .function = "test"};
    CHECK_OK(ccl_comm_take(&comm));
    comm->nranks = 1;
    *handle = comm;
    CHECK(ccl_comm_init_job(comm, &args) != ncclSuccess);
    return comm;
}

/* The others of its group may be about to cancel it: then it must not be another one's by now. */
static void test_keeps(void)
{
    static struct ncclComm *taken[NTAKEN];
    ncclComm_t handle;
    struct ncclComm *comm = fail_job(&handle);
    CHECK(handle == comm);
    CHECK_OK(ccl_comm_check(comm, "test"));
    for (int i = 0; i < NTAKEN; i++) {
        CHECK_OK(ccl_comm_take(&taken[i]));
        CHECK(taken[i] != comm);
    }
    CHECK_EQ(ccl_comm_cancel(comm), 0);
    ccl_comm_drop(comm, &handle);
    CHECK(handle == NULL);
    for (int i = 0; i < NTAKEN; i++) ccl_comm_drop(taken[i], &taken[i]);
}

struct failing {
    struct ncclComm *comm;
    ncclComm_t handle;
};

static void abort_or_drop(void *arg, int i)
{
    struct failing *failing = arg;
    if (i == 0)
        CHECK_OK(ccl_comm_abort(failing->comm));
    else
        ccl_comm_drop(failing->comm, &failing->handle);
}

static void test_abort(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct failing failing;
        failing.comm = fail_job(&failing.handle);
        kit_threads(2, abort_or_drop, &failing);
        CHECK(failing.handle == NULL);
    }
}

/* Groups whose initialisations all fail and cancel each other, beside some that succeed. */
static void fail_or_work(void *arg, int i)
{
    (void)arg;
    for (int round = 0; round < ROUNDS; round++) {
        ncclComm_t comms[3] = {NULL};
        ncclUniqueId id;
        if (i == 0) {
            CHECK_OK(ncclCommInitAll(comms, 2, NULL));
            for (int r = 0; r < 2; r++) CHECK_OK(ncclCommDestroy(comms[r]));
            continue;
        }
        CHECK_OK(ncclGetUniqueId(&id));
        CHECK_OK(ncclGroupStart());
        for (int c = 0; c < 3; c++) CHECK_OK(ncclCommInitRank(&comms[c], 3, id, c % 2));
        CHECK(ncclGroupEnd() != ncclSuccess);
        for (int c = 0; c < 3; c++) CHECK(comms[c] == NULL);
    }
}

static void test_groups(void)
{
    kit_threads(NTHREADS, fail_or_work, NULL);
}

static const struct test_case cases[] = {
    {"a failed initialisation keeps its handle until it is dropped", test_keeps, 0},
    {"an abort of an initialisation that fails meanwhile", test_abort, 0},
    {"failing groups beside communicators that work", test_groups, 0},
};
TEST_LIB_MAIN(cases)
