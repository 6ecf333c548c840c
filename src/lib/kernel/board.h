/* board.h: whether other executors called something else as the same collective.
 *
 * An executor writes each call on its board before it launches the kernel (core/agree.c). Nobody
 * reads it while all goes well: a kernel that waits for long compares its call with all boards.
 */
#ifndef CCL_KERNEL_BOARD_H
#define CCL_KERNEL_BOARD_H

#include "kernel/dev.h"
#include "kernel/work.h"

/* Fruitless runs of a lane after which it looks at the boards. */
enum { CCL_LONG_WAIT = 16 };

/* The number is taken away before a call is overwritten and given back last (release): a reader
 * that finds it before (acquire) and after has read one call. */
CCL_DEVICE int board_read(const struct ccl_board *board, uint64_t number, struct ccl_call *call)
{
    const struct ccl_call *from = &board->calls[number % CCL_NCALLS];
    call->number = load_acquire(&from->number);
    if (number == 0 || call->number != number) return 0;
    call->what[0] = load_acquire(&from->what[0]);
    call->what[1] = load_acquire(&from->what[1]);
    call->how = load_acquire(&from->how);
    return __atomic_load_n(&from->number, __ATOMIC_RELAXED) == number;
}

CCL_DEVICE void board_write(struct ccl_board *board, const struct ccl_call *call)
{
    struct ccl_call *to = &board->calls[call->number % CCL_NCALLS];
    __atomic_store_n(&to->number, 0, __ATOMIC_RELAXED);
    store_release(&to->what[0], call->what[0]);
    store_release(&to->what[1], call->what[1]);
    store_release(&to->how, call->how);
    store_release(&to->number, call->number);
}

/* Adds how the call is run, which is known only when it is launched. */
CCL_DEVICE void board_add_plan(struct ccl_board *board, const struct ccl_call *call)
{
    struct ccl_call *to = &board->calls[call->number % CCL_NCALLS];
    if (to->number == call->number) store_release(&to->how, call->how);
}

CCL_DEVICE int board_differs(const struct ccl_board *board, const struct ccl_call *call)
{
    struct ccl_call other;
    if (!board_read(board, call->number, &other)) return 0;
    if (other.what[0] != call->what[0] || other.what[1] != call->what[1]) return 1;
    uint64_t own_plan = call->how >> CCL_CALL_RANK_BITS;
    uint64_t its_plan = other.how >> CCL_CALL_RANK_BITS;
    return own_plan != 0 && its_plan != 0 && own_plan != its_plan;
}

#endif
