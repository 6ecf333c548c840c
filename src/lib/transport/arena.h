/* arena.h: the arenas of other processes of this host, mapped once each.
 *
 * A process's arena is the memory that its devices give out (device/device.h); its blocks can be
 * read and written where they lie. core maps the arena of every process that it shares a
 * communicator with; communicators with the same processes share the mapping.
 */
#ifndef CCL_TRANSPORT_ARENA_H
#define CCL_TRANSPORT_ARENA_H

#include "nccl.h"

#include <stddef.h>

struct ccl_peer_arena {
    char *base;
    size_t bytes;
};

/* Maps the arena behind `fd`, which stays the caller's, or finds the mapping. An error when it is
 * no sealed memfd or the system refuses. Any thread. */
ncclResult_t ccl_arena_map(int fd, const struct ccl_peer_arena **out);
/* Gives it up; NULL is fine. */
void ccl_arena_unmap(const struct ccl_peer_arena *arena);

#endif
