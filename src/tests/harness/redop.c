/* Operators of a driver's index as the library's handles; see redop.h. */
#include "harness/redop.h"

#include "harness/options.h"
#include "harness/verify.h"

#include <stdint.h>

ncclResult_t perf_redop_begin(struct perf_redop *redop, int op, ncclDataType_t type, int rank,
                              ncclComm_t comm)
{
    uint64_t scalar;
    *redop = (struct perf_redop){.op = op < 0 ? ncclSum : (ncclRedOp_t)op};
    if (op != PERF_OP_MULSUM) return ncclSuccess;
    perf_mulsum_scalar(type, rank, &scalar);
    ncclResult_t result =
        ncclRedOpCreatePreMulSum(&redop->op, &scalar, type, ncclScalarHostImmediate, comm);
    redop->made = result == ncclSuccess;
    return result;
}

ncclResult_t perf_redop_end(struct perf_redop *redop, ncclComm_t comm)
{
    if (!redop->made) return ncclSuccess;
    redop->made = 0;
    return ncclRedOpDestroy(redop->op, comm);
}
