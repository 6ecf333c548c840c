/* Wrong arguments of the host side of the device interface, one row per case: the code, the text,
 * nothing written, and a world that still works.
 */
#include "conform/device_abi.h"
#include "conform/world.h"

#include <limits.h>
#include <string.h>

#define ARG ncclInvalidArgument
#define USE ncclInvalidUsage

/* What the rows may use. */
static struct world w;
static ncclCommProperties_t props, props_before;
static struct ncclDevCommRequirements reqs;
static struct ncclDevComm dev_comm, dev_comm_before;
static void *pointer; /* out */
static ncclTeam_t team;
static ncclMultimemHandle_t no_multimem, multimem;

/* ROW(function, case, code, detail, what is spoilt before, (arguments)) */
#define ROWS(ROW)                                                                                  \
    ROW(ncclCommQueryProperties, comm_null, ARG, "comm is NULL", , (NULL, &props))                 \
    ROW(ncclCommQueryProperties, comm_garbage, ARG, "comm", , (world_garbage(), &props))           \
    ROW(ncclCommQueryProperties, props_null, ARG, "props is NULL", , (w.comm[0], NULL))            \
    ROW(ncclCommQueryProperties, magic, USE, "magic 0x1 is not 0xcafebeef", props.magic = 1,       \
        (w.comm[0], &props))                                                                       \
    ROW(ncclCommQueryProperties, version_new, USE, "props.version 23008 is newer",                 \
        props.version = 23008, (w.comm[0], &props))                                                \
    ROW(ncclCommQueryProperties, version_highest, USE, "props.version 4294967295 is newer",        \
        props.version = UINT_MAX, (w.comm[0], &props))                                             \
    ROW(ncclCommQueryProperties, version_old, USE, "props.version 22809 is older",                 \
        props.version = 22809, (w.comm[0], &props))                                                \
    ROW(ncclCommQueryProperties, size_zero, ARG, "props.size 0 is below 56", props.size = 0,       \
        (w.comm[0], &props))                                                                       \
    ROW(ncclCommQueryProperties, size_small, ARG, "props.size 55 is below 56", props.size = 55,    \
        (w.comm[0], &props))                                                                       \
    ROW(ncclDevCommCreate, comm_null, ARG, "comm is NULL", , (NULL, &reqs, &dev_comm))             \
    ROW(ncclDevCommCreate, comm_garbage, ARG, "comm", , (world_garbage(), &reqs, &dev_comm))       \
    ROW(ncclDevCommCreate, reqs_null, ARG, "reqs is NULL", , (w.comm[0], NULL, &dev_comm))         \
    ROW(ncclDevCommCreate, magic, USE, "reqs.magic 0x0 is not", reqs.magic = 0,                    \
        (w.comm[0], &reqs, &dev_comm))                                                             \
    ROW(ncclDevCommCreate, version_new, USE, "reqs.version 99999 is newer", reqs.version = 99999,  \
        (w.comm[0], &reqs, &dev_comm))                                                             \
    ROW(ncclDevCommCreate, version_old, USE, "reqs.version 22809 is older", reqs.version = 22809,  \
        (w.comm[0], &reqs, &dev_comm))                                                             \
    ROW(ncclDevCommCreate, out_null, ARG, "outDevComm is NULL", , (w.comm[0], &reqs, NULL))        \
    ROW(ncclDevCommCreate, unsupported, USE, "deviceApiSupport = false", ,                         \
        (w.comm[0], &reqs, &dev_comm))                                                             \
    ROW(ncclDevCommDestroy, comm_null, ARG, "comm is NULL", , (NULL, &dev_comm))                   \
    ROW(ncclDevCommDestroy, comm_garbage, ARG, "comm", , (world_garbage(), &dev_comm))             \
    ROW(ncclDevCommDestroy, dev_comm_null, ARG, "devComm is NULL", , (w.comm[0], NULL))            \
    ROW(ncclDevCommDestroy, version_new, USE, "devComm.version 99999 is newer",                    \
        dev_comm.version = 99999, (w.comm[0], &dev_comm))                                          \
    ROW(ncclDevCommDestroy, foreign, ARG, "was not made by ncclDevCommCreate",                     \
        dev_comm.resource_window = world_garbage(), (w.comm[0], &dev_comm))                        \
    ROW(ncclGetLsaDevicePointer, window_null, ARG, "window is NULL", , (NULL, 0, 0, &pointer))     \
    ROW(ncclGetLsaDevicePointer, window_garbage, ARG, "window", ,                                  \
        (world_garbage(), 0, 0, &pointer))                                                         \
    ROW(ncclGetLsaDevicePointer, out_null, ARG, "outPtr is NULL", , (world_garbage(), 0, 0, NULL)) \
    ROW(ncclGetPeerDevicePointer, window_null, ARG, "window is NULL", , (NULL, 0, 0, &pointer))    \
    ROW(ncclGetPeerDevicePointer, window_garbage, ARG, "window", ,                                 \
        (world_garbage(), 0, 0, &pointer))                                                         \
    ROW(ncclGetPeerDevicePointer, out_null, ARG, "outPtr is NULL", ,                               \
        (world_garbage(), 0, 0, NULL))                                                             \
    ROW(ncclGetLsaMultimemDevicePointer, window_null, ARG, "window is NULL", ,                     \
        (NULL, 0, &pointer))                                                                       \
    ROW(ncclGetLsaMultimemDevicePointer, window_garbage, ARG, "window", ,                          \
        (world_garbage(), 0, &pointer))                                                            \
    ROW(ncclGetLsaMultimemDevicePointer, out_null, ARG, "outPtr is NULL", ,                        \
        (world_garbage(), 0, NULL))                                                                \
    ROW(ncclGetMultimemDevicePointer, window_null, ARG, "window is NULL", ,                        \
        (NULL, 0, multimem, &pointer))                                                             \
    ROW(ncclGetMultimemDevicePointer, window_garbage, ARG, "window", ,                             \
        (world_garbage(), 0, multimem, &pointer))                                                  \
    ROW(ncclGetMultimemDevicePointer, handle_null, ARG, "multimem.mcBasePtr is NULL", ,            \
        (world_garbage(), 0, no_multimem, &pointer))                                               \
    ROW(ncclGetMultimemDevicePointer, out_null, ARG, "outPtr is NULL", ,                           \
        (world_garbage(), 0, multimem, NULL))

/* VALUE(function, case, value, what the call gives, detail) */
#define VALUES(VALUE)                                                                              \
    VALUE(ncclTeamWorld, comm_null, 0, ncclTeamWorld(NULL).nRanks, "comm is NULL")                 \
    VALUE(ncclTeamWorld, comm_garbage, -1, ncclTeamWorld(world_garbage()).rank, "comm")            \
    VALUE(ncclTeamLsa, comm_null, -1, ncclTeamLsa(NULL).rank, "comm is NULL")                      \
    VALUE(ncclTeamLsa, comm_garbage, 0, ncclTeamLsa(world_garbage()).nRanks, "comm")               \
    VALUE(ncclTeamRail, comm_null, 0, ncclTeamRail(NULL).stride, "comm is NULL")                   \
    VALUE(ncclTeamRail, comm_garbage, 0, ncclTeamRail(world_garbage()).nRanks, "comm")             \
    VALUE(ncclTeamRankToWorld, comm_null, -1, ncclTeamRankToWorld(NULL, team, 0), "comm is NULL")  \
    VALUE(ncclTeamRankToWorld, comm_garbage, -1, ncclTeamRankToWorld(world_garbage(), team, 0),    \
          "comm")                                                                                  \
    VALUE(ncclTeamRankToWorld, rank_low, -1, ncclTeamRankToWorld(w.comm[1], team, -1), "rank -1")  \
    VALUE(ncclTeamRankToWorld, rank_n, -1, ncclTeamRankToWorld(w.comm[1], team, 3), "rank 3")      \
    VALUE(ncclTeamRankToWorld, outside, -1,                                                        \
          ncclTeamRankToWorld(w.comm[1], (ncclTeam_t){3, 0, INT_MAX}, 2), "stride 2147483647")     \
    VALUE(ncclTeamRankToLsa, comm_null, -1, ncclTeamRankToLsa(NULL, team, 0), "comm is NULL")      \
    VALUE(ncclTeamRankToLsa, comm_garbage, -1, ncclTeamRankToLsa(world_garbage(), team, 0),        \
          "comm")                                                                                  \
    VALUE(ncclTeamRankToLsa, rank_low, -1, ncclTeamRankToLsa(w.comm[1], team, INT_MIN), "rank -2") \
    VALUE(ncclTeamRankToLsa, outside, -1,                                                          \
          ncclTeamRankToLsa(w.comm[1], (ncclTeam_t){2, 1, INT_MIN}, 0), "stride -2147483648")

static void open_row(void)
{
    props = (ncclCommProperties_t)NCCL_COMM_PROPERTIES_INITIALIZER;
    memset(&reqs, 0, sizeof reqs);
    memset(&dev_comm, 0, sizeof dev_comm);
    reqs.size = sizeof reqs;
    reqs.magic = dev_comm.magic = NCCL_API_MAGIC;
    reqs.version = dev_comm.version = NCCL_VERSION_CODE;
    team = (ncclTeam_t){.nRanks = NRANKS, .rank = 1, .stride = 1};
    multimem.mcBasePtr = &multimem;
    pointer = NULL;
    world_open(&w);
}

static void close_row(void)
{
    CHECK_MEM(&props, &props_before, sizeof props);
    CHECK_MEM(&dev_comm, &dev_comm_before, sizeof dev_comm);
    CHECK_EQ(pointer, NULL);
    world_works(&w);
    world_close(&w);
}

#define FUNCTION(function, name, code, detail, spoil, arguments)                                   \
    static void function##_##name(void)                                                            \
    {                                                                                              \
        open_row();                                                                                \
        spoil;                                                                                     \
        memcpy(&props_before, &props, sizeof props);                                               \
        memcpy(&dev_comm_before, &dev_comm, sizeof dev_comm);                                      \
        expect_error(function arguments, code, #function, detail);                                 \
        close_row();                                                                               \
    }
ROWS(FUNCTION)

#define VALUE_FUNCTION(function, name, value, call, detail)                                        \
    static void function##_##name(void)                                                            \
    {                                                                                              \
        open_row();                                                                                \
        memcpy(&props_before, &props, sizeof props);                                               \
        memcpy(&dev_comm_before, &dev_comm, sizeof dev_comm);                                      \
        CHECK_EQ(call, value);                                                                     \
        CHECK_HAS(ncclGetLastError(NULL), #function ": ");                                         \
        CHECK_HAS(ncclGetLastError(NULL), detail);                                                 \
        close_row();                                                                               \
    }
VALUES(VALUE_FUNCTION)

#define CASE(function, name, ...) {"wrong: " #function " " #name, function##_##name, 0},
static const struct test_case cases[] = {ROWS(CASE) VALUES(CASE)};
const struct case_list wrong_device_cases = {cases, TEST_COUNT(cases)};
