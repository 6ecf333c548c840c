/* messages.h: send and receive between ranks of one executor on a GPU, where no two kernels of
 * theirs would have to run side by side: one kernel copies from buffer to buffer.
 *
 * The two calls of a message are a set (set.h). Messages whose calls came in the same group end and
 * share streams become one kernel, since their streams would wait for each other anyway; any other
 * is a kernel of its own. A stream that has several of these in a group waits for none before
 * another: events mark what was before them all, their kernels run on streams of the executor's
 * own, and the stream waits for them last. So no message waits for a third rank, but in captures,
 * in large groups, and where hardware queues are no more than ranks: then one goes after the other.
 * The executor's lock is held.
 */
#ifndef CCL_CORE_MESSAGES_H
#define CCL_CORE_MESSAGES_H

#include "core/park.h"
#include "core/set.h"

/* Posts one send or receive. ncclInvalidUsage when the sizes of the two differ. */
ncclResult_t ccl_messages_post(struct ccl_exec *exec, const struct ccl_record *record);
/* After all records of a group end: launches what is complete, and lets the rest wait.
 * ncclInvalidUsage when a rank sends to itself without receiving it in the same group. */
ncclResult_t ccl_messages_flush(struct ccl_exec *exec, struct ccl_parks *parks);
/* The oldest call of a rank that waits for its peer; NULL: none. */
const struct ccl_op *ccl_messages_waiting(const struct ccl_exec *exec, const struct ncclComm *comm);
void ccl_messages_free(struct ccl_exec *exec);

#endif
