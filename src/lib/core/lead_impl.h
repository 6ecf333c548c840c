/* lead_impl.h: what lead.c (shared memory), lead_run.c (operations), lead_late.c (those for which
 * somebody is late) and their like share.
 *
 * Operations are numbered from 1; what belongs to one lies at its number modulo CCL_LEAD_DEPTH, and
 * is not touched for another before the word "done" says that it is over.
 */
#ifndef CCL_CORE_LEAD_IMPL_H
#define CCL_CORE_LEAD_IMPL_H

#include "base/shm.h"
#include "core/await.h"
#include "core/lead.h"
#include "device/foreign.h"

enum { CCL_LEAD_DEPTH = 64, CCL_LEAD_LINE_BYTES = 64, CCL_LEAD_PINS = 3 };

/* What a rank brings, as its process tells it; references for what it has. */
struct ccl_lead_rank {
    struct ccl_foreign_ref in, out, scalar_at;
    uint64_t scalar;
    uint8_t has_in, has_out, has_scalar_at;
};

/* Release of `number` publishes the rest, and the process's part of the ranks. */
struct ccl_lead_post {
    uint64_t number;
    struct ccl_call call;
    uint64_t is_captured;
};

/* A message between ranks of two processes, core/mail.c: how its sender describes it. Release of
 * `number` publishes the rest. */
enum { CCL_MAIL_DEPTH = 256 };
struct ccl_mail_post {
    uint64_t number, bytes;
    struct ccl_foreign_ref buffer;
    uint64_t is_captured;
};

/* What can be captured in the life of a communicator: a graph keeps its words. */
enum { CCL_LEAD_GRAPHS = 4096, CCL_LEAD_GRAPH_MAILS = 256 };

/* One half of it, in the process that called. Pairs are numbered sender * nlocal + receiver, and
 * messages of a pair from 1. */
struct ccl_mail {
    struct ccl_op op;
    struct ccl_staging *staging; /* of a send that is no part of a graph */
    size_t pair;
    uint64_t number;
    uint64_t capture; /* 0: eager; else `graph` tells its words */
    uint32_t graph;
    int is_over;  /* a receive that was launched, or left to the thread */
    int is_mixed; /* a receive beside those from other ranks on its stream */
};

/* What a collective copies for a buffer that cannot be shared, core/lead_stage.c. */
struct ccl_lead_copy {
    struct ccl_foreign_ref *ref; /* to where it lies meanwhile */
    void *user;
    uint64_t bytes, at;
    uint8_t goes_in, comes_out;
};

/* A receive whose sender was late. */
struct ccl_mail_job {
    struct ccl_mail_job *next;
    struct ccl_mail mail;
    chorus_event_t ready;
};

/* A set whose other processes were late, in the order of their numbers. */
struct ccl_lead_job {
    struct ccl_lead_job *next;
    struct ccl_set *set;
};

/* What the leads of a clique share with other processes. */
struct ccl_lead_memory {
    struct ccl_lead_memory *next; /* of those that are to be given up */
    struct ccl_shm *segments;     /* [nsegments] of each process */
    void **words;                 /* [nwords] areas that are registered with the device */
    uint16_t nsegments, nwords;
};
/* Calls to be made while nothing is under way (ccl_clique_rest): unmaps what nobody uses. */
void ccl_lead_clean(void *unused);

struct ccl_lead {
    struct ccl_exec *exec;
    uint16_t nprocs, self; /* processes of the executor; self 0 leads */
    uint16_t *procs;       /* [nprocs] in the clique's numbers */
    int is_leader;
    char *words; /* [2 * nprocs + 1][DEPTH] lines: ready of each, done, end of each */
    size_t words_bytes;
    uint32_t *arrived;             /* [DEPTH] lines of the device: CTAs of a kernel that are done */
    struct ccl_lead_post *posts;   /* [nprocs][DEPTH] */
    struct ccl_lead_rank *ranks;   /* [DEPTH][nlocal] */
    uint32_t *sent, *taken;        /* [nlocal * nlocal][MAIL_DEPTH] words of messages, by pair */
    struct ccl_mail_post *letters; /* [nlocal * nlocal][MAIL_DEPTH] */
    uint32_t *graph_words;         /* [2][nprocs][GRAPHS]: ready, done of captured collectives */
    uint32_t *graph_letters;       /* [2][nlocal * nlocal][GRAPH_MAILS]: sent, taken */
    uint32_t ngraphs;              /* collectives captured so far */
    uint32_t *graph_counts;        /* [nlocal * nlocal] messages captured so far */
    struct ccl_region **kept;      /* mappings that graphs use */
    size_t nkept, kept_room;
    struct ccl_exporter **exporters;   /* [nprocs] to each of the others */
    struct ccl_importer **importers;   /* [nprocs] from each */
    int *sockets;                      /* [nprocs] of both */
    const char *names[CCL_LEAD_DEPTH]; /* of the operations, for the status */
    uint64_t latest;                   /* number */
    struct ccl_slot *slots;            /* [nlocal] of the set that is being launched */
    struct ccl_region **pins;          /* [DEPTH][nlocal * PINS] of the leader */

    struct ccl_lead_copy *copies; /* [nhere * PINS] of the collective that is being described */
    size_t ncopies;
    uint64_t copies_bytes;
    int is_for_graph;
    struct ccl_staging *staging; /* kept; NULL: not needed so far */
    struct ccl_staging *staged;  /* of this collective: that one, or one that a graph keeps */
    struct ccl_staging **graph_stagings;
    size_t ngraph_stagings, graph_stagings_room;

    uint64_t *counts;       /* [nlocal * nlocal] messages of the pair, by this process */
    struct ccl_mail *mails; /* of the group end in progress */
    size_t nmails, mails_room;
    struct ccl_mail_job *mail_jobs, *free_mail_jobs;
    struct ccl_region **mail_pins; /* [nlocal * nlocal][MAIL_DEPTH] */

    pthread_t thread; /* launches what was late, and tidies the mappings */
    int has_thread, ends;
    pthread_cond_t wake;
    struct ccl_lead_job *jobs, *last_job;
    cudaStream_t stream; /* of the thread; never waits, so that nothing on it holds up the rest */
};

/* Rows of words. */
static inline uint16_t ccl_lead_nrows(uint16_t nprocs)
{
    return (uint16_t)(2 * nprocs + 1);
}

/* Words, in number's place: of process q, of all when q is nprocs, or of the end of a process. */
static inline uint32_t *ccl_lead_word(const struct ccl_lead *lead, uint16_t q, uint64_t number)
{
    size_t line = q * (size_t)CCL_LEAD_DEPTH + number % CCL_LEAD_DEPTH;
    return (uint32_t *)(void *)(lead->words + line * CCL_LEAD_LINE_BYTES);
}

static inline struct ccl_lead_post *ccl_lead_post(const struct ccl_lead *lead, uint16_t q,
                                                  uint64_t number)
{
    return &lead->posts[q * (size_t)CCL_LEAD_DEPTH + number % CCL_LEAD_DEPTH];
}

static inline int ccl_lead_has_failed(const struct ccl_lead *lead)
{
    return ccl_clique_error(lead->exec->clique) != ncclSuccess;
}

/* Nothing more is launched. It closes when its own streams are idle: what has not run by then was
 * let go by a process that failed, of which this one may not have heard. Under the lock. */
static inline int ccl_lead_is_over(const struct ccl_lead *lead)
{
    return lead->ends || ccl_lead_has_failed(lead);
}

/* How process q finds a buffer of this one; span 0: it has to be staged. */
ncclResult_t ccl_lead_export(struct ccl_lead *lead, uint16_t q, const void *buffer, uint64_t bytes,
                             struct ccl_foreign_ref *ref);
/* A buffer of process q, mapped and pinned here. */
ncclResult_t ccl_lead_find(struct ccl_lead *lead, uint16_t q, const struct ccl_foreign_ref *ref,
                           uint64_t bytes, struct ccl_imported *found);
/* lead_stage.c: the copies of a collective for the leader. After _begin, _add lists them, giving
 * each its place; _in sets the references and copies; _out copies back unless `rc`, which it
 * returns, is an error, and is called whenever _in succeeded. */
void ccl_lead_stage_begin(struct ccl_lead *lead, int is_for_graph);
ncclResult_t ccl_lead_stage_add(struct ccl_lead *lead, const struct ccl_op *op,
                                struct ccl_lead_copy copy);
ncclResult_t ccl_lead_stage_in(struct ccl_lead *lead, cudaStream_t stream);
ncclResult_t ccl_lead_stage_out(struct ccl_lead *lead, cudaStream_t stream, ncclResult_t rc);
/* Copies what a send brings for process q. The caller marks mail->staging, where that is set, when
 * it has been read, and puts it back, after an error, too. */
ncclResult_t ccl_lead_stage_send(struct ccl_lead *lead, struct ccl_mail *mail, uint16_t q,
                                 struct ccl_foreign_ref *ref);
/* Buffers go back to the device. */
void ccl_lead_stage_close(struct ccl_lead *lead);
/* mail.c, by the thread: receives whose sender has come. */
ncclResult_t ccl_mail_work(struct ccl_lead *lead, int *progressed);
void ccl_mail_close(struct ccl_lead *lead);
/* lead_late.c: what `stream` has launched or waited for by now is all that the members wait for
 * that are held. */
ncclResult_t ccl_lead_let_go(struct ccl_set *set, cudaStream_t stream);
/* Others are late: the stream waits, and the thread launches. */
ncclResult_t ccl_lead_later(struct ccl_lead *lead, struct ccl_set *set, cudaStream_t stream,
                            uint64_t number);
/* Launches what was late and has come, by whoever holds the lock; 1: something moved. */
int ccl_lead_work(struct ccl_lead *lead);
/* The loop of the thread. */
void *ccl_lead_thread(void *lead);
/* lead_run.c: the leader's part of a collective that all have posted. */
ncclResult_t ccl_lead_run(struct ccl_lead *lead, struct ccl_set *set, cudaStream_t stream,
                          uint64_t number);
int ccl_lead_all_posted(const struct ccl_lead *lead, uint64_t number);
/* A mapping that a graph may use for as long as the communicator lives. */
ncclResult_t ccl_lead_keep(struct ccl_lead *lead, struct ccl_region **pin);
/* Nobody uses the mappings of an operation that is over. */
void ccl_lead_unpin(struct ccl_lead *lead, uint64_t number);

#endif
