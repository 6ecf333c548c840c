/* health.c: what a rank is doing and whom it waits for, in one line. Reads hints that kernels
 * leave in their notes; never waits for a lock. */
#include "base/err.h"
#include "base/param.h"
#include "core/comm.h"
#include "core/join.h"
#include "core/lead.h"
#include "core/mail.h"
#include "core/messages.h"
#include "core/pairs.h"

#include <stdio.h>
#include <string.h>

/* Adds to the text that a process closed its part, so that the wait has no end. */
static void tell_left_proc(const struct ccl_clique *clique, uint16_t proc, char *text, size_t bytes)
{
    const struct ccl_topo *topo = clique->topo;
    size_t used = strlen(text);
    if (__atomic_load_n(&clique->left[proc], __ATOMIC_RELAXED))
        snprintf(text + used, bytes - used, "; the process of rank %d has left",
                 topo->first_rank[proc]);
}

static void tell_left(const struct ccl_clique *clique, uint32_t exec, char *text, size_t bytes)
{
    tell_left_proc(clique, clique->topo->proc_of_exec[exec], text, bytes);
}

static void list_missing(const struct ccl_set *set, char *text, size_t bytes)
{
    uint8_t in[UINT16_MAX + 1] = {0};
    const struct ccl_exec *exec = set->exec;
    for (uint16_t i = 0; i < exec->nlocal; i++)
        if (exec->member_of[i] != CCL_ELSEWHERE)
            in[exec->view.rank_of[exec->first_slot + i]] =
                !set->members[exec->member_of[i]].arrived;
    ccl_topo_list(in, exec->view.nranks, text, bytes);
}

static void describe_note(const struct ccl_clique *clique, uint64_t note, char *text, size_t bytes)
{
    static const char *const phases[] = {
        [CCL_WAIT_NONE] = "runs",
        [CCL_WAIT_GATE] = "waits for earlier work on the stream of a member",
        [CCL_WAIT_MEET] = "waits for ranks %s to reach the meeting",
        [CCL_WAIT_DATA] = "waits for data from ranks %s",
        [CCL_WAIT_CREDIT] = "waits for ranks %s to take data",
        [CCL_WAIT_DISAGREE] = "ended: other ranks called something else",
    };
    char ranks[256];
    uint32_t kind = (uint32_t)(note >> 32);
    ccl_topo_list_exec(clique->topo, (uint16_t)note, ranks, sizeof ranks);
    switch (kind) {
    case CCL_WAIT_MEET:
    case CCL_WAIT_DATA:
    case CCL_WAIT_CREDIT: {
        const char *phase = phases[kind], *hole = strstr(phase, "%s");
        snprintf(text, bytes, "%.*s%s%s", (int)(hole - phase), phase, ranks, hole + 2);
        tell_left(clique, (uint32_t)note, text, bytes);
        break;
    }
    default: snprintf(text, bytes, "%s", phases[kind]);
    }
}

/* A kernel in whose place nothing waits may not have started at all. */
static void tell_queues(char *text, size_t bytes)
{
    int64_t nqueues = ccl_param_int(CCL_PARAM_HOST_QUEUES);
    size_t used = strlen(text);
    if (nqueues > 0)
        snprintf(text + used, bytes - used,
                 "; or is held up in a hardware queue (CHORUS_HOST_QUEUES=%lld) by what was queued "
                 "behind the call of another rank",
                 (long long)nqueues);
}

static int describe_set(const struct ccl_exec *exec, const struct ncclComm *comm, char *text,
                        size_t bytes)
{
    for (const struct ccl_set *set = exec->collectives.flying; set != NULL; set = set->next) {
        uint16_t index = exec->member_of[exec->view.slot_of[comm->rank] - exec->first_slot];
        if (!set->members[index].arrived) continue;
        int is_here = exec->lead == NULL && atomic_load(&set->refs) != 0; /* else describe_lead */
        if (set->state == CCL_SET_LAUNCHED && !is_here) continue;
        const struct ccl_op *op = &set->members[index].record.op;
        int used = snprintf(text, bytes, "%s #%llu: ", ccl_coll_name(op->coll),
                            (unsigned long long)set->seq);
        if ((size_t)used >= bytes) return 1;
        if (set->state == CCL_SET_LAUNCHED) {
            uint64_t note = __atomic_load_n(&exec->words->note, __ATOMIC_RELAXED);
            describe_note(exec->clique, note, text + used, bytes - (size_t)used);
            if (note >> 32 == CCL_WAIT_NONE) tell_queues(text, bytes);
        } else {
            char missing[256];
            list_missing(set, missing, sizeof missing);
            snprintf(text + used, bytes - (size_t)used, "waits for ranks %s (have not called)",
                     missing);
        }
        return 1;
    }
    return 0;
}

/* A kernel on a GPU that waits for others; the sets of the host side do not know. */
static int describe_kernel(const struct ncclComm *comm, char *text, size_t bytes)
{
    uint64_t note = __atomic_load_n(&comm->exec->words->note, __ATOMIC_RELAXED);
    if (ccl_device()->retires || note >> 32 == CCL_WAIT_NONE) return 0;
    if (comm->latest.nchannels == 0) return 0;
    int used = snprintf(text, bytes, "%s: ", ccl_coll_name(comm->latest.coll));
    if ((size_t)used < bytes) describe_note(comm->clique, note, text + used, bytes - (size_t)used);
    return 1;
}

static int describe_pending(const struct ccl_exec *exec, const struct ncclComm *comm, char *text,
                            size_t bytes)
{
    int n = exec->nlocal, self = exec->view.slot_of[comm->rank] - exec->first_slot;
    for (int local = 0; local < n; local++)
        for (int is_send = 0; is_send < 2; is_send++) {
            int from = is_send ? self : local, to = is_send ? local : self;
            const struct ccl_pending *pending = exec->queues[from * n + to].head;
            if (pending == NULL || pending->coll != (is_send ? CCL_SEND : CCL_RECV)) continue;
            int peer = exec->view.rank_of[exec->first_slot + local];
            snprintf(text, bytes, "%s %s rank %d: waits for ranks %d (have not called)",
                     is_send ? "Send" : "Recv", is_send ? "to" : "from", peer, peer);
            return 1;
        }
    return 0;
}

/* A collective with ranks of other processes on the same GPU. Needs no lock. */
static int describe_lead(const struct ncclComm *comm, char *text, size_t bytes)
{
    uint8_t missing[UINT16_MAX + 1] = {0};
    uint64_t seq;
    if (comm->exec->lead == NULL) return 0;
    const char *name = ccl_lead_waiting(comm->exec, &seq, missing);
    if (name == NULL) return 0;
    char ranks[256];
    ccl_topo_list(missing, comm->nranks, ranks, sizeof ranks);
    if (memchr(missing, 1, (size_t)comm->nranks) == NULL)
        snprintf(text, bytes, "%s #%llu: runs", name, (unsigned long long)seq);
    else
        snprintf(text, bytes, "%s #%llu: waits for ranks %s (have not called)", name,
                 (unsigned long long)seq, ranks);
    for (int r = 0, told = -1; r < comm->nranks; r++) {
        int proc = comm->clique->topo->proc_of[r];
        if (missing[r] && proc != told) tell_left_proc(comm->clique, (uint16_t)proc, text, bytes);
        if (missing[r]) told = proc;
    }
    return 1;
}

static int describe_message(const struct ncclComm *comm, char *text, size_t bytes)
{
    int peer;
    if (comm->exec->lead != NULL && ccl_mail_waiting(comm, &peer, text, bytes)) {
        tell_left_proc(comm->clique, comm->clique->topo->proc_of[peer], text, bytes);
        return 1;
    }
    const struct ccl_op *op = ccl_messages_waiting(comm->exec, comm);
    if (op == NULL) return 0;
    snprintf(text, bytes, "%s %s rank %d: waits for ranks %d (have not called)",
             ccl_coll_name(op->coll), op->coll == CCL_SEND ? "to" : "from", op->root, op->root);
    return 1;
}

static int describe_halves(const struct ncclComm *comm, char *text, size_t bytes)
{
    uint64_t note = __atomic_load_n(&comm->p2p_note[CCL_NOTE_MESSAGE], __ATOMIC_RELAXED);
    uint32_t kind = (uint32_t)(note >> 32);
    if (kind != CCL_WAIT_DATA && kind != CCL_WAIT_CREDIT) return 0;
    snprintf(text, bytes, "%s rank %u: waits for ranks %u (%s)",
             kind == CCL_WAIT_DATA ? "Recv from" : "Send to", (uint32_t)note, (uint32_t)note,
             kind == CCL_WAIT_DATA ? "no data" : "takes no data");
    tell_left(comm->clique, comm->clique->topo->exec_of[(uint32_t)note], text, bytes);
    return 1;
}

static int describe_signals(const struct ncclComm *comm, char *text, size_t bytes)
{
    uint64_t note = __atomic_load_n(&comm->p2p_note[CCL_NOTE_SIGNAL], __ATOMIC_RELAXED);
    if (note >> 32 != CCL_WAIT_RAISE) return 0;
    snprintf(text, bytes, "WaitSignal: waits for a signal of ranks %u", (uint32_t)note);
    tell_left_proc(comm->clique, comm->clique->topo->proc_of[(uint32_t)note], text, bytes);
    return 1;
}

ncclResult_t chorus_comm_status(ncclComm_t comm, char *text, size_t bytes)
{
    TRY(ccl_comm_check(comm, "chorus_comm_status"));
    if (text == NULL || bytes == 0)
        return ccl_err(ncclInvalidArgument, "chorus_comm_status: text is NULL or bytes is 0");
    if (ccl_comm_is_starting(comm)) {
        snprintf(text, bytes, "initialising");
        return ncclSuccess;
    }
    /* The lock is held while a call plans and launches; a watcher need not wait for that. Nor while
     * it waits for other processes, of which it is too far ahead. */
    if (pthread_mutex_trylock(&comm->exec->lock) != 0) {
        if (!describe_lead(comm, text, bytes)) snprintf(text, bytes, "inside a call");
        return ncclSuccess;
    }
    int idle = atomic_load(&comm->flying) == 0;
    if (!ccl_device()->retires) idle = ccl_track_is_idle(&comm->exec->track, comm->rank);
    if (idle)
        snprintf(text, bytes, "idle");
    else if (!describe_set(comm->exec, comm, text, bytes) && !describe_halves(comm, text, bytes) &&
             !describe_signals(comm, text, bytes) && !describe_kernel(comm, text, bytes) &&
             !describe_lead(comm, text, bytes) && !describe_message(comm, text, bytes) &&
             !describe_pending(comm->exec, comm, text, bytes))
        snprintf(text, bytes, "running");
    pthread_mutex_unlock(&comm->exec->lock);
    return ncclSuccess;
}
