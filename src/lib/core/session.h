/* session.h: how the ranks of a communicator meet again after its initialisation, for calls that
 * all of them make: splits, windows, suspension. One of them makes the id of a session and writes
 * it to the others, in letters over the mesh, or within the process; the session is one of boot.h.
 */
#ifndef CCL_CORE_SESSION_H
#define CCL_CORE_SESSION_H

#include "boot/boot.h"
#include "boot/wire.h"

#include <pthread.h>

struct ncclComm;
struct ccl_clique;

struct ccl_making {
    struct ncclComm *comm; /* NULL: nothing */
    const uint8_t *with;   /* [nranks] */
};

/* Letters to the ranks of this process that they have not read, in a clique. */
struct ccl_letters {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct ccl_letter *head, *tail;
    uint8_t *over;              /* [nprocs] nothing more comes from that process */
    uint8_t *died;              /* [nprocs] because it died */
    uint8_t *gone;              /* [nranks] ranks of this process that have ended */
    struct ccl_making *makings; /* [nranks] of this process, what their calls initialise */
};
ncclResult_t ccl_letters_open(struct ccl_letters *letters, size_t nprocs, size_t nranks);
void ccl_letters_close(struct ccl_letters *letters);
/* A letter has come; dropped with a warning when memory is out. */
void ccl_letters_take(struct ccl_letters *letters, const struct ccl_wire_letter *letter);
/* The end of a process, and of a rank of this one. */
void ccl_letters_end(struct ccl_clique *clique, int proc, int died);
void ccl_letters_end_rank(struct ccl_letters *letters, int rank);

/* A call that waits for other ranks begins: before its job is added (core/jobs.h). */
void ccl_session_begin(struct ncclComm *comm);
/* In the job: ncclInvalidUsage when an earlier call of the group has finalized the communicator. */
ncclResult_t ccl_session_lives(const struct ncclComm *comm, const char *function);
/* It shall end: an abort, or another of its group has failed. Any thread; `cancel` of such jobs. */
void ccl_session_halt(struct ncclComm *comm);
/* What it initialises from here on ends by the same, and when a process dies of which a rank takes
 * part: with[rank], NULL for all. Returns how that ended, in place of `rc`, which it gave. */
void ccl_session_making(struct ncclComm *comm, struct ncclComm *made, const uint8_t *with);
ncclResult_t ccl_session_made(struct ncclComm *comm, const char *function, ncclResult_t rc);

/* Opens a session of all ranks of a live communicator, in which they go through
 * ccl_boot_allgather together, and close it. Blocks until all ranks have called, each in a
 * thread or process of its own or all in one group (ccl_group_add_job); at the deadline
 * (CHORUS_INIT_TIMEOUT_MS) ncclTimeout naming who is missing; ncclInvalidUsage when ranks call
 * different functions; ncclRemoteError when one has gone; the communicator's error when it fails.
 * `function` is named in every text and kept in letters. */
ncclResult_t ccl_session_open(struct ncclComm *comm, const char *function, struct ccl_boot **out);

/* Closes it. A failure of this rank is told to the others before; when the communicator failed
 * meanwhile, that is the result. */
ncclResult_t ccl_session_close(struct ncclComm *comm, const char *function, struct ccl_boot *boot,
                               ncclResult_t rc);

/* ---- the parts of it, for calls that only some ranks make ---- */

/* Writes the id of a session of `nranks` to `n` ranks; the own one is passed over. With nranks 0
 * the invitation is withdrawn: who has not read it will not, so that a later call finds the later
 * letter. */
struct ccl_invitation {
    const char *function;
    const int *ranks;
    int n, nranks;
    ncclUniqueId id;
};
ncclResult_t ccl_session_invite(struct ncclComm *comm, const struct ccl_invitation *invitation);
/* Waits for the letter of rank `from`, or of whoever writes first (-1). */
ncclResult_t ccl_session_await(struct ncclComm *comm, const char *function, int from,
                               struct ccl_wire_letter *letter);
/* ncclInvalidUsage when the letter is of another call. */
ncclResult_t ccl_session_check(const struct ncclComm *comm, const char *function,
                               const struct ccl_wire_letter *letter);

#endif
