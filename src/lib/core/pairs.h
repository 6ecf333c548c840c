/* pairs.h: send and receive. A message is a pair of calls; each pair is on its own.
 *
 * Each call becomes its half of the message, over a connection between the two ranks. All calls on
 * one stream in one group form a party: one kernel for all its halves. The executor's lock is
 * held throughout.
 */
#ifndef CCL_CORE_PAIRS_H
#define CCL_CORE_PAIRS_H

#include "core/clique.h"
#include "core/group.h"
#include "kernel/work.h"

struct ccl_party {
    struct ccl_party *next;
    cudaStream_t stream;
    struct ncclComm **comms; /* of the ranks that take part */
    struct ccl_pair *pairs;
    uint32_t ncomms, npairs;
    size_t comms_room, room;
    _Atomic int is_flying; /* its kernel has not retired */
};

/* Posts one send or receive. Lock held. */
ncclResult_t ccl_pairs_post(struct ccl_exec *exec, const struct ccl_record *record);
/* After all records of a group end: launches a kernel for each party.
 * ncclInvalidUsage when a rank sends to itself without receiving it in the same group. */
ncclResult_t ccl_pairs_flush(struct ccl_exec *exec);
/* What does not depend on how a message is moved, also for core/far.c: compares the two calls of a
 * message inside an executor of this process, and refuses those that would wait for each other on
 * their stream; whether a rank has called both halves of its messages to itself. A group end ends
 * with exec->ngroups one higher. */
ncclResult_t ccl_pairs_match(struct ccl_exec *exec, const struct ccl_op *op);
ncclResult_t ccl_pairs_check_self(struct ccl_exec *exec, int rank);
void ccl_pairs_free(struct ccl_exec *exec);

#endif
