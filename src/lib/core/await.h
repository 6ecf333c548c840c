/* await.h: streams of a GPU that wait for a word of the host's memory to be a number or later.
 *
 * A stream that waits by a memory operation holds one of the few hardware queues that the streams
 * of a process share, under MPS even of those that processes share; when all are held, nothing
 * moves that could end a wait. So only some streams wait that way, and the others get a kernel of
 * one thread that looks at the word, which holds up no other stream; without MPS it costs the
 * others time slices. Rules and figures: results/2026-11-30-h200/probes.md. Called with the lock of
 * an executor held; its device is current.
 */
#ifndef CCL_CORE_AWAIT_H
#define CCL_CORE_AWAIT_H

#include "core/core.h"

#include <stddef.h>
#include <stdint.h>

/* Who ends the wait: other processes, which have all that they need of this one, or this process
 * too, whose streams must go on meanwhile. */
enum ccl_await_whom { CCL_AWAIT_OTHERS, CCL_AWAIT_SELF };

struct ccl_await {
    const uint32_t *word;
    uint32_t value;
    enum ccl_await_whom whom;
};

/* Lets `stream` wait for a rank's sake. */
ncclResult_t ccl_await(ncclComm_t comm, cudaStream_t stream, const struct ccl_await *what);
/* Nobody will look at these words any more. */
void ccl_await_forget(const void *words, size_t bytes);
/* The queues are so few that what stands behind a waiting kernel holds up everything. */
int ccl_await_is_tight(int device);

#endif
