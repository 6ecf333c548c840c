/* reach.h: what the executors of a communicator share beside connections: the memory in which they
 * meet, and the arenas of their processes.
 *
 * In one process both are ordinary. Across processes all map the meetings, and each maps the arena
 * of every other; buffers count as shared only if all processes reach all arenas, so that all ranks
 * decide alike.
 */
#ifndef CCL_CORE_REACH_H
#define CCL_CORE_REACH_H

#include "core/clique.h"
#include "transport/arena.h"

/* Bytes of the memory in which executors meet. */
size_t ccl_reach_bytes(const struct ccl_topo *topo);
/* Lays it out for the executors of this process. `memory` is zeroed at first and mapped by all
 * processes, NULL: made here for the single process. Lives until ccl_reach_close. */
ncclResult_t ccl_reach_meet(struct ccl_clique *clique, void *memory);

/* Every process has an arena. */
int ccl_reach_has_arenas(const struct ccl_clique *clique);
/* Takes the arena of process `proc`; that it cannot be mapped is no error. */
ncclResult_t ccl_reach_take(struct ccl_clique *clique, int proc, int fd);
/* After all arenas were taken: tells the others whether this process reaches them. */
void ccl_reach_tell(struct ccl_clique *clique);
/* After all processes have told: sees whether buffers are shared. Takes the lock. */
void ccl_reach_settle(struct ccl_clique *clique);

/* The memory of process `proc` that the other processes reach, as it lies in this one; none is
 * {NULL, 0}. */
struct ccl_peer_arena ccl_reach_home(const struct ccl_clique *clique, uint16_t proc);

void ccl_reach_close(struct ccl_clique *clique);

#endif
