/* cuda_local_args.h: the launch arguments of the local path, and how they are made of a work.
 *
 * The local path runs operations whose executor holds all ranks: independent FOLD and MAP steps
 * over IN and OUT slots. A unit is one such step, or one pair of a MAP; a tile is what a warp moves
 * at a time, and tiles of all units are dealt to all warps in turn. Filled by cuda_launch.cu, read
 * by cuda_local.h; plain data, in the constant bank of the launch.
 */
#ifndef CCL_KERNEL_CUDA_LOCAL_ARGS_H
#define CCL_KERNEL_CUDA_LOCAL_ARGS_H

#include "kernel/work.h"

/* Words of a slot in `words`: in, out, scalar_at, scalar. With lengths a slot is a pair: the last
 * two are its bytes and the number of its first tile. */
enum { CCL_LOCAL_IN, CCL_LOCAL_OUT, CCL_LOCAL_SCALAR_AT, CCL_LOCAL_SCALAR, CCL_LOCAL_WORDS };
enum { CCL_LOCAL_BYTES = CCL_LOCAL_SCALAR_AT, CCL_LOCAL_FIRST_TILE = CCL_LOCAL_SCALAR };

/* Element j is the buffer in words[first + j * hop], at block `block + j * block_hop`. */
struct ccl_local_range {
    uint16_t first, count;
    int16_t hop, block, block_hop;
};

enum { CCL_LOCAL_MAP = 1, CCL_LOCAL_DIVIDES = 2, CCL_LOCAL_SCALES = 4 };

struct ccl_local_step {
    uint16_t flags;
    struct ccl_local_range in, out;
};

/* How tiles are dealt: the tiles of a unit, and how far a warp goes from one to its next. */
struct ccl_local_deal {
    uint32_t unit_tiles, next_units, next_tiles;
};

enum { CCL_LOCAL_ARGS_BYTES = 4000, CCL_LOCAL_BODY_BYTES = CCL_LOCAL_ARGS_BYTES - 104 };

struct ccl_local_args {
    uint64_t block_bytes;       /* each unit moves a block from each source to each target; the
                                   most that one does when each has a length of its own */
    struct ccl_gate *gates;     /* [ngates] of device memory */
    const uint32_t *abort_word; /* of the host; may be NULL */
    uint32_t *arrived;      /* CTAs that are done, back at 0 when all are; NULL: nobody is told */
    uint32_t *done;         /* of the host, is told by done_value; may be NULL */
    uint32_t nunits, pairs; /* units; units of a step (the most that one has) */
    struct ccl_local_deal vectors, elements; /* elements: what no vector moves */
    uint32_t divisor;
    uint32_t steps_at; /* bytes into `words` */
    uint32_t ntiles;   /* with lengths: of all units */
    uint32_t tile_bytes, done_value, spare;
    uint16_t ngates;
    uint8_t is_last;    /* of the launches of an operation: tells that it is done */
    uint8_t op;         /* enum ccl_redop_kind */
    uint8_t is_aligned; /* all buffers and blocks start at 16 bytes */
    uint8_t elem_bytes; /* of a copy: what all are aligned to, up to 4 */
    uint8_t has_lengths;
    uint8_t spare_byte;
    uint64_t words[CCL_LOCAL_BODY_BYTES / 8]; /* slots, then steps */
};

#ifdef __cplusplus
extern "C" {
#endif

/* 1 when a work can take the local path: one executor, one piece, steps with a single range of
 * buffers on each side; those of a FOLD are neighbours. */
int ccl_local_fits(const struct ccl_work *work);

/* 1 when all steps copy: the kernel for copies moves any type. */
int ccl_local_copies(const struct ccl_work *work);

/* Fills all but the tiles from the steps [first, …) as far as there is room; returns how many. */
uint32_t ccl_local_fill(struct ccl_local_args *args, const struct ccl_work *work, uint32_t first,
                        uint32_t elem_bytes);

/* 1 when more is written than read, or as much. */
int ccl_local_writes_more(const struct ccl_work *work);

/* Cuts the units into tiles; returns how many there are in all. */
uint64_t ccl_local_cut(struct ccl_local_args *args, uint32_t tile_bytes);

/* Deals the tiles to nwarps warps. */
void ccl_local_deal_to(struct ccl_local_args *args, uint32_t nwarps);

#ifdef __cplusplus
}
static_assert(sizeof(struct ccl_local_args) == CCL_LOCAL_ARGS_BYTES, "launch arguments");
static_assert(sizeof(struct ccl_local_step) == 22, "steps are packed");
#endif

#endif
