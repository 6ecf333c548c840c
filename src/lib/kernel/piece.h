/* piece.h: which elements a step moves in a channel and round, on host and GPU. kernel/size.h says
 * how an operation is cut into them.
 */
#ifndef CCL_KERNEL_PIECE_H
#define CCL_KERNEL_PIECE_H

#include "kernel/dev.h"
#include "kernel/work.h"

/* Elements [start, start + elems) of the blocks. */
struct ccl_piece {
    uint64_t start, elems;
};

/* The step's piece. A late step has none in the first rounds, the others have none in the last. */
CCL_DEVICE struct ccl_piece find_piece(const struct ccl_work *work, const struct ccl_body *body,
                                       const struct ccl_step *step, uint32_t channel,
                                       uint32_t round)
{
    struct ccl_piece piece = {0, 0};
    uint64_t late = step->flags & CCL_STEP_LATE ? body->lag : 0;
    if (round < late) return piece;
    uint64_t inside = ((round - late) * body->npieces + step->piece) * body->piece_elems;
    uint64_t start = (uint64_t)channel * body->chan_elems + inside;
    if (inside >= body->chan_elems || start >= work->count_elems) return piece;
    uint64_t left = body->chan_elems - inside, to_end = work->count_elems - start;
    if (to_end < left) left = to_end;
    piece.start = start;
    piece.elems = left < body->piece_elems ? left : body->piece_elems;
    return piece;
}

#endif
