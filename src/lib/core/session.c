/* session.c: letters and the sessions that they invite to. */
#include "core/session.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/param.h"
#include "core/comm.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

_Static_assert(sizeof(ncclUniqueId) == CCL_WIRE_ID_BYTES, "a letter holds an id");

enum { LOOK_MS = 20 }; /* how often a wait looks at what nobody signals */

struct ccl_letter {
    struct ccl_letter *next;
    struct ccl_wire_letter wire;
};

ncclResult_t ccl_letters_open(struct ccl_letters *letters, size_t nprocs, size_t nranks)
{
    pthread_mutex_init(&letters->lock, NULL);
    pthread_cond_init(&letters->changed, NULL);
    TRY(CCL_NEW(&letters->over, nprocs));
    TRY(CCL_NEW(&letters->died, nprocs));
    TRY(CCL_NEW(&letters->gone, nranks));
    return CCL_NEW(&letters->makings, nranks);
}

void ccl_letters_close(struct ccl_letters *letters)
{
    while (letters->head != NULL) {
        struct ccl_letter *letter = letters->head;
        letters->head = letter->next;
        ccl_free(letter);
    }
    ccl_free(letters->over);
    ccl_free(letters->died);
    ccl_free(letters->gone);
    ccl_free(letters->makings);
    pthread_cond_destroy(&letters->changed);
    pthread_mutex_destroy(&letters->lock);
}

/* Takes a letter out of the list, which lies behind `before`. */
static void unlist(struct ccl_letters *letters, struct ccl_letter *letter,
                   struct ccl_letter *before)
{
    if (before == NULL)
        letters->head = letter->next;
    else
        before->next = letter->next;
    if (letters->tail == letter) letters->tail = before;
}

static void withdraw(struct ccl_letters *letters, const struct ccl_wire_letter *wire)
{
    struct ccl_letter *before = NULL, *letter;
    pthread_mutex_lock(&letters->lock);
    for (letter = letters->head; letter != NULL; before = letter, letter = letter->next)
        if (letter->wire.to == wire->to && memcmp(letter->wire.id, wire->id, sizeof wire->id) == 0)
            break;
    if (letter != NULL) unlist(letters, letter, before);
    pthread_mutex_unlock(&letters->lock);
    ccl_free(letter);
}

void ccl_letters_take(struct ccl_letters *letters, const struct ccl_wire_letter *wire)
{
    if (wire->nranks == 0) {
        withdraw(letters, wire);
        return;
    }
    struct ccl_letter *letter;
    if (CCL_NEW(&letter, 1) != ncclSuccess) {
        ccl_log(CCL_LOG_WARN, CCL_LOG_BOOTSTRAP, "no memory for a letter of rank %u to rank %u: %s",
                wire->from, wire->to, wire->call);
        return;
    }
    letter->wire = *wire;
    pthread_mutex_lock(&letters->lock);
    if (letters->head == NULL)
        letters->head = letter;
    else
        letters->tail->next = letter;
    letters->tail = letter;
    pthread_cond_broadcast(&letters->changed);
    pthread_mutex_unlock(&letters->lock);
}

/* A process that died and takes part in what is made; -1: none. With the lock held. */
static int find_dead(const struct ccl_clique *clique, const struct ccl_making *making)
{
    const struct ccl_topo *topo = clique->topo;
    for (uint16_t r = 0; r < topo->nranks; r++)
        if (clique->letters.died[topo->proc_of[r]] && (making->with == NULL || making->with[r]))
            return topo->proc_of[r];
    return -1;
}

void ccl_letters_end(struct ccl_clique *clique, int proc, int died)
{
    struct ccl_letters *letters = &clique->letters;
    pthread_mutex_lock(&letters->lock);
    letters->over[proc] = 1;
    letters->died[proc] = (uint8_t)died;
    for (uint16_t r = 0; r < clique->topo->nranks; r++) {
        const struct ccl_making *making = &letters->makings[r];
        if (making->comm != NULL && find_dead(clique, making) >= 0)
            (void)ccl_comm_cancel(making->comm);
    }
    pthread_cond_broadcast(&letters->changed);
    pthread_mutex_unlock(&letters->lock);
}

void ccl_letters_end_rank(struct ccl_letters *letters, int rank)
{
    pthread_mutex_lock(&letters->lock);
    letters->gone[rank] = 1;
    pthread_cond_broadcast(&letters->changed);
    pthread_mutex_unlock(&letters->lock);
}

ncclResult_t ccl_session_invite(struct ncclComm *comm, const struct ccl_invitation *invitation)
{
    struct ccl_clique *clique = comm->clique;
    struct ccl_wire_letter letter = {.from = (uint32_t)comm->rank,
                                     .nranks = (uint32_t)invitation->nranks};
    snprintf(letter.call, sizeof letter.call, "%s", invitation->function);
    memcpy(letter.id, &invitation->id, sizeof letter.id);
    for (int i = 0; i < invitation->n; i++) {
        int rank = invitation->ranks[i];
        if (rank == comm->rank) continue;
        letter.to = (uint32_t)rank;
        uint16_t proc = clique->topo->proc_of[rank];
        if (proc == clique->proc)
            ccl_letters_take(&clique->letters, &letter);
        else
            TRY(ccl_mesh_write(clique->mesh, proc, &letter));
    }
    return ncclSuccess;
}

static int is_call(const struct ccl_wire_letter *letter, const char *function)
{
    return strncmp(letter->call, function, sizeof letter->call - 1) == 0;
}

/* Whether it is the letter that a call waits for: the next one of that rank, whatever it called; or
 * of anyone who made the same call. */
static int is_awaited(const struct ccl_wire_letter *letter, const struct ncclComm *comm,
                      const char *function, int from)
{
    if (letter->to != (uint32_t)comm->rank) return 0;
    return from >= 0 ? letter->from == (uint32_t)from : is_call(letter, function);
}

/* Takes the first such letter off the list. */
static struct ccl_letter *find_letter(struct ccl_letters *letters, const struct ncclComm *comm,
                                      const char *function, int from)
{
    struct ccl_letter *before = NULL;
    for (struct ccl_letter *letter = letters->head; letter != NULL; letter = letter->next) {
        if (is_awaited(&letter->wire, comm, function, from)) {
            unlist(letters, letter, before);
            return letter;
        }
        before = letter;
    }
    return NULL;
}

/* The process of that rank, or any other one, may still write. */
static int may_come(const struct ncclComm *comm, int from)
{
    const struct ccl_clique *clique = comm->clique;
    if (from >= 0 && clique->letters.gone[from]) return 0;
    if (from >= 0) return !clique->letters.over[clique->topo->proc_of[from]];
    for (uint16_t p = 0; p < clique->topo->nprocs; p++)
        if (!clique->letters.over[p]) return 1;
    return 0;
}

static _Atomic uint32_t *halt_of(const struct ncclComm *comm)
{
    return &comm->clique->halts[comm->rank];
}

/* The failure stores the error before it sets the word. Acquire pairs with that: what clears a word
 * that was set finds the error, too. */
void ccl_session_begin(struct ncclComm *comm)
{
    (void)atomic_exchange(halt_of(comm), 0);
    if (ccl_clique_error(comm->clique) != ncclSuccess && !ccl_comm_outlives(comm))
        atomic_store(halt_of(comm), 1);
}

ncclResult_t ccl_session_lives(const struct ncclComm *comm, const char *function)
{
    if (atomic_load_explicit(&comm->state, memory_order_relaxed) != CCL_COMM_FINALIZED)
        return ncclSuccess;
    return ccl_err(ncclInvalidUsage, "%s: rank %d: comm %p is finalized", function, comm->rank,
                   (const void *)comm);
}

void ccl_session_halt(struct ncclComm *comm)
{
    struct ccl_letters *letters = &comm->clique->letters;
    const struct ccl_making *making = &letters->makings[comm->rank];
    pthread_mutex_lock(&letters->lock);
    atomic_store(halt_of(comm), 1);
    if (making->comm != NULL) (void)ccl_comm_cancel(making->comm);
    pthread_mutex_unlock(&letters->lock);
}

void ccl_session_making(struct ncclComm *comm, struct ncclComm *made, const uint8_t *with)
{
    struct ccl_letters *letters = &comm->clique->letters;
    struct ccl_making *making = &letters->makings[comm->rank];
    pthread_mutex_lock(&letters->lock);
    *making = (struct ccl_making){made, with};
    if (atomic_load(halt_of(comm)) != 0 || find_dead(comm->clique, making) >= 0)
        (void)ccl_comm_cancel(made);
    pthread_mutex_unlock(&letters->lock);
}

/* What was cancelled because of a death says so. */
ncclResult_t ccl_session_made(struct ncclComm *comm, const char *function, ncclResult_t rc)
{
    struct ccl_letters *letters = &comm->clique->letters;
    struct ccl_making *making = &letters->makings[comm->rank];
    pthread_mutex_lock(&letters->lock);
    int dead = find_dead(comm->clique, making);
    *making = (struct ccl_making){NULL, NULL};
    pthread_mutex_unlock(&letters->lock);
    if (rc == ncclSuccess || dead < 0) return rc;
    return ccl_err(ncclRemoteError, "%s: rank %d: the process of rank %d died meanwhile", function,
                   comm->rank, comm->clique->topo->first_rank[dead]);
}

static ncclResult_t fail_aborted(const struct ncclComm *comm, const char *function)
{
    ncclResult_t error = ccl_clique_error(comm->clique);
    if (ccl_comm_outlives(comm) || error == ncclSuccess)
        return ccl_err(ncclInternalError, "%s: rank %d: aborted", function, comm->rank);
    return ccl_err(error, "%s: rank %d: the communicator has failed: %s", function, comm->rank,
                   comm->clique->error_text);
}

static void who(int from, char out[48])
{
    if (from >= 0)
        snprintf(out, 48, "rank %d", from);
    else
        snprintf(out, 48, "the rank that holds the id");
}

/* With the lock of the letters held. */
static ncclResult_t wait_letter(struct ncclComm *comm, const char *function, int from,
                                struct ccl_letter **out)
{
    struct ccl_letters *letters = &comm->clique->letters;
    const _Atomic uint32_t *word = halt_of(comm);
    int64_t timeout_ms = ccl_param_int(CCL_PARAM_INIT_TIMEOUT_MS);
    uint64_t deadline_ns = ccl_clock_deadline_ns(timeout_ms);
    char name[48];
    who(from, name);
    while ((*out = find_letter(letters, comm, function, from)) == NULL) {
        if (atomic_load_explicit(word, memory_order_acquire) != 0)
            return fail_aborted(comm, function);
        if (!may_come(comm, from))
            return ccl_err(ncclRemoteError, "%s: rank %d: %s has left the communicator", function,
                           comm->rank, name);
        if (ccl_clock_ns() >= deadline_ns)
            return ccl_err(ncclTimeout,
                           "%s: rank %d: %s has not called within %lld ms (ranks of one thread "
                           "call in a group)",
                           function, comm->rank, name, (long long)timeout_ms);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_MS * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&letters->changed, &letters->lock, &until);
    }
    return ncclSuccess;
}

ncclResult_t ccl_session_await(struct ncclComm *comm, const char *function, int from,
                               struct ccl_wire_letter *out)
{
    struct ccl_letters *letters = &comm->clique->letters;
    struct ccl_letter *letter;
    pthread_mutex_lock(&letters->lock);
    ncclResult_t rc = wait_letter(comm, function, from, &letter);
    pthread_mutex_unlock(&letters->lock);
    if (rc != ncclSuccess) return rc;
    *out = letter->wire;
    ccl_free(letter);
    return ncclSuccess;
}

ncclResult_t ccl_session_check(const struct ncclComm *comm, const char *function,
                               const struct ccl_wire_letter *letter)
{
    if (is_call(letter, function)) return ncclSuccess;
    return ccl_err(ncclInvalidUsage, "%s: ranks disagree: rank %d called it, rank %u called %s",
                   function, comm->rank, letter->from, letter->call);
}

/* nranks 0: withdraws. */
static ncclResult_t write_all(struct ncclComm *comm, const char *function, int nranks,
                              const ncclUniqueId *id)
{
    int *ranks;
    TRY(CCL_NEW(&ranks, (size_t)comm->nranks));
    for (int r = 0; r < comm->nranks; r++) ranks[r] = r;
    ncclResult_t rc = ccl_session_invite(
        comm,
        &(struct ccl_invitation){
            .function = function, .ranks = ranks, .n = comm->nranks, .nranks = nranks, .id = *id});
    ccl_free(ranks);
    return rc;
}

static ncclResult_t invite_all(struct ncclComm *comm, const char *function,
                               struct ccl_wire_letter *letter)
{
    ncclUniqueId id;
    TRY(ccl_boot_make_own_id(&id));
    ncclResult_t rc = write_all(comm, function, comm->nranks, &id);
    if (rc != ncclSuccess) {
        char text[CCL_ERR_TEXT_BYTES];
        snprintf(text, sizeof text, "%s", ccl_err_last());
        ccl_boot_drop_id(&id);
        (void)write_all(comm, function, 0, &id);
        rc = ccl_err(rc, "%s", text);
    }
    snprintf(letter->call, sizeof letter->call, "%s", function);
    memcpy(letter->id, &id, sizeof letter->id);
    return rc;
}

/* Who called something else comes to the session all the same, to tell the others. */
static ncclResult_t tell_disagreement(struct ccl_boot *boot, ncclResult_t code)
{
    char text[CCL_ERR_TEXT_BYTES];
    snprintf(text, sizeof text, "%s", ccl_err_last());
    ccl_boot_fail(boot, code, text);
    ccl_boot_close(boot);
    return ccl_err(code, "%s", text);
}

ncclResult_t ccl_session_open(struct ncclComm *comm, const char *function, struct ccl_boot **out)
{
    struct ccl_wire_letter letter;
    struct ccl_boot_args args = {
        .nranks = comm->nranks, .rank = comm->rank, .abort_word = halt_of(comm)};
    *out = NULL;
    TRY(ccl_session_lives(comm, function));
    if (comm->rank == 0)
        TRY(invite_all(comm, function, &letter));
    else
        TRY(ccl_session_await(comm, function, 0, &letter));
    memcpy(&args.id, letter.id, sizeof args.id);
    ncclResult_t rc = ccl_boot_open(&args, out);
    if (rc != ncclSuccess) {
        char text[CCL_ERR_TEXT_BYTES];
        snprintf(text, sizeof text, "%s", ccl_err_last());
        if (comm->rank == 0) (void)write_all(comm, function, 0, &args.id);
        if (atomic_load_explicit(args.abort_word, memory_order_acquire) != 0)
            return fail_aborted(comm, function);
        return ccl_err(rc, "%s: rank %d: %.900s", function, comm->rank, text);
    }
    rc = ccl_session_check(comm, function, &letter);
    if (rc == ncclSuccess) return rc;
    struct ccl_boot *boot = *out;
    *out = NULL;
    return tell_disagreement(boot, rc);
}

ncclResult_t ccl_session_close(struct ncclComm *comm, const char *function, struct ccl_boot *boot,
                               ncclResult_t rc)
{
    char text[CCL_ERR_TEXT_BYTES];
    if (rc != ncclSuccess && atomic_load(halt_of(comm)) != 0) rc = fail_aborted(comm, function);
    if (rc != ncclSuccess) {
        snprintf(text, sizeof text, "%s", ccl_err_last());
        ccl_boot_fail(boot, rc, text);
    }
    ccl_boot_close(boot);
    return rc == ncclSuccess ? rc : ccl_err(rc, "%s", text);
}
