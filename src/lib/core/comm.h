/* comm.h: the handle of one rank.
 *
 * Handles come from a pool whose memory is never given back, so that reading the magic of a
 * destroyed handle is defined. One handle is used by one thread at a time, but for queries
 * and abort.
 */
#ifndef CCL_CORE_COMM_H
#define CCL_CORE_COMM_H

#include "base/err.h"
#include "core/clique.h"
#include "core/core.h"

#define CCL_COMM_MAGIC 0x43686f7275734d31u

enum ccl_comm_state {
    CCL_COMM_FREE,
    CCL_COMM_STARTING,
    CCL_COMM_READY,
    CCL_COMM_FINALIZED,
    CCL_COMM_REVOKED, /* its operations have ended; new communicators can be made of it */
    CCL_COMM_SUSPENDED,
    CCL_COMM_BROKEN, /* its initialisation failed behind its caller's back */
    CCL_COMM_NSTATES
};

/* Who decides how an initialisation ends. */
enum { CCL_INIT_OPEN, CCL_INIT_ABORTED, CCL_INIT_CLOSED };

/* A PreMulSum operator; its id is CCL_REDOP_FIRST plus its index. */
struct ccl_custom_op {
    int used;
    ncclDataType_t type;
    const void *scalar_at; /* device residence: read when the kernel runs */
    uint64_t scalar;
};

struct ccl_reg {
    struct ccl_reg *next;
    char *base;
    size_t bytes;
    int refs;
};

struct ccl_window;

/* Places of a rank's notes: of its send/recv kernel, which sees the first alone, and of its waits
 * for signals. */
enum { CCL_NOTE_MESSAGE, CCL_NOTE_SIGNAL, CCL_NNOTES };

/* How the ranks of an executor came together: alone, all in one group end, or one by one. */
enum ccl_join_way { CCL_JOIN_NONE, CCL_JOIN_EVENTS, CCL_JOIN_GATES };

/* What the latest collective ran; nchannels is 0 before the first. */
struct ccl_latest {
    enum ccl_coll coll;
    const struct ccl_plan *plan; /* NULL: sends and receives */
    uint64_t ticket;             /* of the kernel, where several executors take part */
    uint16_t nchannels;
    uint8_t join; /* enum ccl_join_way */
};

/* Both magics are atomic: whoever has a handle may look at it while it ends elsewhere. */
struct ncclComm {
    _Atomic uint64_t magic_start;
    struct ncclComm *next_free;
    _Atomic int state;          /* enum ccl_comm_state */
    _Atomic uint32_t init_gate; /* what boot polls as abort word: non-zero ends its waits */
    struct ccl_clique *clique;  /* NULL until initialised */
    struct ccl_exec *exec;
    int nranks, rank, device;
    cudaStream_t checked; /* the latest stream that was found to be of its device */
    ncclConfig_t config;
    unsigned caller_version; /* of the header that the program was built with; 0: not known */
    char name[64], net_name[32];

    struct ccl_latest latest; /* guarded by the executor's lock */
    uint64_t nsets;           /* collectives called so far */
    struct ccl_call call;     /* the latest of them that became messages */
    _Atomic uint32_t flying;  /* kernels on this rank's streams that have not retired */
    struct ccl_conn **conns;  /* [nranks][2] of send/recv, each made at first use */
    uint64_t *p2p_note;       /* what its kernels wait for, by CCL_NOTE_: memory that both reach */
    struct ccl_chain far;     /* of its kernels of messages to other executors on GPUs */
    uint32_t *taken;          /* [nranks] signals taken so far, by its kernels; core/rma.h */
    struct ccl_window *windows;
    struct ccl_custom_op *ops;
    size_t nops;
    struct ccl_reg *regs;
    pthread_mutex_t own_lock; /* guards ops, regs and windows, for programs whose threads share a
                               * handle */

    _Atomic uint32_t inside; /* jobs that are running (core/jobs.h) */
    /* Jobs behind the caller's back. */
    _Atomic int busy;
    int has_worker;
    pthread_t worker;
    _Atomic int job_result;    /* ncclResult_t of the latest, until there is another */
    ncclResult_t error_before; /* of one that was revoked */
    uint64_t given_back;       /* bytes, of one that is suspended */
    _Atomic uint64_t magic_end;
};

enum { CCL_REDOP_FIRST = ncclNumOps };

ncclResult_t ccl_comm_take(struct ncclComm **out);
void ccl_comm_give_back(struct ncclComm *comm);
/* Ends a handle whose initialisation failed or never ran; *handle becomes NULL. */
void ccl_comm_drop(struct ncclComm *comm, struct ncclComm **handle);

/* What an API call asks of a state: a transition of the table in comm.c. */
enum ccl_comm_event {
    CCL_COMM_STARTED,
    CCL_COMM_FAILED,
    CCL_COMM_BREAK,
    CCL_COMM_FINALIZE,
    CCL_COMM_REVOKE,
    CCL_COMM_SUSPEND,
    CCL_COMM_RESUME,
    CCL_COMM_FREED,
    CCL_COMM_NEVENTS
};
/* Aborts an initialisation; 0 when it is over already. The thread that runs it ends it and gives
 * the handle back. */
int ccl_comm_cancel(struct ncclComm *comm);
/* Still being initialised. */
int ccl_comm_is_starting(ncclComm_t comm);
/* For texts: "already finalized". */
const char *ccl_comm_state_name(const struct ncclComm *comm);
/* New communicators can be made of it even though its operations have failed: it is revoked. */
int ccl_comm_outlives(const struct ncclComm *comm);
/* Moves the state, or ncclInvalidArgument when the table has no such move. */
ncclResult_t ccl_comm_move(struct ncclComm *comm, enum ccl_comm_event event);

/* core/comm_init.c: the collective part of an initialisation, on any thread. When it fails, the
 * handle is dropped or marked later: not before nobody is left who may cancel it. */
ncclResult_t ccl_comm_init_job(struct ncclComm *comm, const struct ccl_init_args *args);
/* core/comm_init.c: makes a communicator on this thread, for a call on `parent`, with which it ends
 * (ccl_session_making); *args->comm is set when all is well. */
ncclResult_t ccl_comm_make(struct ncclComm *parent, const struct ccl_init_args *args,
                           const uint8_t *with);

int ccl_comm_is_suspended(const struct ncclComm *comm);
/* The rank's kernels have retired, or the communicator failed. */
int ccl_comm_is_idle(struct ncclComm *comm);
/* Waits until the rank's kernels have retired or the communicator failed. */
void ccl_comm_drain(struct ncclComm *comm);

#endif
