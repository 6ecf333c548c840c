/* describe.h: what the log says of communicators and calls (NCCL_DEBUG=INFO). Nothing is computed
 * unless a line is wanted.
 */
#ifndef CCL_CORE_DESCRIBE_H
#define CCL_CORE_DESCRIBE_H

#include "core/set.h"

/* A new communicator: a line for each rank, and rank 0 tells of all of it. INIT and GRAPH. */
void ccl_describe_comm(const struct ncclComm *comm, const char *function);
/* A rank's handle is given back. DESTROY. */
void ccl_describe_end(const struct ncclComm *comm);
/* A call of a rank. COLL. */
void ccl_describe_call(const struct ccl_op *op);
/* What runs a complete set, on which channels. TUNING. */
void ccl_describe_launch(const struct ccl_set *set, const struct ccl_plan *plan,
                         uint16_t nchannels);
/* A collective that runs as messages. TUNING. */
void ccl_describe_messages(const struct ccl_op *op);

#endif
