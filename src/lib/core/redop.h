/* redop.h: reduction operators: built-in ones and PreMulSum operators of a communicator.
 */
#ifndef CCL_CORE_REDOP_H
#define CCL_CORE_REDOP_H

#include "core/comm.h"

/* What an operator means to the kernels, for one rank's contribution. */
struct ccl_factors {
    uint8_t kind;  /* enum ccl_redop_kind */
    uint8_t flags; /* CCL_WORK_SCALE, CCL_WORK_DIVIDE */
    const void *scalar_at;
    uint64_t scalar;
};

/* Resolves an operator that ccl_redop_check accepted. An average of floats scales by 1/nranks
 * rounded to the type; one of integers divides the wrapped sum, truncating. */
void ccl_redop_resolve(ncclComm_t comm, ncclRedOp_t op, ncclDataType_t type,
                       struct ccl_factors *factors);
/* The operator as far as ranks must agree on it: custom ones have an id of their own on each. */
static inline int ccl_redop_class(ncclRedOp_t op)
{
    return (int)op < CCL_REDOP_FIRST ? (int)op : CCL_REDOP_FIRST;
}
void ccl_redop_free(ncclComm_t comm);

#endif
