/* The collectives and their operators: each call becomes one struct ccl_op, is checked by its row
 * in argcheck.c and handed to core. Called by programs. A failing call is recorded in the open
 * group, so that the outermost ncclGroupEnd returns it.
 */
#include "api/api.h"

#include "base/err.h"
#include "base/range.h"

ncclResult_t ccl_api_enqueue(enum ccl_call call, struct ccl_op *op)
{
    ccl_range_begin(ccl_call_name(call));
    ncclResult_t rc = ccl_argcheck_op(call, op);
    if (rc == ncclSuccess) rc = ccl_enqueue(op);
    ccl_range_end();
    return ccl_group_fail(rc);
}

CCL_API(ncclResult_t, ncclAllReduce,
        (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
         ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))
{
    return ccl_api_enqueue(CCL_CALL_ALL_REDUCE, &(struct ccl_op){.in = sendbuff,
                                                                 .out = recvbuff,
                                                                 .count_elems = count,
                                                                 .type = datatype,
                                                                 .redop = op,
                                                                 .root = -1,
                                                                 .comm = comm,
                                                                 .stream = stream});
}

CCL_API(ncclResult_t, ncclReduce,
        (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
         ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream))
{
    return ccl_api_enqueue(CCL_CALL_REDUCE, &(struct ccl_op){.in = sendbuff,
                                                             .out = recvbuff,
                                                             .count_elems = count,
                                                             .type = datatype,
                                                             .redop = op,
                                                             .root = root,
                                                             .comm = comm,
                                                             .stream = stream});
}

CCL_API(ncclResult_t, ncclBroadcast,
        (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
         ncclComm_t comm, cudaStream_t stream))
{
    return ccl_api_enqueue(CCL_CALL_BROADCAST, &(struct ccl_op){.in = sendbuff,
                                                                .out = recvbuff,
                                                                .count_elems = count,
                                                                .type = datatype,
                                                                .root = root,
                                                                .comm = comm,
                                                                .stream = stream});
}

CCL_API(ncclResult_t, ncclBcast,
        (void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
         cudaStream_t stream))
{
    return ccl_api_enqueue(CCL_CALL_BCAST, &(struct ccl_op){.in = buff,
                                                            .out = buff,
                                                            .count_elems = count,
                                                            .type = datatype,
                                                            .root = root,
                                                            .comm = comm,
                                                            .stream = stream});
}

CCL_API(ncclResult_t, ncclAllGather,
        (const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
         ncclComm_t comm, cudaStream_t stream))
{
    return ccl_api_enqueue(CCL_CALL_ALL_GATHER, &(struct ccl_op){.in = sendbuff,
                                                                 .out = recvbuff,
                                                                 .count_elems = sendcount,
                                                                 .type = datatype,
                                                                 .root = -1,
                                                                 .comm = comm,
                                                                 .stream = stream});
}

CCL_API(ncclResult_t, ncclReduceScatter,
        (const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype,
         ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))
{
    return ccl_api_enqueue(CCL_CALL_REDUCE_SCATTER, &(struct ccl_op){.in = sendbuff,
                                                                     .out = recvbuff,
                                                                     .count_elems = recvcount,
                                                                     .type = datatype,
                                                                     .redop = op,
                                                                     .root = -1,
                                                                     .comm = comm,
                                                                     .stream = stream});
}

CCL_API(ncclResult_t, ncclAlltoAll,
        (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
         ncclComm_t comm, cudaStream_t stream))
{
    return ccl_api_enqueue(CCL_CALL_ALL_TO_ALL, &(struct ccl_op){.in = sendbuff,
                                                                 .out = recvbuff,
                                                                 .count_elems = count,
                                                                 .type = datatype,
                                                                 .root = -1,
                                                                 .comm = comm,
                                                                 .stream = stream});
}

CCL_API(ncclResult_t, ncclGather,
        (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
         ncclComm_t comm, cudaStream_t stream))
{
    return ccl_api_enqueue(CCL_CALL_GATHER, &(struct ccl_op){.in = sendbuff,
                                                             .out = recvbuff,
                                                             .count_elems = count,
                                                             .type = datatype,
                                                             .root = root,
                                                             .comm = comm,
                                                             .stream = stream});
}

CCL_API(ncclResult_t, ncclScatter,
        (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
         ncclComm_t comm, cudaStream_t stream))
{
    return ccl_api_enqueue(CCL_CALL_SCATTER, &(struct ccl_op){.in = sendbuff,
                                                              .out = recvbuff,
                                                              .count_elems = count,
                                                              .type = datatype,
                                                              .root = root,
                                                              .comm = comm,
                                                              .stream = stream});
}

static ncclResult_t create_redop(ncclRedOp_t *op, const void *scalar, ncclDataType_t type,
                                 ncclScalarResidence_t residence, ncclComm_t comm)
{
    static const char function[] = "ncclRedOpCreatePreMulSum";
    TRY(ccl_argcheck_ready(comm, function));
    TRY(ccl_argcheck_pointer(op, function, "op"));
    TRY(ccl_argcheck_pointer(scalar, function, "scalar"));
    TRY(ccl_argcheck_type(type, function));
    if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
        return ccl_err(ncclInvalidArgument, "%s: residence %d is neither 0 (device) nor 1 (host)",
                       function, (int)residence);
    return ccl_redop_create(op, scalar, type, residence, comm);
}

CCL_API(ncclResult_t, ncclRedOpCreatePreMulSum,
        (ncclRedOp_t * op, void *scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
         ncclComm_t comm))
{
    ncclResult_t rc;
    TRY_GOTO(rc, create_redop(op, scalar, datatype, residence, comm), fail);
    return ncclSuccess;
fail:
    return ccl_group_fail(rc);
}

CCL_API(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm))
{
    ncclResult_t rc;
    TRY_GOTO(rc, ccl_comm_check(comm, "ncclRedOpDestroy"), fail);
    TRY_GOTO(rc, ccl_redop_destroy(op, comm), fail);
    return ncclSuccess;
fail:
    return ccl_group_fail(rc);
}
