/* Operators of a driver's index (harness/options.h) as the library's handles.
 *
 * The run calls begin before a collective and end after it, in the same group or not; mulsum is
 * made and destroyed around each call, the others are constants.
 */
#ifndef PERF_REDOP_H
#define PERF_REDOP_H

#include "nccl.h"

struct perf_redop {
    ncclRedOp_t op; /* what the call gets */
    int made;       /* 1: end destroys it */
};

/* op -1 (a collective without an operator) gives ncclSum. Errors: the library's. */
ncclResult_t perf_redop_begin(struct perf_redop *redop, int op, ncclDataType_t type, int rank,
                              ncclComm_t comm);
ncclResult_t perf_redop_end(struct perf_redop *redop, ncclComm_t comm);

#endif
