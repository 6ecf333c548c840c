/* run_rma.h: one-sided operations on host devices: copies to where a peer's window lies, signals
 * that they are there, and waits for those of others.
 *
 * The operations of a rank go one after the other, those of several ranks in a launch side by side,
 * so that ranks which share a stream can wait for each other. Same form as run_pairs.h.
 */
#ifndef CCL_KERNEL_RUN_RMA_H
#define CCL_KERNEL_RUN_RMA_H

#include "kernel/copy.h"
#include "kernel/dev.h"
#include "kernel/work.h"

/* Bounded bites, so that an abort is seen in between. */
enum { RMA_BITE_BYTES = 1 << 20 };

/* 1 when it moved on. */
CCL_DEVICE int run_put(const struct ccl_rma *work, struct ccl_rma_op *op)
{
    uint64_t left = op->bytes - op->moved;
    uint64_t bite = left < RMA_BITE_BYTES ? left : RMA_BITE_BYTES;
    if (bite > 0 && op->src != op->dst) {
        ccl_copy(op->dst + op->moved, op->src + op->moved, bite, work->streams != 0);
        if (work->streams) ccl_copy_fence();
    }
    op->moved += bite;
    if (op->moved < op->bytes) return 1;
    /* Release publishes what was written, and all that the stream did before, to the wait. */
    __atomic_fetch_add(op->raise, 1, __ATOMIC_RELEASE);
    ccl_bell_ring(op->bell);
    op->is_done = 1;
    return 1;
}

/* Several kernels of a rank may take signals of one peer. Acquire of `taken` pairs with the release
 * of the other kernel's exchange: `raised`, read after it, is no older than what was taken.
 * Acquire of `raised` pairs with run_put: what was written is there. */
CCL_DEVICE int try_take(const struct ccl_take *take)
{
    uint32_t taken = __atomic_load_n(take->taken, __ATOMIC_ACQUIRE);
    do {
        if (load_acquire32(take->raised) - taken < take->count) return 0;
    } while (!__atomic_compare_exchange_n(take->taken, &taken, taken + take->count, 1,
                                          __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return 1;
}

CCL_DEVICE int run_take(struct ccl_rma_op *op)
{
    op->is_done = (uint16_t)try_take(&op->take);
    if (op->is_done)
        set_note(op->note, CCL_WAIT_NONE, 0);
    else
        set_note(op->note, CCL_WAIT_RAISE, op->take.peer);
    return op->is_done;
}

/* Returns 1 when all is done or the communicator was aborted, 0 when it has to wait. */
CCL_DEVICE int run_rma(struct ccl_rma *work)
{
    for (;;) {
        if (load_acquire32(work->abort_word)) return 1;
        uint32_t moved = 0, done = 0;
        for (uint32_t i = 0; i < work->nops; i++) {
            struct ccl_rma_op *op = &work->ops[i];
            int is_next = op->after == 0 || work->ops[op->after - 1].is_done;
            if (!op->is_done && is_next)
                moved += (uint32_t)(op->kind == CCL_RMA_PUT ? run_put(work, op) : run_take(op));
            done += op->is_done;
        }
        if (done == work->nops) return 1;
        if (moved == 0) return 0;
    }
}

#endif
