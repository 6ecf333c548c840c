/* kernel_host.c: the kernels compiled for host devices. A lane is a channel. */
#include "kernel/kernel.h"

#include "kernel/run_pairs.h"
#include "kernel/run_rma.h"
#include "kernel/run_sched.h"

static_assert(sizeof(struct sched_at) <= sizeof(struct ccl_cursor), "a channel's place fits");

enum ccl_run ccl_kernel_sched(void *args, uint32_t lane, struct ccl_cursor *cursor)
{
    /* In place: copying it would wait for the flags that were stored before to leave the processor.
     * The launch has filled it with zero bytes, and nobody else looks at it. */
    struct sched_at *at = (struct sched_at *)(void *)cursor;
    return run_channel(args, lane, at) ? CCL_RUN_DONE : CCL_RUN_BLOCKED;
}

enum ccl_run ccl_kernel_pairs(void *args, uint32_t lane, struct ccl_cursor *cursor)
{
    (void)lane;
    (void)cursor;
    return run_pairs(args) ? CCL_RUN_DONE : CCL_RUN_BLOCKED;
}

enum ccl_run ccl_kernel_rma(void *args, uint32_t lane, struct ccl_cursor *cursor)
{
    (void)lane;
    (void)cursor;
    return run_rma(args) ? CCL_RUN_DONE : CCL_RUN_BLOCKED;
}

enum ccl_run ccl_kernel_gate(void *args, uint32_t lane, struct ccl_cursor *cursor)
{
    (void)lane;
    const struct ccl_gate_args *work = args;
    if (cursor->word[0] == 0) {
        cursor->word[0] = work->gate->raised + 1;
        /* Release publishes the stream's earlier work to the kernel that polls `raised`. */
        store_release32(&work->gate->raised, (uint32_t)cursor->word[0]);
        ccl_bell_ring(work->bell);
    }
    /* Acquire pairs with retire_set: the operation's results are visible to this stream. */
    if (load_acquire32(&work->gate->gone) == (uint32_t)cursor->word[0]) return CCL_RUN_DONE;
    return load_acquire32(work->abort_word) ? CCL_RUN_DONE : CCL_RUN_BLOCKED;
}
