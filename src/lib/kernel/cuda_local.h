/* cuda_local.h: the kernel of the local path, instantiated by one .cu file per type.
 *
 * No barrier and no shared memory but for the joins: every warp takes its tiles of all units and
 * folds them (cuda_fold.h). Each form of a unit is a pass of its own over the tiles, and most
 * operations need only the first.
 */
#ifndef CCL_KERNEL_CUDA_LOCAL_H
#define CCL_KERNEL_CUDA_LOCAL_H

#include "kernel/cuda_fold.h"
#include "kernel/cuda_join.h"
#include "kernel/cuda_local_args.h"

/* What bench_fold found best on an H200. Short operations, of a tile a warp, wait for memory rather
 * than for its bandwidth: smaller tiles for more warps, more sources at once. */
typedef fold_shape<2, 2, CCL_STREAM, CCL_STREAM> fold_config;
typedef fold_shape<1, 4, CCL_STREAM, CCL_STREAM> short_config;
typedef fold_shape<8, 1, CCL_STREAM, CCL_STREAM> copy_config;
enum { CCL_LOCAL_MAX_THREADS = 512, CCL_LOCAL_CTAS_PER_SM = 2 };

#define LOCAL_OP static __device__ __forceinline__

/* The sources, or the targets, of a unit: buffers of neighbouring slots, `at` bytes into each. */
struct local_side {
    uint32_t count, word;
    uint64_t at;
};

enum { UNIT_DIVIDES = 256, UNIT_SCALES = 512 };

struct local_unit {
    struct local_side in, out;
    uint32_t form; /* that of cuda_fold.h, and the flags above; few registers matter here */
};

LOCAL_OP char *local_address(const ccl_local_args &args, const local_side &side, uint32_t j)
{
    return (char *)(uintptr_t)(args.words[side.word + j * CCL_LOCAL_WORDS] + side.at);
}

LOCAL_OP local_side find_side(const ccl_local_args &args, const ccl_local_range &range)
{
    local_side side;
    side.count = range.count;
    side.word = range.first;
    side.at = range.block * args.block_bytes;
    return side;
}

/* One pair of a MAP. */
LOCAL_OP local_side find_pair(const ccl_local_args &args, const ccl_local_range &range,
                              uint32_t pair)
{
    local_side side;
    side.count = pair < range.count;
    side.word = (uint32_t)(range.first + (int)pair * range.hop);
    side.at = (uint32_t)(range.block + (int)pair * range.block_hop) * args.block_bytes;
    return side;
}

/* Bytes that a unit moves. Only copies have lengths of their own. */
template <class T> LOCAL_OP uint64_t unit_bytes(const ccl_local_args &args, const local_unit &unit)
{
    if (!T::REDUCES && args.has_lengths) return args.words[unit.in.word + CCL_LOCAL_BYTES];
    return args.block_bytes;
}

/* A factor from the slot of a source. */
template <class T> LOCAL_OP typename T::word local_factor(const ccl_local_args &args, uint32_t word)
{
    uint32_t slot = word / CCL_LOCAL_WORDS * CCL_LOCAL_WORDS;
    uint64_t bits = args.words[slot + CCL_LOCAL_SCALAR];
    const char *at = (const char *)(uintptr_t)args.words[slot + CCL_LOCAL_SCALAR_AT];
    typename T::word item;
    if (at != NULL) {
        element_items<typename T::word>::load(&item, at, T::ELEM_BYTES);
        bits = item;
    }
    return T::spread(bits);
}

/* The buffers of a unit, as cuda_fold.h wants them. */
struct local_place {
    const ccl_local_args &args;
    const local_unit &unit;

    __device__ __forceinline__ uint32_t nsources() const
    {
        return unit.in.count;
    }
    __device__ __forceinline__ uint32_t ntargets() const
    {
        return unit.out.count;
    }
    __device__ __forceinline__ const char *source(uint32_t j) const
    {
        return local_address(args, unit.in, j);
    }
    __device__ __forceinline__ char *target(uint32_t j) const
    {
        return local_address(args, unit.out, j);
    }
    __device__ __forceinline__ uint32_t scales(uint32_t) const
    {
        return unit.form & UNIT_SCALES;
    }
    template <class T> __device__ __forceinline__ typename T::word factor(uint32_t j) const
    {
        return local_factor<T>(args, unit.in.word + j * CCL_LOCAL_WORDS);
    }
    __device__ __forceinline__ uint32_t divides() const
    {
        return unit.form & UNIT_DIVIDES;
    }
    __device__ __forceinline__ uint32_t divisor() const
    {
        return args.divisor;
    }
    __device__ __forceinline__ uint32_t op() const
    {
        return args.op;
    }
};

template <class T>
LOCAL_OP void find_unit(const ccl_local_args &args, uint32_t index, local_unit &unit,
                        uint32_t elem_bytes)
{
    uint32_t step = index, pair = 0;
    if (args.pairs > 1) {
        step = index / args.pairs;
        pair = index - step * args.pairs;
    }
    const ccl_local_step *steps =
        (const ccl_local_step *)((const char *)args.words + args.steps_at);
    uint32_t flags = steps[step].flags;
    if (flags & CCL_LOCAL_MAP) {
        unit.in = find_pair(args, steps[step].in, pair);
        unit.out = find_pair(args, steps[step].out, pair);
    } else {
        unit.in = find_side(args, steps[step].in);
        unit.out = find_side(args, steps[step].out);
        if (pair > 0) unit.in.count = 0;
    }
    unit.form = 0;
    if (!args.is_aligned && unit.in.count > 0)
        unit.form = find_form(local_place{args, unit}, unit_bytes<T>(args, unit), elem_bytes);
    if (flags & CCL_LOCAL_DIVIDES) unit.form |= UNIT_DIVIDES;
    if (flags & CCL_LOCAL_SCALES) unit.form |= UNIT_SCALES;
}

/* ---- tiles ---- */

enum local_pass { PASS_VECTORS, PASS_SHIFTED, PASS_ELEMENTS };

template <class T, class C, int PASS>
LOCAL_OP void move_tile(const ccl_local_args &args, const local_unit &unit, uint32_t tile,
                        uint32_t elem_bytes)
{
    local_place place = {args, unit};
    fold_cut cut = {unit_bytes<T>(args, unit), unit.form, args.tile_bytes, elem_bytes};
    uint64_t start = (uint64_t)tile * args.tile_bytes;
    if constexpr (PASS == PASS_ELEMENTS)
        fold_elements<T>(place, cut, start);
    else
        fold_vectors<T, C, PASS == PASS_SHIFTED>(place, cut, start);
}

/* Copies find the unit anew for each tile, since their vectors leave it no registers. */
template <class T, class C, int PASS>
LOCAL_OP void run_pass(const ccl_local_args &args, const ccl_local_deal &deal, uint32_t warp)
{
    uint32_t elem_bytes = T::REDUCES ? (uint32_t)T::ELEM_BYTES : args.elem_bytes;
    uint32_t index = 0, tile = warp;
    if (deal.unit_tiles == 0) return;
    if (warp >= deal.unit_tiles) {
        index = deal.unit_tiles == 1 ? warp : warp / deal.unit_tiles;
        tile = warp - index * deal.unit_tiles;
    }
    while (index < args.nunits) {
        uint32_t before = index;
        local_unit unit;
        find_unit<T>(args, index, unit, elem_bytes);
#pragma unroll 1
        do {
            if (unit.in.count > 0) move_tile<T, C, PASS>(args, unit, tile, elem_bytes);
            index += deal.next_units;
            tile += deal.next_tiles;
            if (tile >= deal.unit_tiles) {
                tile -= deal.unit_tiles;
                index++;
            }
        } while (T::REDUCES && index == before);
    }
}

LOCAL_OP uint32_t first_tile(const ccl_local_args &args, uint32_t index)
{
    return (uint32_t)args.words[index * CCL_LOCAL_WORDS + CCL_LOCAL_FIRST_TILE];
}

/* The pair that a tile belongs to: the last one that begins there or before. */
LOCAL_OP uint32_t find_owner(const ccl_local_args &args, uint32_t tile)
{
    uint32_t low = 0, high = args.nunits;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (first_tile(args, middle) <= tile)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The same for pairs of different lengths, whose tiles are counted through. */
template <class T, class C, int PASS>
LOCAL_OP void run_pairs(const ccl_local_args &args, uint32_t warp)
{
    uint32_t nwarps = gridDim.x * (blockDim.x / 32);
#pragma unroll 1
    for (uint32_t tile = warp; tile < args.ntiles; tile += nwarps) {
        local_unit unit;
        uint32_t index = find_owner(args, tile);
        find_unit<T>(args, index, unit, args.elem_bytes);
        move_tile<T, C, PASS>(args, unit, tile - first_tile(args, index), args.elem_bytes);
    }
}

/* Elements are dealt from the last warp on, so that a short operation has its vectors and its ends
 * moved by different warps. */
template <class T, class C> LOCAL_OP void run_passes(const ccl_local_args &args)
{
    uint32_t warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    uint32_t from_last = gridDim.x * (blockDim.x / 32) - 1 - warp;
    if constexpr (!T::REDUCES)
        if (args.has_lengths) {
            run_pairs<T, C, PASS_VECTORS>(args, warp);
            if (args.is_aligned) return;
            run_pairs<T, C, PASS_SHIFTED>(args, warp);
            run_pairs<T, C, PASS_ELEMENTS>(args, from_last);
            return;
        }
    if (T::REDUCES && args.tile_bytes == short_config::TILE_BYTES)
        run_pass<T, short_config, PASS_VECTORS>(args, args.vectors, warp);
    else
        run_pass<T, C, PASS_VECTORS>(args, args.vectors, warp);
    if (!args.is_aligned) run_pass<T, C, PASS_SHIFTED>(args, args.vectors, warp);
    run_pass<T, C, PASS_ELEMENTS>(args, args.elements, from_last);
}

template <class T, class C> LOCAL_OP void run_local(const ccl_local_args &args)
{
    if (args.ngates > 0 && !join_wait(args.gates, args.ngates, args.abort_word)) return;
    run_passes<T, C>(args);
    if (args.is_last) join_leave(args);
}

#undef LOCAL_OP

/* The architecture that is compiled for; types that it has no instructions for are left out. */
#ifdef __CUDA_ARCH__
enum { CCL_LOCAL_ARCH = __CUDA_ARCH__ };
#else
enum { CCL_LOCAL_ARCH = 0 };
#endif

#define CCL_LOCAL_KERNEL(name, T, C)                                                               \
    extern "C" __global__ void __launch_bounds__(CCL_LOCAL_MAX_THREADS, CCL_LOCAL_CTAS_PER_SM)     \
        ccl_cuda_local_##name(const __grid_constant__ struct ccl_local_args args)                  \
    {                                                                                              \
        if constexpr (CCL_LOCAL_ARCH >= 10 * T::SM) run_local<T, C>(args);                         \
    }

#endif
