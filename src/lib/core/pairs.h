/* pairs.h: send and receive. A message is a pair of calls; each pair is on its own.
 *
 * Two ranks of this process: whoever comes second launches the copy; the stream of the first
 * holds a gate. Ranks of different processes: each end launches its half over a connection.
 * All calls of a rank on one stream in one group form a party: one kernel for the pairs that it
 * completes, one gate for those that it does not. The lock of the clique is held throughout.
 */
#ifndef CCL_CORE_PAIRS_H
#define CCL_CORE_PAIRS_H

#include "core/clique.h"
#include "core/group.h"
#include "kernel/work.h"

struct ccl_party {
    struct ccl_gate gate; /* first: pairs find their party by it */
    struct ccl_party *next;
    struct ncclComm *comm;
    cudaStream_t stream;
    struct ccl_pair *pairs; /* completed by this party */
    uint32_t npairs;
    size_t room;
    int is_open;      /* belongs to the group end in progress */
    int has_gate;     /* some of its calls are or were left to other parties */
    _Atomic int refs; /* kernel, gate, pending calls and pairs of others */
};

/* Posts one send or receive. Lock held. */
ncclResult_t ccl_pairs_post(struct ccl_clique *clique, const struct ccl_record *record);
/* After all records of a group end: launches what is complete, gates the rest.
 * ncclInvalidUsage when a rank sends to itself without receiving it in the same group. */
ncclResult_t ccl_pairs_flush(struct ccl_clique *clique);
void ccl_pairs_free(struct ccl_clique *clique);

#endif
