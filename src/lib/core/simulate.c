/* simulate.c: how long a group would take, without running it. Called by ncclGroupSimulateEnd.
 *
 * In microseconds of the cost model (algo/cost.h): what a rank has called runs in a row,
 * collectives one by one and its messages all together; the ranks of a communicator run side by
 * side, and take as long as the one with most to do; communicators, which may share a device, run
 * in a row. Only what this thread has collected counts, and streams are not looked at.
 */
#include "core/group.h"
#include "core/launch.h"
#include "core/plan.h"

static const char function[] = "ncclGroupSimulateEnd";

enum { SIM_MAGIC = 0x74685283 };

/* A struct of a newer header is filled as far as it is known; that of any older one is the same. */
static ncclResult_t check_info(const ncclSimInfo_t *info)
{
    size_t least = offsetof(ncclSimInfo_t, estimatedTime) + sizeof info->estimatedTime;
    if (info->magic != SIM_MAGIC)
        return ccl_err(ncclInvalidArgument,
                       "%s: simInfo magic 0x%x is not 0x%x: start from NCCL_SIM_INFO_INITIALIZER",
                       function, info->magic, SIM_MAGIC);
    if (info->size < least)
        return ccl_err(ncclInvalidArgument, "%s: simInfo size %zu is below %zu", function,
                       info->size, least);
    return ncclSuccess;
}

static double rank_us(const struct ncclComm *comm, const struct ccl_record *records, size_t n)
{
    double us = 0;
    uint64_t nhalves = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const struct ccl_op *op = &records[i].op;
        if (op->comm != comm) continue;
        if (op->coll >= CCL_NCOLLS) {
            nhalves++;
            bytes += op->count_elems * ccl_type_bytes(op->type);
        } else if (!ccl_clique_expands(comm->clique, op->coll)) {
            us += ccl_plan_estimate_us(comm->exec, op, ccl_launch_bytes(op));
        } /* else: its messages are records, too */
    }
    return nhalves > 0 ? us + ccl_plan_messages_us(comm->exec, nhalves, bytes) : us;
}

/* Of the communicator of the first record. */
static double clique_us(const struct ccl_record *records, size_t n)
{
    double longest = 0;
    const struct ncclComm *latest = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct ncclComm *comm = records[i].op.comm;
        if (comm == latest || comm->clique != records[0].op.comm->clique) continue;
        latest = comm;
        double us = rank_us(comm, records, n);
        if (us > longest) longest = us;
    }
    return longest;
}

static int is_first_of_clique(const struct ccl_record *records, size_t i)
{
    size_t j = 0;
    while (records[j].op.comm->clique != records[i].op.comm->clique) j++;
    return i == j;
}

static ncclResult_t estimate(void *argument, const struct ccl_record *records, size_t nrecords,
                             size_t njobs)
{
    ncclSimInfo_t *info = argument;
    double us = 0;
    ncclResult_t rc = check_info(info);
    if (rc != ncclSuccess) return rc;
    if (njobs > 0)
        return ccl_err(ncclInvalidUsage,
                       "%s: the group has %zu calls that make or change communicators, of which "
                       "there is no estimate; they are given up",
                       function, njobs);
    for (size_t i = 0; i < nrecords; i++)
        if (is_first_of_clique(records, i)) us += clique_us(records + i, nrecords - i);
    info->estimatedTime = (float)us;
    return ncclSuccess;
}

ncclResult_t ccl_group_simulate(ncclSimInfo_t *info)
{
    if (info == NULL) return ccl_group_end_by(function);
    return ccl_group_give_up(function, estimate, info);
}
