/* cuda_local.h: the kernel of the local path, instantiated by one .cu file per type.
 *
 * No barrier and no shared memory but for the joins: every warp takes its tiles, loads SOURCES
 * sources at a time, folds them in order and stores the result to all targets. The number of
 * sources is a run-time loop. A unit whose targets agree in their low address bits is moved by
 * vectors, its ends by elements; otherwise all of it goes by elements.
 */
#ifndef CCL_KERNEL_CUDA_LOCAL_H
#define CCL_KERNEL_CUDA_LOCAL_H

#include "kernel/cuda_item.h"
#include "kernel/cuda_join.h"
#include "kernel/cuda_local_args.h"
#include "kernel/cuda_words.h"

/* VECTORS of 16 bytes a lane and source, SOURCES loaded before the first is used. */
template <int VECTORS_, int SOURCES_, int LOADS_, int STORES_> struct local_config {
    enum { VECTORS = VECTORS_, SOURCES = SOURCES_, LOADS = LOADS_, STORES = STORES_ };
    enum { TILE_BYTES = CCL_LOCAL_TILE_BYTES(VECTORS_) };
};

/* What bench_fold found best on an H200. */
typedef local_config<2, 2, CCL_STREAM, CCL_STREAM> fold_config;
typedef local_config<4, 1, CCL_STREAM, CCL_STREAM> copy_config;
enum { CCL_LOCAL_MAX_THREADS = 512, CCL_LOCAL_CTAS_PER_SM = 2 };

#define LOCAL_OP static __device__ __forceinline__

/* The sources, or the targets, of a unit: buffers of neighbouring slots, `at` bytes into each. */
struct local_side {
    uint32_t count, word;
    uint64_t at;
};

/* SHIFTED: sources whose low address bits differ from the targets'. */
enum {
    UNIT_HEAD = 63,
    UNIT_SHIFTED = 64,
    UNIT_ELEMENTS = 128,
    UNIT_DIVIDES = 256,
    UNIT_SCALES = 512
};

struct local_unit {
    struct local_side in, out;
    uint32_t form; /* bytes before the vectors, and the flags above; few registers matter here */
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

/* Which part goes by vectors. Sources that are read across the grid of vectors leave one vector
 * more to elements at either end, so that nothing outside of the buffers is read. */
LOCAL_OP uint32_t find_form(const ccl_local_args &args, const local_unit &unit, uint32_t elem_bytes)
{
    if (args.is_aligned || unit.in.count == 0) return 0;
    uint32_t to = (uint32_t)(uintptr_t)local_address(args, unit.out, 0) & 15u;
    uint32_t apart = 0, shifted = 0;
#pragma unroll 1
    for (uint32_t j = 1; j < unit.out.count; j++)
        apart |= ((uint32_t)(uintptr_t)local_address(args, unit.out, j) ^ to) & 15u;
#pragma unroll 1
    for (uint32_t j = 0; j < unit.in.count; j++)
        shifted |= ((uint32_t)(uintptr_t)local_address(args, unit.in, j) ^ to) & 15u;
    uint32_t edge = shifted ? 16 : 0, head = (-to & 15u) + edge;
    if (apart || to % elem_bytes != 0 || args.block_bytes < head + edge + 16) return UNIT_ELEMENTS;
    return shifted ? head | UNIT_SHIFTED : head;
}

/* Bytes that go by vectors. */
LOCAL_OP uint64_t count_vectors(const ccl_local_args &args, uint32_t form)
{
    if (form & UNIT_ELEMENTS) return 0;
    uint32_t ends = (form & UNIT_HEAD) + (form & UNIT_SHIFTED ? 16 : 0);
    return (args.block_bytes - ends) & ~(uint64_t)15;
}

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
    unit.form = find_form(args, unit, elem_bytes);
    if (flags & CCL_LOCAL_DIVIDES) unit.form |= UNIT_DIVIDES;
    if (flags & CCL_LOCAL_SCALES) unit.form |= UNIT_SCALES;
}

/* ---- folding ---- */

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

#define LOCAL_LOOP(expression)                                                                     \
    _Pragma("unroll") for (int i = 0; i < N; i++) acc[i] = expression;                             \
    break

template <class T, int N>
LOCAL_OP void combine(typename T::word *acc, const typename T::word *next, uint32_t op)
{
    switch (op) {
    case CCL_SUM: LOCAL_LOOP(T::sum(acc[i], next[i]));
    case CCL_PROD: LOCAL_LOOP(T::prod(acc[i], next[i]));
    case CCL_MAX: LOCAL_LOOP(T::max(acc[i], next[i]));
    default: LOCAL_LOOP(T::min(acc[i], next[i]));
    }
}

#undef LOCAL_LOOP

/* Loads, folds and stores U items a lane; the first starts `offset` bytes into the block, and
 * those below nown exist. */
template <class T, class ITEMS, int U, int S> struct folder {
    typedef typename T::word word;
    enum { N = ITEMS::N, ALL = U * ITEMS::N };

    LOCAL_OP void load(word *items, const char *from, uint32_t nown, uint32_t elem_bytes)
    {
#pragma unroll
        for (int u = 0; u < U; u++)
            if (u < (int)nown) ITEMS::load(items + u * N, from + u * ITEMS::STEP, elem_bytes);
    }

    LOCAL_OP void add(const ccl_local_args &args, const local_unit &unit, uint32_t j, word *acc,
                      word *next)
    {
        if (unit.form & UNIT_SCALES) {
            word factor = local_factor<T>(args, unit.in.word + j * CCL_LOCAL_WORDS);
#pragma unroll
            for (int i = 0; i < ALL; i++) next[i] = T::prod(next[i], factor);
        }
        if (j > 0) {
            combine<T, ALL>(acc, next, args.op);
            return;
        }
#pragma unroll
        for (int i = 0; i < ALL; i++) acc[i] = next[i];
    }

    LOCAL_OP void reduce(const ccl_local_args &args, const local_unit &unit, uint64_t offset,
                         uint32_t nown, word *acc)
    {
#pragma unroll 1
        for (uint32_t j = 0; j < unit.in.count; j += S) {
            word next[S][ALL];
#pragma unroll
            for (int s = 0; s < S; s++)
                if (j + s < unit.in.count)
                    load(next[s], local_address(args, unit.in, j + s) + offset, nown,
                         T::ELEM_BYTES);
#pragma unroll
            for (int s = 0; s < S; s++)
                if (j + s < unit.in.count) add(args, unit, j + s, acc, next[s]);
        }
        if (unit.form & UNIT_DIVIDES)
#pragma unroll
            for (int i = 0; i < ALL; i++) acc[i] = T::divide(acc[i], args.divisor);
    }

    LOCAL_OP void store(const ccl_local_args &args, const local_unit &unit, uint64_t offset,
                        uint32_t nown, const word *acc, const char *skip, uint32_t elem_bytes)
    {
#pragma unroll 1
        for (uint32_t j = 0; j < unit.out.count; j++) {
            char *to = local_address(args, unit.out, j) + offset;
            if (to == skip) continue;
#pragma unroll
            for (int u = 0; u < U; u++)
                if (u < (int)nown) ITEMS::store(to + u * ITEMS::STEP, acc + u * N, elem_bytes);
        }
    }

    LOCAL_OP void run(const ccl_local_args &args, const local_unit &unit, uint64_t offset,
                      uint32_t nown)
    {
        word acc[ALL];
        if constexpr (T::REDUCES) {
            reduce(args, unit, offset, nown, acc);
            store(args, unit, offset, nown, acc, NULL, T::ELEM_BYTES);
        } else {
            const char *from = local_address(args, unit.in, 0) + offset;
            load(acc, from, nown, args.elem_bytes);
            store(args, unit, offset, nown, acc, from, args.elem_bytes);
        }
    }
};

/* ---- tiles ---- */

/* A pass moves one kind of bytes of all units. Most operations need only the first; passes rather
 * than branches, since what one needs in registers is no burden to the others then. */
enum local_pass { PASS_VECTORS, PASS_SHIFTED, PASS_ELEMENTS };

/* Bytes [start, start + TILE_BYTES) of those that go by vectors. */
template <class T, class C, int PASS>
LOCAL_OP void move_vectors(const ccl_local_args &args, const local_unit &unit, uint64_t start)
{
    if (!(unit.form & UNIT_SHIFTED) != (PASS == PASS_VECTORS)) return;
    uint64_t vectors = count_vectors(args, unit.form);
    uint32_t lane_at = threadIdx.x % 32 * 16, nown = C::VECTORS;
    if (start + lane_at >= vectors) return;
    uint64_t left = vectors - start - lane_at;
    if (left < C::TILE_BYTES) nown = ((uint32_t)left + 511) / 512;
    uint64_t offset = (unit.form & UNIT_HEAD) + start + lane_at;
    typedef vector_items<typename T::word, C::LOADS, C::STORES> items;
    typedef shifted_items<typename T::word, C::STORES> shifted;
    if constexpr (PASS == PASS_VECTORS) {
        folder<T, items, C::VECTORS, C::SOURCES>::run(args, unit, offset, nown);
    } else {
#pragma unroll 1
        for (uint32_t u = 0; u < nown; u++)
            folder<T, shifted, 1, 2>::run(args, unit, offset + u * items::STEP, 1);
    }
}

/* Bytes [start, start + TILE_BYTES) of those that no vector moves. */
template <class T, class C>
LOCAL_OP void move_elements(const ccl_local_args &args, const local_unit &unit, uint64_t start,
                            uint32_t elem_bytes)
{
    uint64_t vectors = count_vectors(args, unit.form), end = args.block_bytes - vectors;
    if (end > start + C::TILE_BYTES) end = start + C::TILE_BYTES;
    uint32_t head = unit.form & UNIT_HEAD;
#pragma unroll 1
    for (uint64_t at = start + threadIdx.x % 32 * elem_bytes; at < end; at += 32 * elem_bytes)
        folder<T, element_items<typename T::word>, 1, 4>::run(args, unit,
                                                              at < head ? at : at + vectors, 1);
}

template <class T, class C, int PASS>
LOCAL_OP void run_pass(const ccl_local_args &args, const ccl_local_deal &deal, uint32_t warp)
{
    uint32_t elem_bytes = T::REDUCES ? (uint32_t)T::ELEM_BYTES : args.elem_bytes;
    uint32_t index = 0, tile = warp;
    if (warp >= deal.unit_tiles) {
        index = deal.unit_tiles == 1 ? warp : warp / deal.unit_tiles;
        tile = warp - index * deal.unit_tiles;
    }
    while (index < args.nunits) {
        uint32_t before = index;
        local_unit unit;
        find_unit(args, index, unit, elem_bytes);
#pragma unroll 1
        do {
            uint64_t start = (uint64_t)tile * C::TILE_BYTES;
            if (unit.in.count == 0)
                ;
            else if (PASS == PASS_ELEMENTS)
                move_elements<T, C>(args, unit, start, elem_bytes);
            else
                move_vectors<T, C, PASS>(args, unit, start);
            index += deal.next_units;
            tile += deal.next_tiles;
            if (tile >= deal.unit_tiles) {
                tile -= deal.unit_tiles;
                index++;
            }
        } while (index == before);
    }
}

/* Elements are dealt from the last warp on, so that a short operation has its vectors and its ends
 * moved by different warps. */
template <class T, class C> LOCAL_OP void run_passes(const ccl_local_args &args)
{
    uint32_t warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (args.vectors.unit_tiles > 0) {
        run_pass<T, C, PASS_VECTORS>(args, args.vectors, warp);
        if (!args.is_aligned) run_pass<T, C, PASS_SHIFTED>(args, args.vectors, warp);
    }
    if (args.elements.unit_tiles > 0)
        run_pass<T, C, PASS_ELEMENTS>(args, args.elements,
                                      gridDim.x * (blockDim.x / 32) - 1 - warp);
}

template <class T, class C> LOCAL_OP void run_local(const ccl_local_args &args)
{
    if (args.ngates > 0 && !join_wait(args.gates, args.ngates, args.abort_word)) return;
    run_passes<T, C>(args);
    if (args.is_last) join_leave(args.gates, args.ngates, args.arrived);
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
