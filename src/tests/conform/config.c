/* ncclConfig_t: every field just outside its range is refused by name, structs of older headers
 * are read as their version says, and a good one gives a communicator that works.
 */
#include "conform/world.h"

#include <string.h>

/* The layout is the ABI: old binaries bring structs that were laid out by upstream's header. */
#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #field)
AT(ncclConfig_t, magic, 8);
AT(ncclConfig_t, version, 12);
AT(ncclConfig_t, blocking, 16);
AT(ncclConfig_t, netName, 32);
AT(ncclConfig_t, splitShare, 40);
AT(ncclConfig_t, commName, 48);
AT(ncclConfig_t, collnetEnable, 56);
AT(ncclConfig_t, nvlsCTAs, 68);
AT(ncclConfig_t, nvlinkCentricSched, 76);
AT(ncclConfig_t, graphUsageMode, 80);
AT(ncclConfig_t, maxP2pPeers, 88);
AT(ncclConfig_t, graphStreamOrdering, 92);
AT(ncclSimInfo_t, estimatedTime, 16);
AT(ncclCommProperties_t, deviceApiSupport, 32);
AT(ncclCommProperties_t, ginType, 36);
AT(ncclCommProperties_t, hostRmaSupport, 44);
AT(ncclCommProperties_t, railedGinType, 48);
_Static_assert(sizeof(ncclConfig_t) == 96, "ncclConfig_t");
_Static_assert(sizeof(ncclSimInfo_t) == 24, "ncclSimInfo_t");
_Static_assert(sizeof(ncclCommProperties_t) == 56, "ncclCommProperties_t");
_Static_assert(sizeof(ncclWaitSignalDesc_t) == 16, "ncclWaitSignalDesc_t");
_Static_assert(sizeof(ncclUniqueId) == 128, "ncclUniqueId");
_Static_assert(sizeof(ncclRedOp_t) == 4 && sizeof(ncclDataType_t) == 4, "enums");

static ncclComm_t comm;

/* The init call returns before it looks for other ranks, so no world is needed. */
static void expect_refusal(ncclConfig_t *config, ncclResult_t code, const char *detail)
{
    ncclUniqueId id;
    memset(&id, 0x11, sizeof id);
    comm = (ncclComm_t)(void *)&id;
    expect_error(ncclCommInitRankConfig(&comm, 2, id, 0, config), code, "ncclCommInitRankConfig",
                 detail);
    CHECK_EQ(comm, NULL);
    expect_error(ncclCommInitRankScalable(&comm, 2, 0, 1, &id, config), code,
                 "ncclCommInitRankScalable", detail);
    CHECK_EQ(comm, NULL);
}

/* ROW(case, code, detail, field, value) */
#define ROWS(ROW)                                                                                  \
    ROW(magic, ncclInvalidArgument, "magic 0x1 is not 0xcafebeef", magic, 1)                       \
    ROW(size_zero, ncclInvalidArgument, "size 0 is below 16", size, 0)                             \
    ROW(size_small, ncclInvalidArgument, "size 15 is below 16", size, 15)                          \
    ROW(blocking_low, ncclInvalidArgument, "config.blocking -1 is not in [0, 1]", blocking, -1)    \
    ROW(blocking_high, ncclInvalidArgument, "config.blocking 2 is not in [0, 1]", blocking, 2)     \
    ROW(cga_low, ncclInvalidArgument, "config.cgaClusterSize -1 is below 0", cgaClusterSize, -1)   \
    ROW(min_zero, ncclInvalidArgument, "config.minCTAs 0 is below 1", minCTAs, 0)                  \
    ROW(min_low, ncclInvalidArgument, "config.minCTAs -3 is below 1", minCTAs, -3)                 \
    ROW(max_zero, ncclInvalidArgument, "config.maxCTAs 0 is below 1", maxCTAs, 0)                  \
    ROW(share_high, ncclInvalidArgument, "config.splitShare 2", splitShare, 2)                     \
    ROW(collnet_high, ncclInvalidArgument, "config.collnetEnable 7", collnetEnable, 7)             \
    ROW(policy_low, ncclInvalidArgument, "config.CTAPolicy -1 is not in [0, 3]", CTAPolicy, -1)    \
    ROW(policy_high, ncclInvalidArgument, "config.CTAPolicy 4 is not in [0, 3]", CTAPolicy, 4)     \
    ROW(shrink_high, ncclInvalidArgument, "config.shrinkShare 2", shrinkShare, 2)                  \
    ROW(nvls_zero, ncclInvalidArgument, "config.nvlsCTAs 0 is below 1", nvlsCTAs, 0)               \
    ROW(net_low, ncclInvalidArgument, "nChannelsPerNetPeer 0 is not in", nChannelsPerNetPeer, 0)   \
    ROW(net_high, ncclInvalidArgument, "nChannelsPerNetPeer 65 is", nChannelsPerNetPeer, 65)       \
    ROW(sched_high, ncclInvalidArgument, "config.nvlinkCentricSched 2", nvlinkCentricSched, 2)     \
    ROW(graph_low, ncclInvalidArgument, "config.graphUsageMode -1", graphUsageMode, -1)            \
    ROW(graph_high, ncclInvalidArgument, "config.graphUsageMode 3", graphUsageMode, 3)             \
    ROW(rma_low, ncclInvalidArgument, "config.numRmaCtx -1 is below 0", numRmaCtx, -1)             \
    ROW(p2p_zero, ncclInvalidArgument, "config.maxP2pPeers 0 is below 1", maxP2pPeers, 0)          \
    ROW(order_high, ncclInvalidArgument, "config.graphStreamOrdering 2", graphStreamOrdering, 2)   \
    ROW(net_name_long, ncclInvalidArgument, "config.netName 'abc", netName,                        \
        "abcdefghijklmnopqrstuvwxyz0123456789")

#define FUNCTION(name, code, detail, field, value)                                                 \
    static void name(void)                                                                         \
    {                                                                                              \
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;                                             \
        config.field = value;                                                                      \
        expect_refusal(&config, code, detail);                                                     \
    }
ROWS(FUNCTION)

static void min_above_max(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.minCTAs = 9;
    config.maxCTAs = 8;
    expect_refusal(&config, ncclInvalidArgument, "config.minCTAs 9 exceeds config.maxCTAs 8");
}

/* The rank's communicator of one by `config` works and goes. */
static void expect_works(ncclConfig_t *config)
{
    ncclUniqueId id;
    int count = 0;
    CHECK_OK(ncclGetUniqueId(&id));
    CHECK_OK(ncclCommInitRankConfig(&comm, 1, id, 0, config));
    CHECK_OK(ncclCommCount(comm, &count));
    CHECK_EQ(count, 1);
    CHECK_OK(ncclCommDestroy(comm));
}

static void defaults_and_null(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    expect_works(&config);
    expect_works(NULL);
}

static void every_field_set(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    char name[200];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    config.blocking = 1;
    config.cgaClusterSize = 2;
    config.minCTAs = 2;
    config.maxCTAs = 200; /* more than there are: cut, not refused */
    config.splitShare = 1;
    config.trafficClass = -5;
    config.commName = name; /* longer than any log line: cut */
    config.CTAPolicy = NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO;
    config.shrinkShare = 1;
    config.nvlsCTAs = 4;
    config.nChannelsPerNetPeer = 64;
    config.graphUsageMode = 1;
    config.numRmaCtx = 0;
    config.maxP2pPeers = 1;
    config.graphStreamOrdering = 0;
    expect_works(&config);
}

/* Fields that came after the caller's version hold whatever was in memory and are not read. */
static void older_versions_hide_younger_fields(void)
{
    static const struct {
        unsigned version;
        size_t size;
    } headers[] = {{21400, 24}, {21700, 40}, {21805, 48}, {22500, 48},
                   {22703, 72}, {22809, 80}, {22903, 88}, {23004, 96}};
    for (size_t i = 0; i < TEST_COUNT(headers); i++) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        size_t known = headers[i].size;
        NOTE("version %u, size %zu", headers[i].version, known);
        config.size = known;
        config.version = headers[i].version;
        if (known < sizeof config) memset((char *)&config + known, 0xee, sizeof config - known);
        config.graphStreamOrdering = 77; /* the last slot, which 2.30.4 has as padding */
        if (headers[i].version < 22500) config.trafficClass = 0x7e7e7e7e;
        expect_works(&config);
    }
}

static void newer_header_is_cut(void)
{
    struct {
        ncclConfig_t config;
        int more[8];
    } newer = {NCCL_CONFIG_INITIALIZER, {9, 9, 9, 9, 9, 9, 9, 9}};
    newer.config.size = sizeof newer;
    newer.config.version = 29900;
    expect_works(&newer.config);
}

#define CASE(name, code, detail, field, value) {"config: " #name, name, 0},
static const struct test_case cases[] = {
    ROWS(CASE){"config: minCTAs above maxCTAs", min_above_max, 0},
    {"config: defaults and NULL", defaults_and_null, 0},
    {"config: every field set", every_field_set, 0},
    {"config: older versions hide younger fields", older_versions_hide_younger_fields, 0},
    {"config: a newer header is cut", newer_header_is_cut, 0},
};
const struct case_list config_cases = {cases, TEST_COUNT(cases)};
