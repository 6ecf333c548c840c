/* rma.h: one-sided operations: puts, signals and waits for signals.
 *
 * Between any two ranks a word counts the signals that one has raised for the other, and another
 * word, of the receiver alone, those that it has taken. On host devices the operations of a group
 * end on one stream are a kernel (kernel/run_rma.h), on GPUs copies and kernels of one thread.
 * Operations are posted with the lock of the executor held.
 */
#ifndef CCL_CORE_RMA_H
#define CCL_CORE_RMA_H

#include "core/group.h"

/* Where the words of a clique lie that has all ranks in this process and on GPUs; the others have
 * theirs in memory that their processes share (core/reach.c, core/lead.c). */
ncclResult_t ccl_rma_open(struct ccl_clique *clique);
void ccl_rma_close(struct ccl_clique *clique);
/* The words of one rank. Its device is current. */
ncclResult_t ccl_rma_open_rank(struct ncclComm *comm);
void ccl_rma_close_rank(struct ncclComm *comm);

/* Keeps one operation for the end of the group. */
ncclResult_t ccl_rma_post(struct ccl_exec *exec, const struct ccl_record *record);
/* After all records of a group end, and all else that it brings. May let go of the lock meanwhile.
 */
ncclResult_t ccl_rma_flush(struct ccl_exec *exec);
void ccl_rma_free(struct ccl_exec *exec);

#endif
