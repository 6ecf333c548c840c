/* Host side of the device interface: properties, teams, device communicators, pointers into
 * windows. Called by programs. Kernels of programs get no device communicator from this library, so
 * that deviceApiSupport is false and ncclDevCommCreate is refused; everything else is answered.
 */
#include "api/api.h"
#include "api/device_abi.h"

#include "base/err.h"
#include "base/param.h"
#include "core/lsa.h"
#include "device/device.h"
#include "device/nvml.h"

#include <limits.h>
#include <string.h>

/* The first version with these structs, and the last whose properties end before ginType. */
enum { FIRST_VERSION = 22902, LAST_SHORT_VERSION = 22903 };

/* A struct of the caller starts as its initializer says, and is of a version that we know. */
static ncclResult_t check_header(struct ccl_abi_header header, const char *function,
                                 const char *argument)
{
    unsigned version = header.version;
    if (header.magic != NCCL_API_MAGIC)
        return ccl_err(ncclInvalidUsage, "%s: %s.magic 0x%x is not 0x%x: use the initializer",
                       function, argument, header.magic, NCCL_API_MAGIC);
    if (version > NCCL_VERSION_CODE && ccl_param_int(CCL_PARAM_ENABLE_VERSION_CHECK))
        return ccl_err(ncclInvalidUsage,
                       "%s: %s.version %u is newer than this library, which is %d "
                       "(NCCL_ENABLE_VERSION_CHECK=0 skips this check)",
                       function, argument, version, NCCL_VERSION_CODE);
    if (version < FIRST_VERSION)
        return ccl_err(ncclInvalidUsage, "%s: %s.version %u is older than %d", function, argument,
                       version, FIRST_VERSION);
    return ncclSuccess;
}

/* ---- properties ---- */

/* -1: not known. Host devices are numbered as CUDA numbers GPUs. */
static int nvml_device(ncclComm_t comm)
{
    int device = ccl_comm_device(comm);
    char identity[64];
    if (strcmp(ccl_device()->base.kind, "host") == 0) return device;
    if (ccl_device()->identity(device, identity) != ncclSuccess) return -1;
    return ccl_nvml_index(identity);
}

static ncclResult_t check_size(const ncclCommProperties_t *props, const char *function)
{
    size_t least = sizeof *props;
    if (props->version <= LAST_SHORT_VERSION) least = offsetof(ncclCommProperties_t, ginType);
    if (props->size >= least) return ncclSuccess;
    return ccl_err(ncclInvalidArgument, "%s: props.size %zu is below %zu, as of version %u",
                   function, props->size, least, props->version);
}

CCL_API(ncclResult_t, ncclCommQueryProperties, (ncclComm_t comm, ncclCommProperties_t *props))
{
    static const char function[] = "ncclCommQueryProperties";
    TRY(ccl_comm_check(comm, function));
    TRY(ccl_argcheck_pointer(props, function, "props"));
    TRY(ccl_comm_known(comm, function));
    const struct ccl_abi_header header = {props->size, props->magic, props->version};
    TRY(check_header(header, function, "props"));
    TRY(check_size(props, function));
    props->rank = ccl_comm_rank(comm);
    props->nRanks = ccl_comm_nranks(comm);
    props->cudaDev = ccl_comm_device(comm);
    props->nvmlDev = nvml_device(comm);
    props->deviceApiSupport = false;
    props->multimemSupport = false;
    if (props->version <= LAST_SHORT_VERSION) return ncclSuccess;
    props->ginType = NCCL_GIN_TYPE_NONE;
    props->nLsaTeams = props->nRanks / ccl_lsa_team(comm).nRanks;
    props->hostRmaSupport = ccl_rma_reaches(comm);
    props->railedGinType = NCCL_GIN_TYPE_NONE;
    return ncclSuccess;
}

/* ---- teams ---- */

static const ncclTeam_t no_team = {.nRanks = 0, .rank = -1, .stride = 0};

static ncclResult_t check_known(ncclComm_t comm, const char *function)
{
    TRY(ccl_comm_check(comm, function));
    return ccl_comm_known(comm, function);
}

CCL_API(ncclTeam_t, ncclTeamWorld, (ncclComm_t comm))
{
    if (check_known(comm, "ncclTeamWorld") != ncclSuccess) return no_team;
    return (ncclTeam_t){ccl_comm_nranks(comm), ccl_comm_rank(comm), 1};
}

CCL_API(ncclTeam_t, ncclTeamLsa, (ncclComm_t comm))
{
    if (check_known(comm, "ncclTeamLsa") != ncclSuccess) return no_team;
    return ccl_lsa_team(comm);
}

CCL_API(ncclTeam_t, ncclTeamRail, (ncclComm_t comm))
{
    if (check_known(comm, "ncclTeamRail") != ncclSuccess) return no_team;
    int size = ccl_lsa_team(comm).nRanks;
    return (ncclTeam_t){ccl_comm_nranks(comm) / size, ccl_comm_rank(comm) / size, size};
}

/* Where member `rank` of a team that this rank is in stands in the team `in`; -1: nowhere. */
static int place(ncclTeam_t team, int rank, ncclTeam_t in, const char *function)
{
    int64_t at = in.rank + ((int64_t)rank - team.rank) * team.stride;
    if (rank >= 0 && rank < team.nRanks && at >= 0 && at < in.nRanks) return (int)at;
    (void)ccl_err(ncclInvalidArgument,
                  "%s: rank %d of the team {nRanks %d, rank %d, stride %d} is none of the %d ranks "
                  "looked for",
                  function, rank, team.nRanks, team.rank, team.stride, in.nRanks);
    return -1;
}

CCL_API(int, ncclTeamRankToWorld, (ncclComm_t comm, ncclTeam_t team, int rank))
{
    static const char function[] = "ncclTeamRankToWorld";
    if (check_known(comm, function) != ncclSuccess) return -1;
    ncclTeam_t world = {ccl_comm_nranks(comm), ccl_comm_rank(comm), 1};
    return place(team, rank, world, function);
}

CCL_API(int, ncclTeamRankToLsa, (ncclComm_t comm, ncclTeam_t team, int rank))
{
    static const char function[] = "ncclTeamRankToLsa";
    if (check_known(comm, function) != ncclSuccess) return -1;
    return place(team, rank, ccl_lsa_team(comm), function);
}

/* ---- device communicators ---- */

static ncclResult_t create(ncclComm_t comm, const ncclDevCommRequirements_t *reqs,
                           const ncclDevComm_t *out)
{
    static const char function[] = "ncclDevCommCreate";
    TRY(ccl_comm_check(comm, function));
    TRY(ccl_argcheck_pointer(reqs, function, "reqs"));
    const struct ccl_abi_header *header = (const void *)reqs;
    TRY(check_header(*header, function, "reqs"));
    TRY(ccl_argcheck_pointer(out, function, "outDevComm"));
    TRY(ccl_comm_ready(comm, function));
    return ccl_err(ncclInvalidUsage,
                   "%s: rank %d: communicators for kernels are not supported on device %d (%s): "
                   "ncclCommQueryProperties gives deviceApiSupport = false",
                   function, ccl_comm_rank(comm), ccl_comm_device(comm), ccl_device()->base.kind);
}

CCL_API(ncclResult_t, ncclDevCommCreate,
        (ncclComm_t comm, const ncclDevCommRequirements_t *reqs, ncclDevComm_t *outDevComm))
{
    return ccl_group_fail(create(comm, reqs, outDevComm));
}

/* Its memory is a window, the only thing to be given back; a struct of zeros has none. */
static ncclResult_t resource_window(const ncclDevComm_t *dev_comm, const char *function,
                                    const void **window)
{
    const struct ccl_abi_dev_comm *now = (const void *)dev_comm;
    const struct ccl_abi_dev_comm_22902 *before = (const void *)dev_comm;
    *window = before->resource_window;
    if (now->magic != NCCL_API_MAGIC) return ncclSuccess;
    *window = now->resource_window;
    const struct ccl_abi_header header = {sizeof *now, now->magic, now->version};
    return check_header(header, function, "devComm");
}

CCL_API(ncclResult_t, ncclDevCommDestroy, (ncclComm_t comm, const ncclDevComm_t *devComm))
{
    static const char function[] = "ncclDevCommDestroy";
    const void *window;
    TRY(ccl_comm_check(comm, function));
    TRY(ccl_argcheck_pointer(devComm, function, "devComm"));
    TRY(resource_window(devComm, function, &window));
    if (window == NULL) return ncclSuccess;
    return ccl_err(ncclInvalidArgument,
                   "%s: rank %d: devComm %p was not made by ncclDevCommCreate: its window %p is "
                   "unknown",
                   function, ccl_comm_rank(comm), (const void *)devComm, window);
}

/* ---- pointers into windows ---- */

/* What all of them check. *out is NULL when one fails. */
static ncclResult_t find_window(ncclWindow_t window, void **out, const char *function,
                                ncclComm_t *comm)
{
    TRY(ccl_argcheck_pointer(out, function, "outPtr"));
    *out = NULL;
    TRY(ccl_argcheck_pointer(window, function, "window"));
    *comm = ccl_window_comm(window);
    if (*comm != NULL) return ncclSuccess;
    return ccl_err(ncclInvalidArgument, "%s: window %p is not registered", function,
                   (const void *)window);
}

static ncclResult_t check_rank(int rank, int nranks, const char *argument, const char *function)
{
    if (rank >= 0 && rank < nranks) return ncclSuccess;
    return ccl_err(ncclInvalidArgument, "%s: %s %d is not in [0, %d)", function, argument, rank,
                   nranks);
}

CCL_API(ncclResult_t, ncclGetLsaDevicePointer,
        (ncclWindow_t window, size_t offset, int lsaRank, void **outPtr))
{
    static const char function[] = "ncclGetLsaDevicePointer";
    ncclComm_t comm;
    TRY(find_window(window, outPtr, function, &comm));
    ncclTeam_t team = ccl_lsa_team(comm);
    TRY(check_rank(lsaRank, team.nRanks, "lsaRank", function));
    struct ccl_target target = {.win = window, .offset = offset};
    target.peer = ccl_comm_rank(comm) + (lsaRank - team.rank) * team.stride;
    return ccl_window_place(&target, function, outPtr);
}

/* All ranks with windows reach each other. */
CCL_API(ncclResult_t, ncclGetPeerDevicePointer,
        (ncclWindow_t window, size_t offset, int peer, void **outPtr))
{
    static const char function[] = "ncclGetPeerDevicePointer";
    ncclComm_t comm;
    TRY(find_window(window, outPtr, function, &comm));
    TRY(check_rank(peer, ccl_comm_nranks(comm), "peer", function));
    struct ccl_target target = {.win = window, .peer = peer, .offset = offset};
    return ccl_window_place(&target, function, outPtr);
}

/* Nothing is written to several GPUs at once: where the arguments are good there is no pointer. */
static ncclResult_t get_multimem(ncclWindow_t window, size_t offset, const char *function,
                                 void **out)
{
    ncclComm_t comm;
    TRY(find_window(window, out, function, &comm));
    struct ccl_target target = {.win = window, .peer = ccl_comm_rank(comm), .offset = offset};
    TRY(ccl_window_place(&target, function, out));
    *out = NULL;
    return ncclSuccess;
}

CCL_API(ncclResult_t, ncclGetLsaMultimemDevicePointer,
        (ncclWindow_t window, size_t offset, void **outPtr))
{
    return get_multimem(window, offset, "ncclGetLsaMultimemDevicePointer", outPtr);
}

CCL_API(ncclResult_t, ncclGetMultimemDevicePointer,
        (ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem, void **outPtr))
{
    static const char function[] = "ncclGetMultimemDevicePointer";
    TRY(ccl_argcheck_pointer(outPtr, function, "outPtr"));
    *outPtr = NULL;
    TRY(ccl_argcheck_pointer(multimem.mcBasePtr, function, "multimem.mcBasePtr"));
    return get_multimem(window, offset, function, outPtr);
}
