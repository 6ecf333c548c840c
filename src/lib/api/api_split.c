/* Communicators made from communicators: arguments are checked and turned into a struct
 * ccl_init_args of the new one; the work is done by core/split.c and core/resize.c. Called by
 * programs. *newcomm is NULL until the new communicator is ready.
 */
#include "api/api.h"
#include "api/config.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

/* Without a configuration of its own the new communicator has its parent's. */
static ncclResult_t read_config(ncclComm_t comm, const ncclConfig_t *config,
                                struct ccl_init_args *child)
{
    if (config != NULL || comm == NULL) return ccl_config_read(config, child);
    ccl_comm_inherit(comm, child);
    return ncclSuccess;
}

static ncclResult_t start(ncclComm_t comm, ncclComm_t *newcomm, const ncclConfig_t *config,
                          struct ccl_init_args *child)
{
    TRY(ccl_argcheck_pointer(newcomm, child->function, "newcomm"));
    *newcomm = NULL;
    child->comm = newcomm;
    TRY(ccl_comm_check(comm, child->function));
    return read_config(comm, config, child);
}

/* ---- split ---- */

static ncclResult_t split(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
                          const ncclConfig_t *config)
{
    struct ccl_init_args child = {.function = "ncclCommSplit"};
    TRY(start(comm, newcomm, config, &child));
    TRY(ccl_comm_parent(comm, child.function));
    if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
        return ccl_err(
            ncclInvalidArgument,
            "ncclCommSplit: rank %d: color %d is below 0 and not NCCL_SPLIT_NOCOLOR (%d)",
            ccl_comm_rank(comm), color, NCCL_SPLIT_NOCOLOR);
    return ccl_comm_split(comm, color, key, &child);
}

CCL_API(ncclResult_t, ncclCommSplit,
        (ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config))
{
    return ccl_group_fail(split(comm, color, key, newcomm, config));
}

/* ---- shrink ---- */

static int by_value(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* Sorts the list in place, as the interface has it. */
static ncclResult_t check_excluded(ncclComm_t comm, int *list, int count)
{
    static const char function[] = "ncclCommShrink";
    int rank = ccl_comm_rank(comm), nranks = ccl_comm_nranks(comm);
    TRY(ccl_argcheck_pointer(list, function, "excludeRanksList"));
    if (count <= 0)
        return ccl_err(ncclInvalidArgument, "%s: rank %d: excludeRanksCount %d is below 1",
                       function, rank, count);
    qsort(list, (size_t)count, sizeof list[0], by_value);
    for (int i = 0; i < count; i++) {
        if (list[i] < 0 || list[i] >= nranks)
            return ccl_err(ncclInvalidArgument,
                           "%s: rank %d: rank %d in excludeRanksList is not in [0, %d)", function,
                           rank, list[i], nranks);
        if (i > 0 && list[i] == list[i - 1])
            return ccl_err(ncclInvalidArgument, "%s: rank %d: rank %d is twice in excludeRanksList",
                           function, rank, list[i]);
        if (list[i] == rank)
            return ccl_err(ncclInvalidArgument,
                           "%s: rank %d excludes itself: excluded ranks do not call", function,
                           rank);
    }
    return ncclSuccess;
}

static ncclResult_t shrink(ncclComm_t comm, int *list, int count, ncclComm_t *newcomm,
                           const ncclConfig_t *config, int flags)
{
    struct ccl_init_args child = {.function = "ncclCommShrink"};
    TRY(start(comm, newcomm, config, &child));
    if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT)
        return ccl_err(ncclInvalidArgument, "ncclCommShrink: shrinkFlags 0x%x is not 0 or 0x%x",
                       (unsigned)flags, NCCL_SHRINK_ABORT);
    /* What has failed can only be aborted. */
    TRY(flags == NCCL_SHRINK_ABORT ? ccl_comm_abortable(comm, child.function)
                                   : ccl_comm_parent(comm, child.function));
    TRY(check_excluded(comm, list, count));
    return ccl_comm_shrink(comm, list, count, flags == NCCL_SHRINK_ABORT, &child);
}

CCL_API(ncclResult_t, ncclCommShrink,
        (ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm,
         ncclConfig_t *config, int shrinkFlags))
{
    return ccl_group_fail(
        shrink(comm, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags));
}

/* ---- grow ---- */

static ncclResult_t get_id(ncclComm_t comm, ncclUniqueId *id)
{
    static const char function[] = "ncclCommGetUniqueId";
    TRY(ccl_comm_check(comm, function));
    TRY(ccl_argcheck_pointer(id, function, "uniqueId"));
    TRY(ccl_comm_parent(comm, function));
    return ccl_comm_unique_id(comm, id);
}

CCL_API(ncclResult_t, ncclCommGetUniqueId, (ncclComm_t comm, ncclUniqueId *uniqueId))
{
    return ccl_group_fail(get_id(comm, uniqueId));
}

/* A member of the old communicator. */
static ncclResult_t grow_member(ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank,
                                struct ccl_init_args *child)
{
    const char *function = child->function;
    TRY(ccl_comm_parent(comm, function));
    int own = ccl_comm_rank(comm);
    if (rank != -1)
        return ccl_err(ncclInvalidArgument,
                       "%s: rank %d: rank %d is not -1: members of the communicator keep theirs",
                       function, own, rank);
    if (nranks <= ccl_comm_nranks(comm))
        return ccl_err(ncclInvalidArgument,
                       "%s: rank %d: nRanks %d does not exceed the %d there are", function, own,
                       nranks, ccl_comm_nranks(comm));
    if (id != NULL) TRY(ccl_argcheck_id(id, function, "uniqueId"));
    if (id != NULL) child->id = *id;
    child->nranks = nranks;
    return ccl_comm_grow(comm, id != NULL, child);
}

/* A rank that comes in: an initialisation like others. */
static ncclResult_t grow_new(int nranks, const ncclUniqueId *id, int rank,
                             const ncclConfig_t *config, struct ccl_init_args *child)
{
    const char *function = child->function;
    TRY(ccl_argcheck_pointer(id, function, "uniqueId (with comm NULL)"));
    TRY(ccl_argcheck_id(id, function, "uniqueId"));
    if (nranks < 2)
        return ccl_err(ncclInvalidArgument, "%s: nRanks %d is below 2", function, nranks);
    if (rank < 0 || rank >= nranks)
        return ccl_err(ncclInvalidArgument, "%s: rank %d is not in [0, %d)", function, rank,
                       nranks);
    TRY(ccl_config_read(config, child));
    child->nranks = nranks;
    child->rank = rank;
    child->id = *id;
    TRY(ccl_api_current_device(&child->device));
    return ccl_comm_init(child);
}

static ncclResult_t grow(ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank,
                         ncclComm_t *newcomm, const ncclConfig_t *config)
{
    struct ccl_init_args child = {.function = "ncclCommGrow"};
    TRY(ccl_argcheck_pointer(newcomm, child.function, "newcomm"));
    if (comm != NULL) {
        TRY(start(comm, newcomm, config, &child));
        return grow_member(comm, nranks, id, rank, &child);
    }
    *newcomm = NULL;
    child.comm = newcomm;
    return grow_new(nranks, id, rank, config, &child);
}

CCL_API(ncclResult_t, ncclCommGrow,
        (ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank, ncclComm_t *newcomm,
         ncclConfig_t *config))
{
    return ccl_group_fail(grow(comm, nRanks, uniqueId, rank, newcomm, config));
}

/* ---- revoke ---- */

static ncclResult_t revoke(ncclComm_t comm, int flags)
{
    static const char function[] = "ncclCommRevoke";
    if (comm == NULL) return ncclSuccess;
    TRY(ccl_comm_check(comm, function));
    if (flags != 0)
        return ccl_err(ncclInvalidArgument, "%s: revokeFlags 0x%x is not 0", function,
                       (unsigned)flags);
    return ccl_comm_revoke(comm, function);
}

CCL_API(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int revokeFlags))
{
    return ccl_group_fail(revoke(comm, revokeFlags));
}
