/* meet.h: how the streams of a set's members meet its one kernel.
 *
 * Members that arrived in the same group end are joined by events; members of earlier calls hold a
 * gate on their stream, since no event may be waited for before it is recorded. On a GPU, where a
 * gate costs more than an event, a call of another thread first parks for a moment on the host
 * (park.h). The executor's lock is held.
 */
#ifndef CCL_CORE_MEET_H
#define CCL_CORE_MEET_H

#include "core/park.h"
#include "core/set.h"
#include "kernel/kernel.h"

/* A gate is to hold the stream of a member that has arrived. On a GPU all those of a stream are put
 * up by the next ccl_meet_raise, at the same time: none of a group's operations waits for another
 * one that the program did not put before it. */
ncclResult_t ccl_meet_gate(struct ccl_set *set, uint16_t member);
/* A member parked in vain: a gate, or what stands for it where processes share a GPU. */
ncclResult_t ccl_meet_late(struct ccl_set *set, uint16_t member);
/* Puts up these parts (enum ccl_gate_part) of the gates that lack them. */
ncclResult_t ccl_meet_raise(struct ccl_exec *exec, uint32_t parts);
/* Members of an incomplete set that arrived in this group end wait for the others. */
ncclResult_t ccl_meet_hold(struct ccl_set *set, struct ccl_parks *parks);
/* Before the launch: the kernel's stream waits for the members that no gate holds.
 * ncclInvalidUsage when two of them could never meet. */
ncclResult_t ccl_meet_join(struct ccl_set *set, cudaStream_t stream);
/* After it: members that no gate holds wait for the kernel. */
ncclResult_t ccl_meet_leave(struct ccl_set *set, cudaStream_t stream);

#endif
