/* memory.h: the memory that serves a communicator, and giving back what it can do without.
 *
 * Counted is what connections lie in: FIFOs, boards, what all processes share; on several GPUs
 * zones. On host devices pages count that are there, since memory is filled page by page. Each byte
 * is counted by one rank: a FIFO by the one that receives in it (of an executor the lowest rank in
 * the process), the rest by the lowest rank of the process, or of the executor.
 */
#ifndef CCL_CORE_MEMORY_H
#define CCL_CORE_MEMORY_H

#include "core/core.h"

struct ccl_memory {
    uint64_t suspendable, persistent; /* bytes */
};
/* What this rank counts now. Any thread. */
struct ccl_memory ccl_memory_count(const struct ncclComm *comm);

#endif
