/* launch.h: filling works and handing them to the device. Lock of the clique held.
 */
#ifndef CCL_CORE_LAUNCH_H
#define CCL_CORE_LAUNCH_H

#include "core/join.h"

/* Launches the kernel of a complete set on the stream of its last member, behind the executor's
 * earlier kernels with connections. */
ncclResult_t ccl_launch_set(struct ccl_set *set);

/* Puts a gate on a rank's stream. `refs` counts it until it has retired. */
ncclResult_t ccl_launch_gate(struct ccl_gate *gate, struct ncclComm *comm, cudaStream_t stream,
                             _Atomic int *refs);

/* Launches a kernel of rank `comm` that counts in comm->flying; shared with pairs.c. */
ncclResult_t ccl_launch(struct ncclComm *comm, cudaStream_t stream,
                        const struct ccl_launch_spec *spec);
/* Called when such a kernel retires: reports what the kernel found, then uncounts it. */
void ccl_launch_retired(struct ncclComm *comm);

#endif
