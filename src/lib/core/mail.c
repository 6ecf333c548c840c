/* mail.c: messages between ranks that share a GPU from two processes. */
#include "core/mail.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/err.h"
#include "core/launch.h"
#include "core/lead_impl.h"
#include "core/park.h"

#include <sched.h>
#include <stdio.h>

enum { SPIN_US = 5 };

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

/* The sender's stream has come to it. Acquire pairs with its write. */
static int is_sent(const struct ccl_lead *lead, const struct ccl_mail *mail)
{
    uint32_t sent = __atomic_load_n(sent_word(lead, mail->pair, mail->number), __ATOMIC_ACQUIRE);
    return has_come(lead, mail) && (int32_t)(sent - (uint32_t)mail->number) >= 0;
}

/* Acquire pairs with the write of the receiver's stream. */
static int is_taken(const struct ccl_lead *lead, size_t pair, uint64_t number)
{
    uint32_t taken = __atomic_load_n(taken_word(lead, pair, number), __ATOMIC_ACQUIRE);
    return (int32_t)(taken - (uint32_t)number) >= 0;
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

/* Relaxed: an abort and a status, which hold no lock, read it and are content with a recent one. */
static uint64_t count_message(struct ccl_lead *lead, size_t pair)
{
    uint64_t number = lead->counts[pair] + 1;
    __atomic_store_n(&lead->counts[pair], number, __ATOMIC_RELAXED);
    return number;
}

ncclResult_t ccl_mail_post(struct ccl_exec *exec, const struct ccl_record *record)
{
    struct ccl_lead *lead = exec->lead;
    const struct ccl_op *op = &record->op;
    int is_send = op->coll == CCL_SEND;
    uint16_t mine = local_of(exec, op->comm->rank), its = local_of(exec, op->root);
    size_t pair = is_send ? (size_t)mine * exec->nlocal + its : (size_t)its * exec->nlocal + mine;
    if (record->capture != 0 && lead->graph_counts[pair] == CCL_LEAD_GRAPH_MAILS)
        return ccl_err(ncclInvalidUsage,
                       "nccl%s: ranks %d and %d, which share a GPU from two processes, have "
                       "captured %d messages with this communicator; more cannot be",
                       ccl_coll_name(op->coll), op->comm->rank, op->root, CCL_LEAD_GRAPH_MAILS);
    TRY(ccl_grow((void **)&lead->mails, lead->nmails, &lead->mails_room, sizeof *lead->mails));
    lead->mails[lead->nmails++] = (struct ccl_mail){.op = *op,
                                                    .pair = pair,
                                                    .number = count_message(lead, pair),
                                                    .capture = record->capture,
                                                    .graph = lead->graph_counts[pair]};
    if (record->capture != 0) lead->graph_counts[pair]++;
    return ncclSuccess;
}

/* ---- what streams do with the words ---- */

static uint32_t *graph_letter(const struct ccl_lead *lead, int is_taken_word,
                              const struct ccl_mail *mail)
{
    size_t npairs = (size_t)lead->exec->nlocal * lead->exec->nlocal;
    size_t row = (size_t)is_taken_word * npairs + mail->pair;
    return &lead->graph_letters[row * CCL_LEAD_GRAPH_MAILS + mail->graph];
}

static ncclResult_t write_word(struct ccl_lead *lead, const struct ccl_mail *mail,
                               int is_taken_word, cudaStream_t stream)
{
    uint32_t *word = is_taken_word ? taken_word(lead, mail->pair, mail->number)
                                   : sent_word(lead, mail->pair, mail->number);
    if (mail->capture != 0)
        return ccl_device()->word_write(stream, graph_letter(lead, is_taken_word, mail), 1);
    return ccl_device()->word_write(stream, word, (uint32_t)mail->number);
}

static ncclResult_t await_word(struct ccl_lead *lead, const struct ccl_mail *mail,
                               int is_taken_word, cudaStream_t stream)
{
    const uint32_t *word = is_taken_word ? taken_word(lead, mail->pair, mail->number)
                                         : sent_word(lead, mail->pair, mail->number);
    if (mail->capture != 0)
        return ccl_device()->word_take(stream, graph_letter(lead, is_taken_word, mail));
    struct ccl_await number = {word, (uint32_t)mail->number, CCL_AWAIT_OTHERS};
    return ccl_await(mail->op.comm, stream, &number);
}

/* ---- sending ---- */

/* Waits on the host when so many messages of the pair are unread already. */
static ncclResult_t wait_room(struct ccl_lead *lead, const struct ccl_mail *mail)
{
    if (mail->number <= CCL_MAIL_DEPTH) return ncclSuccess;
    while (!is_taken(lead, mail->pair, mail->number - CCL_MAIL_DEPTH)) {
        if (ccl_lead_has_failed(lead)) return ccl_clique_error(lead->exec->clique);
        if (!ccl_lead_work(lead)) sched_yield();
    }
    return ncclSuccess;
}

/* How the receiver finds the data, or a copy of it. */
static ncclResult_t refer(struct ccl_lead *lead, struct ccl_mail *mail, struct ccl_mail_post *post)
{
    uint16_t q = proc_of(lead, mail->op.root);
    TRY(ccl_lead_export(lead, q, mail->op.in, post->bytes, &post->buffer));
    if (post->buffer.span != 0) return ncclSuccess;
    return ccl_lead_stage_send(lead, mail, q, &post->buffer);
}

static ncclResult_t speak(struct ccl_lead *lead, struct ccl_mail *mail)
{
    const struct ccl_op *op = &mail->op;
    struct ccl_mail_post *post = post_of(lead, mail->pair, mail->number);
    TRY(wait_room(lead, mail));
    post->bytes = bytes_of(op);
    post->is_captured = mail->capture != 0;
    if (post->bytes > 0) TRY(refer(lead, mail, post));
    TRY(write_word(lead, mail, 0, op->stream));
    /* Release publishes the description to the receiver's process. */
    __atomic_store_n(&post->number, mail->number, __ATOMIC_RELEASE);
    return ncclSuccess;
}

/* The stream goes on when the receiver has the data. */
static ncclResult_t await_taken(struct ccl_lead *lead, struct ccl_mail *mail)
{
    TRY(await_word(lead, mail, 1, mail->op.stream));
    if (mail->staging == NULL) return ncclSuccess;
    TRY(ccl_device()->foreign->staging_mark(mail->staging, mail->op.stream));
    ccl_device()->foreign->staging_put(mail->staging);
    mail->staging = NULL;
    return ncclSuccess;
}

/* ---- receiving ---- */

static ncclResult_t check_post(const struct ccl_lead *lead, const struct ccl_mail *mail)
{
    const struct ccl_mail_post *post = post_of(lead, mail->pair, mail->number);
    uint64_t sent = post->bytes, asked = bytes_of(&mail->op);
    int captures = mail->capture != 0;
    if ((int)post->is_captured != captures)
        return ccl_clique_fail(lead->exec->clique, ncclInvalidUsage, 1,
                               "a message from rank %d to rank %d: the stream of rank %d captures "
                               "a graph, the other does not",
                               mail->op.root, mail->op.comm->rank,
                               captures ? mail->op.comm->rank : mail->op.root);
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

/* The mapping stays; release: the place among the eager messages is free. */
static ncclResult_t keep_for_graph(struct ccl_lead *lead, const struct ccl_mail *mail)
{
    TRY(ccl_lead_keep(lead, &lead->mail_pins[place(mail->pair, mail->number)]));
    __atomic_store_n(taken_word(lead, mail->pair, mail->number), (uint32_t)mail->number,
                     __ATOMIC_RELEASE);
    return ncclSuccess;
}

/* Those in `list` that have come, in one kernel; the others keep their place. */
static ncclResult_t take_all(struct ccl_lead *lead, struct ccl_mail *const *list, size_t n,
                             cudaStream_t stream)
{
    struct ccl_moves moves = {.exec = lead->exec, .comm = list[0]->op.comm};
    for (size_t i = 0; i < n; i++) {
        TRY(check_post(lead, list[i]));
        if (moves.n == CCL_MAX_LOCAL) {
            TRY(ccl_launch_moves(&moves, stream));
            moves.n = 0;
        }
        TRY(find_source(lead, list[i], &moves.pairs[moves.n].in));
        moves.pairs[moves.n].out = list[i]->op.out;
        moves.pairs[moves.n++].bytes = bytes_of(&list[i]->op);
        TRY(await_word(lead, list[i], 0, stream));
    }
    TRY(ccl_launch_moves(&moves, stream));
    for (size_t i = 0; i < n; i++) {
        TRY(write_word(lead, list[i], 1, stream));
        if (list[i]->capture != 0) TRY(keep_for_graph(lead, list[i]));
    }
    if (list[0]->capture != 0) return ncclSuccess;
    return ccl_track_add(&lead->exec->track, stream, CCL_TRACK_ALL);
}

/* One that was used before, or a new one. */
static ncclResult_t take_job(struct ccl_lead *lead, struct ccl_mail_job **out)
{
    *out = lead->free_mail_jobs;
    if (*out != NULL) {
        lead->free_mail_jobs = (*out)->next;
        (*out)->next = NULL;
        return ncclSuccess;
    }
    TRY(CCL_NEW(out, 1));
    ncclResult_t rc = ccl_device()->event_make(&(*out)->ready);
    if (rc != ncclSuccess) ccl_free(*out);
    return rc;
}

static void put_job(struct ccl_lead *lead, struct ccl_mail_job *job)
{
    job->next = lead->free_mail_jobs;
    lead->free_mail_jobs = job;
}

void ccl_mail_close(struct ccl_lead *lead)
{
    while (lead->free_mail_jobs != NULL) {
        struct ccl_mail_job *job = lead->free_mail_jobs;
        lead->free_mail_jobs = job->next;
        ccl_device()->base.event_destroy(job->ready);
        ccl_free(job);
    }
    ccl_free(lead->mails);
}

/* The stream waits for the thread's copy. */
static ncclResult_t leave_to_thread(struct ccl_lead *lead, const struct ccl_mail *mail)
{
    struct ccl_await taken = {taken_word(lead, mail->pair, mail->number), (uint32_t)mail->number,
                              CCL_AWAIT_SELF};
    ncclResult_t rc;
    struct ccl_mail_job *job;
    TRY(take_job(lead, &job));
    job->mail = *mail;
    TRY_GOTO(rc, ccl_device()->base.event_record(job->ready, mail->op.stream), fail);
    TRY_GOTO(rc, ccl_await(mail->op.comm, mail->op.stream, &taken), fail);
    TRY_GOTO(rc, ccl_track_add(&lead->exec->track, mail->op.stream, mail->op.comm->rank), fail);
    struct ccl_mail_job **end = &lead->mail_jobs;
    while (*end != NULL) end = &(*end)->next;
    *end = job;
    pthread_cond_signal(&lead->wake);
    return ncclSuccess;
fail:
    put_job(lead, job);
    return rc;
}

ncclResult_t ccl_mail_work(struct ccl_lead *lead, int *progressed)
{
    for (struct ccl_mail_job **link = &lead->mail_jobs; *link != NULL;) {
        struct ccl_mail_job *job = *link;
        struct ccl_mail *mail = &job->mail;
        int is_over = ccl_lead_is_over(lead), come = !is_over && is_sent(lead, mail);
        ncclResult_t rc = ncclSuccess;
        /* The thread's stream waits for none that may wait for it. */
        if (come) (void)ccl_device()->base.event_query(job->ready, &come);
        if (!come && !is_over) {
            link = &job->next;
            continue;
        }
        *progressed = 1;
        *link = job->next;
        if (come) rc = ccl_device()->base.stream_wait(lead->stream, job->ready);
        if (come && rc == ncclSuccess) rc = take_all(lead, &mail, 1, lead->stream);
        put_job(lead, job);
        TRY(rc);
    }
    return ncclSuccess;
}

/* ---- a group end ---- */

static int is_send(const struct ccl_mail *mail)
{
    return mail->op.coll == CCL_SEND;
}

/* A stream that waited for several senders at once would hold up each until the others have come to
 * it, who may need that one to get there. So of several senders those are taken that are there. */
static int can_be_taken(const struct ccl_lead *lead, const struct ccl_mail *mail)
{
    return mail->is_mixed && mail->capture == 0 ? is_sent(lead, mail) : has_come(lead, mail);
}

/* The first receive on the stream of receive i; `near` is one of them, mostly of that stream. */
static struct ccl_mail *first_of_stream(struct ccl_lead *lead, size_t i, struct ccl_mail *near)
{
    struct ccl_mail *mail = near != NULL ? near : lead->mails;
    cudaStream_t stream = lead->mails[i].op.stream;
    if (is_send(mail) || mail->op.stream != stream)
        for (mail = lead->mails; is_send(mail) || mail->op.stream != stream;) mail++;
    return mail;
}

static void find_mixed(struct ccl_lead *lead)
{
    struct ccl_mail *first = NULL;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < lead->nmails; i++) {
            struct ccl_mail *mail = &lead->mails[i];
            if (is_send(mail)) continue;
            first = first_of_stream(lead, i, first);
            first->is_mixed |= first->pair != mail->pair;
            mail->is_mixed = first->is_mixed;
        }
}

/* All receives of the group have come, or the time is over. A graph takes what is there: its
 * receives are waited for. */
static void park(struct ccl_lead *lead)
{
    uint64_t start_ns = ccl_clock_ns();
    for (size_t i = 0; i < lead->nmails; i++)
        while (!is_send(&lead->mails[i]) && !can_be_taken(lead, &lead->mails[i])) {
            uint64_t past_us = (ccl_clock_ns() - start_ns) / 1000;
            int is_late = past_us >= ccl_park_us(&lead->mails[i].op) && lead->mails[i].capture == 0;
            if (is_late || ccl_lead_has_failed(lead)) return;
            (void)ccl_lead_work(lead);
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
        if (can_be_taken(lead, mail)) list[n++] = mail;
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
    find_mixed(lead);
    park(lead);
    TRY(ccl_clique_error(exec->clique));
    for (size_t i = 0; i < lead->nmails; i++)
        if (!is_send(&lead->mails[i]) && !lead->mails[i].is_over) TRY(take_stream(lead, i));
    for (size_t i = 0; i < lead->nmails; i++) {
        struct ccl_mail *mail = &lead->mails[i];
        if (!is_send(mail)) continue;
        TRY(await_taken(lead, mail));
        if (mail->capture == 0)
            TRY(ccl_track_add(&exec->track, mail->op.stream, mail->op.comm->rank));
    }
    lead->nmails = 0;
    return ncclSuccess;
}

/* ---- the status ---- */

int ccl_mail_waiting(const struct ncclComm *comm, int *peer, char *text, size_t bytes)
{
    const struct ccl_exec *exec = comm->exec;
    const struct ccl_lead *lead = exec->lead;
    uint16_t mine = local_of(exec, comm->rank);
    for (uint16_t its = 0; its < exec->nlocal; its++)
        for (int sends = 0; sends < 2; sends++) {
            size_t pair =
                sends ? (size_t)mine * exec->nlocal + its : (size_t)its * exec->nlocal + mine;
            int rank = exec->view.rank_of[exec->first_slot + its];
            uint64_t count = __atomic_load_n(&lead->counts[pair], __ATOMIC_RELAXED);
            if (count == 0 || is_taken(lead, pair, count)) continue;
            snprintf(text, bytes, "%s rank %d: waits for ranks %d (%s)",
                     sends ? "Send to" : "Recv from", rank, rank,
                     sends ? "takes no data" : "no data");
            *peer = rank;
            return 1;
        }
    return 0;
}
