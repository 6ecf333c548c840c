/* sched.h: what an algorithm sees of a communicator, and how it writes a schedule.
 *
 * core builds one view per communicator and asks algo/registry.c for a schedule per operation
 * shape; kernel/work.h says what the steps mean. A schedule is for ONE executor; the schedules of
 * all executors of an operation fit together.
 */
#ifndef CCL_ALGO_SCHED_H
#define CCL_ALGO_SCHED_H

#include "kernel/work.h"
#include "nccl.h"

/* Operations that run as schedules, in the order of core/core.h. */
enum ccl_sched_coll {
    CCL_SCHED_ALL_REDUCE,
    CCL_SCHED_REDUCE,
    CCL_SCHED_BROADCAST,
    CCL_SCHED_ALL_GATHER,
    CCL_SCHED_REDUCE_SCATTER,
    CCL_SCHED_ALL_TO_ALL,
    CCL_SCHED_GATHER,
    CCL_SCHED_SCATTER,
    CCL_SCHED_NCOLLS
};

/* Whether every executor can address every rank's buffers. SHARED: those in memory that processes
 * share; which ones do is seen only when all meet. ALL: there is one process. */
enum ccl_mapped { CCL_MAPPED_NONE, CCL_MAPPED_SHARED, CCL_MAPPED_ALL };

/* Ranks sorted by executor: slot s holds rank rank_of[s]; executor e owns the slots
 * [first_slot[e], first_slot[e + 1]). Equal on all ranks but for `self`. */
struct ccl_view {
    uint16_t nranks, nexecs, self;
    const uint16_t *first_slot, *rank_of, *slot_of;
    enum ccl_mapped mapped;
};

struct ccl_sched {
    struct ccl_step *steps;
    struct ccl_link *links;
    uint32_t nsteps, steps_room, nlinks, links_room;
    uint16_t npieces; /* pieces of a round */
    uint16_t pack;    /* places of a slot, a piece each; 0 or 1: a slot holds one piece */
    uint16_t lag;     /* rounds that CCL_STEP_LATE steps are behind, below 256 */
    int meets;        /* has MEET steps; such a schedule has one round */
};

struct ccl_sched_args {
    const struct ccl_view *view;
    enum ccl_sched_coll coll;
    int root;            /* rank, -1 for operations without one */
    uint32_t slot_bytes; /* that a slot of a connection holds */
};

/* What the cost model needs to know of an algorithm; averages over executors will do. */
struct ccl_shape {
    double hops;     /* messages in a row on the longest path */
    double messages; /* that one executor sends and receives in a round */
    double traffic;  /* bytes it reads and writes, per byte of a rank's largest buffer */
    double share;    /* of that buffer, the part that one slot has to pass; 0: no slots */
};

/* One algorithm. A NULL hook means not supported. */
struct ccl_algo_ops {
    const char *name;
    int (*supports)(const struct ccl_sched_args *args);
    void (*shape)(const struct ccl_sched_args *args, struct ccl_shape *shape);
    ncclResult_t (*build)(const struct ccl_sched_args *args, struct ccl_sched *sched);
};

/* All algorithms, NULL at the end. */
extern const struct ccl_algo_ops *const ccl_algos[];
extern const struct ccl_algo_ops ccl_algo_direct, ccl_algo_oneshot, ccl_algo_twoshot, ccl_algo_ring,
    ccl_algo_tree, ccl_algo_logstep;

/* ---- writing a schedule ---- */

/* A new step of `kind`, zeroed; NULL when memory ran out (the error is set, build fails). */
struct ccl_step *ccl_sched_add(struct ccl_sched *sched, enum ccl_kind kind);
/* The same with its content; ncclSystemError when memory ran out. */
ncclResult_t ccl_sched_put(struct ccl_sched *sched, struct ccl_step step);
/* Index of the link to `peer`, added at first use; -1 when memory ran out. */
int ccl_sched_link(struct ccl_sched *sched, uint16_t peer, int is_send);
void ccl_sched_free(struct ccl_sched *sched);

/* Ranges. */
struct ccl_range ccl_range_slots(enum ccl_space space, uint16_t first, uint16_t count,
                                 uint16_t block);
struct ccl_range ccl_range_links(uint16_t first, uint16_t count);

/* Slots of executor e. */
static inline uint16_t ccl_view_count(const struct ccl_view *view, uint16_t e)
{
    return (uint16_t)(view->first_slot[e + 1] - view->first_slot[e]);
}

/* The slots of the own executor, as a range. */
struct ccl_range ccl_view_locals(const struct ccl_view *view, enum ccl_space space, uint16_t block);

/* Ranks of the executor that has most. */
uint16_t ccl_view_most(const struct ccl_view *view);

/* The executor of a rank. */
uint16_t ccl_view_exec_of(const struct ccl_view *view, int rank);

#endif
