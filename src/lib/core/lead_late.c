/* lead_late.c: collectives of an executor in several processes for which somebody is late: ranks of
 * this process, whose streams wait meanwhile, or other processes, for which the leader's thread
 * launches the kernel when they have come. The thread also tidies the mappings.
 */
#include "core/lead_impl.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/thread.h"
#include "core/launch.h"

#include <time.h>

enum { TIDY_MS = 100, NAP_NS = 20000 };

/* ---- ranks of this process ---- */

/* The last stream of the process writes it when all that concerns its ranks is over. */
static uint32_t *end_word(const struct ccl_lead *lead, uint64_t number)
{
    return ccl_lead_word(lead, (uint16_t)(lead->nprocs + 1 + lead->self), number);
}

static ncclResult_t await_end(struct ccl_set *set, struct ccl_member *m)
{
    const struct ccl_op *op = &m->record.op;
    uint64_t number = set->seq + 1;
    struct ccl_await end = {end_word(set->exec->lead, number), (uint32_t)number, CCL_AWAIT_SELF};
    m->held = 1;
    TRY(ccl_await(op->comm, op->stream, &end));
    return ccl_track_add(&set->exec->track, op->stream, op->comm->rank);
}

ncclResult_t ccl_lead_hold(struct ccl_set *set, uint16_t member)
{
    struct ccl_member *m = &set->members[member];
    if (!m->own) TRY(ccl_device()->base.event_record(m->ready, m->record.op.stream));
    m->parked = m->own = 0;
    return await_end(set, m);
}

ncclResult_t ccl_lead_let_go(struct ccl_set *set, cudaStream_t stream)
{
    const struct ccl_lead *lead = set->exec->lead;
    uint64_t number = set->seq + 1;
    for (uint16_t i = 0; i < set->nmembers; i++)
        if (set->members[i].held)
            return ccl_device()->word_write(stream, end_word(lead, number), (uint32_t)number);
    return ncclSuccess;
}

/* ---- other processes ---- */

/* The members that are there have met the last one's stream. An event behind its wait would hold a
 * queue as well, but could not be had otherwise where queues are few. */
static ncclResult_t hold_others(struct ccl_set *set)
{
    const struct ccl_member *last = &set->members[set->last];
    for (uint16_t i = 0; i < set->nmembers; i++) {
        struct ccl_member *m = &set->members[i];
        if (m->held || m->own || m->record.op.stream == last->record.op.stream) continue;
        TRY(await_end(set, m));
    }
    return ncclSuccess;
}

ncclResult_t ccl_lead_later(struct ccl_lead *lead, struct ccl_set *set, cudaStream_t stream,
                            uint64_t number)
{
    const struct ccl_member *last = &set->members[set->last];
    struct ccl_await done = {ccl_lead_word(lead, lead->nprocs, number), (uint32_t)number,
                             CCL_AWAIT_SELF};
    struct ccl_lead_job *job;
    TRY(CCL_NEW(&job, 1));
    job->set = set;
    ncclResult_t rc;
    TRY_GOTO(rc, ccl_device()->base.event_record(last->ready, stream), fail);
    TRY_GOTO(rc, ccl_launch_choose(set), fail);
    TRY_GOTO(rc, ccl_await(last->record.op.comm, stream, &done), fail);
    TRY_GOTO(rc, hold_others(set), fail);
    atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
    if (lead->last_job == NULL)
        lead->jobs = job;
    else
        lead->last_job->next = job;
    lead->last_job = job;
    pthread_cond_signal(&lead->wake);
    return ncclSuccess;
fail:
    ccl_free(job);
    return rc;
}

/* All streams have come to it, here and elsewhere. The thread's stream must not wait for one: that
 * one may be waiting for what the thread has yet to launch, a message or another collective.
 * Acquire pairs with the writes of the others' streams. */
static int is_ready(const struct ccl_lead *lead, const struct ccl_set *set)
{
    uint64_t number = set->seq + 1;
    int is_here = 1;
    if (!ccl_lead_all_posted(lead, number)) return 0;
    for (uint16_t q = 1; q < lead->nprocs; q++) {
        uint32_t ready = __atomic_load_n(ccl_lead_word(lead, q, number), __ATOMIC_ACQUIRE);
        if ((int32_t)(ready - (uint32_t)number) < 0) return 0;
    }
    (void)ccl_device()->base.event_query(set->members[set->last].ready, &is_here);
    return is_here;
}

static ncclResult_t run_job(struct ccl_lead *lead, struct ccl_set *set)
{
    TRY(ccl_device()->base.stream_wait(lead->stream, set->members[set->last].ready));
    TRY(ccl_lead_run(lead, set, lead->stream, set->seq + 1));
    return ccl_track_add(&lead->exec->track, lead->stream, CCL_TRACK_ALL);
}

/* Collectives in the order of their numbers. */
static ncclResult_t run_jobs(struct ccl_lead *lead, int *progressed)
{
    ncclResult_t rc = ncclSuccess;
    while (rc == ncclSuccess && lead->jobs != NULL) {
        struct ccl_lead_job *job = lead->jobs;
        int is_over = ccl_lead_is_over(lead);
        if (!is_over && !is_ready(lead, job->set)) break;
        *progressed = 1;
        if (!is_over) rc = run_job(lead, job->set);
        lead->jobs = job->next;
        if (lead->jobs == NULL) lead->last_job = NULL;
        /* Release: the set may be used again. */
        atomic_fetch_sub_explicit(&job->set->refs, 1, memory_order_release);
        ccl_free(job);
    }
    return rc;
}

int ccl_lead_work(struct ccl_lead *lead)
{
    int progressed = 0;
    if (lead->jobs == NULL && lead->mail_jobs == NULL) return 0;
    ncclResult_t rc = run_jobs(lead, &progressed);
    if (rc == ncclSuccess) rc = ccl_mail_work(lead, &progressed);
    if (rc != ncclSuccess && !ccl_lead_has_failed(lead))
        ccl_clique_fail(lead->exec->clique, rc, 1, "%s", ccl_err_last());
    return progressed;
}

/* ---- the thread ---- */

/* What memory was freed, on either side; what fails here shows at the next use. Unmapping may wait
 * for all that the device does, and so for streams that wait for this thread, or for a call of the
 * program that cannot be made meanwhile: it waits for a moment in which nothing is under way. */
static void tidy(struct ccl_lead *lead)
{
    const struct ccl_foreign_ops *foreign = ccl_device()->foreign;
    for (uint16_t q = 0; q < lead->nprocs; q++) {
        if (q == lead->self) continue;
        foreign->export_sweep(lead->exporters[q]);
        foreign->import_read(lead->importers[q]);
    }
    ccl_clique_rest(ccl_lead_clean, NULL);
}

static struct timespec soon(void)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += TIDY_MS * 1000000L;
    at.tv_sec += at.tv_nsec / 1000000000L;
    at.tv_nsec %= 1000000000L;
    return at;
}

/* Lets go of the lock for a moment: until there is work, or to see whether others have come. */
static void rest(struct ccl_lead *lead)
{
    struct ccl_exec *exec = lead->exec;
    if (lead->jobs == NULL && lead->mail_jobs == NULL) {
        struct timespec at = soon();
        if (pthread_cond_timedwait(&lead->wake, &exec->lock, &at) == 0) return;
        pthread_mutex_unlock(&exec->lock);
        tidy(lead);
        if (ccl_lead_has_failed(lead)) ccl_lead_release(exec);
    } else {
        pthread_mutex_unlock(&exec->lock);
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    pthread_mutex_lock(&exec->lock);
}

void *ccl_lead_thread(void *argument)
{
    struct ccl_lead *lead = argument;
    struct ccl_exec *exec = lead->exec;
    const struct ccl_topo *topo = exec->clique->topo;
    ccl_thread_name("chorus-lead");
    int rank = topo->first_rank[exec->clique->proc];
    ccl_device()->base.set(topo->peers[rank].device);
    pthread_mutex_lock(&exec->lock);
    while (!lead->ends || lead->jobs != NULL || lead->mail_jobs != NULL)
        if (!ccl_lead_work(lead)) rest(lead);
    pthread_mutex_unlock(&exec->lock);
    return NULL;
}
