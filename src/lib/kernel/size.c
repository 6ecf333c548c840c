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

void ccl_size_body(const struct ccl_work *work, struct ccl_body *body, uint64_t elem_bytes,
                   uint64_t slot_bytes)
{
    uint64_t pieces = body->npieces;
    if (work->count_elems == 0) {
        body->chan_elems = body->piece_elems = 0;
        body->nrounds = 0;
        return;
    }
    body->chan_elems = align_up(ceil_div(work->count_elems, work->nchannels));
    body->nrounds = 1;
    if (slot_bytes > 0)
        body->nrounds = (uint32_t)ceil_div(body->chan_elems, pieces * (slot_bytes / elem_bytes));
    body->piece_elems = align_up(ceil_div(body->chan_elems, pieces * body->nrounds));
}
