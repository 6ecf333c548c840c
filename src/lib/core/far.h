/* far.h: sends and receives between executors on several GPUs.
 *
 * Each call becomes its half of a message over connections between the two ranks (core/zones.h).
 * All halves of a group end on one stream, whatever their ranks, are one kernel, which looks at all
 * of them in turn; the kernels of a rank run in issue order. The executor's lock is held.
 */
#ifndef CCL_CORE_FAR_H
#define CCL_CORE_FAR_H

#include "core/group.h"

/* Adds a send or receive whose peer is in another executor. */
ncclResult_t ccl_far_post(struct ccl_exec *exec, const struct ccl_record *record);
/* After all records of a group end. ncclInvalidUsage where one stream has more of them than a
 * kernel takes. */
ncclResult_t ccl_far_flush(struct ccl_exec *exec);
void ccl_far_free(struct ccl_exec *exec);

#endif
