/* cuda_fold.h: how a warp folds or copies part of a unit: sources in order, the result to all
 * targets. What the buffers are says a PLACE, a small struct with
 *   nsources, ntargets, source(j), target(j)   addresses of element 0
 *   scales(j), factor<T>(j)                    whether a source is scaled, and by which word
 *   divides, divisor, op
 * Targets that agree in their low address bits are written by vectors of 16 bytes, the ends by
 * elements; otherwise all goes by elements. The number of sources is a run-time loop.
 */
#ifndef CCL_KERNEL_CUDA_FOLD_H
#define CCL_KERNEL_CUDA_FOLD_H

#include "kernel/cuda_item.h"
#include "kernel/cuda_words.h"
#include "kernel/work.h"

/* Bytes that a warp moves at a time with `vectors` of 16 bytes a lane. */
#define CCL_FOLD_TILE_BYTES(vectors) ((vectors)*512u)

/* VECTORS of 16 bytes a lane and source, SOURCES loaded before the first is used. */
template <int VECTORS_, int SOURCES_, int LOADS_, int STORES_> struct fold_shape {
    enum { VECTORS = VECTORS_, SOURCES = SOURCES_, LOADS = LOADS_, STORES = STORES_ };
    enum { TILE_BYTES = CCL_FOLD_TILE_BYTES(VECTORS_) };
};

#define FOLD_OP static __device__ __forceinline__

/* Which part of a unit goes by vectors: bytes before them, and flags. SHIFTED: sources whose low
 * address bits differ from the targets'. */
enum { FORM_HEAD = 63, FORM_SHIFTED = 64, FORM_ELEMENTS = 128 };

/* `to`: the address bits of a target; apart, shifted: in which the other targets, or the sources,
 * differ from it. Sources that are read across the grid of vectors leave one vector more to
 * elements at either end, so that nothing outside of the buffers is read. */
FOLD_OP uint32_t make_form(uint32_t to, uint32_t apart, uint32_t shifted, uint64_t bytes,
                           uint32_t elem_bytes)
{
    uint32_t edge = shifted & 15u ? 16 : 0, head = (-to & 15u) + edge;
    if (apart & 15u || to % elem_bytes != 0 || bytes < head + edge + 16) return FORM_ELEMENTS;
    return edge ? head | FORM_SHIFTED : head;
}

template <class PLACE>
FOLD_OP uint32_t find_form(const PLACE &place, uint64_t bytes, uint32_t elem_bytes)
{
    uint32_t to = (uint32_t)(uintptr_t)place.target(0), apart = 0, shifted = 0;
#pragma unroll 1
    for (uint32_t j = 1; j < place.ntargets(); j++)
        apart |= (uint32_t)(uintptr_t)place.target(j) ^ to;
#pragma unroll 1
    for (uint32_t j = 0; j < place.nsources(); j++)
        shifted |= (uint32_t)(uintptr_t)place.source(j) ^ to;
    return make_form(to, apart, shifted, bytes, elem_bytes);
}

/* Of all bytes of a unit, those that go by vectors. */
FOLD_OP uint64_t count_vectors(uint64_t bytes, uint32_t form)
{
    if (form & FORM_ELEMENTS) return 0;
    uint32_t ends = (form & FORM_HEAD) + (form & FORM_SHIFTED ? 16 : 0);
    return (bytes - ends) & ~(uint64_t)15;
}

#define FOLD_LOOP(expression)                                                                      \
    _Pragma("unroll") for (int i = 0; i < N; i++) acc[i] = expression;                             \
    break

template <class T, int N>
FOLD_OP void combine(typename T::word *acc, const typename T::word *next, uint32_t op)
{
    switch (op) {
    case CCL_SUM: FOLD_LOOP(T::sum(acc[i], next[i]));
    case CCL_PROD: FOLD_LOOP(T::prod(acc[i], next[i]));
    case CCL_MAX: FOLD_LOOP(T::max(acc[i], next[i]));
    default: FOLD_LOOP(T::min(acc[i], next[i]));
    }
}

#undef FOLD_LOOP

/* Source j of a place, N words of it, joins what was folded so far. */
template <class T, int N, class PLACE>
FOLD_OP void fold_source(const PLACE &place, uint32_t j, typename T::word *acc,
                         typename T::word *next)
{
    if (place.scales(j)) {
        typename T::word factor = place.template factor<T>(j);
#pragma unroll
        for (int i = 0; i < N; i++) next[i] = T::prod(next[i], factor);
    }
    if (j > 0) {
        combine<T, N>(acc, next, place.op());
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++) acc[i] = next[i];
}

/* Loads, folds and stores U items a lane; the first starts `offset` bytes into the unit, and
 * those below nown exist. Copies know the size of their elements only when they run. */
template <class T, class ITEMS, int U, int S, class PLACE> struct folder {
    typedef typename T::word word;
    enum { N = ITEMS::N, ALL = U * ITEMS::N };

    FOLD_OP void load(word *items, const char *from, uint32_t nown, uint32_t elem_bytes)
    {
#pragma unroll
        for (int u = 0; u < U; u++)
            if (u < (int)nown) ITEMS::load(items + u * N, from + u * ITEMS::STEP, elem_bytes);
    }

    FOLD_OP void reduce(const PLACE &place, uint64_t offset, uint32_t nown, word *acc)
    {
#pragma unroll 1
        for (uint32_t j = 0; j < place.nsources(); j += S) {
            word next[S][ALL] = {};
#pragma unroll
            for (int s = 0; s < S; s++)
                if (j + s < place.nsources())
                    load(next[s], place.source(j + s) + offset, nown, T::ELEM_BYTES);
#pragma unroll
            for (int s = 0; s < S; s++)
                if (j + s < place.nsources()) fold_source<T, ALL>(place, j + s, acc, next[s]);
        }
        if (place.divides())
#pragma unroll
            for (int i = 0; i < ALL; i++) acc[i] = T::divide(acc[i], place.divisor());
    }

    FOLD_OP void store(const PLACE &place, uint64_t offset, uint32_t nown, const word *acc,
                       uint32_t skip, uint32_t elem_bytes)
    {
#pragma unroll 1
        for (uint32_t j = 0; j < place.ntargets(); j++) {
            char *to = place.target(j) + offset;
            if (j == skip) continue;
#pragma unroll
            for (int u = 0; u < U; u++)
                if (u < (int)nown) ITEMS::store(to + u * ITEMS::STEP, acc + u * N, elem_bytes);
        }
    }

    /* The target of a copy that is its source. An index, since an address is a register more. */
    FOLD_OP uint32_t find_source(const PLACE &place)
    {
        uint32_t j = 0;
#pragma unroll 1
        while (j < place.ntargets() && place.target(j) != place.source(0)) j++;
        return j;
    }

    FOLD_OP void run(const PLACE &place, uint64_t offset, uint32_t nown, uint32_t elem_bytes)
    {
        word acc[ALL] = {};
        if constexpr (T::REDUCES) {
            reduce(place, offset, nown, acc);
            store(place, offset, nown, acc, ~0u, T::ELEM_BYTES);
        } else {
            load(acc, place.source(0) + offset, nown, elem_bytes);
            store(place, offset, nown, acc, find_source(place), elem_bytes);
        }
    }
};

/* A unit's form and bytes, and how much of it a warp takes at a time. */
struct fold_cut {
    uint64_t bytes;
    uint32_t form, tile_bytes, elem_bytes;
};

/* Bytes [start, start + tile) of those that go by vectors. SHIFTED: for units of that form, else
 * for the others; a pass of its own, so that what one needs in registers is no burden to the
 * other. */
template <class T, class C, int SHIFTED, class PLACE>
FOLD_OP void fold_vectors(const PLACE &place, const fold_cut &cut, uint64_t start)
{
    if (!(cut.form & FORM_SHIFTED) != !SHIFTED) return;
    uint64_t vectors = count_vectors(cut.bytes, cut.form);
    uint32_t lane_at = threadIdx.x % 32 * 16, nown = cut.tile_bytes / 512;
    if (start + lane_at >= vectors) return;
    uint64_t left = vectors - start - lane_at;
    if (left < cut.tile_bytes) nown = ((uint32_t)left + 511) / 512;
    uint64_t offset = (cut.form & FORM_HEAD) + start + lane_at;
    typedef vector_items<typename T::word, C::LOADS, C::STORES> items;
    typedef shifted_items<typename T::word, C::STORES> shifted;
    if constexpr (!SHIFTED) {
        folder<T, items, C::VECTORS, C::SOURCES, PLACE>::run(place, offset, nown, cut.elem_bytes);
    } else {
#pragma unroll 1
        for (uint32_t u = 0; u < nown; u++)
            folder<T, shifted, 1, 2, PLACE>::run(place, offset + u * items::STEP, 1,
                                                 cut.elem_bytes);
    }
}

/* Bytes [start, start + tile) of those that no vector moves. */
template <class T, class PLACE>
FOLD_OP void fold_elements(const PLACE &place, const fold_cut &cut, uint64_t start)
{
    uint64_t vectors = count_vectors(cut.bytes, cut.form), end = cut.bytes - vectors;
    if (end > start + cut.tile_bytes) end = start + cut.tile_bytes;
    uint32_t head = cut.form & FORM_HEAD;
#pragma unroll 1
    for (uint64_t at = start + threadIdx.x % 32 * cut.elem_bytes; at < end;
         at += 32 * cut.elem_bytes)
        folder<T, element_items<typename T::word>, 1, 4, PLACE>::run(
            place, at < head ? at : at + vectors, 1, cut.elem_bytes);
}

#undef FOLD_OP

#endif
