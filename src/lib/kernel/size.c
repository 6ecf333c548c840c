/* size.c: channels, rounds and pieces of a work. */
#include "kernel/size.h"

/* Pieces start at multiples of this many elements, for aligned vectors. A slot holds a multiple
 * of 64 bytes, so rounding up never makes a piece larger than its slot. */
enum { PIECE_ALIGN_ELEMS = 8 };

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static uint64_t align_up(uint64_t elems)
{
    return ceil_div(elems, PIECE_ALIGN_ELEMS) * PIECE_ALIGN_ELEMS;
}

void ccl_size_work(struct ccl_work *work, uint64_t elem_bytes, uint64_t slot_bytes)
{
    uint64_t pieces = work->npieces;
    if (work->count_elems == 0) {
        work->chan_elems = work->piece_elems = 0;
        work->nrounds = 0;
        return;
    }
    work->chan_elems = align_up(ceil_div(work->count_elems, work->nchannels));
    work->nrounds = 1;
    if (slot_bytes > 0)
        work->nrounds = (uint32_t)ceil_div(work->chan_elems, pieces * (slot_bytes / elem_bytes));
    work->piece_elems = align_up(ceil_div(work->chan_elems, pieces * work->nrounds));
}
