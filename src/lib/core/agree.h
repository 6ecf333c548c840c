/* agree.h: whether all ranks call the same collectives in the same order.
 *
 * Each executor keeps a board of what it called, by number, in memory that all executors can read.
 * Calls of one executor are compared as they are made; those of different executors by a kernel
 * that waits for long (kernel/board.h) and when the program asks for errors, so that calls that
 * agree cost nothing but the writing.
 */
#ifndef CCL_CORE_AGREE_H
#define CCL_CORE_AGREE_H

#include "core/clique.h"

/* Notes what a rank calls as its collective `seq` and compares it with what others of its executor
 * called. ncclInvalidUsage when they differ; the communicator has failed then. Lock of the
 * executor held. */
ncclResult_t ccl_agree(struct ccl_exec *exec, const struct ccl_op *op, uint64_t seq,
                       struct ccl_call *call);
/* The same for a call and that of a member of its set. */
/* The same of two descriptions, by whatever processes. */
ncclResult_t ccl_agree_calls(struct ccl_clique *clique, const struct ccl_call *a,
                             const struct ccl_call *b);
ncclResult_t ccl_agree_pair(struct ccl_clique *clique, const struct ccl_op *a,
                            const struct ccl_op *b, uint64_t seq);
/* After it showed that ranks disagree: fails the communicator with a text that names both
 * calls, if the boards tell which. `call` is that in which it showed. Any thread, without locks. */
void ccl_agree_explain(struct ccl_exec *exec, const struct ccl_call *call);
/* The same where no kernel calls back: looks whether one has found it. Any thread, without locks.
 */
void ccl_agree_look(const struct ncclComm *comm);
/* Compares the calls since the last audit as far as others have made theirs: ranks that disagree
 * need not wait for each other. Any thread, without locks. */
void ccl_agree_audit(struct ccl_exec *exec);

#endif
