/* Argument rules of the api: what is checked, in which order, with which text.
 *
 * Called by the api_*.c files before anything reaches core. Every failure names the function, the
 * argument and its value. Nothing here has a side effect on a communicator.
 */
#ifndef CCL_API_ARGCHECK_H
#define CCL_API_ARGCHECK_H

#include "core/core.h"

/* The calls that enqueue: one row of the rule table each. */
enum ccl_call {
    CCL_CALL_ALL_REDUCE,
    CCL_CALL_REDUCE,
    CCL_CALL_BROADCAST,
    CCL_CALL_BCAST,
    CCL_CALL_ALL_GATHER,
    CCL_CALL_REDUCE_SCATTER,
    CCL_CALL_ALL_TO_ALL,
    CCL_CALL_GATHER,
    CCL_CALL_SCATTER,
    CCL_CALL_SEND,
    CCL_CALL_RECV,
    CCL_NCALLS
};

/* "ncclAllReduce" */
const char *ccl_call_name(enum ccl_call call);

/* Checks op against the row of `call` in the order communicator, state, root or peer, type,
 * operator, count, buffers, memory of the buffers if asked for; returns the first failure. On
 * success op->coll is filled in, and buffers that this rank does not use are NULL. */
ncclResult_t ccl_argcheck_op(enum ccl_call call, struct ccl_op *op);

/* ncclInvalidArgument "function: argument is NULL". */
ncclResult_t ccl_argcheck_pointer(const void *pointer, const char *function, const char *argument);

/* An id that was never filled in is ncclInvalidArgument. */
ncclResult_t ccl_argcheck_id(const ncclUniqueId *id, const char *function, const char *argument);

/* A live communicator that accepts calls. */
ncclResult_t ccl_argcheck_ready(ncclComm_t comm, const char *function);

/* A value of ncclDataType_t. */
ncclResult_t ccl_argcheck_type(ncclDataType_t type, const char *function);

#endif
