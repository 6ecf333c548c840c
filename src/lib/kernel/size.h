/* size.h: how the elements of an operation are cut into channels, rounds and pieces.
 *
 * Pure arithmetic, the same on all executors of an operation. Called by core/launch.c and by the
 * schedule prover of the tests, so that what is proved is what runs.
 */
#ifndef CCL_KERNEL_SIZE_H
#define CCL_KERNEL_SIZE_H

#include "kernel/work.h"

/* Bytes of a piece when a slot holds `pack` of them, a multiple of 64. */
static inline uint64_t ccl_size_place(uint64_t slot_bytes, uint16_t pack)
{
    return pack > 1 ? slot_bytes / pack / 64 * 64 : slot_bytes;
}

/* Sets chan_elems, piece_elems and nrounds of a body of a work from its count_elems, nchannels and
 * the body's npieces. A piece of a schedule with connections fits slot_bytes; without (slot_bytes
 * 0) there is one round. elem_bytes is the size of one element. Nothing to do is no round. */
void ccl_size_body(const struct ccl_work *work, struct ccl_body *body, uint64_t elem_bytes,
                   uint64_t slot_bytes);

#endif
