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

/* Letters to the ranks of this process that they have not read, in a clique. */
struct ccl_letters {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct ccl_letter *head, *tail;
    uint8_t *over; /* [nprocs] nothing more comes from that process */
};
ncclResult_t ccl_letters_open(struct ccl_letters *letters, size_t nprocs);
void ccl_letters_close(struct ccl_letters *letters);
/* A letter has come; dropped with a warning when memory is out. */
void ccl_letters_take(struct ccl_letters *letters, const struct ccl_wire_letter *letter);
void ccl_letters_end(struct ccl_letters *letters, int proc);

/* A call that waits for other ranks begins: before its job is added (core/jobs.h). */
void ccl_session_begin(struct ncclComm *comm);
/* It shall end: an abort, or another of its group has failed. Any thread; `cancel` of such jobs. */
void ccl_session_halt(struct ncclComm *comm);
/* What it initialises from here on (NULL: nothing more) ends by the same. */
void ccl_session_making(struct ncclComm *comm, struct ncclComm *made);

/* Opens a session of all ranks of a live communicator, in which they go through
 * ccl_boot_allgather together, and close it. Blocks until all ranks have called, each in a
 * thread or process of its own or all in one group (ccl_group_add_job); at the deadline
 * (CHORUS_INIT_TIMEOUT_MS) ncclTimeout naming who is missing; ncclInvalidUsage when ranks call
 * different functions; ncclRemoteError when one has gone; the communicator's error when it fails.
 * `function` is named in every text and kept in letters. */
ncclResult_t ccl_session_open(struct ncclComm *comm, const char *function, struct ccl_boot **out);

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
