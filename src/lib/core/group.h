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

/* ccl_group_end by the name of the call. */
ncclResult_t ccl_group_end_by(const char *function);
/* The same without running anything: unless a call of the group has failed, the outermost end shows
 * its work to `look`, whose result it returns, and drops it. A group with jobs makes `look` fail.
 */
typedef ncclResult_t ccl_group_look(void *argument, const struct ccl_record *records,
                                    size_t nrecords, size_t njobs);
ncclResult_t ccl_group_give_up(const char *function, ccl_group_look *look, void *argument);

/* Drops what the thread's open group holds of `comm`, which is about to end; the group has failed
 * when calls that wait for other ranks were among it. */
void ccl_group_forget(struct ncclComm *comm);

#endif
