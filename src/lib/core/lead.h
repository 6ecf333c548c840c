/* lead.h: an executor whose ranks are in several processes of one host that share its GPU.
 *
 * One process leads: that of the lowest rank. It alone runs kernels, so that the GPU need not
 * switch between processes. The others describe their buffers in shared memory, and their streams
 * only write a "ready" word and wait for a "done" word. The words lie in host memory, so that a
 * store of the processor frees any stream. Called with the executor's lock held unless said.
 */
#ifndef CCL_CORE_LEAD_H
#define CCL_CORE_LEAD_H

#include "core/set.h"

/* After the processes are connected: maps what they share, for all executors that need it. */
ncclResult_t ccl_lead_connect(struct ccl_clique *clique);
void ccl_lead_close(struct ccl_exec *exec);
/* After that of all executors: gives up what they shared, if nothing is under way in the process,
 * else the next time that nothing is. NULL is fine. Without the registry's lock. */
void ccl_lead_retire(struct ccl_lead_memory *memory);

/* What ccl_launch_set does for other executors. Where processes are late, the leader's stream waits
 * and a thread launches the kernel when they have come. */
ncclResult_t ccl_lead_launch(struct ccl_set *set, cudaStream_t stream);

/* A member of an incomplete set whose call returns: its stream waits for the end of the collective.
 * Gates would not do: the kernel that opens them is another process's. */
ncclResult_t ccl_lead_hold(struct ccl_set *set, uint16_t member);

/* The buffers of a rank of another process, for the set that is being launched. */
const struct ccl_slot *ccl_lead_slot(const struct ccl_exec *exec, uint16_t local);

/* The communicator failed: no stream waits any more. Any thread, no lock. */
void ccl_lead_release(struct ccl_exec *exec);

/* The oldest collective that is not done, and the ranks that have not called it (a byte a rank);
 * NULL: none. */
const char *ccl_lead_waiting(const struct ccl_exec *exec, uint64_t *seq, uint8_t *missing);

#endif
