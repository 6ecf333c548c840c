/* schedule.h: schedules as a user sees them: those of CHORUS_SCHEDULE_FILE, what ran last, and
 * saving it as text.
 */
#ifndef CCL_CORE_SCHEDULE_H
#define CCL_CORE_SCHEDULE_H

#include "core/comm.h"
#include "core/plan.h"

/* Reads and proves the programs of the file, if the variable names one. ncclInvalidUsage naming
 * file, line and step of what is refused. */
ncclResult_t ccl_schedule_load(struct ccl_clique *clique);

/* The loaded program for an operation; NULL when there is none. */
const struct ccl_program *ccl_schedule_find(const struct ccl_clique *clique,
                                            const struct ccl_sched_args *args);

#endif
