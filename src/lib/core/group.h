/* group.h: the thread-local group: what calls between start and end collect.
 */
#ifndef CCL_CORE_GROUP_H
#define CCL_CORE_GROUP_H

#include "core/comm.h"
#include "core/jobs.h"
#include "core/redop.h"

/* One operation of one rank, ready to be posted. */
struct ccl_record {
    struct ccl_op op;
    struct ccl_factors factors; /* of a reduction, resolved at the call */
    uint64_t capture;           /* that the stream is part of; 0: it runs */
};

/* Runs a job now without a group, else at the outermost end. */
ncclResult_t ccl_group_add_job(const struct ccl_job *job);
/* Adds an operation to the open group; opens one for the call when there is none. */
ncclResult_t ccl_group_add(const struct ccl_record *record);

/* Drops what the thread's open group holds of `comm`, which is about to end. */
void ccl_group_forget(struct ncclComm *comm);

#endif
