/* park.h: calls that wait on the host for the rest of their set to arrive, for a short while.
 *
 * The launch of a set waits for an event that the member has recorded; once it is launched, the
 * member's own thread makes its stream wait for the kernel. If the rest does not come, the member
 * gets a gate and the call returns: a program may let its peers depend on what it does next.
 */
#ifndef CCL_CORE_PARK_H
#define CCL_CORE_PARK_H

#include "nccl.h"

#include <stddef.h>
#include <stdint.h>

struct ccl_set;

/* Members that a group end has left behind, one array a thread. */
struct ccl_park {
    struct ccl_set *set;
    uint16_t member;
};
struct ccl_parks {
    struct ccl_park *list;
    size_t n, room;
};

/* Records the member's event and adds it to `parks`. Lock of the executor held. */
ncclResult_t ccl_park_add(struct ccl_parks *parks, struct ccl_set *set, uint16_t member);
/* Waits for all of them, without any lock, and empties the list. */
ncclResult_t ccl_park_all(struct ccl_parks *parks);

#endif
