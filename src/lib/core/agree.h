/* agree.h: whether all ranks call the same collectives in the same order.
 *
 * Each process keeps a board of what its ranks called, by number. Boards of processes lie in shared
 * memory, and each call is compared with those of its own process and of the two neighbours: if
 * any two ranks disagree, somewhere two neighbours do, and the later of them sees it. What a
 * neighbour that is very far ahead or behind called is not compared here; the signatures of
 * kernel/run_sched.h are.
 */
#ifndef CCL_CORE_AGREE_H
#define CCL_CORE_AGREE_H

#include "core/clique.h"

enum { CCL_NCALLS = 1024, CCL_CALL_WORDS = 4 };

struct ccl_board {
    uint64_t latest; /* number of the latest call, written or not */
    uint64_t spare[7];
    uint64_t calls[CCL_NCALLS][CCL_CALL_WORDS]; /* struct call of agree.c */
};

/* Notes what a rank calls as its collective `seq` and compares it with the others.
 * ncclInvalidUsage when they differ; the communicator has failed then. Lock held. */
ncclResult_t ccl_agree(struct ccl_clique *clique, const struct ccl_op *op, uint64_t seq);
/* The same for a call and that of a member of its set. */
ncclResult_t ccl_agree_pair(struct ccl_clique *clique, const struct ccl_op *a,
                            const struct ccl_op *b, uint64_t seq);
/* After kernels found that ranks disagree: fails the communicator with a text that names both
 * calls, if the boards tell which. Any thread, without the lock. */
void ccl_agree_explain(struct ccl_clique *clique);

#endif
