/* describe.h: what the log says of communicators and calls (NCCL_DEBUG=INFO). Nothing is computed
 * unless a line is wanted, which is asked here.
 */
#ifndef CCL_CORE_DESCRIBE_H
#define CCL_CORE_DESCRIBE_H

#include "base/log.h"
#include "core/set.h"

/* A new communicator: a line for each rank, and rank 0 tells of all of it. INIT and GRAPH. */
void ccl_describe_comm(const struct ncclComm *comm, const char *function);
/* A rank's handle is given back. DESTROY. */
void ccl_describe_end(const struct ncclComm *comm);
/* A call of a rank. COLL. */
void ccl_describe_call_now(const struct ccl_op *op);
static inline void ccl_describe_call(const struct ccl_op *op)
{
    if (ccl_log_on(CCL_LOG_COLL)) ccl_describe_call_now(op);
}

/* What runs a complete set, on which channels. TUNING. */
void ccl_describe_launch_now(const struct ccl_set *set, const struct ccl_plan *plan,
                             uint16_t nchannels);
static inline void ccl_describe_launch(const struct ccl_set *set, const struct ccl_plan *plan,
                                       uint16_t nchannels)
{
    if (ccl_log_on(CCL_LOG_TUNING)) ccl_describe_launch_now(set, plan, nchannels);
}

/* A collective that runs as messages. TUNING. */
void ccl_describe_messages_now(const struct ccl_op *op);
static inline void ccl_describe_messages(const struct ccl_op *op)
{
    if (ccl_log_on(CCL_LOG_TUNING)) ccl_describe_messages_now(op);
}

#endif
