/* Windows and one-sided operations: each argument of each call wrong once, alone and in a group,
 * and what the calls promise. A rank's input is a symmetric window, its output one of its own.
 */
#include "conform/world.h"

#include <limits.h>
#include <string.h>

enum { BYTES = NRANKS * NELEMS * 4, SYMMETRIC = NCCL_WIN_COLL_SYMMETRIC };

static struct world world, other;
static ncclWindow_t wins[NRANKS], plain[NRANKS], others[NRANKS];
static uint64_t garbage[4096 / sizeof(uint64_t)];
#define GARBAGE     ((ncclComm_t)(void *)garbage)
#define GARBAGE_WIN ((ncclWindow_t)(void *)garbage)

static void register_all(const struct world *of, void *const *buffers, ncclWindow_t *out, int flags)
{
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < NRANKS; i++)
        CHECK_OK(ncclCommWindowRegister(of->comm[i], buffers[i], BYTES, &out[i], flags));
    CHECK_OK(ncclGroupEnd());
    for (int i = 0; i < NRANKS; i++) CHECK(out[i] != NULL);
}

static void open_windows(struct world *of, ncclWindow_t *in, ncclWindow_t *out)
{
    void *buffers[2][NRANKS];
    world_open(of);
    for (int i = 0; i < NRANKS; i++) {
        buffers[0][i] = of->in[i];
        buffers[1][i] = of->out[i];
    }
    register_all(of, buffers[0], in, SYMMETRIC);
    if (out != NULL) register_all(of, buffers[1], out, NCCL_WIN_DEFAULT);
}

/* Puts still arrive. */
static void windows_work(void)
{
    int32_t got = 0, sent = 4711;
    const struct chorus_devices *devices = chorus_devices();
    CHECK_OK(devices->copy(world.in[0], &sent, sizeof sent, world.stream[0]));
    CHECK_OK(ncclPutSignal(world.in[0], 1, ncclInt32, 2, wins[0], 8, 0, 0, 0, world.comm[0],
                           world.stream[0]));
    CHECK_OK(
        ncclWaitSignal(1, &(ncclWaitSignalDesc_t){1, 0, 0, 0}, world.comm[2], world.stream[2]));
    CHECK_OK(devices->copy(&got, world.in[2] + 2, sizeof got, world.stream[2]));
    world_sync(&world);
    CHECK_EQ(got, sent);
}

/* ---- wrong arguments ---- */

static ncclWindow_t got;
static void *pointer;

static ncclResult_t try_register(ncclComm_t comm, void *buffer, size_t size, int flags)
{
    got = GARBAGE_WIN;
    ncclResult_t rc = ncclCommWindowRegister(comm, buffer, size, &got, flags);
    CHECK_EQ(got, NULL);
    return rc;
}

static ncclResult_t try_pointer(ncclComm_t comm, ncclWindow_t win)
{
    pointer = garbage;
    ncclResult_t rc = ncclWinGetUserPtr(comm, win, &pointer);
    CHECK_EQ(pointer, NULL);
    return rc;
}

/* A put of rank 0 whose further arguments are right. */
#define PUT(local, count, type, peer, win, offset)                                                 \
    ncclPutSignal(local, count, (ncclDataType_t)(type), peer, win, offset, 0, 0, 0, world.comm[0], \
                  world.stream[0])
#define PUT_ZEROS(index, context, flags)                                                           \
    ncclPutSignal(world.in[0], 1, ncclInt32, 1, wins[0], 0, index, context, flags, world.comm[0],  \
                  world.stream[0])
#define SIGNAL(peer, index, context, flags)                                                        \
    ncclSignal(peer, index, context, flags, world.comm[0], world.stream[0])

static ncclResult_t try_wait(ncclComm_t comm, int n, ncclWaitSignalDesc_t desc)
{
    ncclWaitSignalDesc_t descs[2] = {{1, 1, 0, 0}, desc};
    return ncclWaitSignal(n, descs + 2 - (n == 2 ? 2 : 1), comm, world.stream[0]);
}
#define WAIT(count, peer, index, context)                                                          \
    try_wait(world.comm[0], 1, (ncclWaitSignalDesc_t){count, peer, index, context})

#define REGISTER   "ncclCommWindowRegister"
#define DEREGISTER "ncclCommWindowDeregister"
#define POINTER    "ncclWinGetUserPtr"
#define PUT_       "ncclPutSignal"
#define SIGNAL_    "ncclSignal"
#define WAIT_      "ncclWaitSignal"
#define ARG        ncclInvalidArgument

/* ROW(name, call, code, function, what the text says) */
#define ROWS(ROW)                                                                                  \
    ROW(register_comm_null, try_register(NULL, world.in[0], 64, 0), ARG, REGISTER, "comm is NULL") \
    ROW(register_comm_wrong, try_register(GARBAGE, world.in[0], 64, 0), ARG, REGISTER,             \
        "is no live communicator")                                                                 \
    ROW(register_win_null, ncclCommWindowRegister(world.comm[0], world.in[0], 64, NULL, 0), ARG,   \
        REGISTER, "win is NULL")                                                                   \
    ROW(register_buff_null, try_register(world.comm[0], NULL, 64, 0), ARG, REGISTER,               \
        "buff is NULL")                                                                            \
    ROW(register_size_0, try_register(world.comm[0], world.in[0], 0, 0), ARG, REGISTER,            \
        "size is 0")                                                                               \
    ROW(register_size_huge, try_register(world.comm[0], world.in[0], SIZE_MAX, 0), ARG, REGISTER,  \
        "size 18446744073709551615")                                                               \
    ROW(register_flags_4, try_register(world.comm[0], world.in[0], 64, 4), ARG, REGISTER,          \
        "winFlags 4")                                                                              \
    ROW(register_flags_low, try_register(world.comm[0], world.in[0], 64, -1), ARG, REGISTER,       \
        "winFlags -1")                                                                             \
    ROW(register_comm_before_buff, try_register(NULL, NULL, 64, 0), ARG, REGISTER, "comm is NULL") \
    ROW(deregister_comm_null, ncclCommWindowDeregister(NULL, wins[0]), ARG, DEREGISTER,            \
        "comm is NULL")                                                                            \
    ROW(deregister_comm_wrong, ncclCommWindowDeregister(GARBAGE, wins[0]), ARG, DEREGISTER,        \
        "is no live communicator")                                                                 \
    ROW(deregister_unknown, ncclCommWindowDeregister(world.comm[0], GARBAGE_WIN),                  \
        ncclInvalidUsage, DEREGISTER, "is no window of rank 0")                                    \
    ROW(deregister_of_other_rank, ncclCommWindowDeregister(world.comm[0], wins[1]),                \
        ncclInvalidUsage, DEREGISTER, "is no window of rank 0")                                    \
    ROW(pointer_comm_null, try_pointer(NULL, wins[0]), ARG, POINTER, "comm is NULL")               \
    ROW(pointer_win_null, try_pointer(world.comm[0], NULL), ARG, POINTER, "win is NULL")           \
    ROW(pointer_out_null, ncclWinGetUserPtr(world.comm[0], wins[0], NULL), ARG, POINTER,           \
        "outUserPtr is NULL")                                                                      \
    ROW(pointer_unknown, try_pointer(world.comm[0], wins[1]), ARG, POINTER,                        \
        "is no window of rank 0")                                                                  \
    ROW(put_comm_null,                                                                             \
        ncclPutSignal(world.in[0], 1, ncclInt32, 1, wins[0], 0, 0, 0, 0, NULL, world.stream[0]),   \
        ARG, PUT_, "comm is NULL")                                                                 \
    ROW(put_peer_low, PUT(world.in[0], 1, ncclInt32, -1, wins[0], 0), ARG, PUT_,                   \
        "peer -1 is not in [0, 3)")                                                                \
    ROW(put_peer_first_bad, PUT(world.in[0], 1, ncclInt32, 3, wins[0], 0), ARG, PUT_,              \
        "peer 3 is not in [0, 3)")                                                                 \
    ROW(put_peer_high, PUT(world.in[0], 1, ncclInt32, INT_MAX, wins[0], 0), ARG, PUT_,             \
        "peer 2147483647 is not in [0, 3)")                                                        \
    ROW(put_index, PUT_ZEROS(1, 0, 0), ARG, PUT_, "sigIdx is 1")                                   \
    ROW(put_context, PUT_ZEROS(0, -1, 0), ARG, PUT_, "ctx is -1")                                  \
    ROW(put_flags, PUT_ZEROS(0, 0, 4), ARG, PUT_, "flags is 4")                                    \
    ROW(put_type_low, PUT(world.in[0], 1, -1, 1, wins[0], 0), ARG, PUT_, "datatype -1")            \
    ROW(put_type_high, PUT(world.in[0], 1, 12, 1, wins[0], 0), ARG, PUT_, "datatype 12")           \
    ROW(put_count_huge, PUT(world.in[0], SIZE_MAX, ncclInt32, 1, wins[0], 0), ARG, PUT_,           \
        "count 18446744073709551615")                                                              \
    ROW(put_local_null, PUT(NULL, 1, ncclInt32, 1, wins[0], 0), ARG, PUT_, "localbuff is NULL")    \
    ROW(put_win_null, PUT(world.in[0], 1, ncclInt32, 1, NULL, 0), ARG, PUT_, "peerWin is NULL")    \
    ROW(put_local_in_none, PUT(garbage, 1, ncclInt32, 1, wins[0], 0), ARG, PUT_,                   \
        "lies in no window of this rank")                                                          \
    ROW(put_local_not_symmetric, PUT(world.out[0], 1, ncclInt32, 1, wins[0], 0), ARG, PUT_,        \
        "NCCL_WIN_COLL_SYMMETRIC")                                                                 \
    ROW(put_local_past_end, PUT(world.in[0] + 1, NRANKS * NELEMS, ncclInt32, 1, wins[0], 0), ARG,  \
        PUT_, "of 12000 bytes lies in no window")                                                  \
    ROW(put_win_unknown, PUT(world.in[0], 1, ncclInt32, 1, GARBAGE_WIN, 0), ARG, PUT_,             \
        "is no window of rank 0")                                                                  \
    ROW(put_win_of_other_rank, PUT(world.in[0], 1, ncclInt32, 1, wins[1], 0), ARG, PUT_,           \
        "is no window of rank 0")                                                                  \
    ROW(put_offset_at_end, PUT(world.in[0], 1, ncclInt32, 1, wins[0], BYTES - 3), ARG, PUT_,       \
        "4 bytes at peerWinOffset 11997 run past the window of rank 1, which has 12000")           \
    ROW(put_offset_behind, PUT(world.in[0], 0, ncclInt32, 1, wins[0], BYTES + 1), ARG, PUT_,       \
        "peerWinOffset 12001")                                                                     \
    ROW(put_offset_huge, PUT(world.in[0], 2, ncclInt32, 1, wins[0], SIZE_MAX - 3), ARG, PUT_,      \
        "peerWinOffset 18446744073709551612")                                                      \
    ROW(signal_comm_null, ncclSignal(1, 0, 0, 0, NULL, world.stream[0]), ARG, SIGNAL_,             \
        "comm is NULL")                                                                            \
    ROW(signal_peer_low, SIGNAL(-1, 0, 0, 0), ARG, SIGNAL_, "peer -1 is not in [0, 3)")            \
    ROW(signal_peer_high, SIGNAL(3, 0, 0, 0), ARG, SIGNAL_, "peer 3 is not in [0, 3)")             \
    ROW(signal_index, SIGNAL(1, -1, 0, 0), ARG, SIGNAL_, "sigIdx is -1")                           \
    ROW(signal_context, SIGNAL(1, 0, 2, 0), ARG, SIGNAL_, "ctx is 2")                              \
    ROW(signal_flags, SIGNAL(1, 0, 0, UINT_MAX), ARG, SIGNAL_, "flags is 4294967295")              \
    ROW(wait_comm_null, try_wait(NULL, 1, (ncclWaitSignalDesc_t){1, 1, 0, 0}), ARG, WAIT_,         \
        "comm is NULL")                                                                            \
    ROW(wait_none, ncclWaitSignal(0, NULL, world.comm[0], world.stream[0]), ARG, WAIT_,            \
        "nDesc is 0")                                                                              \
    ROW(wait_less_than_none, ncclWaitSignal(-1, NULL, world.comm[0], world.stream[0]), ARG, WAIT_, \
        "nDesc is -1")                                                                             \
    ROW(wait_descs_null, ncclWaitSignal(1, NULL, world.comm[0], world.stream[0]), ARG, WAIT_,      \
        "signalDescs is NULL")                                                                     \
    ROW(wait_count_0, WAIT(0, 1, 0, 0), ARG, WAIT_, "signalDescs[0]: opCnt is 0")                  \
    ROW(wait_count_low, WAIT(-5, 1, 0, 0), ARG, WAIT_, "signalDescs[0]: opCnt is -5")              \
    ROW(wait_peer_low, WAIT(1, -1, 0, 0), ARG, WAIT_, "peer -1 is not in [0, 3)")                  \
    ROW(wait_peer_high, WAIT(1, 3, 0, 0), ARG, WAIT_, "peer 3 is not in [0, 3)")                   \
    ROW(wait_index, WAIT(1, 1, 1, 0), ARG, WAIT_, "sigIdx is 1")                                   \
    ROW(wait_context, WAIT(1, 1, 0, 1), ARG, WAIT_, "ctx is 1")                                    \
    ROW(wait_second_wrong, try_wait(world.comm[0], 2, (ncclWaitSignalDesc_t){0, 1, 0, 0}), ARG,    \
        WAIT_, "signalDescs[1]: opCnt is 0")

/* What else the group brings is dropped: no signal is left over, as windows_work would see. */
#define FUNCTION(name, call, code, function, detail)                                               \
    static void name(void)                                                                         \
    {                                                                                              \
        open_windows(&world, wins, plain);                                                         \
        expect_error(call, code, function, detail);                                                \
        windows_work();                                                                            \
        CHECK_OK(ncclGroupStart());                                                                \
        CHECK_OK(ncclSignal(2, 0, 0, 0, world.comm[0], world.stream[0]));                          \
        expect_error(call, code, function, detail);                                                \
        CHECK_EQ(ncclGroupEnd(), code);                                                            \
        windows_work();                                                                            \
        world_works(&world);                                                                       \
        world_close(&world);                                                                       \
    }
ROWS(FUNCTION)

/* ---- what they promise ---- */

static void pointers_are_those_given(void)
{
    open_windows(&world, wins, plain);
    for (int i = 0; i < NRANKS; i++) {
        CHECK_OK(ncclWinGetUserPtr(world.comm[i], wins[i], &pointer));
        CHECK_EQ(pointer, world.in[i]);
        CHECK_OK(ncclWinGetUserPtr(world.comm[i], plain[i], &pointer));
        CHECK_EQ(pointer, world.out[i]);
        CHECK(wins[i] != plain[i]);
    }
    world_close(&world);
}

/* In one process all ranks are one team. What was written is there. */
static void device_pointers_lead_to_peers(void)
{
    void *second;
    open_windows(&world, wins, plain);
    for (int peer = 0; peer < NRANKS; peer++) {
        CHECK_OK(ncclGetPeerDevicePointer(wins[1], 40, peer, &pointer));
        CHECK_EQ(pointer, (char *)world.in[peer] + 40);
    }
    for (int r = 0; r < ncclTeamLsa(world.comm[1]).nRanks; r++) {
        CHECK_OK(ncclGetLsaDevicePointer(plain[1], BYTES - 1, r, &pointer));
        int peer = ncclTeamRankToWorld(world.comm[1], ncclTeamLsa(world.comm[1]), r);
        CHECK_OK(ncclGetPeerDevicePointer(plain[1], BYTES - 1, peer, &second));
        CHECK_EQ(pointer, second);
    }
    CHECK_OK(ncclGetLsaMultimemDevicePointer(wins[0], 0, &pointer));
    CHECK_EQ(pointer, NULL);
    world_close(&world);
}

static void device_pointers_are_bounded(void)
{
    static const char lsa[] = "ncclGetLsaDevicePointer", peer[] = "ncclGetPeerDevicePointer";
    open_windows(&world, wins, plain);
    int nlsa = ncclTeamLsa(world.comm[0]).nRanks;
    expect_error(ncclGetLsaDevicePointer(wins[0], 0, -1, &pointer), ARG, lsa, "lsaRank -1");
    expect_error(ncclGetLsaDevicePointer(wins[0], 0, nlsa, &pointer), ARG, lsa, "is not in [0, ");
    expect_error(ncclGetLsaDevicePointer(wins[0], BYTES, 0, &pointer), ARG, lsa, "offset 12000");
    expect_error(ncclGetPeerDevicePointer(wins[0], 0, NRANKS, &pointer), ARG, peer, "peer 3");
    expect_error(ncclGetPeerDevicePointer(wins[0], SIZE_MAX, 1, &pointer), ARG, peer,
                 "which has 12000 bytes");
    expect_error(ncclGetLsaMultimemDevicePointer(wins[0], BYTES, &pointer), ARG,
                 "ncclGetLsaMultimemDevicePointer", "offset 12000");
    CHECK_EQ(pointer, NULL);
    CHECK_OK(ncclCommWindowDeregister(world.comm[0], plain[0]));
    expect_error(ncclGetPeerDevicePointer(plain[0], 0, 1, &pointer), ARG, peer,
                 "is not registered");
    world_close(&world);
}

static void deregistering_is_local_and_once(void)
{
    open_windows(&world, wins, plain);
    CHECK_OK(ncclCommWindowDeregister(world.comm[1], plain[1]));
    expect_error(ncclCommWindowDeregister(world.comm[1], plain[1]), ncclInvalidUsage, DEREGISTER,
                 "is no window of rank 1");
    expect_error(try_pointer(world.comm[1], plain[1]), ARG, POINTER, "is no window of rank 1");
    CHECK_OK(ncclCommWindowDeregister(world.comm[1], NULL));
    CHECK_OK(ncclWinGetUserPtr(world.comm[0], plain[0], &pointer));
    windows_work();
    world_close(&world);
}

static void windows_belong_to_their_communicator(void)
{
    open_windows(&world, wins, plain);
    open_windows(&other, others, NULL);
    expect_error(ncclCommWindowDeregister(world.comm[0], others[0]), ncclInvalidUsage, DEREGISTER,
                 "is no window of rank 0");
    expect_error(PUT(world.in[0], 1, ncclInt32, 1, others[0], 0), ARG, PUT_,
                 "is no window of rank 0");
    expect_error(PUT(other.in[0], 1, ncclInt32, 1, wins[0], 0), ARG, PUT_,
                 "lies in no window of this rank");
    windows_work();
    world_close(&other);
    windows_work();
    world_close(&world);
}

/* As the drivers do: several windows of a communicator in one group, filled at its end. */
static void one_group_registers_several(void)
{
    world_open(&world);
    memset(wins, 0, sizeof wins);
    memset(plain, 0, sizeof plain);
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < NRANKS; i++) {
        CHECK_OK(ncclCommWindowRegister(world.comm[i], world.in[i], BYTES, &wins[i], SYMMETRIC));
        CHECK_OK(ncclCommWindowRegister(world.comm[i], world.out[i], BYTES, &plain[i],
                                        SYMMETRIC | NCCL_WIN_STRICT_ORDERING));
        CHECK_EQ(wins[i], NULL);
    }
    CHECK_OK(ncclGroupEnd());
    for (int i = 0; i < NRANKS; i++) {
        CHECK_OK(ncclWinGetUserPtr(world.comm[i], wins[i], &pointer));
        CHECK_EQ(pointer, world.in[i]);
        CHECK_OK(ncclWinGetUserPtr(world.comm[i], plain[i], &pointer));
        CHECK_EQ(pointer, world.out[i]);
    }
    windows_work();
    world_close(&world);
}

/* All ranks fail with one text, and none has a window. */
static void disagree(const size_t *sizes, const int *flags, const char *detail)
{
    world_open(&world);
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < NRANKS; i++) {
        wins[i] = GARBAGE_WIN;
        CHECK_OK(ncclCommWindowRegister(world.comm[i], world.in[i], sizes[i], &wins[i], flags[i]));
    }
    expect_error(ncclGroupEnd(), ARG, REGISTER, detail);
    for (int i = 0; i < NRANKS; i++) CHECK_EQ(wins[i], NULL);
    world_works(&world);
    world_close(&world);
    open_windows(&world, wins, NULL);
    windows_work();
    world_close(&world);
}

static void flags_must_agree(void)
{
    const size_t sizes[NRANKS] = {64, 64, 64};
    const int flags[NRANKS] = {0, 0, SYMMETRIC};
    disagree(sizes, flags, "rank 0 gives winFlags 0, rank 2 gives 1");
}

static void sizes_of_symmetric_windows_must_agree(void)
{
    const size_t sizes[NRANKS] = {64, 80, 64};
    const int flags[NRANKS] = {SYMMETRIC, SYMMETRIC, SYMMETRIC};
    disagree(sizes, flags, "rank 0 gives 64 bytes and rank 1 gives 80");
}

/* Each put is held against the size of its peer's window. */
static void sizes_of_others_may_differ(void)
{
    open_windows(&world, wins, NULL);
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < NRANKS; i++)
        CHECK_OK(ncclCommWindowRegister(world.comm[i], world.out[i], 64 + 16 * (size_t)i, &plain[i],
                                        NCCL_WIN_DEFAULT));
    CHECK_OK(ncclGroupEnd());
    CHECK_OK(PUT(world.in[0], 20, ncclInt32, 1, plain[0], 0));
    expect_error(PUT(world.in[0], 20, ncclInt32, 0, plain[0], 0), ARG, PUT_, "which has 64 bytes");
    CHECK_OK(
        ncclWaitSignal(1, &(ncclWaitSignalDesc_t){1, 0, 0, 0}, world.comm[1], world.stream[1]));
    world_sync(&world);
    world_close(&world);
}

static void finalized_communicators_refuse(void)
{
    open_windows(&world, wins, NULL);
    CHECK_OK(ncclCommFinalize(world.comm[0]));
    expect_error(PUT(world.in[0], 1, ncclInt32, 1, wins[0], 0), ncclInvalidUsage, PUT_,
                 "finalized");
    expect_error(SIGNAL(1, 0, 0, 0), ncclInvalidUsage, SIGNAL_, "finalized");
    expect_error(WAIT(1, 1, 0, 0), ncclInvalidUsage, WAIT_, "finalized");
    expect_error(try_register(world.comm[0], world.in[0], 64, 0), ncclInvalidUsage, REGISTER,
                 "finalized");
    CHECK_OK(ncclCommWindowDeregister(world.comm[0], wins[0]));
    world_close(&world);
}

#define CASE(name, call, code, function, detail) {"windows: " function " " #name, name, 0},
static const struct test_case cases[] = {
    ROWS(CASE){"windows: ncclWinGetUserPtr gives what was registered", pointers_are_those_given, 0},
    {"windows: ncclGetPeerDevicePointer, ncclGetLsaDevicePointer lead to peers",
     device_pointers_lead_to_peers, 0},
    {"windows: ncclGetPeerDevicePointer, ncclGetLsaDevicePointer are bounded",
     device_pointers_are_bounded, 0},
    {"windows: ncclCommWindowDeregister is local, and once", deregistering_is_local_and_once, 0},
    {"windows: belong to their communicator", windows_belong_to_their_communicator, 0},
    {"windows: one group has several ncclCommWindowRegister", one_group_registers_several, 0},
    {"windows: flags of ncclCommWindowRegister must agree", flags_must_agree, 0},
    {"windows: sizes of ncclCommWindowRegister, symmetric, must agree",
     sizes_of_symmetric_windows_must_agree, 0},
    {"windows: ncclPutSignal sees the size of each peer", sizes_of_others_may_differ, 0},
    {"windows: finalized communicators refuse", finalized_communicators_refuse, 0},
};
const struct case_list window_cases = {cases, TEST_COUNT(cases)};
