/* redop.c: the operators of a communicator. Ids of custom ones are used again after their end.
 * Threads that share a handle may make and use operators at the same time. */
#include "core/redop.h"

#include "base/alloc.h"
#include "base/err.h"
#include "kernel/fold.h"
#include "kernel/types.h"

#include <string.h>

/* Under the lock. */
static struct ccl_custom_op *find_op(ncclComm_t comm, ncclRedOp_t op)
{
    int index = (int)op - CCL_REDOP_FIRST;
    if (index < 0 || (size_t)index >= comm->nops || !comm->ops[index].used) return NULL;
    return &comm->ops[index];
}

/* A copy, since another thread may make the table larger; not used when there is no such operator.
 */
static struct ccl_custom_op get_op(ncclComm_t comm, ncclRedOp_t op)
{
    struct ccl_custom_op copy = {.used = 0};
    pthread_mutex_lock(&comm->own_lock);
    const struct ccl_custom_op *custom = find_op(comm, op);
    if (custom != NULL) copy = *custom;
    pthread_mutex_unlock(&comm->own_lock);
    return copy;
}

ncclResult_t ccl_redop_check(ncclComm_t comm, ncclRedOp_t op, ncclDataType_t type,
                             const char *function)
{
    if ((int)op >= 0 && (int)op < CCL_REDOP_FIRST) return ncclSuccess;
    struct ccl_custom_op custom = get_op(comm, op);
    if (!custom.used)
        return ccl_err(ncclInvalidArgument, "%s: op %d is no operator of this communicator",
                       function, (int)op);
    if (custom.type != type)
        return ccl_err(ncclInvalidArgument,
                       "%s: op %d was made for datatype %d, the call has datatype %d", function,
                       (int)op, (int)custom.type, (int)type);
    return ncclSuccess;
}

static ncclResult_t add_op(ncclComm_t comm, const struct ccl_custom_op *custom, ncclRedOp_t *op)
{
    size_t index = 0;
    while (index < comm->nops && comm->ops[index].used) index++;
    TRY(ccl_grow((void **)&comm->ops, index, &comm->nops, sizeof *comm->ops));
    comm->ops[index] = *custom;
    *op = (ncclRedOp_t)(CCL_REDOP_FIRST + (int)index);
    return ncclSuccess;
}

ncclResult_t ccl_redop_create(ncclRedOp_t *op, const void *scalar, ncclDataType_t type,
                              ncclScalarResidence_t residence, ncclComm_t comm)
{
    struct ccl_custom_op custom = {.used = 1, .type = type};
    if (residence == ncclScalarHostImmediate)
        memcpy(&custom.scalar, scalar, ccl_type_bytes(type));
    else
        custom.scalar_at = scalar;
    pthread_mutex_lock(&comm->own_lock);
    ncclResult_t rc = add_op(comm, &custom, op);
    pthread_mutex_unlock(&comm->own_lock);
    return rc;
}

ncclResult_t ccl_redop_destroy(ncclRedOp_t op, ncclComm_t comm)
{
    pthread_mutex_lock(&comm->own_lock);
    struct ccl_custom_op *custom = find_op(comm, op);
    if (custom != NULL) custom->used = 0;
    pthread_mutex_unlock(&comm->own_lock);
    if (custom != NULL) return ncclSuccess;
    return ccl_err(ncclInvalidArgument,
                   "ncclRedOpDestroy: op %d is no custom operator of this communicator", (int)op);
}

/* 1/n rounded to the type; integers have none. */
static int inverse_of(int n, ncclDataType_t type, uint64_t *bits)
{
    double exact = 1.0 / n;
    float single = (float)exact;
    uint16_t half;
    uint8_t byte;
    *bits = 0;
    switch (type) {
    case ncclFloat64: memcpy(bits, &exact, sizeof exact); return 1;
    case ncclFloat32: memcpy(bits, &single, sizeof single); return 1;
    case ncclFloat16:
        half = f16_store(single);
        memcpy(bits, &half, sizeof half);
        return 1;
    case ncclBfloat16:
        half = bf16_store(single);
        memcpy(bits, &half, sizeof half);
        return 1;
    case ncclFloat8e4m3:
        byte = e4m3_store(single);
        memcpy(bits, &byte, sizeof byte);
        return 1;
    case ncclFloat8e5m2:
        byte = e5m2_store(single);
        memcpy(bits, &byte, sizeof byte);
        return 1;
    default: return 0;
    }
}

void ccl_redop_resolve(ncclComm_t comm, ncclRedOp_t op, ncclDataType_t type,
                       struct ccl_factors *factors)
{
    static const uint8_t kinds[CCL_REDOP_FIRST] = {
        [ncclSum] = CCL_SUM, [ncclProd] = CCL_PROD, [ncclMax] = CCL_MAX,
        [ncclMin] = CCL_MIN, [ncclAvg] = CCL_SUM,
    };
    *factors = (struct ccl_factors){.kind = CCL_SUM};
    if ((int)op >= CCL_REDOP_FIRST) {
        struct ccl_custom_op custom = get_op(comm, op);
        factors->flags = CCL_WORK_SCALE;
        factors->scalar_at = custom.scalar_at;
        factors->scalar = custom.scalar;
        return;
    }
    factors->kind = kinds[op];
    if (op != ncclAvg) return;
    factors->flags =
        inverse_of(comm->nranks, type, &factors->scalar) ? CCL_WORK_SCALE : CCL_WORK_DIVIDE;
}

void ccl_redop_free(ncclComm_t comm)
{
    ccl_free(comm->ops);
    comm->ops = NULL;
    comm->nops = 0;
}
