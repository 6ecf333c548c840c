/* lead_impl.h: what lead.c (shared memory) and lead_run.c (operations) share.
 *
 * Operations are numbered from 1; what belongs to one lies at its number modulo CCL_LEAD_DEPTH, and
 * is not touched for another before the word "done" says that it is over.
 */
#ifndef CCL_CORE_LEAD_IMPL_H
#define CCL_CORE_LEAD_IMPL_H

#include "base/shm.h"
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
};

/* A set whose other processes were late, in the order of their numbers. */
struct ccl_lead_job {
    struct ccl_lead_job *next;
    struct ccl_set *set;
};

struct ccl_lead {
    struct ccl_exec *exec;
    uint16_t nprocs, self; /* processes of the executor; self 0 leads */
    uint16_t *procs;       /* [nprocs] in the clique's numbers */
    int is_leader;
    char *words;                       /* [nprocs + 1][DEPTH] lines: ready of each, done */
    struct ccl_lead_post *posts;       /* [nprocs][DEPTH] */
    struct ccl_lead_rank *ranks;       /* [DEPTH][nlocal] */
    void *registered;                  /* as the device sees `words` */
    struct ccl_exporter *exporter;     /* to the leader */
    struct ccl_importer **importers;   /* [nprocs] of the leader */
    int socket, *sockets;              /* of those */
    const char *names[CCL_LEAD_DEPTH]; /* of the operations, for the status */
    uint64_t latest;                   /* number */
    struct ccl_slot *slots;            /* [nlocal] of the set that is being launched */
    struct ccl_region **pins;          /* [DEPTH][nlocal * PINS] of the leader */

    pthread_t thread; /* launches what was late, and tidies the mappings */
    int has_thread, ends;
    pthread_cond_t wake;
    struct ccl_lead_job *jobs, *last_job;
    cudaStream_t stream; /* of the thread */
};

/* Words, in number's place: of process q, or of all when q is nprocs. */
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

/* lead_run.c: the loop of the thread. */
void *ccl_lead_thread(void *lead);
/* Nobody uses the mappings of an operation that is over. */
void ccl_lead_unpin(struct ccl_lead *lead, uint64_t number);

#endif
