/* Requirements of barriers and exchanges of kernels: the numbers that a kernel relies on, one row
 * per case, and wrong ones refused with nothing written.
 */
#include "conform/device_abi.h"
#include "conform/world.h"

#include <limits.h>
#include <string.h>

static struct ncclDevResourceRequirements req, untouched;
static union {
    struct ncclLsaBarrierHandle lsa;
    struct ncclLLA2AHandle ll;
    struct ncclGinBarrierHandle gin;
    struct ncclGinOutboxHandle outbox;
    struct ncclGinInboxA2AHandle inbox;
} handle;

static ncclTeam_t team_of(int nranks)
{
    return (ncclTeam_t){.nRanks = nranks, .rank = 0, .stride = 1};
}

static void dirty(void)
{
    memset(&req, 0xa5, sizeof req);
    memset(&untouched, 0xa5, sizeof untouched);
    memset(&handle, 0xa5, sizeof handle);
}

#define LSA(team, n)         ncclLsaBarrierCreateRequirement(team, n, &handle.lsa, &req)
#define LL(blocks, slots)    ncclLLA2ACreateRequirement(blocks, slots, &handle.ll, &req)
#define GIN(team, n)         ncclGinBarrierCreateRequirement(NULL, team, n, &handle.gin, &req)
#define OUTBOX(blocks, log2) ncclGinOutboxCreateRequirement(blocks, log2, &handle.outbox, &req)
#define INBOX(team, n, log2) ncclGinInboxA2ACreateRequirement(team, n, log2, &handle.inbox, &req)

/* ROW(function, case, call, bytes, alignment, signals, where the buffer's or the signals' number
 * goes, a field of the handle, its value) */
#define ROWS(ROW)                                                                                  \
    ROW(ncclLsaBarrierCreateRequirement, of_8, LSA(team_of(8), 16), 704, 4, 0, lsa.buffer,         \
        lsa.nbarriers, 16)                                                                         \
    ROW(ncclLsaBarrierCreateRequirement, of_1, LSA(team_of(1), 1), 16, 4, 0, lsa.buffer,           \
        lsa.nbarriers, 1)                                                                          \
    ROW(ncclLsaBarrierCreateRequirement, none, LSA(team_of(4), 0), 0, 4, 0, lsa.buffer,            \
        lsa.nbarriers, 0)                                                                          \
    ROW(ncclLsaBarrierCreateRequirement, beyond_32_bits, LSA(team_of(1000), 2000000), 8024000000,  \
        4, 0, lsa.buffer, lsa.nbarriers, 2000000)                                                  \
    ROW(ncclLLA2ACreateRequirement, small, LL(2, 3), 224, 16, 0, ll.buffer, ll.nslots, 3)          \
    ROW(ncclLLA2ACreateRequirement, no_slots, LL(1, 0), 16, 16, 0, ll.buffer, ll.nslots, 0)        \
    ROW(ncclLLA2ACreateRequirement, no_blocks, LL(0, 5), 0, 16, 0, ll.buffer, ll.nslots, 5)        \
    ROW(ncclLLA2ACreateRequirement, beyond_32_bits, LL(1000, 1000000), 32000016000, 16, 0,         \
        ll.buffer, ll.nslots, 1000000)                                                             \
    ROW(ncclGinBarrierCreateRequirement, of_4, GIN(team_of(4), 3), 0, 0, 12, gin.signal,           \
        gin.signal, 0xa5a5a5a5)                                                                    \
    ROW(ncclGinBarrierCreateRequirement, none, GIN(team_of(5), 0), 0, 0, 0, gin.signal,            \
        gin.signal, 0xa5a5a5a5)                                                                    \
    ROW(ncclGinOutboxCreateRequirement, least, OUTBOX(1, 0), 8448, 128, 0, outbox.buffer,          \
        outbox.size_log2, 7)                                                                       \
    ROW(ncclGinOutboxCreateRequirement, at_least, OUTBOX(3, 7), 25344, 128, 0, outbox.buffer,      \
        outbox.size_log2, 7)                                                                       \
    ROW(ncclGinOutboxCreateRequirement, above, OUTBOX(2, 8), 17152, 128, 0, outbox.buffer,         \
        outbox.size_log2, 8)                                                                       \
    ROW(ncclGinInboxA2ACreateRequirement, of_2, INBOX(team_of(2), 1, 7), 256, 128, 2052,           \
        inbox.buffer, inbox.size_log2, 7)                                                          \
    ROW(ncclGinInboxA2ACreateRequirement, of_5, INBOX(team_of(5), 2, 8), 768, 128, 4128,           \
        inbox.buffer, inbox.size_log2, 8)                                                          \
    ROW(ncclGinInboxA2ACreateRequirement, no_least, INBOX(team_of(3), 1, 0), 256, 128, 2056,       \
        inbox.buffer, inbox.size_log2, 0)                                                          \
    ROW(ncclGinInboxA2ACreateRequirement, reciprocal_of_4, INBOX(team_of(5), 1, 7), 256, 128,      \
        2064, inbox.buffer, inbox.reciprocal, 1073741824)                                          \
    ROW(ncclGinInboxA2ACreateRequirement, reciprocal_of_3, INBOX(team_of(4), 1, 7), 256, 128,      \
        2060, inbox.buffer, inbox.reciprocal, 1431655765)                                          \
    ROW(ncclGinInboxA2ACreateRequirement, reciprocal_of_1, INBOX(team_of(2), 1, 7), 256, 128,      \
        2052, inbox.buffer, inbox.reciprocal, 0)

static void check_need(size_t bytes, size_t align, int nsignals, const uint32_t *start)
{
    int has_buffer = align != 0;
    CHECK_EQ(req.next, NULL);
    CHECK_EQ(req.bufferSize, bytes);
    CHECK_EQ(req.bufferAlign, align);
    CHECK_EQ(req.outBufferHandle, has_buffer ? start : NULL);
    CHECK_EQ(req.ginSignalCount, nsignals);
    CHECK_EQ(req.ginCounterCount, 0);
    CHECK_EQ(req.outGinCounterStart, NULL);
    if (nsignals != 0 && !has_buffer) CHECK_EQ(req.outGinSignalStart, start);
    if (nsignals != 0 && has_buffer) CHECK_EQ(req.outGinSignalStart, &handle.inbox.signals);
}

#define FUNCTION(function, name, call, bytes, align, nsignals, start, field, value)                \
    static void function##_##name(void)                                                            \
    {                                                                                              \
        dirty();                                                                                   \
        CHECK_OK(call);                                                                            \
        check_need(bytes, align, nsignals, &handle.start);                                         \
        CHECK_EQ(handle.field, value);                                                             \
    }
ROWS(FUNCTION)

/* WRONG(function, case, detail, call) */
#define WRONGS(WRONG)                                                                              \
    WRONG(ncclLsaBarrierCreateRequirement, handle_null, "outHandle is NULL",                       \
          ncclLsaBarrierCreateRequirement(team_of(2), 1, NULL, &req))                              \
    WRONG(ncclLsaBarrierCreateRequirement, req_null, "outReq is NULL",                             \
          ncclLsaBarrierCreateRequirement(team_of(2), 1, &handle.lsa, NULL))                       \
    WRONG(ncclLsaBarrierCreateRequirement, no_ranks, "team.nRanks 0 is below 1",                   \
          LSA(team_of(0), 1))                                                                      \
    WRONG(ncclLsaBarrierCreateRequirement, negative, "nBarriers -1 is below 0",                    \
          LSA(team_of(2), -1))                                                                     \
    WRONG(ncclLsaBarrierCreateRequirement, too_many, "2147483647 times 8589934600",                \
          LSA(team_of(INT_MAX), INT_MAX))                                                          \
    WRONG(ncclLLA2ACreateRequirement, handle_null, "outHandle is NULL",                            \
          ncclLLA2ACreateRequirement(1, 1, NULL, &req))                                            \
    WRONG(ncclLLA2ACreateRequirement, req_null, "outReq is NULL",                                  \
          ncclLLA2ACreateRequirement(1, 1, &handle.ll, NULL))                                      \
    WRONG(ncclLLA2ACreateRequirement, blocks_low, "nBlocks -1 is below 0", LL(-1, 1))              \
    WRONG(ncclLLA2ACreateRequirement, slots_low, "nSlots -7 is below 0", LL(1, -7))                \
    WRONG(ncclLLA2ACreateRequirement, too_many, "2147483647 times 68719476720",                    \
          LL(INT_MAX, INT_MAX))                                                                    \
    WRONG(ncclGinBarrierCreateRequirement, handle_null, "outHandle is NULL",                       \
          ncclGinBarrierCreateRequirement(NULL, team_of(2), 1, NULL, &req))                        \
    WRONG(ncclGinBarrierCreateRequirement, req_null, "outReq is NULL",                             \
          ncclGinBarrierCreateRequirement(NULL, team_of(2), 1, &handle.gin, NULL))                 \
    WRONG(ncclGinBarrierCreateRequirement, no_ranks, "team.nRanks -3 is below 1",                  \
          GIN(team_of(-3), 1))                                                                     \
    WRONG(ncclGinBarrierCreateRequirement, negative, "nBarriers -1", GIN(team_of(2), -1))          \
    WRONG(ncclGinBarrierCreateRequirement, too_many, "65536 times 32768",                          \
          GIN(team_of(32768), 65536))                                                              \
    WRONG(ncclGinOutboxCreateRequirement, handle_null, "outHandle is NULL",                        \
          ncclGinOutboxCreateRequirement(1, 7, NULL, &req))                                        \
    WRONG(ncclGinOutboxCreateRequirement, req_null, "outReq is NULL",                              \
          ncclGinOutboxCreateRequirement(1, 7, &handle.outbox, NULL))                              \
    WRONG(ncclGinOutboxCreateRequirement, blocks_low, "nBlocks -2", OUTBOX(-2, 7))                 \
    WRONG(ncclGinOutboxCreateRequirement, log2_low, "size_log2 -1 is not in [0, 30]",              \
          OUTBOX(1, -1))                                                                           \
    WRONG(ncclGinOutboxCreateRequirement, log2_high, "size_log2 31 is not in [0, 30]",             \
          OUTBOX(1, 31))                                                                           \
    WRONG(ncclGinInboxA2ACreateRequirement, handle_null, "outHandle is NULL",                      \
          ncclGinInboxA2ACreateRequirement(team_of(2), 1, 7, NULL, &req))                          \
    WRONG(ncclGinInboxA2ACreateRequirement, req_null, "outReq is NULL",                            \
          ncclGinInboxA2ACreateRequirement(team_of(2), 1, 7, &handle.inbox, NULL))                 \
    WRONG(ncclGinInboxA2ACreateRequirement, no_peers, "peers.nRanks 1 is below 2",                 \
          INBOX(team_of(1), 1, 7))                                                                 \
    WRONG(ncclGinInboxA2ACreateRequirement, blocks_low, "nBlocks -1", INBOX(team_of(2), -1, 7))    \
    WRONG(ncclGinInboxA2ACreateRequirement, log2_high, "size_log2 64", INBOX(team_of(2), 1, 64))   \
    WRONG(ncclGinInboxA2ACreateRequirement, too_many, "2000000 times 2052",                        \
          INBOX(team_of(2), 2000000, 7))

#define REFUSAL(function, name, detail, call)                                                      \
    static void function##_refuses_##name(void)                                                    \
    {                                                                                              \
        dirty();                                                                                   \
        expect_error(call, ncclInvalidArgument, #function, detail);                                \
        CHECK_MEM(&req, &untouched, sizeof req);                                                   \
    }
WRONGS(REFUSAL)

static void bad_communicator(void)
{
    static uint64_t garbage[4096 / sizeof(uint64_t)];
    dirty();
    memset(garbage, 0xa5, sizeof garbage);
    expect_error(ncclGinBarrierCreateRequirement((ncclComm_t)(void *)garbage, team_of(2), 1,
                                                 &handle.gin, &req),
                 ncclInvalidArgument, "ncclGinBarrierCreateRequirement", "comm");
    CHECK_MEM(&req, &untouched, sizeof req);
}

static void slots_are_elements_of_8_bytes(void)
{
    static const struct {
        int elts, elt_bytes, slots;
    } rows[] = {{1, 1, 1},
                {1, 7, 1},
                {1, 8, 1},
                {1, 9, 2},
                {5, 8, 5},
                {4, 16, 8},
                {0, 8, 0},
                {3, 0, 0},
                {1, INT_MAX, 1 << 28},
                {INT_MAX, 8, INT_MAX}};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        NOTE("%d elements of %d bytes", rows[i].elts, rows[i].elt_bytes);
        CHECK_EQ(ncclLLA2ACalcSlots(rows[i].elts, rows[i].elt_bytes), rows[i].slots);
    }
}

static void expect_no_slots(int elts, int elt_bytes, const char *detail)
{
    CHECK_EQ(ncclLLA2ACalcSlots(elts, elt_bytes), -1);
    CHECK_HAS(ncclGetLastError(NULL), "ncclLLA2ACalcSlots: ");
    CHECK_HAS(ncclGetLastError(NULL), detail);
}

static void negative_slots(void)
{
    expect_no_slots(-1, 8, "maxElts -1 is below 0");
    expect_no_slots(1, -8, "maxEltSize -8 is below 0");
}

static void too_many_slots(void)
{
    expect_no_slots(INT_MAX, 9, "2147483647 times 2");
}

#define CASE(function, name, ...) {"require: " #function " " #name, function##_##name, 0},
#define WRONG_CASE(function, name, ...)                                                            \
    {"wrong: " #function " " #name, function##_refuses_##name, 0},
static const struct test_case cases[] = {
    ROWS(CASE) WRONGS(WRONG_CASE){"wrong: ncclGinBarrierCreateRequirement comm_garbage",
                                  bad_communicator, 0},
    {"require: ncclLLA2ACalcSlots counts 8 bytes each", slots_are_elements_of_8_bytes, 0},
    {"wrong: ncclLLA2ACalcSlots negative", negative_slots, 0},
    {"wrong: ncclLLA2ACalcSlots too_many", too_many_slots, 0},
};
const struct case_list require_cases = {cases, TEST_COUNT(cases)};
