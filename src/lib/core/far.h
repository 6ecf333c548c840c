/* far.h: sends and receives of communicators on several GPUs.
 *
 * Each call becomes its half of a message over connections between the two ranks (core/zones.h),
 * also where both are on one GPU: all halves of a group end on one stream, whatever their ranks,
 * are one kernel, which looks at all of them in turn, so that none waits behind another that the
 * program did not put before it. The kernels of a rank run in issue order. The executor's lock is
 * held.
 */
#ifndef CCL_CORE_FAR_H
#define CCL_CORE_FAR_H

#include "core/group.h"

/* Adds a send or receive. ncclInvalidUsage where it cannot be its peer's other half. */
ncclResult_t ccl_far_post(struct ccl_exec *exec, const struct ccl_record *record);
/* After all records of a group end, behind what is on the streams for its collectives.
 * ncclInvalidUsage where one stream has more than a kernel takes, or a rank misses the other half
 * of a message to itself. */
ncclResult_t ccl_far_flush(struct ccl_exec *exec);
void ccl_far_free(struct ccl_exec *exec);

#endif
