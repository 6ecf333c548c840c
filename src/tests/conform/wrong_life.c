/* Wrong arguments of the calls that make, query and end communicators, of operators, memory and
 * registration: one row per case. Each row spoils one argument of a call that would be right
 * otherwise; afterwards the world must still work.
 */
#include "conform/world.h"

#include <limits.h>
#include <string.h>

/* What the rows may use. */
static struct world w;
static ncclUniqueId id;      /* not zero, never used for a rendezvous */
static ncclUniqueId zero_id; /* what a program has that forgot ncclGetUniqueId */
static ncclComm_t comm;      /* out */
static ncclComm_t many[64];  /* out */
static ncclRedOp_t op;       /* out */
static void *handle;         /* out */
static int number;           /* out */
static ncclResult_t async;   /* out */
static float scalar = 2;
static int devices_low[2] = {0, -1};
static int devices_high[2] = {0, 4096};

#define ARG ncclInvalidArgument
#define USE ncclInvalidUsage

/* ROW(function, case, code, detail, (arguments)) */
#define ROWS(ROW)                                                                                  \
    ROW(ncclGetVersion, null, ARG, "version is NULL", (NULL))                                      \
    ROW(ncclGetUniqueId, null, ARG, "uniqueId is NULL", (NULL))                                    \
    ROW(ncclCommInitRank, comm_null, ARG, "comm is NULL", (NULL, 1, id, 0))                        \
    ROW(ncclCommInitRank, nranks_zero, ARG, "nranks 0 is below 1", (&comm, 0, id, 0))              \
    ROW(ncclCommInitRank, nranks_low, ARG, "nranks -4 is below 1", (&comm, -4, id, 0))             \
    ROW(ncclCommInitRank, rank_low, ARG, "rank -1 is not in [0, 2)", (&comm, 2, id, -1))           \
    ROW(ncclCommInitRank, rank_n, ARG, "rank 2 is not in [0, 2)", (&comm, 2, id, 2))               \
    ROW(ncclCommInitRank, rank_high, ARG, "rank 2147483647 is", (&comm, 2, id, INT_MAX))           \
    ROW(ncclCommInitRank, id_zero, ARG, "commId is all zero", (&comm, 2, zero_id, 0))              \
    ROW(ncclCommInitRankConfig, comm_null, ARG, "comm is NULL", (NULL, 1, id, 0, NULL))            \
    ROW(ncclCommInitRankConfig, nranks_zero, ARG, "nranks 0 is", (&comm, 0, id, 0, NULL))          \
    ROW(ncclCommInitRankConfig, rank_low, ARG, "rank -1 is", (&comm, 2, id, -1, NULL))             \
    ROW(ncclCommInitRankConfig, rank_n, ARG, "rank 2 is", (&comm, 2, id, 2, NULL))                 \
    ROW(ncclCommInitRankConfig, id_zero, ARG, "commId", (&comm, 2, zero_id, 0, NULL))              \
    ROW(ncclCommInitRankScalable, comm_null, ARG, "comm is NULL", (NULL, 1, 0, 1, &id, NULL))      \
    ROW(ncclCommInitRankScalable, nranks_low, ARG, "nranks -1", (&comm, -1, 0, 1, &id, NULL))      \
    ROW(ncclCommInitRankScalable, rank_n, ARG, "rank 2 is", (&comm, 2, 2, 1, &id, NULL))           \
    ROW(ncclCommInitRankScalable, nid_zero, ARG, "nId 0 is", (&comm, 2, 0, 0, &id, NULL))          \
    ROW(ncclCommInitRankScalable, nid_low, ARG, "nId -1 is", (&comm, 2, 0, -1, &id, NULL))         \
    ROW(ncclCommInitRankScalable, nid_high, ARG, "nId 3 is", (&comm, 2, 0, 3, &id, NULL))          \
    ROW(ncclCommInitRankScalable, ids_null, ARG, "commIds", (&comm, 2, 0, 1, NULL, NULL))          \
    ROW(ncclCommInitAll, comms_null, ARG, "comms is NULL", (NULL, 2, NULL))                        \
    ROW(ncclCommInitAll, ndev_low, ARG, "ndev -1 is below 0", (many, -1, NULL))                    \
    ROW(ncclCommInitAll, ndev_lowest, ARG, "ndev -2147483648", (many, INT_MIN, NULL))              \
    ROW(ncclCommInitAll, device_low, ARG, "devlist[1] -1 is not", (many, 2, devices_low))          \
    ROW(ncclCommInitAll, device_high, ARG, "devlist[1] 4096 is not", (many, 2, devices_high))      \
    ROW(ncclCommFinalize, garbage, ARG, "comm", (world_garbage()))                                 \
    ROW(ncclCommDestroy, garbage, ARG, "comm", (world_garbage()))                                  \
    ROW(ncclCommAbort, garbage, ARG, "comm", (world_garbage()))                                    \
    ROW(ncclCommCount, comm_null, ARG, "comm", (NULL, &number))                                    \
    ROW(ncclCommCount, comm_garbage, ARG, "comm", (world_garbage(), &number))                      \
    ROW(ncclCommCount, out_null, ARG, "count is NULL", (w.comm[0], NULL))                          \
    ROW(ncclCommUserRank, comm_null, ARG, "comm", (NULL, &number))                                 \
    ROW(ncclCommUserRank, comm_garbage, ARG, "comm", (world_garbage(), &number))                   \
    ROW(ncclCommUserRank, out_null, ARG, "rank is NULL", (w.comm[0], NULL))                        \
    ROW(ncclCommCuDevice, comm_null, ARG, "comm", (NULL, &number))                                 \
    ROW(ncclCommCuDevice, comm_garbage, ARG, "comm", (world_garbage(), &number))                   \
    ROW(ncclCommCuDevice, out_null, ARG, "device is NULL", (w.comm[0], NULL))                      \
    ROW(ncclCommGetAsyncError, comm_null, ARG, "comm", (NULL, &async))                             \
    ROW(ncclCommGetAsyncError, comm_garbage, ARG, "comm", (world_garbage(), &async))               \
    ROW(ncclCommGetAsyncError, out_null, ARG, "asyncError is NULL", (w.comm[0], NULL))             \
    ROW(ncclMemAlloc, out_null, ARG, "ptr is NULL", (NULL, 64))                                    \
    ROW(ncclCommRegister, comm_null, ARG, "comm", (NULL, w.in[0], 64, &handle))                    \
    ROW(ncclCommRegister, comm_garbage, ARG, "comm", (world_garbage(), w.in[0], 64, &handle))      \
    ROW(ncclCommRegister, out_null, ARG, "handle is NULL", (w.comm[0], w.in[0], 64, NULL))         \
    ROW(ncclCommRegister, buff_null, ARG, "buff is NULL", (w.comm[0], NULL, 64, &handle))          \
    ROW(ncclCommRegister, size_zero, ARG, "size is 0", (w.comm[0], w.in[0], 0, &handle))           \
    ROW(ncclCommDeregister, comm_null, ARG, "comm", (NULL, world_garbage()))                       \
    ROW(ncclCommDeregister, comm_garbage, ARG, "comm", (world_garbage(), world_garbage()))         \
    ROW(ncclCommDeregister, unknown, USE, "handle", (w.comm[0], world_garbage()))                  \
    ROW(ncclRedOpCreatePreMulSum, comm_null, ARG, "comm",                                          \
        (&op, &scalar, ncclFloat32, ncclScalarHostImmediate, NULL))                                \
    ROW(ncclRedOpCreatePreMulSum, out_null, ARG, "op is NULL",                                     \
        (NULL, &scalar, ncclFloat32, ncclScalarHostImmediate, w.comm[0]))                          \
    ROW(ncclRedOpCreatePreMulSum, scalar_null, ARG, "scalar is NULL",                              \
        (&op, NULL, ncclFloat32, ncclScalarHostImmediate, w.comm[0]))                              \
    ROW(ncclRedOpCreatePreMulSum, type_high, ARG, "datatype 12 is",                                \
        (&op, &scalar, ncclNumTypes, ncclScalarHostImmediate, w.comm[0]))                          \
    ROW(ncclRedOpCreatePreMulSum, type_low, ARG, "datatype -1 is",                                 \
        (&op, &scalar, (ncclDataType_t)-1, ncclScalarHostImmediate, w.comm[0]))                    \
    ROW(ncclRedOpCreatePreMulSum, residence_high, ARG, "residence 2 is",                           \
        (&op, &scalar, ncclFloat32, (ncclScalarResidence_t)2, w.comm[0]))                          \
    ROW(ncclRedOpDestroy, comm_null, ARG, "comm", (ncclMaxRedOp, NULL))                            \
    ROW(ncclRedOpDestroy, comm_garbage, ARG, "comm", (ncclMaxRedOp, world_garbage()))              \
    ROW(ncclRedOpDestroy, builtin, ARG, "0", (ncclSum, w.comm[0]))                                 \
    ROW(ncclRedOpDestroy, last_builtin, ARG, "4", (ncclAvg, w.comm[0]))                            \
    ROW(ncclRedOpDestroy, unknown, ARG, "5", (ncclNumOps, w.comm[0]))                              \
    ROW(ncclRedOpDestroy, low, ARG, "-1", ((ncclRedOp_t)-1, w.comm[0]))                            \
    ROW(ncclRedOpDestroy, high, ARG, "2147483647", (ncclMaxRedOp, w.comm[0]))

static void open_row(void)
{
    memset(&id, 0x11, sizeof id);
    memset(many, 0, sizeof many);
    comm = NULL;
    CHECK_OK(chorus_devices()->set(world_device(1)));
    world_open(&w);
}

/* No call leaves a communicator behind or moves the current device. */
static void close_row(void)
{
    CHECK_EQ(comm, NULL);
    for (size_t i = 0; i < TEST_COUNT(many); i++) CHECK_EQ(many[i], NULL);
    CHECK_EQ(current_device(), world_device(1));
    CHECK_OK(chorus_devices()->set(0));
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
const struct case_list wrong_life_cases = {cases, TEST_COUNT(cases)};
