/* Wrong arguments and illegal orders of the calls that make communicators of communicators, and of
 * those on their memory: one row per case. Each row spoils one argument of a call that would be
 * right otherwise, or comes at the wrong time; it returns at once, and afterwards the world must
 * still work.
 */
#include "conform/world.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* What the rows may use. */
static struct world w;
static ncclUniqueId id;                 /* not zero, never used for a rendezvous */
static ncclUniqueId zero_id;            /* what a program has that forgot ncclGetUniqueId */
static ncclComm_t child;                /* out */
static ncclComm_t ended, done, revoked; /* destroyed, finalized, revoked: of one rank */
static uint64_t number;                 /* out */
static ncclConfig_t bad = NCCL_CONFIG_INITIALIZER, wild;
static int own[1], low[1], high[1], other[1], twice[2], most[3];

#define ARG ncclInvalidArgument
#define USE ncclInvalidUsage

/* ROW(function, case, code, detail, (arguments)) */
#define ROWS(ROW)                                                                                  \
    ROW(ncclCommSplit, comm_null, ARG, "comm is NULL", (NULL, 0, 0, &child, NULL))                 \
    ROW(ncclCommSplit, comm_garbage, ARG, "comm", (world_garbage(), 0, 0, &child, NULL))           \
    ROW(ncclCommSplit, comm_ended, ARG, "is no live", (ended, 0, 0, &child, NULL))                 \
    ROW(ncclCommSplit, comm_finalized, USE, "is finalized", (done, 0, 0, &child, NULL))            \
    ROW(ncclCommSplit, out_null, ARG, "newcomm is NULL", (w.comm[0], 0, 0, NULL, NULL))            \
    ROW(ncclCommSplit, color_low, ARG, "rank 1: color -2 is below 0",                              \
        (w.comm[1], -2, 0, &child, NULL))                                                          \
    ROW(ncclCommSplit, color_lowest, ARG, "color -2147483648",                                     \
        (w.comm[1], INT_MIN, 0, &child, NULL))                                                     \
    ROW(ncclCommSplit, config_bad, ARG, "config.minCTAs -1", (w.comm[0], 0, 0, &child, &bad))      \
    ROW(ncclCommSplit, config_wild, ARG, "config magic", (w.comm[0], 0, 0, &child, &wild))         \
    ROW(ncclCommShrink, comm_null, ARG, "comm is NULL", (NULL, other, 1, &child, NULL, 0))         \
    ROW(ncclCommShrink, comm_garbage, ARG, "comm", (world_garbage(), other, 1, &child, NULL, 0))   \
    ROW(ncclCommShrink, comm_ended, ARG, "is no live", (ended, other, 1, &child, NULL, 0))         \
    ROW(ncclCommShrink, comm_finalized, USE, "finalized", (done, other, 1, &child, NULL, 0))       \
    ROW(ncclCommShrink, out_null, ARG, "newcomm", (w.comm[0], other, 1, NULL, NULL, 0))            \
    ROW(ncclCommShrink, list_null, ARG, "excludeRanksList is NULL",                                \
        (w.comm[0], NULL, 1, &child, NULL, 0))                                                     \
    ROW(ncclCommShrink, count_zero, ARG, "excludeRanksCount 0 is below 1",                         \
        (w.comm[0], other, 0, &child, NULL, 0))                                                    \
    ROW(ncclCommShrink, count_low, ARG, "excludeRanksCount -7",                                    \
        (w.comm[0], other, -7, &child, NULL, 0))                                                   \
    ROW(ncclCommShrink, own, ARG, "rank 0 excludes itself", (w.comm[0], own, 1, &child, NULL, 0))  \
    ROW(ncclCommShrink, all, ARG, "excludes itself", (w.comm[1], most, 3, &child, NULL, 0))        \
    ROW(ncclCommShrink, rank_low, ARG, "rank -1 in excludeRanksList is not in [0, 3)",             \
        (w.comm[0], low, 1, &child, NULL, 0))                                                      \
    ROW(ncclCommShrink, rank_n, ARG, "rank 3 in excludeRanksList",                                 \
        (w.comm[0], high, 1, &child, NULL, 0))                                                     \
    ROW(ncclCommShrink, twice, ARG, "rank 2 is twice", (w.comm[0], twice, 2, &child, NULL, 0))     \
    ROW(ncclCommShrink, flags, ARG, "shrinkFlags 0x2", (w.comm[0], other, 1, &child, NULL, 2))     \
    ROW(ncclCommShrink, flags_low, ARG, "shrinkFlags 0xffffffff",                                  \
        (w.comm[0], other, 1, &child, NULL, -1))                                                   \
    ROW(ncclCommShrink, config_bad, ARG, "minCTAs", (w.comm[0], other, 1, &child, &bad, 0))        \
    ROW(ncclCommGetUniqueId, comm_null, ARG, "comm is NULL", (NULL, &id))                          \
    ROW(ncclCommGetUniqueId, comm_garbage, ARG, "comm", (world_garbage(), &id))                    \
    ROW(ncclCommGetUniqueId, comm_ended, ARG, "is no live", (ended, &id))                          \
    ROW(ncclCommGetUniqueId, comm_finalized, USE, "is finalized", (done, &id))                     \
    ROW(ncclCommGetUniqueId, out_null, ARG, "uniqueId is NULL", (w.comm[0], NULL))                 \
    ROW(ncclCommGrow, comm_garbage, ARG, "comm", (world_garbage(), 4, &id, -1, &child, NULL))      \
    ROW(ncclCommGrow, comm_ended, ARG, "is no live", (ended, 4, NULL, -1, &child, NULL))           \
    ROW(ncclCommGrow, comm_finalized, USE, "is finalized", (done, 4, NULL, -1, &child, NULL))      \
    ROW(ncclCommGrow, out_null, ARG, "newcomm is NULL", (w.comm[0], 4, NULL, -1, NULL, NULL))      \
    ROW(ncclCommGrow, new_out_null, ARG, "newcomm is NULL", (NULL, 4, &id, 3, NULL, NULL))         \
    ROW(ncclCommGrow, rank_of_member, ARG, "rank 2: rank 2 is not -1",                             \
        (w.comm[2], 4, NULL, 2, &child, NULL))                                                     \
    ROW(ncclCommGrow, same, ARG, "nRanks 3 does not exceed the 3",                                 \
        (w.comm[0], 3, NULL, -1, &child, NULL))                                                    \
    ROW(ncclCommGrow, less, ARG, "nRanks -1 does not exceed",                                      \
        (w.comm[0], -1, NULL, -1, &child, NULL))                                                   \
    ROW(ncclCommGrow, id_zero, ARG, "uniqueId is all zero",                                        \
        (w.comm[0], 4, &zero_id, -1, &child, NULL))                                                \
    ROW(ncclCommGrow, new_id_null, ARG, "uniqueId", (NULL, 4, NULL, 3, &child, NULL))              \
    ROW(ncclCommGrow, new_id_zero, ARG, "all zero", (NULL, 4, &zero_id, 3, &child, NULL))          \
    ROW(ncclCommGrow, new_rank_low, ARG, "rank -1 is not in [0, 4)",                               \
        (NULL, 4, &id, -1, &child, NULL))                                                          \
    ROW(ncclCommGrow, new_rank_n, ARG, "rank 4 is not in", (NULL, 4, &id, 4, &child, NULL))        \
    ROW(ncclCommGrow, new_nranks, ARG, "nRanks 1 is below 2", (NULL, 1, &id, 0, &child, NULL))     \
    ROW(ncclCommGrow, config_bad, ARG, "minCTAs", (w.comm[0], 4, NULL, -1, &child, &bad))          \
    ROW(ncclCommGrow, new_config_bad, ARG, "minCTAs", (NULL, 4, &id, 3, &child, &bad))             \
    ROW(ncclCommRevoke, comm_garbage, ARG, "comm", (world_garbage(), 0))                           \
    ROW(ncclCommRevoke, comm_ended, ARG, "is no live", (ended, 0))                                 \
    ROW(ncclCommRevoke, flags, ARG, "revokeFlags 0x4 is not 0", (w.comm[0], 4))                    \
    ROW(ncclCommRevoke, finalized, ARG, "is already finalized", (done, 0))                         \
    ROW(ncclCommRevoke, again, ARG, "already revoked", (revoked, 0))                               \
    ROW(ncclCommSuspend, comm_null, ARG, "comm is NULL", (NULL, NCCL_SUSPEND_MEM))                 \
    ROW(ncclCommSuspend, comm_garbage, ARG, "comm", (world_garbage(), NCCL_SUSPEND_MEM))           \
    ROW(ncclCommSuspend, finalized, USE, "is finalized", (done, NCCL_SUSPEND_MEM))                 \
    ROW(ncclCommSuspend, revoked, USE, "is revoked", (revoked, NCCL_SUSPEND_MEM))                  \
    ROW(ncclCommSuspend, flags, ARG, "flags 0x3 has bits", (w.comm[0], 3))                         \
    ROW(ncclCommSuspend, flags_low, ARG, "flags 0xffffffff", (w.comm[0], -1))                      \
    ROW(ncclCommResume, comm_null, ARG, "comm is NULL", (NULL))                                    \
    ROW(ncclCommResume, comm_ended, ARG, "is no live", (ended))                                    \
    ROW(ncclCommResume, awake, USE, "rank 1: comm", (w.comm[1]))                                   \
    ROW(ncclCommResume, finalized, USE, "is finalized, not suspended", (done))                     \
    ROW(ncclCommMemStats, comm_null, ARG, "comm is NULL", (NULL, ncclStatGpuMemTotal, &number))    \
    ROW(ncclCommMemStats, comm_garbage, ARG, "comm",                                               \
        (world_garbage(), ncclStatGpuMemTotal, &number))                                           \
    ROW(ncclCommMemStats, out_null, ARG, "value is NULL", (w.comm[0], ncclStatGpuMemTotal, NULL))  \
    ROW(ncclCommMemStats, stat_n, ARG, "stat 4 is not in [0, 3]",                                  \
        (w.comm[0], (ncclCommMemStat_t)4, &number))                                                \
    ROW(ncclCommMemStats, stat_low, ARG, "stat -1 is",                                             \
        (w.comm[0], (ncclCommMemStat_t)-1, &number))                                               \
    ROW(ncclCommFinalize, revoked, ARG, "already revoked", (revoked))                              \
    ROW(ncclCommFinalize, again, ARG, "already finalized", (done))                                 \
    ROW(ncclAllReduce, revoked, USE, "is revoked",                                                 \
        (w.in[0], w.out[0], 1, ncclInt32, ncclSum, revoked, w.stream[0]))                          \
    ROW(ncclSend, revoked, USE, "is revoked", (w.in[0], 1, ncclInt32, 0, revoked, w.stream[0]))

static ncclComm_t make_one(void)
{
    ncclComm_t comm;
    CHECK_OK(ncclCommInitAll(&comm, 1, NULL));
    return comm;
}

static void open_row(void)
{
    memset(&id, 0x11, sizeof id);
    own[0] = 0;
    low[0] = -1;
    high[0] = NRANKS;
    other[0] = NRANKS - 1;
    twice[0] = twice[1] = 2;
    for (int i = 0; i < NRANKS; i++) most[i] = NRANKS - 1 - i;
    bad.minCTAs = -1;
    child = NULL;
    ended = make_one();
    CHECK_OK(ncclCommDestroy(ended));
    done = make_one();
    CHECK_OK(ncclCommFinalize(done));
    revoked = make_one();
    CHECK_OK(ncclCommRevoke(revoked, 0));
    CHECK_OK(chorus_devices()->set(world_device(1)));
    world_open(&w);
}

/* No call leaves a communicator behind or moves the current device. */
static void close_row(void)
{
    CHECK_EQ(child, NULL);
    CHECK_EQ(current_device(), world_device(1));
    CHECK_OK(chorus_devices()->set(0));
    CHECK_OK(ncclCommDestroy(done));
    CHECK_OK(ncclCommDestroy(revoked));
    world_works(&w);
    world_close(&w);
}

#define FUNCTION(function, name, code, detail, arguments)                                          \
    static void function##_##name(void)                                                            \
    {                                                                                              \
        open_row();                                                                                \
        expect_error(function arguments, code, #function, detail);                                 \
        close_row();                                                                               \
    }
ROWS(FUNCTION)

#define CASE(function, name, code, detail, arguments)                                              \
    {"wrong: " #function " " #name, function##_##name, 0},
static const struct test_case cases[] = {ROWS(CASE)};
const struct case_list wrong_family_cases = {cases, TEST_COUNT(cases)};
