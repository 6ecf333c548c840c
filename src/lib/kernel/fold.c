/* fold.c: cutting a fold into tiles that stay in the first-level cache, choosing the loops for this
 * processor, and writing results: past the cache where they are too large to stay in it. */
#include "kernel/fold_tile.h"

#include "base/cpu.h"
#include "kernel/copy.h"

#include <stdatomic.h>

enum { COPY_TILE_BYTES = 8 << 10 };

/* The loops for this processor; NULL before the first fold. */
static ccl_fold_tile *const *_Atomic chosen;

static ccl_fold_tile *const *choose_tiles(void)
{
    ccl_fold_tile *const *tiles = ccl_fold_tiles_base;
#ifdef __x86_64__
    if (ccl_cpu_has(CCL_CPU_AVX2)) tiles = ccl_fold_tiles_avx2;
    if (ccl_cpu_has(CCL_CPU_AVX512)) tiles = ccl_fold_tiles_avx512;
#endif
    /* Relaxed: whoever chooses, it is the same constant table. */
    atomic_store_explicit(&chosen, tiles, memory_order_relaxed);
    return tiles;
}

static void write_targets(const struct ccl_fold *fold, size_t at, const void *result, size_t bytes)
{
    for (uint32_t t = 0; t < fold->ntargets; t++) {
        char *to = (char *)fold->targets[t] + at;
        if (to == result) continue;
        ccl_copy(to, result, bytes, fold->streams && t >= fold->nnear);
    }
}

/* One unscaled source is a copy of bytes, whatever the type. */
static void copy_tiles(const struct ccl_fold *fold, size_t bytes)
{
    const char *from = fold->sources[0].data;
    size_t tile = fold->ntargets == 1 && !fold->streams ? bytes : COPY_TILE_BYTES;
    for (size_t at = 0; at < bytes; at += tile) {
        size_t left = bytes - at;
        write_targets(fold, at, from + at, left < tile ? left : tile);
    }
}

enum { LINE_BYTES = 64, MAX_AHEAD = 8 };

/* Starts to fetch the sources' next tile while the results of this one are written: loads and
 * streaming stores overlap then. */
static void fetch_ahead(const struct ccl_fold *fold, size_t at, size_t bytes)
{
    for (uint32_t s = 0; s < fold->nsources && s < MAX_AHEAD; s++) {
        const char *from = (const char *)fold->sources[s].data + at;
        for (size_t i = 0; i < bytes; i += LINE_BYTES) __builtin_prefetch(from + i);
    }
}

static void reduce_tiles(const struct ccl_fold *fold, size_t n_elems)
{
    uint64_t result[CCL_TILE];
    size_t elem = ccl_fold_type_bytes(fold->type);
    ccl_fold_tile *const *tiles = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (tiles == NULL) tiles = choose_tiles();
    for (size_t first = 0; first < n_elems; first += CCL_TILE) {
        size_t n = n_elems - first < CCL_TILE ? n_elems - first : CCL_TILE;
        tiles[fold->type](fold, first, n, result);
        size_t left = n_elems - first - n;
        if (fold->streams) fetch_ahead(fold, (first + n) * elem, (left < n ? left : n) * elem);
        write_targets(fold, first * elem, result, n * elem);
    }
}

void ccl_fold_run(const struct ccl_fold *fold, size_t n_elems)
{
    if (fold->nsources == 0 || fold->ntargets == 0 || n_elems == 0) return;
    size_t bytes = n_elems * ccl_fold_type_bytes(fold->type);
    if (fold->nsources == 1 && !fold->sources[0].scaled && fold->divisor <= 1)
        copy_tiles(fold, bytes);
    else
        reduce_tiles(fold, n_elems);
    if (fold->streams) ccl_copy_fence();
}
