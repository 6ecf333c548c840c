/* launch.h: filling works and handing them to the device. Lock of the executor held.
 */
#ifndef CCL_CORE_LAUNCH_H
#define CCL_CORE_LAUNCH_H

#include "core/set.h"
#include "kernel/kernel.h"

/* Launches the kernel of a complete set on a stream, mostly that of its last member, behind the
 * executor's earlier kernels with connections. */
ncclResult_t ccl_launch_set(struct ccl_set *set, cudaStream_t stream);
/* What a rank brings, of a call. */
struct ccl_slot ccl_launch_slot(const struct ccl_record *record);
/* Bytes of a rank's largest buffer in a collective. */
uint64_t ccl_launch_bytes(const struct ccl_op *op);
/* Remembers what runs the set, for chorus_comm_last_choice. */
ncclResult_t ccl_launch_choose(struct ccl_set *set);

/* Copies from buffer to buffer, in one kernel on a GPU. */
struct ccl_moves {
    struct ccl_exec *exec;
    struct ncclComm *comm;
    const struct ccl_set *gates_of; /* are met before and let go afterwards; NULL: none */
    uint16_t n;
    struct {
        const void *in;
        void *out;
        uint64_t bytes;
    } pairs[CCL_MAX_LOCAL];
};
ncclResult_t ccl_launch_moves(const struct ccl_moves *moves, cudaStream_t stream);

/* Frees what launches of the executor have cached. */
void ccl_launch_free(struct ccl_exec *exec);

/* Bytes of a rank's buffer up to which the calling thread runs the kernel rather than hand it to
 * others: about what they can move while it is handed over. */
enum { CCL_SMALL_BYTES = 128 << 10 };

/* Buffers of all ranks together, of which each has so many bytes to read and write, are too large
 * for the cache to hold until they are used again. */
int ccl_launch_streams(const struct ccl_clique *clique, uint64_t bytes);

/* Puts several gates on a stream of a GPU, which are up at the same time. */
ncclResult_t ccl_launch_gates(struct ccl_gates_args *args, struct ncclComm *comm,
                              cudaStream_t stream);
/* Puts a gate on a rank's stream of a host device. `refs` counts it until it has retired. */
ncclResult_t ccl_launch_gate(struct ccl_gate *gate, struct ncclComm *comm, cudaStream_t stream,
                             _Atomic int *refs);

/* Kernels that share connections or meetings run in issue order, whatever their streams: each
 * waits for its ticket to be due, and makes the next one due when it retires (or the communicator
 * was aborted). An event between the streams would do the same, but its record stands behind the
 * kernel and would hold up other streams that share the hardware queue. Release publishes what the
 * kernel left in its connections. */
static inline void ccl_turn_pass(uint64_t *due, uint64_t ticket)
{
    __atomic_store_n(due, ticket + 1, __ATOMIC_RELEASE);
}

/* Launches a kernel of rank `comm` that counts in comm->flying; shared with pairs.c. */
ncclResult_t ccl_launch(struct ncclComm *comm, cudaStream_t stream,
                        const struct ccl_launch_spec *spec);
/* Called when such a kernel retires: reports what the kernel found, then uncounts it. */
void ccl_launch_retired(struct ncclComm *comm);

#endif
