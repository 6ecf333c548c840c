/* mail.c: messages between ranks that share a GPU from two processes. */
#include "core/mail.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/err.h"
#include "core/launch.h"
#include "core/lead_impl.h"

#include <sched.h>
#include <stdio.h>

enum { PARK_US = 1000, SPIN_US = 5 };

/* ---- words and posts of a pair of ranks ---- */

static size_t place(size_t pair, uint64_t number)
{
    return pair * CCL_MAIL_DEPTH + number % CCL_MAIL_DEPTH;
}

static uint32_t *sent_word(const struct ccl_lead *lead, size_t pair, uint64_t number)
{
    return &lead->sent[place(pair, number)];
}

static uint32_t *taken_word(const struct ccl_lead *lead, size_t pair, uint64_t number)
{
    return &lead->taken[place(pair, number)];
}

static struct ccl_mail_post *post_of(const struct ccl_lead *lead, size_t pair, uint64_t number)
{
    return &lead->letters[place(pair, number)];
}

/* Acquire pairs with the sender's post. */
static int has_come(const struct ccl_lead *lead, const struct ccl_mail *mail)
{
    const struct ccl_mail_post *post = post_of(lead, mail->pair, mail->number);
    return __atomic_load_n(&post->number, __ATOMIC_ACQUIRE) == mail->number;
}

/* Acquire pairs with the write of the receiver's stream. */
static int is_taken(const struct ccl_lead *lead, size_t pair, uint64_t number)
{
    uint32_t taken = __atomic_load_n(taken_word(lead, pair, number), __ATOMIC_ACQUIRE);
    return (int32_t)(taken - (uint32_t)number) >= 0;
}

static int has_failed(const struct ccl_lead *lead)
{
    return ccl_clique_error(lead->exec->clique) != ncclSuccess;
}

static uint64_t bytes_of(const struct ccl_op *op)
{
    return op->count_elems * ccl_type_bytes(op->type);
}

static uint16_t local_of(const struct ccl_exec *exec, int rank)
{
    return (uint16_t)(exec->view.slot_of[rank] - exec->first_slot);
}

static uint16_t proc_of(const struct ccl_lead *lead, int rank)
{
    uint16_t q = 0;
    while (lead->procs[q] != lead->exec->clique->topo->proc_of[rank]) q++;
    return q;
}

ncclResult_t ccl_mail_post(struct ccl_exec *exec, const struct ccl_record *record)
{
    struct ccl_lead *lead = exec->lead;
    const struct ccl_op *op = &record->op;
    int is_send = op->coll == CCL_SEND;
    uint16_t mine = local_of(exec, op->comm->rank), its = local_of(exec, op->root);
    size_t pair = is_send ? (size_t)mine * exec->nlocal + its : (size_t)its * exec->nlocal + mine;
    if (record->capture != 0)
        return ccl_err(ncclInvalidUsage,
                       "nccl%s: ranks %d and %d share a GPU from two processes: that cannot be "
                       "captured",
                       ccl_coll_name(op->coll), op->comm->rank, op->root);
    TRY(ccl_grow((void **)&lead->mails, lead->nmails, &lead->mails_room, sizeof *lead->mails));
    lead->mails[lead->nmails++] =
        (struct ccl_mail){.op = *op, .pair = pair, .number = ++lead->counts[pair]};
    return ncclSuccess;
}

/* ---- sending ---- */

/* Waits on the host when so many messages of the pair are unread already. */
static ncclResult_t wait_room(struct ccl_lead *lead, const struct ccl_mail *mail)
{
    if (mail->number <= CCL_MAIL_DEPTH) return ncclSuccess;
    while (!is_taken(lead, mail->pair, mail->number - CCL_MAIL_DEPTH)) {
        if (has_failed(lead)) return ccl_clique_error(lead->exec->clique);
        sched_yield();
    }
    return ncclSuccess;
}

/* How the receiver finds the data, or a copy of it. */
static ncclResult_t refer(struct ccl_lead *lead, struct ccl_mail *mail, struct ccl_mail_post *post)
{
    uint16_t q = proc_of(lead, mail->op.root);
    TRY(ccl_lead_export(lead, q, mail->op.in, post->bytes, &post->buffer));
    if (post->buffer.span != 0) return ncclSuccess;
    return ccl_lead_stage_send(lead, &mail->op, q, &post->buffer, &mail->staging);
}

static ncclResult_t speak(struct ccl_lead *lead, struct ccl_mail *mail)
{
    const struct ccl_op *op = &mail->op;
    struct ccl_mail_post *post = post_of(lead, mail->pair, mail->number);
    TRY(wait_room(lead, mail));
    post->bytes = bytes_of(op);
    if (post->bytes > 0) TRY(refer(lead, mail, post));
    TRY(ccl_device()->word_write(op->stream, sent_word(lead, mail->pair, mail->number),
                                 (uint32_t)mail->number));
    /* Release publishes the description to the receiver's process. */
    __atomic_store_n(&post->number, mail->number, __ATOMIC_RELEASE);
    return ncclSuccess;
}

/* The stream goes on when the receiver has the data. */
static ncclResult_t await_taken(struct ccl_lead *lead, struct ccl_mail *mail)
{
    TRY(ccl_device()->word_wait(mail->op.stream, taken_word(lead, mail->pair, mail->number),
                                (uint32_t)mail->number));
    if (mail->staging == NULL) return ncclSuccess;
    TRY(ccl_device()->foreign->staging_mark(mail->staging, mail->op.stream));
    ccl_device()->foreign->staging_put(mail->staging);
    mail->staging = NULL;
    return ncclSuccess;
}

/* ---- receiving ---- */

static ncclResult_t check_size(const struct ccl_lead *lead, const struct ccl_mail *mail)
{
    uint64_t sent = post_of(lead, mail->pair, mail->number)->bytes, asked = bytes_of(&mail->op);
    if (sent == asked) return ncclSuccess;
    return ccl_clique_fail(lead->exec->clique, ncclInvalidUsage, 1,
                           "rank %d sends %llu bytes to rank %d, which receives %llu",
                           mail->op.root, (unsigned long long)sent, mail->op.comm->rank,
                           (unsigned long long)asked);
}

/* Where the message lies in this process. What the place held before is not used any more. */
static ncclResult_t find_source(struct ccl_lead *lead, const struct ccl_mail *mail,
                                const void **source)
{
    struct ccl_region **pin = &lead->mail_pins[place(mail->pair, mail->number)];
    struct ccl_imported found = {NULL, NULL};
    if (*pin != NULL) ccl_device()->foreign->import_unpin(*pin);
    *pin = NULL;
    uint64_t bytes = bytes_of(&mail->op);
    const struct ccl_mail_post *post = post_of(lead, mail->pair, mail->number);
    if (bytes > 0)
        TRY(ccl_lead_find(lead, proc_of(lead, mail->op.root), &post->buffer, bytes, &found));
    *pin = found.region;
    *source = found.address;
    return ncclSuccess;
}

/* Those in `list` that have come, in one kernel a size; the others keep their place. */
static ncclResult_t take_all(struct ccl_lead *lead, struct ccl_mail *const *list, size_t n,
                             cudaStream_t stream)
{
    struct ccl_moves moves = {.exec = lead->exec, .comm = list[0]->op.comm};
    for (size_t i = 0; i < n; i++) {
        TRY(check_size(lead, list[i]));
        uint64_t bytes = bytes_of(&list[i]->op);
        if (moves.n == CCL_MAX_LOCAL || (moves.n > 0 && moves.bytes != bytes)) {
            TRY(ccl_launch_moves(&moves, stream));
            moves.n = 0;
        }
        moves.bytes = bytes;
        TRY(find_source(lead, list[i], &moves.pairs[moves.n].in));
        moves.pairs[moves.n++].out = list[i]->op.out;
        TRY(ccl_device()->word_wait(stream, sent_word(lead, list[i]->pair, list[i]->number),
                                    (uint32_t)list[i]->number));
    }
    TRY(ccl_launch_moves(&moves, stream));
    for (size_t i = 0; i < n; i++)
        TRY(ccl_device()->word_write(stream, taken_word(lead, list[i]->pair, list[i]->number),
                                     (uint32_t)list[i]->number));
    return ccl_track_add(&lead->exec->track, stream, NULL);
}

/* The stream waits for the thread's copy. */
static ncclResult_t leave_to_thread(struct ccl_lead *lead, const struct ccl_mail *mail)
{
    ncclResult_t rc;
    struct ccl_mail_job *job;
    TRY(CCL_NEW(&job, 1));
    job->mail = *mail;
    TRY_GOTO(rc, ccl_device()->event_make(&job->ready), fail);
    TRY_GOTO(rc, ccl_device()->base.event_record(job->ready, mail->op.stream), fail);
    TRY_GOTO(rc,
             ccl_device()->word_wait(mail->op.stream, taken_word(lead, mail->pair, mail->number),
                                     (uint32_t)mail->number),
             fail);
    TRY_GOTO(rc, ccl_track_add(&lead->exec->track, mail->op.stream, NULL), fail);
    struct ccl_mail_job **end = &lead->mail_jobs;
    while (*end != NULL) end = &(*end)->next;
    *end = job;
    pthread_cond_signal(&lead->wake);
    return ncclSuccess;
fail:
    if (job->ready != NULL) ccl_device()->base.event_destroy(job->ready);
    ccl_free(job);
    return rc;
}

ncclResult_t ccl_mail_work(struct ccl_lead *lead, int *progressed)
{
    for (struct ccl_mail_job **link = &lead->mail_jobs; *link != NULL;) {
        struct ccl_mail_job *job = *link;
        struct ccl_mail *mail = &job->mail;
        int come = has_come(lead, mail);
        ncclResult_t rc = ncclSuccess;
        if (!come && !has_failed(lead)) {
            link = &job->next;
            continue;
        }
        *progressed = 1;
        *link = job->next;
        if (come) rc = ccl_device()->base.stream_wait(lead->stream, job->ready);
        if (come && rc == ncclSuccess) rc = take_all(lead, &mail, 1, lead->stream);
        ccl_device()->base.event_destroy(job->ready);
        ccl_free(job);
        TRY(rc);
    }
    return ncclSuccess;
}

/* ---- a group end ---- */

static int is_send(const struct ccl_mail *mail)
{
    return mail->op.coll == CCL_SEND;
}

/* All receives of the group have come, or the time is over. */
static void park(const struct ccl_lead *lead)
{
    uint64_t start_ns = ccl_clock_ns();
    for (size_t i = 0; i < lead->nmails; i++)
        while (!is_send(&lead->mails[i]) && !has_come(lead, &lead->mails[i])) {
            uint64_t past_us = (ccl_clock_ns() - start_ns) / 1000;
            if (past_us >= PARK_US || has_failed(lead)) return;
            if (past_us >= SPIN_US) sched_yield();
        }
}

/* The receives on the stream of the first that is left. */
static ncclResult_t take_stream(struct ccl_lead *lead, size_t first)
{
    cudaStream_t stream = lead->mails[first].op.stream;
    struct ccl_mail **list;
    size_t n = 0;
    TRY(CCL_NEW(&list, lead->nmails));
    ncclResult_t rc = ncclSuccess;
    for (size_t i = first; i < lead->nmails; i++) {
        struct ccl_mail *mail = &lead->mails[i];
        if (mail->is_over || is_send(mail) || mail->op.stream != stream) continue;
        if (has_come(lead, mail)) list[n++] = mail;
    }
    if (n > 0) rc = take_all(lead, list, n, stream);
    for (size_t i = 0; i < n; i++) list[i]->is_over = 1;
    ccl_free(list);
    for (size_t i = first; rc == ncclSuccess && i < lead->nmails; i++) {
        struct ccl_mail *mail = &lead->mails[i];
        if (mail->is_over || is_send(mail) || mail->op.stream != stream) continue;
        rc = leave_to_thread(lead, mail);
        mail->is_over = 1;
    }
    return rc;
}

ncclResult_t ccl_mail_flush(struct ccl_exec *exec)
{
    struct ccl_lead *lead = exec->lead;
    for (size_t i = 0; i < lead->nmails; i++)
        if (is_send(&lead->mails[i])) TRY(speak(lead, &lead->mails[i]));
    park(lead);
    for (size_t i = 0; i < lead->nmails; i++)
        if (!is_send(&lead->mails[i]) && !lead->mails[i].is_over) TRY(take_stream(lead, i));
    for (size_t i = 0; i < lead->nmails; i++) {
        struct ccl_mail *mail = &lead->mails[i];
        if (!is_send(mail)) continue;
        TRY(await_taken(lead, mail));
        TRY(ccl_track_add(&exec->track, mail->op.stream, NULL));
    }
    lead->nmails = 0;
    return ncclSuccess;
}

/* ---- the status ---- */

int ccl_mail_waiting(const struct ccl_exec *exec, const struct ncclComm *comm, char *text,
                     size_t bytes)
{
    const struct ccl_lead *lead = exec->lead;
    uint16_t mine = local_of(exec, comm->rank);
    for (uint16_t its = 0; its < exec->nlocal; its++)
        for (int sends = 0; sends < 2; sends++) {
            size_t pair =
                sends ? (size_t)mine * exec->nlocal + its : (size_t)its * exec->nlocal + mine;
            int rank = exec->view.rank_of[exec->first_slot + its];
            if (lead->counts[pair] == 0 || is_taken(lead, pair, lead->counts[pair])) continue;
            snprintf(text, bytes, "%s rank %d: waits for ranks %d (%s)",
                     sends ? "Send to" : "Recv from", rank, rank,
                     sends ? "takes no data" : "no data");
            return 1;
        }
    return 0;
}
