/* join.h: how the ranks of an executor come together for one collective.
 *
 * Each call of a rank is an arrival at a set; the call that completes the set launches ONE kernel
 * for all members, on its own stream. The executor's lock is held.
 */
#ifndef CCL_CORE_JOIN_H
#define CCL_CORE_JOIN_H

#include "core/park.h"
#include "core/set.h"

/* Adds the record of one rank. ncclInvalidUsage when it disagrees with the set; the communicator
 * has failed then. */
ncclResult_t ccl_join_post(struct ccl_exec *exec, const struct ccl_record *record);
/* After all records of a group end: launches complete sets in issue order, gates the rest or adds
 * them to `parks`. */
ncclResult_t ccl_join_flush(struct ccl_exec *exec, struct ccl_parks *parks);
/* Launches all complete sets in issue order. */
ncclResult_t ccl_join_launch(struct ccl_exec *exec);
#endif
