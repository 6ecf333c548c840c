/* gated.c: the list of streams, and the wait. */
#include "core/gated.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/err.h"
#include "core/clique.h"
#include "core/comm.h"
#include "core/group.h"

#include <sched.h>

enum { PATIENCE_US = 100000 };

ncclResult_t ccl_gated_add(struct ccl_exec *exec, cudaStream_t stream, const struct ccl_set *set)
{
    struct ccl_gated *gated = &exec->gated;
    const void *name = ccl_track_name(stream);
    int is_free = 0;
    for (size_t i = 0; i < gated->n; i++)
        if (gated->list[i].name == name) is_free |= gated->list[i].is_free;
    TRY(ccl_grow((void **)&gated->list, gated->n, &gated->room, sizeof *gated->list));
    gated->list[gated->n++] = (struct ccl_gated_stream){name, set, is_free};
    atomic_store_explicit(&gated->is_any, 1, memory_order_relaxed);
    return ncclSuccess;
}

void ccl_gated_drop(struct ccl_exec *exec, const struct ccl_set *set)
{
    struct ccl_gated *gated = &exec->gated;
    size_t kept = 0;
    for (size_t i = 0; i < gated->n; i++)
        if (gated->list[i].set != set) gated->list[kept++] = gated->list[i];
    if (kept == gated->n) return;
    gated->n = kept;
    atomic_store_explicit(&gated->is_any, kept > 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&gated->ndropped, 1, memory_order_relaxed);
}

/* A gate is on the stream, and nobody has waited for it yet. `gives_up`: from now on somebody has.
 */
static int is_held(struct ccl_exec *exec, const void *name, int gives_up)
{
    int found = 0;
    ccl_exec_lock(exec);
    for (size_t i = 0; i < exec->gated.n; i++) {
        struct ccl_gated_stream *stream = &exec->gated.list[i];
        if (stream->name != name || stream->is_free) continue;
        found = 1;
        stream->is_free = gives_up;
    }
    pthread_mutex_unlock(&exec->lock);
    return found;
}

/* Relaxed: the counts only tell that it is worth while to look again. */
static void wait_for(const struct ccl_op *op, uint64_t *start_ns)
{
    struct ccl_exec *exec = op->comm->exec;
    struct ccl_gated *gated = &exec->gated;
    if (!atomic_load_explicit(&gated->is_any, memory_order_relaxed)) return;
    const void *name = ccl_track_name(op->stream);
    if (*start_ns == 0) *start_ns = ccl_clock_ns();
    for (int is_late = 0; !is_late;) {
        uint32_t seen = atomic_load_explicit(&gated->ndropped, memory_order_relaxed);
        if (!is_held(exec, name, 0)) return;
        while (!is_late && seen == atomic_load_explicit(&gated->ndropped, memory_order_relaxed)) {
            if (ccl_clique_error(exec->clique) != ncclSuccess) return;
            is_late = (ccl_clock_ns() - *start_ns) / 1000 >= PATIENCE_US;
            sched_yield();
        }
    }
    is_held(exec, name, 1);
}

void ccl_gated_wait(const struct ccl_record *records, size_t n)
{
    uint64_t start_ns = 0;
    for (size_t i = 0; i < n; i++)
        if (records[i].capture == 0) wait_for(&records[i].op, &start_ns);
}

void ccl_gated_free(struct ccl_gated *gated)
{
    ccl_free(gated->list);
    *gated = (struct ccl_gated){0};
}
