/* Rows of the differential program about information, life of communicators, memory, parameters and
 * the device interface. A row more is a line more.
 */
#include "conform/differ.h"

#include <limits.h>
#include <string.h>

static ncclConfig_t *with_magic(struct differ_scene *s, unsigned magic)
{
    s->config.magic = magic;
    return &s->config;
}

/* A field of the configuration, set. */
#define WITH(field, value) (s->config.field = (value), &s->config)
#define INIT(config)       F(CommInitRankConfig)(&s->out, 2, s->id, 0, config)

static ncclCommProperties_t *properties(struct differ_scene *s, unsigned magic, unsigned version)
{
    s->props.magic = magic;
    s->props.version = version;
    return &s->props;
}

/* Where the requirement helpers write: a handle, then a requirement of which `word` is read. */
#define OUTS    (void *)s->block, (void *)(s->block + 8)
#define BYTES   s->block[9]
#define ALIGN   s->block[10]
#define SIGNALS s->block[12]

/* Requirements of a device communicator: size, magic, version, zeros. */
static void *requirements(struct differ_scene *s, unsigned magic, unsigned version)
{
    const unsigned header[2] = {magic, version};
    s->block[0] = 96;
    memcpy(&s->block[1], header, sizeof header);
    return s->block;
}

static int *excluded(struct differ_scene *s, int first)
{
    s->list[0] = first;
    return s->list;
}

static ncclTeam_t team_of(int nranks)
{
    return (ncclTeam_t){.nRanks = nranks, .rank = 0, .stride = 1};
}

#define INFO_ROWS(ROW)                                                                             \
    ROW(GetVersion, null, NOTHING, F(GetVersion)(NULL))                                            \
    ROW(GetUniqueId, null, NOTHING, F(GetUniqueId)(NULL))                                          \
    ROW(GetErrorString, negative, NOTHING, F(GetErrorString)((ncclResult_t)-1) != NULL)            \
    ROW(GetErrorString, unknown, NOTHING, F(GetErrorString)((ncclResult_t)1000) != NULL)           \
    ROW(GetLastError, before_any, NOTHING, F(GetLastError)(NULL)[0] != '\0')                       \
    ROW(GetLastError, after_one, NOTHING, (F(GetVersion)(NULL), F(GetLastError)(NULL)[0] != '\0')) \
    ROW(ResetDebugInit, call, NOTHING, (F(ResetDebugInit)(), 0))                                   \
    ROW(GroupEnd, no_start, NOTHING, F(GroupEnd)())                                                \
    ROW(GroupEnd, empty, NOTHING, (F(GroupStart)(), F(GroupEnd)()))                                \
    ROW(GroupEnd, once_too_often, NOTHING, (F(GroupStart)(), F(GroupEnd)(), F(GroupEnd)()))        \
    ROW(GroupSimulateEnd, no_start, NOTHING, F(GroupSimulateEnd)(&s->sim))                         \
    ROW(GroupSimulateEnd, null, NOTHING, (F(GroupStart)(), F(GroupSimulateEnd)(NULL)))             \
    ROW(GroupSimulateEnd, magic, NOTHING,                                                          \
        (s->sim.magic = 1, F(GroupStart)(), F(GroupSimulateEnd)(&s->sim)))                         \
    ROW(GroupSimulateEnd, empty, NOTHING, (F(GroupStart)(), F(GroupSimulateEnd)(&s->sim)))

#define LIFE_ROWS(ROW)                                                                             \
    ROW(CommInitRank, comm_null, DEVICE, F(CommInitRank)(NULL, 1, s->id, 0))                       \
    ROW(CommInitRank, nranks_zero, DEVICE, F(CommInitRank)(&s->out, 0, s->id, 0))                  \
    ROW(CommInitRank, nranks_low, DEVICE, F(CommInitRank)(&s->out, -4, s->id, 0))                  \
    ROW(CommInitRank, rank_low, DEVICE, F(CommInitRank)(&s->out, 2, s->id, -1))                    \
    ROW(CommInitRank, rank_n, DEVICE, F(CommInitRank)(&s->out, 2, s->id, 2))                       \
    ROW(CommInitRankConfig, comm_null, DEVICE, F(CommInitRankConfig)(NULL, 1, s->id, 0, NULL))     \
    ROW(CommInitRankConfig, rank_n, DEVICE, F(CommInitRankConfig)(&s->out, 2, s->id, 2, NULL))     \
    ROW(CommInitRankConfig, magic, DEVICE, INIT(with_magic(s, 1)))                                 \
    ROW(CommInitRankConfig, blocking_high, DEVICE, INIT(WITH(blocking, 2)))                        \
    ROW(CommInitRankConfig, cga_low, DEVICE, INIT(WITH(cgaClusterSize, -1)))                       \
    ROW(CommInitRankConfig, min_zero, DEVICE, INIT(WITH(minCTAs, 0)))                              \
    ROW(CommInitRankConfig, max_zero, DEVICE, INIT(WITH(maxCTAs, 0)))                              \
    ROW(CommInitRankConfig, min_above_max, DEVICE,                                                 \
        (s->config.maxCTAs = 8, INIT(WITH(minCTAs, 9))))                                           \
    ROW(CommInitRankConfig, share_high, DEVICE, INIT(WITH(splitShare, 2)))                         \
    ROW(CommInitRankConfig, collnet_high, DEVICE, INIT(WITH(collnetEnable, 2)))                    \
    ROW(CommInitRankConfig, policy_high, DEVICE, INIT(WITH(CTAPolicy, 4)))                         \
    ROW(CommInitRankConfig, shrink_high, DEVICE, INIT(WITH(shrinkShare, 2)))                       \
    ROW(CommInitRankConfig, nvls_zero, DEVICE, INIT(WITH(nvlsCTAs, 0)))                            \
    ROW(CommInitRankConfig, net_peers_high, DEVICE, INIT(WITH(nChannelsPerNetPeer, 65)))           \
    ROW(CommInitRankConfig, schedule_high, DEVICE, INIT(WITH(nvlinkCentricSched, 2)))              \
    ROW(CommInitRankConfig, graphs_high, DEVICE, INIT(WITH(graphUsageMode, 3)))                    \
    ROW(CommInitRankConfig, rma_low, DEVICE, INIT(WITH(numRmaCtx, -1)))                            \
    ROW(CommInitRankConfig, peers_zero, DEVICE, INIT(WITH(maxP2pPeers, 0)))                        \
    ROW(CommInitRankConfig, order_high, DEVICE, INIT(WITH(graphStreamOrdering, 2)))                \
    ROW(CommInitRankScalable, nid_zero, DEVICE,                                                    \
        F(CommInitRankScalable)(&s->out, 2, 0, 0, s->ids, NULL))                                   \
    ROW(CommInitRankScalable, nid_high, DEVICE,                                                    \
        F(CommInitRankScalable)(&s->out, 2, 0, 3, s->ids, NULL))                                   \
    ROW(CommInitRankScalable, ids_null, DEVICE,                                                    \
        F(CommInitRankScalable)(&s->out, 2, 0, 1, NULL, NULL))                                     \
    ROW(CommInitRankScalable, rank_low, DEVICE,                                                    \
        F(CommInitRankScalable)(&s->out, 2, -1, 1, s->ids, NULL))                                  \
    ROW(CommInitAll, comms_null, DEVICE, F(CommInitAll)(NULL, 1, NULL))                            \
    ROW(CommInitAll, ndev_low, DEVICE, F(CommInitAll)(s->many, -1, NULL))                          \
    ROW(CommInitAll, ndev_zero, DEVICE, F(CommInitAll)(s->many, 0, NULL))                          \
    ROW(CommInitAll, device_low, DEVICE, F(CommInitAll)(s->many, 1, excluded(s, -1)))              \
    ROW(CommInitAll, device_high, DEVICE, F(CommInitAll)(s->many, 1, excluded(s, 4096)))           \
    ROW(CommInitAll, device_twice, DEVICE, F(CommInitAll)(s->many, 2, s->list))                    \
    ROW(CommFinalize, null, NOTHING, F(CommFinalize)(NULL))                                        \
    ROW(CommFinalize, garbage, NOTHING, F(CommFinalize)(s->garbage))                               \
    ROW(CommFinalize, twice, COMM, (F(CommFinalize)(s->comm[0]), F(CommFinalize)(s->comm[0])))     \
    ROW(CommDestroy, null, NOTHING, F(CommDestroy)(NULL))                                          \
    ROW(CommDestroy, garbage, NOTHING, F(CommDestroy)(s->garbage))                                 \
    ROW(CommDestroy, finalized, COMM, (F(CommFinalize)(s->comm[0]), F(CommDestroy)(s->comm[0])))   \
    ROW(CommDestroy, twice, COMM, (F(CommDestroy)(s->comm[0]), F(CommDestroy)(s->comm[0])))        \
    ROW(CommDestroy, one_of_two, RANKS, F(CommDestroy)(s->comm[1]))                                \
    ROW(CommAbort, null, NOTHING, F(CommAbort)(NULL))                                              \
    ROW(CommAbort, garbage, NOTHING, F(CommAbort)(s->garbage))                                     \
    ROW(CommAbort, one_of_two, RANKS, F(CommAbort)(s->comm[1]))                                    \
    ROW(CommAbort, destroyed, COMM, (F(CommDestroy)(s->comm[0]), F(CommAbort)(s->comm[0])))        \
    ROW(CommRevoke, null, NOTHING, F(CommRevoke)(NULL, 0))                                         \
    ROW(CommRevoke, garbage, NOTHING, F(CommRevoke)(s->garbage, 0))                                \
    ROW(CommRevoke, flags, COMM, F(CommRevoke)(s->comm[0], 1))                                     \
    ROW(CommRevoke, twice, COMM, (F(CommRevoke)(s->comm[0], 0), F(CommRevoke)(s->comm[0], 0)))     \
    ROW(CommRevoke, finalized, COMM, (F(CommFinalize)(s->comm[0]), F(CommRevoke)(s->comm[0], 0)))  \
    ROW(CommFinalize, revoked, COMM, (F(CommRevoke)(s->comm[0], 0), F(CommFinalize)(s->comm[0])))  \
    ROW(CommSplit, comm_null, DEVICE, F(CommSplit)(NULL, 0, 0, &s->out, NULL))                     \
    ROW(CommSplit, comm_garbage, DEVICE, F(CommSplit)(s->garbage, 0, 0, &s->out, NULL))            \
    ROW(CommSplit, out_null, COMM, F(CommSplit)(s->comm[0], 0, 0, NULL, NULL))                     \
    ROW(CommSplit, colour_low, COMM, F(CommSplit)(s->comm[0], -2, 0, &s->out, NULL))               \
    ROW(CommSplit, no_colour, COMM, F(CommSplit)(s->comm[0], -1, 0, &s->out, NULL))                \
    ROW(CommSplit, config_magic, COMM, F(CommSplit)(s->comm[0], 0, 0, &s->out, with_magic(s, 1)))  \
    ROW(CommSplit, finalized, COMM,                                                                \
        (F(CommFinalize)(s->comm[0]), F(CommSplit)(s->comm[0], 0, 0, &s->out, NULL)))              \
    ROW(CommShrink, comm_null, DEVICE, F(CommShrink)(NULL, s->list, 1, &s->out, NULL, 0))          \
    ROW(CommShrink, comm_garbage, DEVICE, F(CommShrink)(s->garbage, s->list, 1, &s->out, NULL, 0)) \
    ROW(CommShrink, list_null, RANKS, F(CommShrink)(s->comm[0], NULL, 1, &s->out, NULL, 0))        \
    ROW(CommShrink, count_zero, RANKS, F(CommShrink)(s->comm[0], s->list, 0, &s->out, NULL, 0))    \
    ROW(CommShrink, own_rank, RANKS,                                                               \
        F(CommShrink)(s->comm[0], excluded(s, 0), 1, &s->out, NULL, 0))                            \
    ROW(CommShrink, rank_high, RANKS,                                                              \
        F(CommShrink)(s->comm[0], excluded(s, 7), 1, &s->out, NULL, 0))                            \
    ROW(CommShrink, out_null, RANKS, F(CommShrink)(s->comm[0], excluded(s, 1), 1, NULL, NULL, 0))  \
    ROW(CommGetUniqueId, comm_null, NOTHING, F(CommGetUniqueId)(NULL, &s->id))                     \
    ROW(CommGetUniqueId, out_null, COMM, F(CommGetUniqueId)(s->comm[0], NULL))                     \
    ROW(CommGrow, out_null, COMM, F(CommGrow)(s->comm[0], 2, NULL, -1, NULL, NULL))                \
    ROW(CommGrow, same_size, COMM, F(CommGrow)(s->comm[0], 1, NULL, -1, &s->out, NULL))            \
    ROW(CommGrow, member_with_rank, COMM, F(CommGrow)(s->comm[0], 2, NULL, 0, &s->out, NULL))      \
    ROW(CommGrow, newcomer_without_id, DEVICE, F(CommGrow)(NULL, 2, NULL, 1, &s->out, NULL))       \
    ROW(CommGrow, newcomer_rank_low, DEVICE, F(CommGrow)(NULL, 2, &s->id, -1, &s->out, NULL))      \
    ROW(CommGrow, newcomer_rank_n, DEVICE, F(CommGrow)(NULL, 2, &s->id, 2, &s->out, NULL))

#define STATUS_ROWS(ROW)                                                                           \
    ROW(CommGetAsyncError, comm_null, NOTHING, F(CommGetAsyncError)(NULL, &s->async))              \
    ROW(CommGetAsyncError, comm_garbage, NOTHING, F(CommGetAsyncError)(s->garbage, &s->async))     \
    ROW(CommGetAsyncError, out_null, COMM, F(CommGetAsyncError)(s->comm[0], NULL))                 \
    ROW(CommCount, comm_null, NOTHING, F(CommCount)(NULL, &s->number))                             \
    ROW(CommCount, comm_garbage, NOTHING, F(CommCount)(s->garbage, &s->number))                    \
    ROW(CommCount, out_null, COMM, F(CommCount)(s->comm[0], NULL))                                 \
    ROW(CommUserRank, comm_null, NOTHING, F(CommUserRank)(NULL, &s->number))                       \
    ROW(CommUserRank, out_null, COMM, F(CommUserRank)(s->comm[0], NULL))                           \
    ROW(CommCuDevice, comm_null, NOTHING, F(CommCuDevice)(NULL, &s->number))                       \
    ROW(CommCuDevice, out_null, COMM, F(CommCuDevice)(s->comm[0], NULL))                           \
    ROW(CommCount, finalized, COMM,                                                                \
        (F(CommFinalize)(s->comm[0]), F(CommCount)(s->comm[0], &s->number)))                       \
    ROW(CommGetAsyncError, revoked, COMM,                                                          \
        (F(CommRevoke)(s->comm[0], 0), F(CommGetAsyncError)(s->comm[0], &s->async)))

#define MEMORY_ROWS(ROW)                                                                           \
    ROW(MemAlloc, out_null, DEVICE, F(MemAlloc)(NULL, 64))                                         \
    ROW(MemAlloc, too_much, DEVICE, F(MemAlloc)(&s->pointer, SIZE_MAX / 4) != 0)                   \
    ROW(MemAlloc, of_nothing, DEVICE, F(MemAlloc)(&s->pointer, 0))                                 \
    ROW(MemFree, null, DEVICE, F(MemFree)(NULL))                                                   \
    ROW(CommRegister, comm_null, NOTHING, F(CommRegister)(NULL, s->list, 64, &s->pointer))         \
    ROW(CommRegister, comm_garbage, NOTHING,                                                       \
        F(CommRegister)(s->garbage, s->list, 64, &s->pointer))                                     \
    ROW(CommRegister, out_null, COMM, F(CommRegister)(s->comm[0], s->buffer, 64, NULL))            \
    ROW(CommRegister, size_zero, COMM, F(CommRegister)(s->comm[0], s->buffer, 0, &s->pointer))     \
    ROW(CommDeregister, comm_null, NOTHING, F(CommDeregister)(NULL, s->garbage))                   \
    ROW(CommDeregister, null, COMM, F(CommDeregister)(s->comm[0], NULL))                           \
    ROW(CommDeregister, unknown, COMM, F(CommDeregister)(s->comm[0], s->garbage))                  \
    ROW(CommDeregister, twice, COMM,                                                               \
        (F(CommRegister)(s->comm[0], s->buffer, 4096, &s->pointer),                                \
         F(CommDeregister)(s->comm[0], s->pointer), F(CommDeregister)(s->comm[0], s->pointer)))    \
    ROW(CommWindowRegister, comm_null, NOTHING,                                                    \
        F(CommWindowRegister)(NULL, s->list, 64, &s->window, 0))                                   \
    ROW(CommWindowRegister, buff_null, COMM,                                                       \
        F(CommWindowRegister)(s->comm[0], NULL, 4096, &s->window, 0))                              \
    ROW(CommWindowRegister, size_zero, COMM,                                                       \
        F(CommWindowRegister)(s->comm[0], s->buffer, 0, &s->window, 0))                            \
    ROW(CommWindowRegister, out_null, COMM,                                                        \
        F(CommWindowRegister)(s->comm[0], s->buffer, 4096, NULL, 0))                               \
    ROW(CommWindowDeregister, comm_null, NOTHING, F(CommWindowDeregister)(NULL, s->garbage))       \
    ROW(CommWindowDeregister, null, COMM, F(CommWindowDeregister)(s->comm[0], NULL))               \
    ROW(WinGetUserPtr, comm_null, NOTHING, F(WinGetUserPtr)(NULL, s->garbage, &s->pointer))        \
    ROW(WinGetUserPtr, window_null, COMM, F(WinGetUserPtr)(s->comm[0], NULL, &s->pointer))         \
    ROW(CommSuspend, comm_null, NOTHING, F(CommSuspend)(NULL, 1))                                  \
    ROW(CommSuspend, no_flags, COMM, F(CommSuspend)(s->comm[0], 0))                                \
    ROW(CommSuspend, twice, COMM, (F(CommSuspend)(s->comm[0], 1), F(CommSuspend)(s->comm[0], 1)))  \
    ROW(CommResume, comm_null, NOTHING, F(CommResume)(NULL))                                       \
    ROW(CommResume, not_suspended, COMM, F(CommResume)(s->comm[0]))                                \
    ROW(CommMemStats, comm_null, NOTHING, F(CommMemStats)(NULL, ncclStatGpuMemTotal, &s->large))   \
    ROW(CommMemStats, stat_high, COMM,                                                             \
        F(CommMemStats)(s->comm[0], (ncclCommMemStat_t)4, &s->large))                              \
    ROW(CommMemStats, out_null, COMM, F(CommMemStats)(s->comm[0], ncclStatGpuMemTotal, NULL))

#define PARAM_ROWS(ROW)                                                                            \
    ROW(ParamBind, out_null, NOTHING, F(ParamBind)(NULL, "NCCL_DEBUG"))                            \
    ROW(ParamBind, key_null, NOTHING, F(ParamBind)(&s->param, NULL))                               \
    ROW(ParamBind, key_unknown, NOTHING, F(ParamBind)(&s->param, "NCCL_NO_SUCH_THING"))            \
    ROW(ParamGetParameter, key_unknown, NOTHING,                                                   \
        F(ParamGetParameter)("NCCL_NO_SUCH_THING", &s->text, &s->number))                          \
    ROW(ParamGetParameter, key_null, NOTHING, F(ParamGetParameter)(NULL, &s->text, &s->number))    \
    ROW(ParamGetAllParameterKeys, out_null, NOTHING, F(ParamGetAllParameterKeys)(NULL, NULL))      \
    ROW(ParamGetI64, handle_null, NOTHING, F(ParamGetI64)(NULL, (int64_t *)&s->large))             \
    ROW(ParamGetI8, handle_null, NOTHING, F(ParamGetI8)(NULL, (int8_t *)&s->large))                \
    ROW(ParamGetStr, handle_null, NOTHING, F(ParamGetStr)(NULL, &s->text))                         \
    ROW(ParamGet, handle_null, NOTHING, F(ParamGet)(NULL, &s->large, 8, &s->number))

#define DEVICE_ROWS(ROW)                                                                           \
    ROW(CommQueryProperties, comm_null, NOTHING, F(CommQueryProperties)(NULL, &s->props))          \
    ROW(CommQueryProperties, props_null, COMM, F(CommQueryProperties)(s->comm[0], NULL))           \
    ROW(CommQueryProperties, magic, COMM,                                                          \
        F(CommQueryProperties)(s->comm[0], properties(s, 1, NCCL_VERSION_CODE)))                   \
    ROW(CommQueryProperties, version_new, COMM,                                                    \
        F(CommQueryProperties)(s->comm[0], properties(s, NCCL_API_MAGIC, 99999)))                  \
    ROW(CommQueryProperties, version_old, COMM,                                                    \
        F(CommQueryProperties)(s->comm[0], properties(s, NCCL_API_MAGIC, 22809)))                  \
    ROW(CommQueryProperties, size_zero, COMM,                                                      \
        (s->props.size = 0, F(CommQueryProperties)(s->comm[0], &s->props)))                        \
    ROW(DevCommCreate, comm_null, NOTHING, F(DevCommCreate)(NULL, (void *)s->block, s->garbage))   \
    ROW(DevCommCreate, reqs_null, COMM, F(DevCommCreate)(s->comm[0], NULL, s->garbage))            \
    ROW(DevCommCreate, magic, COMM,                                                                \
        F(DevCommCreate)(s->comm[0], requirements(s, 1, NCCL_VERSION_CODE), s->garbage))           \
    ROW(DevCommCreate, version_new, COMM,                                                          \
        F(DevCommCreate)(s->comm[0], requirements(s, NCCL_API_MAGIC, 99999), s->garbage))          \
    ROW(DevCommCreate, good, COMM,                                                                 \
        F(DevCommCreate)(s->comm[0], requirements(s, NCCL_API_MAGIC, NCCL_VERSION_CODE),           \
                         s->garbage))                                                              \
    ROW(DevCommDestroy, comm_null, NOTHING, F(DevCommDestroy)(NULL, (void *)s->block))             \
    ROW(DevCommDestroy, null, COMM, F(DevCommDestroy)(s->comm[0], NULL))                           \
    ROW(GetLsaDevicePointer, window_null, NOTHING,                                                 \
        F(GetLsaDevicePointer)(NULL, 0, 0, &s->pointer))                                           \
    ROW(GetLsaDevicePointer, window_garbage, NOTHING,                                              \
        F(GetLsaDevicePointer)(s->garbage, 0, 0, &s->pointer))                                     \
    ROW(GetLsaDevicePointer, out_null, NOTHING, F(GetLsaDevicePointer)(s->garbage, 0, 0, NULL))    \
    ROW(GetPeerDevicePointer, window_null, NOTHING,                                                \
        F(GetPeerDevicePointer)(NULL, 0, 0, &s->pointer))                                          \
    ROW(GetPeerDevicePointer, window_garbage, NOTHING,                                             \
        F(GetPeerDevicePointer)(s->garbage, 0, 0, &s->pointer))                                    \
    ROW(GetLsaMultimemDevicePointer, window_null, NOTHING,                                         \
        F(GetLsaMultimemDevicePointer)(NULL, 0, &s->pointer))                                      \
    ROW(GetLsaMultimemDevicePointer, window_garbage, NOTHING,                                      \
        F(GetLsaMultimemDevicePointer)(s->garbage, 0, &s->pointer))                                \
    ROW(GetMultimemDevicePointer, handle_null, NOTHING,                                            \
        F(GetMultimemDevicePointer)(s->garbage, 0, s->multimem, &s->pointer))                      \
    ROW(TeamWorld, comm_null, NOTHING, F(TeamWorld)(NULL).nRanks)                                  \
    ROW(TeamLsa, comm_null, NOTHING, F(TeamLsa)(NULL).nRanks)                                      \
    ROW(TeamRail, comm_null, NOTHING, F(TeamRail)(NULL).nRanks)                                    \
    ROW(TeamRankToWorld, comm_null, NOTHING, F(TeamRankToWorld)(NULL, s->team, 0))                 \
    ROW(TeamRankToWorld, rank_high, RANKS, F(TeamRankToWorld)(s->comm[0], s->team, 2))             \
    ROW(TeamRankToLsa, comm_null, NOTHING, F(TeamRankToLsa)(NULL, s->team, 0))                     \
    ROW(TeamRankToLsa, rank_high, RANKS, F(TeamRankToLsa)(s->comm[0], s->team, 2))                 \
    ROW(LsaBarrierCreateRequirement, outs_null, NOTHING,                                           \
        F(LsaBarrierCreateRequirement)(s->team, 1, NULL, NULL))                                    \
    ROW(LsaBarrierCreateRequirement, negative, NOTHING,                                            \
        F(LsaBarrierCreateRequirement)(s->team, -1, OUTS))                                         \
    ROW(LLA2ACalcSlots, negative, NOTHING, F(LLA2ACalcSlots)(-4, 8))                               \
    ROW(LLA2ACalcSlots, two_each, NOTHING, F(LLA2ACalcSlots)(3, 9))                                \
    ROW(LLA2ACreateRequirement, outs_null, NOTHING, F(LLA2ACreateRequirement)(1, 1, NULL, NULL))   \
    ROW(LLA2ACreateRequirement, negative, NOTHING, F(LLA2ACreateRequirement)(-1, 1, OUTS))         \
    ROW(GinBarrierCreateRequirement, comm_null, NOTHING,                                           \
        F(GinBarrierCreateRequirement)(NULL, s->team, 1, (void *)s->block,                         \
                                       (void *)(s->block + 8)))                                    \
    ROW(GinBarrierCreateRequirement, outs_null, NOTHING,                                           \
        F(GinBarrierCreateRequirement)(NULL, s->team, 1, NULL, NULL))                              \
    ROW(GinOutboxCreateRequirement, log2_low, NOTHING, F(GinOutboxCreateRequirement)(1, -1, OUTS)) \
    ROW(GinOutboxCreateRequirement, log2_high, NOTHING,                                            \
        F(GinOutboxCreateRequirement)(1, 31, OUTS))                                                \
    ROW(GinInboxA2ACreateRequirement, no_peers, NOTHING,                                           \
        F(GinInboxA2ACreateRequirement)(team_of(1), 1, 7, (void *)s->block,                        \
                                        (void *)(s->block + 8)))                                   \
    ROW(LsaBarrierCreateRequirement, bytes, NOTHING,                                               \
        (F(LsaBarrierCreateRequirement)(team_of(8), 16, OUTS), BYTES))                             \
    ROW(LLA2ACreateRequirement, bytes, NOTHING, (F(LLA2ACreateRequirement)(2, 3, OUTS), BYTES))    \
    ROW(GinBarrierCreateRequirement, signals, NOTHING,                                             \
        (F(GinBarrierCreateRequirement)(NULL, team_of(4), 3, OUTS), SIGNALS))                      \
    ROW(GinOutboxCreateRequirement, bytes, NOTHING,                                                \
        (F(GinOutboxCreateRequirement)(3, 7, OUTS), BYTES))                                        \
    ROW(GinOutboxCreateRequirement, least_bytes, NOTHING,                                          \
        (F(GinOutboxCreateRequirement)(1, 0, OUTS), BYTES))                                        \
    ROW(GinOutboxCreateRequirement, least_size, NOTHING,                                           \
        (F(GinOutboxCreateRequirement)(1, 0, OUTS), s->block[0] >> 32))                            \
    ROW(GinOutboxCreateRequirement, alignment, NOTHING,                                            \
        (F(GinOutboxCreateRequirement)(2, 8, OUTS), ALIGN))                                        \
    ROW(GinInboxA2ACreateRequirement, bytes, NOTHING,                                              \
        (F(GinInboxA2ACreateRequirement)(team_of(5), 2, 8, OUTS), BYTES))                          \
    ROW(GinInboxA2ACreateRequirement, signals, NOTHING,                                            \
        (F(GinInboxA2ACreateRequirement)(team_of(5), 2, 8, OUTS), SIGNALS))                        \
    ROW(GinInboxA2ACreateRequirement, reciprocal, NOTHING,                                         \
        (F(GinInboxA2ACreateRequirement)(team_of(4), 1, 7, OUTS), s->block[1] >> 32))              \
    ROW(GinInboxA2ACreateRequirement, reciprocal_of_1, NOTHING,                                    \
        (F(GinInboxA2ACreateRequirement)(team_of(2), 1, 7, OUTS), s->block[1] >> 32))              \
    ROW(GinInboxA2ACreateRequirement, outs_null, NOTHING,                                          \
        F(GinInboxA2ACreateRequirement)(s->team, 1, 7, NULL, NULL))

#define ROWS(ROW)                                                                                  \
    INFO_ROWS(ROW)                                                                                 \
    LIFE_ROWS(ROW)                                                                                 \
    STATUS_ROWS(ROW)                                                                               \
    MEMORY_ROWS(ROW)                                                                               \
    PARAM_ROWS(ROW)                                                                                \
    DEVICE_ROWS(ROW)

ROWS(DIFFER_FUNCTION)
static const struct differ_row rows[] = {ROWS(DIFFER_ROW)};
const struct differ_rows differ_other_rows = {rows, sizeof rows / sizeof rows[0]};
