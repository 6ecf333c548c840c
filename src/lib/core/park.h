/* park.h: calls that wait on the host for the rest of their set to arrive, for a short while.
 *
 * Meanwhile whoever launches the set joins the member's stream like its own, since the thread that
 * owns it is in the call; only a thread's default stream is out of reach for others, so that the
 * thread records an event and waits itself. So it does for messages that must not wait for each
 * other, also for those that are launched already (messages.h). If the rest does not come, the
 * member gets a gate and the call returns: a program may let its peers depend on what it does next.
 */
#ifndef CCL_CORE_PARK_H
#define CCL_CORE_PARK_H

#include "core/core.h"

#include <stddef.h>
#include <stdint.h>

struct ccl_set;

/* Members that a group end has left behind, one array a thread. */
struct ccl_park {
    struct ccl_set *set;
    uint16_t member;
    uint16_t is_late; /* the rest did not come in time */
};
struct ccl_parks {
    struct ccl_park *list;
    size_t n, room;
};

/* How long a call waits for others before it leaves its stream to wait: a moment. Longer where its
 * stream would hold up others meanwhile: the legacy default stream, or one of few hardware queues;
 * and without end where a launch waits for its kernel. */
uint64_t ccl_park_us(const struct ccl_op *op);
/* Adds a member to `parks`. Lock of the executor held. */
ncclResult_t ccl_park_add(struct ccl_parks *parks, struct ccl_set *set, uint16_t member);
/* Waits for all of them, without any lock, and empties the list. */
ncclResult_t ccl_park_all(struct ccl_parks *parks);

#endif
