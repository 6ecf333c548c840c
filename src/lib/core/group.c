/* group.c: groups. Between start and end, calls only collect records and jobs; the outermost end
 * runs the jobs, then posts all records of each executor at once.
 *
 * A failing call inside a group is kept and returned by the outermost end, which then drops the
 * group's work.
 */
#include "core/group.h"

#include "base/alloc.h"
#include "base/err.h"
#include "core/agree.h"
#include "core/far.h"
#include "core/jobs.h"
#include "core/join.h"
#include "core/mail.h"
#include "core/meet.h"
#include "core/messages.h"
#include "core/pairs.h"
#include "core/rma.h"

struct group {
    int depth;
    ncclResult_t failed; /* first failure of a call in the group */
    struct ccl_record *records;
    size_t nrecords, records_room;
    struct ccl_job *jobs;
    size_t njobs, jobs_room;
};

static _Thread_local struct group my_group;
static _Thread_local struct ccl_parks my_parks;
static pthread_key_t group_key;
static int has_key;
static pthread_once_t group_once = PTHREAD_ONCE_INIT;

static void free_arrays(void *value)
{
    struct group *group = value;
    ccl_free(group->records);
    ccl_free(group->jobs);
    ccl_free(my_parks.list);
}

static void make_key(void)
{
    has_key = pthread_key_create(&group_key, free_arrays) == 0;
}

/* What a thread's group holds goes with the thread. */
static void own_group(void)
{
    pthread_once(&group_once, make_key);
    if (has_key && pthread_getspecific(group_key) == NULL)
        pthread_setspecific(group_key, &my_group);
}

ncclResult_t ccl_group_start(void)
{
    own_group();
    my_group.depth++;
    return ncclSuccess;
}

ncclResult_t ccl_group_fail(ncclResult_t code)
{
    int failed = code != ncclSuccess && code != ncclInProgress;
    if (my_group.depth > 0 && failed && my_group.failed == ncclSuccess) my_group.failed = code;
    return code;
}

/* ---- jobs ---- */

ncclResult_t ccl_group_add_job(const struct ccl_job *job)
{
    struct group own = {0}, *group = my_group.depth > 0 ? &my_group : &own;
    ncclResult_t rc =
        ccl_grow((void **)&group->jobs, group->njobs, &group->jobs_room, sizeof *group->jobs);
    if (rc != ncclSuccess) {
        if (job->over != NULL) {
            struct ccl_job dropped = *job;
            dropped.over(dropped.comm, dropped.args, rc);
        }
        return rc;
    }
    group->jobs[group->njobs++] = *job;
    return group == &own ? ccl_jobs_run(own.jobs, own.njobs) : ncclSuccess;
}

/* Runs the initialisations of one call, whatever group is open around it. */
ncclResult_t ccl_comm_init_all(const struct ccl_init_args *args, int n)
{
    struct group around = my_group;
    my_group = (struct group){0};
    ncclResult_t rc = ccl_group_start();
    for (int i = 0; i < n && rc == ncclSuccess; i++) rc = ccl_comm_init(&args[i]);
    ccl_group_fail(rc);
    ncclResult_t ended = ccl_group_end();
    ccl_free(my_group.records);
    my_group = around;
    return rc != ncclSuccess ? rc : ended;
}

/* ---- operations ---- */

/* Jobs that will not run, with what they hold: the group has failed then. */
static void forget_jobs(struct group *group, const struct ncclComm *comm)
{
    size_t kept = 0, n = group->njobs;
    for (size_t i = 0; i < n; i++) {
        struct ccl_job *job = &group->jobs[i];
        if (job->comm != comm)
            group->jobs[kept++] = *job;
        else if (job->over != NULL)
            job->over(job->comm, job->args, ncclInvalidUsage);
    }
    group->njobs = kept;
    if (kept < n)
        ccl_group_fail(ccl_err(ncclInvalidUsage,
                               "a communicator ended in an open group that has calls on it"));
}

void ccl_group_forget(struct ncclComm *comm)
{
    struct group *group = &my_group;
    size_t kept = 0;
    for (size_t i = 0; i < group->nrecords; i++)
        if (group->records[i].op.comm != comm) group->records[kept++] = group->records[i];
    group->nrecords = kept;
    forget_jobs(group, comm);
}

static int is_message(const struct ccl_record *record)
{
    return record->op.coll >= CCL_NCOLLS;
}

/* One that becomes messages only takes its number, and is compared with the others' calls. */
static ncclResult_t post_collective(struct ccl_exec *exec, const struct ccl_record *record)
{
    const struct ccl_op *op = &record->op;
    if (!ccl_clique_expands(exec->clique, op->coll)) return ccl_join_post(exec, record);
    op->comm->latest = (struct ccl_latest){.coll = op->coll, .nchannels = 1};
    return ccl_agree(exec, op, op->comm->nsets++, &op->comm->call);
}

/* On a GPU that has all ranks one kernel copies from rank to rank; any others meet at connections.
 */
static ncclResult_t post_record(struct ccl_exec *exec, const struct ccl_record *record)
{
    if (record->op.coll >= CCL_PUT_SIGNAL) return ccl_rma_post(exec, record);
    if (!is_message(record)) return post_collective(exec, record);
    if (ccl_device()->retires) return ccl_pairs_post(exec, record);
    if (ccl_clique_spans(exec->clique)) return ccl_far_post(exec, record);
    uint16_t member = exec->member_of[exec->view.slot_of[record->op.root] - exec->first_slot];
    return member == CCL_ELSEWHERE ? ccl_mail_post(exec, record) : ccl_messages_post(exec, record);
}

static int has_messages(const struct ccl_exec *exec)
{
    return exec->messages.opened.n > 0 || exec->messages.complete.n > 0;
}

/* Posts and launches the records of one executor from the first on, all under its lock. When some
 * were posted and others not, nobody could tell what comes next: the communicator has failed. */
static ncclResult_t post_exec(struct ccl_exec *exec, const struct ccl_record *records, size_t n,
                              struct ccl_parks *parks)
{
    struct ccl_clique *clique = exec->clique;
    ccl_agree_look(records[0].op.comm);
    ccl_exec_lock(exec);
    ncclResult_t rc = ccl_clique_error(clique);
    for (size_t i = 0; rc == ncclSuccess && i < n; i++)
        if (records[i].op.comm->exec == exec) rc = post_record(exec, &records[i]);
    if (rc == ncclSuccess && exec->open != NULL) rc = ccl_join_flush(exec, parks);
    if (rc == ncclSuccess && exec->lead != NULL) rc = ccl_mail_flush(exec);
    if (rc == ncclSuccess && has_messages(exec)) rc = ccl_messages_flush(exec, parks);
    if (rc == ncclSuccess && exec->far.n > 0) rc = ccl_meet_raise(exec, CCL_GATE_WHOLE);
    if (rc == ncclSuccess && exec->far.n > 0) rc = ccl_far_flush(exec);
    if (rc == ncclSuccess && exec->open_parties != NULL) rc = ccl_pairs_flush(exec);
    if (rc == ncclSuccess) rc = ccl_meet_raise(exec, CCL_GATE_WHOLE);
    if (rc == ncclSuccess && exec->rma.n > 0) rc = ccl_rma_flush(exec);
    if (rc != ncclSuccess && ccl_clique_error(clique) == ncclSuccess)
        ccl_clique_fail(clique, rc, 1, "%s", ccl_err_last());
    pthread_mutex_unlock(&exec->lock);
    return rc;
}

static int needs_device(const struct ccl_record *records, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ccl_needs_device(records[i].op.stream)) return 1;
    return 0;
}

/* The streams belong to the executor's device, which is current meanwhile where it matters. */
static ncclResult_t post_on_device(struct ccl_exec *exec, const struct ccl_record *records,
                                   size_t n, struct ccl_parks *parks)
{
    void *before;
    if (!needs_device(records, n)) return post_exec(exec, records, n, parks);
    TRY(ccl_device()->enter(records[0].op.comm->device, &before));
    ncclResult_t rc = post_exec(exec, records, n, parks);
    ccl_device()->leave(before);
    return rc;
}

static int is_first(const struct ccl_record *records, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (records[j].op.comm->exec == records[i].op.comm->exec) return 0;
    return 1;
}

/* The group's own calls may have ended or suspended what its operations are for. */
static ncclResult_t check_records(const struct ccl_record *records, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct ncclComm *comm = records[i].op.comm;
        if (atomic_load_explicit(&comm->state, memory_order_relaxed) == CCL_COMM_READY) continue;
        return ccl_err(ncclInvalidUsage, "nccl%s: rank %d: comm %p is %s at the end of the group",
                       ccl_coll_name(records[i].op.coll), comm->rank, (const void *)comm,
                       ccl_comm_state_name(comm));
    }
    return ncclSuccess;
}

static ncclResult_t post_all(const struct ccl_record *records, size_t n)
{
    ncclResult_t rc = ncclSuccess;
    TRY(check_records(records, n));
    int may_park = !ccl_device()->retires;
    struct ccl_parks parks = {0};
    if (may_park) parks = my_parks;
    if (may_park) ccl_gated_wait(records, n);
    for (size_t i = 0; i < n; i++) {
        if (!is_first(records, i)) continue;
        ncclResult_t posted = post_on_device(records[i].op.comm->exec, records + i, n - i, &parks);
        if (rc == ncclSuccess) rc = posted;
    }
    ccl_device()->advance();
    if (!may_park) return rc;
    if (parks.list != NULL) own_group();
    ncclResult_t parked = ccl_park_all(&parks);
    my_parks = parks;
    return rc != ncclSuccess ? rc : parked;
}

ncclResult_t ccl_group_add(const struct ccl_record *record)
{
    struct group *group = &my_group;
    if (group->depth == 0) return post_all(record, 1);
    TRY(ccl_grow((void **)&group->records, group->nrecords, &group->records_room,
                 sizeof *group->records));
    group->records[group->nrecords++] = *record;
    return ncclSuccess;
}

/* Takes a level away; 1: it was the outermost, and what it collected is in *group. */
static int end_level(const char *function, struct group *group, ncclResult_t *rc)
{
    *rc = ncclSuccess;
    if (my_group.depth == 0)
        *rc = ccl_err(ncclInvalidUsage, "%s: no group is open in this thread", function);
    if (my_group.depth == 0 || --my_group.depth > 0) return 0;
    *group = my_group;
    my_group = (struct group){0};
    return 1;
}

/* The array of records is kept for the thread's next group, up to a modest size. */
static void free_records(struct group *group)
{
    if (group->records_room <= 256 && my_group.records == NULL) {
        my_group.records = group->records;
        my_group.records_room = group->records_room;
    } else {
        ccl_free(group->records);
    }
}

ncclResult_t ccl_group_end_by(const char *function)
{
    struct group group;
    ncclResult_t rc;
    if (!end_level(function, &group, &rc)) return rc;
    rc = group.failed;
    if (rc != ncclSuccess)
        ccl_jobs_drop(group.jobs, group.njobs, rc);
    else if (group.njobs > 0)
        rc = ccl_jobs_run(group.jobs, group.njobs);
    int goes_on = rc == ncclInProgress;
    if ((rc == ncclSuccess || goes_on) && group.nrecords > 0) {
        ncclResult_t posted = post_all(group.records, group.nrecords);
        if (posted != ncclSuccess) rc = posted;
    }
    free_records(&group);
    return rc;
}

ncclResult_t ccl_group_end(void)
{
    return ccl_group_end_by("ncclGroupEnd");
}

ncclResult_t ccl_group_give_up(const char *function, ccl_group_look *look, void *argument)
{
    struct group group;
    ncclResult_t rc;
    if (!end_level(function, &group, &rc)) return rc;
    rc = group.failed;
    if (rc == ncclSuccess) rc = look(argument, group.records, group.nrecords, group.njobs);
    ccl_jobs_drop(group.jobs, group.njobs, rc);
    free_records(&group);
    return rc;
}
