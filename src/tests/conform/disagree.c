/* Ranks that call different collectives: every rank gets ncclInvalidUsage, with a text that names
 * both calls, and a new communicator works. core/test_agree.c holds what else may differ.
 */
#include "conform/world.h"

#include <time.h>

enum { COUNT = 10, LIMIT_MS = 10000 };

#define CALL(name, arguments)                                                                      \
    static ncclResult_t call_##name(struct world *w, int r)                                        \
    {                                                                                              \
        return name arguments;                                                                     \
    }
#define ENDS w->comm[r], w->stream[r]

CALL(ncclAllReduce, (w->in[r], w->out[r], COUNT, ncclInt32, ncclSum, ENDS))
CALL(ncclReduce, (w->in[r], w->out[r], COUNT, ncclInt32, ncclSum, 0, ENDS))
CALL(ncclBroadcast, (w->in[r], w->out[r], COUNT, ncclInt32, 0, ENDS))
CALL(ncclAllGather, (w->in[r], w->out[r], COUNT, ncclInt32, ENDS))
CALL(ncclReduceScatter, (w->in[r], w->out[r], COUNT, ncclInt32, ncclSum, ENDS))
CALL(ncclAlltoAll, (w->in[r], w->out[r], COUNT, ncclInt32, ENDS))
CALL(ncclGather, (w->in[r], w->out[r], COUNT, ncclInt32, 0, ENDS))
CALL(ncclScatter, (w->in[r], w->out[r], COUNT, ncclInt32, 0, ENDS))

#define ROW(name)                                                                                  \
    {                                                                                              \
#name "(", call_##name                                                                     \
    }
static const struct {
    const char *name;
    ncclResult_t (*call)(struct world *world, int rank);
} calls[] = {
    ROW(ncclAllReduce),     ROW(ncclReduce),   ROW(ncclBroadcast), ROW(ncclAllGather),
    ROW(ncclReduceScatter), ROW(ncclAlltoAll), ROW(ncclGather),    ROW(ncclScatter),
};

static void await_error(ncclComm_t comm)
{
    ncclResult_t error = ncclSuccess;
    for (int i = 0; i < LIMIT_MS && error == ncclSuccess; i++) {
        CHECK_OK(ncclCommGetAsyncError(comm, &error));
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    CHECK_EQ(error, ncclInvalidUsage);
}

static void check_pair(size_t odd_call, size_t call, int odd)
{
    struct world world;
    NOTE("rank %d calls %s), the others %s)", odd, calls[odd_call].name, calls[call].name);
    world_open(&world);
    for (int r = 0; r < NRANKS; r++) {
        ncclResult_t rc = calls[r == odd ? odd_call : call].call(&world, r);
        CHECK(rc == ncclSuccess || rc == ncclInvalidUsage);
    }
    for (int r = 0; r < NRANKS; r++) {
        await_error(world.comm[r]);
        CHECK_EQ(calls[call].call(&world, r), ncclInvalidUsage);
        CHECK_HAS(ncclGetLastError(world.comm[r]), calls[odd_call].name);
        CHECK_HAS(ncclGetLastError(world.comm[r]), calls[call].name);
        CHECK_EQ(ncclCommFinalize(world.comm[r]), ncclInvalidUsage);
    }
    world_sync(&world);
    world_close(&world);
}

static void all_pairs(void)
{
    for (size_t a = 0; a < TEST_COUNT(calls); a++)
        for (size_t b = 0; b < TEST_COUNT(calls); b++)
            if (a != b) check_pair(a, b, (int)(a + b) % NRANKS);
    struct world world;
    world_open(&world);
    world_works(&world);
    world_close(&world);
}

static const struct test_case cases[] = {
    {"disagree: any two collectives", all_pairs, 0},
};
const struct case_list disagree_cases = {cases, TEST_COUNT(cases)};
