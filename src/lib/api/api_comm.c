/* Life of a communicator and what it says about itself: arguments are checked and turned into one
 * struct ccl_init_args per rank; the work is done by core/comm_*.c. Called by programs. A failing
 * init leaves *comm NULL; the current device of the thread never changes.
 */
#define _GNU_SOURCE
#include "api/api.h"
#include "api/config.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/log.h"
#include "base/param.h"
#include "base/range.h"
#include "device/device.h"

#include <stdatomic.h>
#include <string.h>

CCL_API(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * uniqueId))
{
    TRY(ccl_argcheck_pointer(uniqueId, "ncclGetUniqueId", "uniqueId"));
    return ccl_unique_id(uniqueId);
}

ncclResult_t ccl_api_current_device(int *device)
{
    return ccl_device()->base.get(device);
}

/* One call of an init function with an id. */
struct init_call {
    const char *function;
    ncclComm_t *comm;
    int nranks, rank;
    int nids;
    const ncclUniqueId *ids;
    const ncclConfig_t *config;
};

static void print_banner_once(void)
{
    static atomic_flag printed = ATOMIC_FLAG_INIT;
    /* relaxed: the flag publishes nothing, it only picks one thread. */
    if (!atomic_flag_test_and_set_explicit(&printed, memory_order_relaxed))
        ccl_log(CCL_LOG_VERSION, CCL_LOG_ALL, "%s", ccl_api_banner);
}

static ncclResult_t check_init(const struct init_call *call)
{
    const char *function = call->function;
    TRY(ccl_argcheck_pointer(call->comm, function, "comm"));
    *call->comm = NULL;
    if (call->nranks < 1)
        return ccl_err(ncclInvalidArgument, "%s: nranks %d is below 1", function, call->nranks);
    if (call->rank < 0 || call->rank >= call->nranks)
        return ccl_err(ncclInvalidArgument, "%s: rank %d is not in [0, %d)", function, call->rank,
                       call->nranks);
    if (call->nids < 1 || call->nids > call->nranks)
        return ccl_err(ncclInvalidArgument, "%s: nId %d is not in [1, %d]", function, call->nids,
                       call->nranks);
    TRY(ccl_argcheck_pointer(call->ids, function, "commIds"));
    return ccl_argcheck_id(call->ids, function, "commId");
}

static ncclResult_t start_init(const struct init_call *call)
{
    TRY(check_init(call));
    struct ccl_init_args args = {
        .comm = call->comm,
        .nranks = call->nranks,
        .rank = call->rank,
        .id = call->ids[0],
        .function = call->function,
    };
    TRY(ccl_config_read(call->config, &args));
    TRY(ccl_api_current_device(&args.device));
    if (call->rank == 0) print_banner_once();
    return ccl_comm_init(&args);
}

static ncclResult_t init_rank(struct init_call call)
{
    ccl_range_begin(call.function);
    ncclResult_t rc = start_init(&call);
    ccl_range_end();
    return ccl_group_fail(rc);
}

CCL_API(ncclResult_t, ncclCommInitRank,
        (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank))
{
    return init_rank((struct init_call){"ncclCommInitRank", comm, nranks, rank, 1, &commId, NULL});
}

CCL_API(ncclResult_t, ncclCommInitRankConfig,
        (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config))
{
    return init_rank(
        (struct init_call){"ncclCommInitRankConfig", comm, nranks, rank, 1, &commId, config});
}

CCL_API(ncclResult_t, ncclCommInitRankScalable,
        (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId *commIds,
         ncclConfig_t *config))
{
    return init_rank((struct init_call){"ncclCommInitRankScalable", newcomm, nranks, myrank, nId,
                                        commIds, config});
}

/* ---- all ranks from one thread ---- */

/* Host devices are shared by any number of ranks; a GPU only when the user says so. */
static int devices_shared(void)
{
    return strcmp(ccl_device()->base.kind, "host") == 0 || ccl_param_int(CCL_PARAM_MULTI_RANK_GPU);
}

static int device_of(const int *devlist, int ndevices, int rank)
{
    return devlist == NULL ? rank % ndevices : devlist[rank];
}

static ncclResult_t check_devices(int ndev, const int *devlist, int ndevices)
{
    static const char function[] = "ncclCommInitAll";
    int shared = devices_shared();
    if (devlist == NULL && ndev > ndevices && !shared)
        return ccl_err(ncclInvalidArgument, "%s: ndev %d exceeds the %d visible devices", function,
                       ndev, ndevices);
    for (int i = 0; devlist != NULL && i < ndev; i++) {
        if (devlist[i] < 0 || devlist[i] >= ndevices)
            return ccl_err(ncclInvalidArgument, "%s: devlist[%d] %d is not in [0, %d)", function, i,
                           devlist[i], ndevices);
        for (int j = 0; j < i && !shared; j++)
            if (devlist[j] == devlist[i])
                return ccl_err(ncclInvalidUsage,
                               "%s: devlist[%d] and devlist[%d], of ranks %d and %d, are both "
                               "device %d; set NCCL_MULTI_RANK_GPU_ENABLE=1 to share it",
                               function, j, i, j, i, devlist[i]);
    }
    return ncclSuccess;
}

static ncclResult_t init_ranks(ncclComm_t *comms, int ndev, const int *devlist, int ndevices)
{
    struct ccl_init_args args = {.nranks = ndev, .function = "ncclCommInitAll"};
    TRY(ccl_config_read(NULL, &args));
    args.config.blocking = 1;
    TRY(ccl_unique_id(&args.id));
    print_banner_once();
    struct ccl_init_args *all;
    ncclResult_t rc;
    TRY_GOTO(rc, CCL_NEW(&all, (size_t)ndev), fail);
    for (int i = 0; i < ndev; i++) {
        all[i] = args;
        all[i].comm = &comms[i];
        all[i].rank = i;
        all[i].device = device_of(devlist, ndevices, i);
    }
    rc = ccl_comm_init_all(all, ndev);
    ccl_free(all);
    if (rc == ncclSuccess) return ncclSuccess;
fail:
    ccl_unique_id_drop(&args.id);
    return rc;
}

static ncclResult_t init_all(ncclComm_t *comms, int ndev, const int *devlist)
{
    int ndevices = 0;
    ncclResult_t rc;
    TRY(ccl_argcheck_pointer(comms, "ncclCommInitAll", "comms"));
    if (ndev < 0) return ccl_err(ncclInvalidArgument, "ncclCommInitAll: ndev %d is below 0", ndev);
    if (ndev == 0) return ncclSuccess;
    memset(comms, 0, (size_t)ndev * sizeof comms[0]);
    TRY(ccl_device()->base.count(&ndevices));
    TRY(check_devices(ndev, devlist, ndevices));
    rc = init_ranks(comms, ndev, devlist, ndevices);
    if (rc == ncclSuccess) return ncclSuccess;
    for (int i = 0; i < ndev; i++) {
        if (comms[i] != NULL) (void)ccl_comm_abort(comms[i]);
        comms[i] = NULL;
    }
    return rc;
}

CCL_API(ncclResult_t, ncclCommInitAll, (ncclComm_t * comms, int ndev, const int *devlist))
{
    ccl_range_begin("ncclCommInitAll");
    ncclResult_t rc = init_all(comms, ndev, devlist);
    ccl_range_end();
    return ccl_group_fail(rc);
}

/* ---- end ---- */

static ncclResult_t end_comm(ncclComm_t comm, const char *function,
                             ncclResult_t (*end)(ncclComm_t comm))
{
    if (comm == NULL) return ncclSuccess;
    ccl_range_begin(function);
    ncclResult_t rc = ccl_comm_check(comm, function);
    if (rc == ncclSuccess) rc = end(comm);
    ccl_range_end();
    return ccl_group_fail(rc);
}

CCL_API(ncclResult_t, ncclCommFinalize, (ncclComm_t comm))
{
    return end_comm(comm, "ncclCommFinalize", ccl_comm_finalize);
}

CCL_API(ncclResult_t, ncclCommDestroy, (ncclComm_t comm))
{
    return end_comm(comm, "ncclCommDestroy", ccl_comm_destroy);
}

CCL_API(ncclResult_t, ncclCommAbort, (ncclComm_t comm))
{
    return end_comm(comm, "ncclCommAbort", ccl_comm_abort);
}

/* ---- queries: asking wrongly does not spoil an open group ---- */

CCL_API(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *asyncError))
{
    TRY(ccl_comm_check(comm, "ncclCommGetAsyncError"));
    TRY(ccl_argcheck_pointer(asyncError, "ncclCommGetAsyncError", "asyncError"));
    return ccl_comm_async_error(comm, asyncError);
}

static ncclResult_t query(ncclComm_t comm, const char *function, int (*get)(ncclComm_t comm),
                          int *out, const char *argument)
{
    TRY(ccl_comm_check(comm, function));
    TRY(ccl_argcheck_pointer(out, function, argument));
    TRY(ccl_comm_known(comm, function));
    *out = get(comm);
    return ncclSuccess;
}

CCL_API(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int *count))
{
    return query(comm, "ncclCommCount", ccl_comm_nranks, count, "count");
}

CCL_API(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int *device))
{
    return query(comm, "ncclCommCuDevice", ccl_comm_device, device, "device");
}

CCL_API(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int *rank))
{
    return query(comm, "ncclCommUserRank", ccl_comm_rank, rank, "rank");
}
