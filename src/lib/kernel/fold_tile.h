/* fold_tile.h: between fold.c, which cuts a fold into tiles, and the loops of each instruction
 * set, which reduce one tile.
 */
#ifndef CCL_KERNEL_FOLD_TILE_H
#define CCL_KERNEL_FOLD_TILE_H

#include "kernel/fold.h"
#include "nccl.h"

/* Reduces elements [first, first + n) of all sources, n <= CCL_TILE, into `result`. */
typedef void ccl_fold_tile(const struct ccl_fold *fold, size_t first, size_t n, void *result);

/* By type; one table per instruction set. */
extern ccl_fold_tile *const ccl_fold_tiles_base[ncclNumTypes];
extern ccl_fold_tile *const ccl_fold_tiles_avx2[ncclNumTypes];
extern ccl_fold_tile *const ccl_fold_tiles_avx512[ncclNumTypes];

#endif
