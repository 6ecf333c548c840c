/* jobs.c: a batch is the jobs of one group. It lives until the last of them is over, whoever that
 * is; a job may be cancelled by the others until it has marked itself done. The jobs of one
 * communicator go one after the other, in a thread; after a failure the rest of them fail alike.
 */
#include "core/jobs.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/thread.h"
#include "core/comm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct batch;

/* A job in its thread. */
struct run {
    struct batch *batch;
    struct ccl_job *job;
    struct run *next; /* of the same communicator */
    int is_behind;    /* another one's next */
    pthread_t thread;
    int error;    /* why the thread could not be started */
    int done;     /* guarded by the batch's lock, as is order */
    size_t order; /* in which they have ended */
    ncclResult_t result;
    char text[CCL_ERR_TEXT_BYTES];
};

struct batch {
    pthread_mutex_t lock;
    size_t n, left; /* left: whose threads may still look at it */
    size_t nended;
    struct ccl_job *jobs;
    struct run runs[];
};

/* Jobs of one communicator are neighbours or few. */
static void link_runs(struct batch *batch)
{
    for (size_t i = 1; i < batch->n; i++) {
        size_t before = i;
        while (before > 0 && batch->jobs[before - 1].comm != batch->jobs[i].comm) before--;
        if (before == 0) continue;
        batch->runs[before - 1].next = &batch->runs[i];
        batch->runs[i].is_behind = 1;
    }
}

static ncclResult_t make_batch(struct ccl_job *jobs, size_t n, struct batch **out)
{
    struct batch *batch;
    TRY(ccl_alloc((void **)&batch, 1, sizeof *batch + n * sizeof batch->runs[0]));
    pthread_mutex_init(&batch->lock, NULL);
    batch->n = batch->left = n;
    batch->jobs = jobs;
    for (size_t i = 0; i < n; i++) batch->runs[i] = (struct run){.batch = batch, .job = &jobs[i]};
    link_runs(batch);
    *out = batch;
    return ncclSuccess;
}

static void free_batch(struct batch *batch)
{
    pthread_mutex_destroy(&batch->lock);
    ccl_free(batch->jobs);
    ccl_free(batch);
}

/* What failed cannot be met by its peers of this group: the others end, too. */
static void end_run(struct run *run, ncclResult_t result)
{
    struct batch *batch = run->batch;
    run->result = result;
    if (result != ncclSuccess) snprintf(run->text, sizeof run->text, "%s", ccl_err_last());
    pthread_mutex_lock(&batch->lock);
    run->done = 1;
    run->order = batch->nended++;
    for (size_t i = 0; result != ncclSuccess && i < batch->n; i++) {
        const struct run *other = &batch->runs[i];
        if (!other->done && other->job->cancel != NULL) other->job->cancel(other->job->comm);
    }
    pthread_mutex_unlock(&batch->lock);
}

/* Release: an abort that sees nobody inside may free the communicator. That of an initialisation
 * which failed waits for `over`. */
static void *run_one(void *argument)
{
    struct run *run = argument;
    struct ncclComm *comm = run->job->comm;
    ncclResult_t result = ncclSuccess;
    atomic_fetch_add_explicit(&comm->inside, 1, memory_order_relaxed);
    for (; run != NULL; run = run->next) {
        if (result == ncclSuccess) result = run->job->run(comm, run->job->args);
        end_run(run, result);
    }
    atomic_fetch_sub_explicit(&comm->inside, 1, memory_order_release);
    return NULL;
}

static void *run_aside(void *argument)
{
    ccl_thread_name("chorus-job");
    return run_one(argument);
}

static int start(struct run *run, pthread_t *thread, void *(*body)(void *))
{
    run->error = CCL_FAULT("group-thread") ? EAGAIN : pthread_create(thread, NULL, body, run);
    return run->error == 0;
}

static void end_unstarted(struct run *run)
{
    ncclResult_t result = ccl_err(ncclSystemError, "pthread_create for rank %d: %s",
                                  run->job->comm->rank, strerror(run->error));
    for (; run != NULL; run = run->next) end_run(run, result);
}

/* Headers before 2.30 have no ncclTimeout, and a program that was built with one may not survive a
 * code that it does not know. The version of its configuration tells; without one nobody knows. */
enum { TIMEOUT_SINCE = 23000 };
static ncclResult_t known_code(const struct run *run)
{
    int is_known = run->job->comm->caller_version >= TIMEOUT_SINCE;
    return run->result == ncclTimeout && !is_known ? ncclRemoteError : run->result;
}

/* How likely an error is the cause of the others: not when it tells of another rank's failure or
 * absence, and least of all when the job was cancelled. Of equals the first. */
static int blame(ncclResult_t result)
{
    if (result == ncclInternalError) return 0;
    return result == ncclRemoteError || result == ncclTimeout ? 1 : 2;
}

/* The first cause is the job that did not fail because of the others; its text is the last error.
 */
static ncclResult_t find_cause(const struct batch *batch)
{
    const struct run *cause = NULL;
    for (size_t i = 0; i < batch->n; i++) {
        const struct run *run = &batch->runs[i];
        if (run->result == ncclSuccess) continue;
        int more = cause == NULL ? 1 : blame(run->result) - blame(cause->result);
        if (more > 0 || (more == 0 && run->order < cause->order)) cause = run;
    }
    if (cause == NULL) return ncclSuccess;
    if (strcmp(ccl_err_last(), cause->text) == 0) return known_code(cause);
    return ccl_err(known_code(cause), "%s", cause->text);
}

static void close_job(struct ccl_job *job, ncclResult_t result)
{
    if (job->over != NULL) job->over(job->comm, job->args, result);
}

static ncclResult_t run_all(struct batch *batch)
{
    size_t nthreads = 0;
    for (size_t i = 0; i < batch->n; i++) nthreads += !batch->runs[i].is_behind;
    int alone = nthreads == 1;
    if (alone) run_one(&batch->runs[0]);
    for (size_t i = 0; !alone && i < batch->n; i++)
        if (!batch->runs[i].is_behind && !start(&batch->runs[i], &batch->runs[i].thread, run_aside))
            end_unstarted(&batch->runs[i]);
    for (size_t i = 0; !alone && i < batch->n; i++)
        if (!batch->runs[i].is_behind && batch->runs[i].error == 0)
            pthread_join(batch->runs[i].thread, NULL);
    ncclResult_t rc = find_cause(batch);
    for (size_t i = 0; i < batch->n; i++) close_job(&batch->jobs[i], batch->runs[i].result);
    free_batch(batch);
    return rc;
}

/* ---- jobs that go on by themselves ---- */

int ccl_jobs_busy(const struct ncclComm *comm)
{
    /* Acquire pairs with the release in leave: what the job made of the handle is visible. */
    return atomic_load_explicit(&comm->busy, memory_order_acquire);
}

void ccl_jobs_await(struct ncclComm *comm)
{
    if (!comm->has_worker) return;
    pthread_join(comm->worker, NULL);
    comm->has_worker = 0;
}

static void put_batch(struct batch *batch)
{
    pthread_mutex_lock(&batch->lock);
    int is_last = --batch->left == 0;
    pthread_mutex_unlock(&batch->lock);
    if (is_last) free_batch(batch);
}

/* The last that a communicator's jobs do: it may be gone right after. */
static void leave(struct run *run)
{
    struct ncclComm *comm = run->job->comm;
    struct batch *batch = run->batch;
    const struct run *told = run;
    while (told->result == ncclSuccess && told->next != NULL) told = told->next;
    atomic_store_explicit(&comm->job_result, (int)known_code(told), memory_order_relaxed);
    for (struct run *next = run->next; run != NULL; run = next) {
        next = run->next;
        close_job(run->job, run->result);
        put_batch(batch);
    }
    /* Release publishes the result and all that the job did. */
    atomic_store_explicit(&comm->busy, 0, memory_order_release);
}

static void *go_on(void *argument)
{
    run_aside(argument);
    leave(argument);
    return NULL;
}

/* No job is over, and no communicator ended, before all have been started: they need the lock. */
static ncclResult_t start_all(struct batch *batch)
{
    batch->left++; /* this thread */
    pthread_mutex_lock(&batch->lock);
    for (size_t i = 0; i < batch->n; i++) {
        struct run *run = &batch->runs[i];
        struct ncclComm *comm = run->job->comm;
        if (run->is_behind) continue;
        ccl_jobs_await(comm); /* a former one, which is over */
        atomic_store_explicit(&comm->busy, 1, memory_order_relaxed);
        comm->has_worker = start(run, &comm->worker, go_on);
    }
    pthread_mutex_unlock(&batch->lock);
    for (size_t i = 0; i < batch->n; i++) {
        struct run *run = &batch->runs[i];
        if (run->is_behind || run->error == 0) continue;
        end_unstarted(run);
        leave(run);
    }
    put_batch(batch);
    return ncclInProgress;
}

/* ---- */

void ccl_jobs_drop(struct ccl_job *jobs, size_t n, ncclResult_t why)
{
    for (size_t i = 0; i < n; i++) close_job(&jobs[i], why);
    ccl_free(jobs);
}

static ncclResult_t check_kinds(const struct ccl_job *jobs, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (jobs[i].goes_on != jobs[0].goes_on)
            return ccl_err(ncclInvalidArgument,
                           "ncclGroupEnd: blocking and non-blocking communicators (ranks %d and %d)"
                           " are in one group",
                           jobs[0].comm->rank, jobs[i].comm->rank);
    return ncclSuccess;
}

ncclResult_t ccl_jobs_run(struct ccl_job *jobs, size_t n)
{
    struct batch *batch;
    ncclResult_t rc = check_kinds(jobs, n);
    if (rc == ncclSuccess) rc = make_batch(jobs, n, &batch);
    if (rc == ncclSuccess) return jobs[0].goes_on ? start_all(batch) : run_all(batch);
    ccl_jobs_drop(jobs, n, rc);
    return rc;
}
