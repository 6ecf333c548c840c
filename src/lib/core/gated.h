/* gated.h: streams that gates hold until other ranks call.
 *
 * A gate is a kernel that runs, and holds no hardware queue; what is queued behind it does, and
 * with it everything of other streams that shares the queue, perhaps the very kernel that opens the
 * gate. So the first call of a communicator behind one of its gates waits on the host for the
 * others, for a while: they are mostly a little late. A program may let them depend on what it does
 * next, as a last resort the call goes on.
 */
#ifndef CCL_CORE_GATED_H
#define CCL_CORE_GATED_H

#include "core/core.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct ccl_exec;
struct ccl_record;
struct ccl_set;

/* Of one executor, under its lock. */
struct ccl_gated_stream {
    const void *name; /* core/track.h */
    const struct ccl_set *set;
    int is_free; /* a call has waited for it long enough */
};
struct ccl_gated {
    struct ccl_gated_stream *list;
    size_t n, room;
    _Atomic uint32_t ndropped; /* these two are read without the lock */
    _Atomic int is_any;
};

/* A gate for `set` is on the stream. Lock of the executor held. */
ncclResult_t ccl_gated_add(struct ccl_exec *exec, cudaStream_t stream, const struct ccl_set *set);
/* The set is launched, what opens its gates is queued. Lock of the executor held. */
void ccl_gated_drop(struct ccl_exec *exec, const struct ccl_set *set);
/* Before anything of a group end is queued on the streams of its records: waits up to 100 ms for
 * those who are late, without any lock. */
void ccl_gated_wait(const struct ccl_record *records, size_t n);
void ccl_gated_free(struct ccl_gated *gated);

#endif
