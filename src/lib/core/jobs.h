/* jobs.h: calls that all ranks of a communicator make and that take a while: initialisations,
 * splits, windows. Those of one group run side by side, each in a thread, since each waits for its
 * peers; a job by itself runs in the thread that called. The job of a communicator that does not
 * block runs behind its caller's back.
 */
#ifndef CCL_CORE_JOBS_H
#define CCL_CORE_JOBS_H

#include "nccl.h"

#include <stddef.h>

struct ncclComm;

enum { CCL_JOB_BYTES = 512 };

struct ccl_job {
    struct ncclComm *comm; /* its jobs of a group go one after the other */
    ncclResult_t (*run)(struct ncclComm *comm, void *args);
    /* Makes a job that waits for its peers end: another of its group has failed. Any thread, while
     * it runs. NULL: its own time limit ends it. */
    void (*cancel)(struct ncclComm *comm);
    /* After the job, when none of its group can be cancelled any more; instead of `run` when the
     * group was given up before. NULL: nothing to be done. */
    void (*over)(struct ncclComm *comm, void *args, ncclResult_t result);
    int goes_on; /* the caller does not wait for it: `blocking` of the communicator is 0 */
    _Alignas(16) char args[CCL_JOB_BYTES]; /* copied with the job; what run and over get */
};

/* Runs n jobs and returns the failure that caused the others, or ncclSuccess; or starts them and
 * returns ncclInProgress, when they go on by themselves. ncclInvalidArgument when some do and
 * others do not: none is run then. Takes over the array, which is ccl_free'd. */
ncclResult_t ccl_jobs_run(struct ccl_job *jobs, size_t n);
/* Gives up n jobs that were not run because of `why`, with their array. */
void ccl_jobs_drop(struct ccl_job *jobs, size_t n, ncclResult_t why);

/* ---- a communicator whose jobs go on by themselves ---- */

/* One is under way. */
int ccl_jobs_busy(const struct ncclComm *comm);
/* Waits for it and gives its thread back. */
void ccl_jobs_await(struct ncclComm *comm);

#endif
