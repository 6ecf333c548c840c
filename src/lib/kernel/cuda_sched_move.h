/* cuda_sched_move.h: how all warps of a channel move the data of a step, by the step's protocol.
 *
 * SIMPLE: buffers and slots alike, cuda_fold.h. LL: an item of 8 bytes a thread; LL128: of 16 a
 * lane, seven lanes to a line whose eighth carries flag and signature. Those two wait for each item
 * as they read it.
 */
#ifndef CCL_KERNEL_CUDA_SCHED_MOVE_H
#define CCL_KERNEL_CUDA_SCHED_MOVE_H

#include "kernel/cuda_fold.h"
#include "kernel/cuda_sched_step.h"

/* All buffers of a FOLD, or those of one pair of a MAP, as cuda_fold.h wants them. */
struct sched_place {
    const ccl_work &work;
    const sched_move &move;
    uint32_t first;

    __device__ __forceinline__ uint32_t nsources() const
    {
        return move.is_map ? 1 : move.nsources;
    }
    __device__ __forceinline__ uint32_t ntargets() const
    {
        return move.is_map ? 1 : move.ntargets;
    }
    __device__ __forceinline__ const char *source(uint32_t j) const
    {
        return move.from[first + j].at;
    }
    __device__ __forceinline__ char *target(uint32_t j) const
    {
        return move.to[first + j].at;
    }
    __device__ __forceinline__ uint32_t scales(uint32_t j) const
    {
        return move.is_map ? 0 : move.from[first + j].scales;
    }
    template <class T> __device__ __forceinline__ typename T::word factor(uint32_t j) const
    {
        return T::spread(move.from[first + j].extra);
    }
    __device__ __forceinline__ uint32_t divides() const
    {
        return move.divides;
    }
    __device__ __forceinline__ uint32_t divisor() const
    {
        return work.divisor;
    }
    __device__ __forceinline__ uint32_t op() const
    {
        return work.redop;
    }
};

SCHED_OP uint32_t count_units(const sched_move &move)
{
    return move.is_map ? move.nsources : 1;
}

/* ---- SIMPLE ---- */

template <int REDUCES> struct sched_shape {
    typedef fold_shape<2, 2, CCL_STREAM, CCL_STREAM> type;
};
template <> struct sched_shape<0> {
    typedef fold_shape<4, 1, CCL_STREAM, CCL_STREAM> type;
};

enum sched_pass { SCHED_VECTORS, SCHED_SHIFTED, SCHED_ELEMENTS };

/* Tiles of all units are dealt to the warps. Where all buffers are aligned, only the last bytes are
 * elements. */
template <class T, int PASS> SCHED_OP void move_tiles(const ccl_work &work, const sched_move &move)
{
    typedef typename sched_shape<T::REDUCES>::type C;
    uint32_t tiles = (uint32_t)((move.bytes + C::TILE_BYTES - 1) / C::TILE_BYTES);
    if (PASS == SCHED_ELEMENTS && move.is_aligned) tiles = 1;
    uint32_t all = move.is_map ? move.nsources * tiles : tiles;
#pragma unroll 1
    for (uint32_t at = threadIdx.x / 32; at < all; at += blockDim.x / 32) {
        forget();
        sched_place place = {work, move, at / tiles};
        fold_cut cut = {move.bytes, 0, C::TILE_BYTES, move.grain};
        if (!move.is_aligned) cut.form = move.to[place.first].form;
        uint64_t start = (uint64_t)(at - place.first * tiles) * C::TILE_BYTES;
        if constexpr (PASS == SCHED_ELEMENTS)
            fold_elements<T>(place, cut, start);
        else
            fold_vectors<T, C, PASS == SCHED_SHIFTED>(place, cut, start);
    }
}

template <class T> SCHED_OP void move_simple(const ccl_work &work, const sched_move &move)
{
    move_tiles<T, SCHED_VECTORS>(work, move);
    forget();
    if (!move.is_aligned) move_tiles<T, SCHED_SHIFTED>(work, move);
    forget();
    if (!move.is_aligned || move.bytes % 16 != 0) move_tiles<T, SCHED_ELEMENTS>(work, move);
}

/* ---- words of items ---- */

/* 8 or 16 bytes as words of the type. */
template <class WORD> SCHED_OP void split(uint64_t bits, WORD *words)
{
    words[0] = (WORD)bits;
    if constexpr (sizeof(WORD) == 4) words[1] = (WORD)(bits >> 32);
}

template <class WORD> SCHED_OP uint64_t join(const WORD *words)
{
    if constexpr (sizeof(WORD) == 8) return words[0];
    return (uint64_t)words[1] << 32 | words[0];
}

/* Source j joins what was folded so far; copies have one source. */
template <class T, int N>
SCHED_OP void add_source(const sched_place &place, uint32_t j, typename T::word *acc,
                         typename T::word *next)
{
    if constexpr (T::REDUCES) {
        fold_source<T, N>(place, j, acc, next);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) acc[i] = next[i];
    }
}

template <class T, int N> SCHED_OP void divide_all(const sched_place &place, typename T::word *acc)
{
    if constexpr (T::REDUCES)
        if (place.divides())
#pragma unroll
            for (int i = 0; i < N; i++) acc[i] = T::divide(acc[i], place.divisor());
}

/* ---- LL ---- */

/* Sources that are on their way at once. */
enum { SCHED_SOURCES = 4 };

/* Loads source j of an item: the first look at a line, or bytes in its place. */
SCHED_OP uint4 load_ll(const sched_move &move, uint32_t j, uint32_t first, uint64_t at)
{
    const char *from = move.from[first + j].at;
    if (first + j < move.in_links) return load_line(from + 2 * at);
    uint64_t left = move.bytes - at;
    return pack_line(load_bytes(from + at, left < 8 ? (uint32_t)left : 8), 0);
}

/* Looks until the line of a link is there. */
SCHED_OP uint64_t wait_ll(const ccl_work &work, sched_shared &sh, uint32_t index, uint64_t at,
                          uint4 line)
{
    const sched_buffer &from = sh.move.from[index];
    uint32_t flag = (uint32_t)from.extra;
    if (index >= sh.move.in_links || line_is_there(line, flag)) return unpack_line(line);
    int is_there = spin_until(work, sh, CCL_WAIT_DATA, sh.move.peers[index], [&] {
        line = load_line(from.at + 2 * at);
        return line_is_there(line, flag);
    });
    if (!is_there) sh.stops = 1;
    return unpack_line(line);
}

SCHED_OP void store_ll(const sched_move &move, uint32_t index, uint64_t at, uint64_t bits)
{
    const sched_buffer &to = move.to[index];
    uint64_t left = move.bytes - at;
    if (index < move.out_links)
        store_line(to.at + 2 * at, pack_line(bits, (uint32_t)to.extra));
    else
        store_bytes(to.at + at, left < 8 ? (uint32_t)left : 8, bits);
}

/* One item of a unit. */
template <class T>
SCHED_OP void move_ll_item(const ccl_work &work, sched_shared &sh, const sched_place &place,
                           uint64_t at)
{
    typedef typename T::word word;
    enum { N = 8 / sizeof(word) };
    word acc[N] = {};
#pragma unroll 1
    for (uint32_t j = 0; j < place.nsources(); j += SCHED_SOURCES) {
        uint4 lines[SCHED_SOURCES] = {};
#pragma unroll
        for (uint32_t s = 0; s < SCHED_SOURCES; s++)
            if (j + s < place.nsources()) lines[s] = load_ll(sh.move, j + s, place.first, at);
#pragma unroll
        for (uint32_t s = 0; s < SCHED_SOURCES; s++) {
            if (j + s >= place.nsources()) continue;
            word next[N];
            split(wait_ll(work, sh, place.first + j + s, at, lines[s]), next);
            add_source<T, N>(place, j + s, acc, next);
        }
    }
    divide_all<T, N>(place, acc);
#pragma unroll 1
    for (uint32_t j = 0; j < place.ntargets(); j++)
        store_ll(sh.move, place.first + j, at, join(acc));
}

/* The last threads, which have the least to move, compare the signatures. */
SCHED_OP void check_signs(const ccl_work &work, sched_shared &sh)
{
#pragma unroll 1
    for (uint32_t j = blockDim.x - 1 - threadIdx.x; j < sh.move.in_links; j += blockDim.x) {
        uint4 line;
        uint32_t flag = (uint32_t)sh.move.from[j].extra;
        int is_there = spin_until(work, sh, CCL_WAIT_DATA, sh.move.peers[j], [&] {
            line = load_line(sh.move.sign_at[j]);
            return line_is_there(line, flag);
        });
        if (!is_there)
            sh.stops = 1;
        else if (unpack_line(line) != work.signature)
            disagree(work, sh, sh.move.peers[j]);
    }
}

template <class T> SCHED_OP void move_ll(const ccl_work &work, sched_shared &sh)
{
    uint32_t items = (uint32_t)((sh.move.bytes + 7) / 8), all = count_units(sh.move) * items;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < all && !sh.stops; i += blockDim.x) {
        uint32_t index = i / items;
        sched_place place = {work, sh.move, index};
        move_ll_item<T>(work, sh, place, (uint64_t)(i - index * items) * 8);
    }
    check_signs(work, sh);
}

/* ---- LL128 ---- */

/* What a lane has of a line: part 7 is the flag and the signature, the others 16 bytes of data. */
struct sched_part {
    uint64_t at, line; /* bytes into the unit; into the slot's place */
    uint32_t bytes;    /* of data, 0 for the flag's lane and behind the end */
    uint32_t has_line, is_flag;
};

SCHED_OP sched_part find_part(uint64_t bytes, uint32_t group)
{
    sched_part part;
    uint32_t lane = threadIdx.x % 32, line = group * 4 + lane / 8;
    part.at = (uint64_t)line * CCL_LL128_LINE_DATA + lane % 8 * 16;
    part.line = (uint64_t)line * 128 + lane % 8 * 16;
    part.is_flag = lane % 8 == 7;
    part.has_line = (uint64_t)line * CCL_LL128_LINE_DATA < bytes;
    uint64_t left = part.at < bytes && !part.is_flag ? bytes - part.at : 0;
    part.bytes = left < 16 ? (uint32_t)left : 16;
    return part;
}

SCHED_OP uint4 load_part(const char *at, uint32_t bytes)
{
    if (bytes == 16 && (uintptr_t)at % 16 == 0) return load_vector<CCL_STREAM>(at);
    uint64_t low = 0, high = 0;
    if (bytes > 0) low = load_bytes(at, bytes < 8 ? bytes : 8);
    if (bytes > 8) high = load_bytes(at + 8, bytes - 8);
    return make_uint4((uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32));
}

SCHED_OP void store_part(char *at, uint32_t bytes, uint4 v)
{
    uint64_t low = (uint64_t)v.y << 32 | v.x, high = (uint64_t)v.w << 32 | v.z;
    if (bytes == 16 && (uintptr_t)at % 16 == 0) {
        store_vector<CCL_STREAM>(at, v);
        return;
    }
    if (bytes > 0) store_bytes(at, bytes < 8 ? bytes : 8, low);
    if (bytes > 8) store_bytes(at + 8, bytes - 8, high);
}

SCHED_OP uint4 load_ll128(const sched_move &move, uint32_t index, const sched_part &part)
{
    const char *from = move.from[index].at;
    if (index >= move.in_links) return load_part(from + part.at, part.bytes);
    return part.has_line ? load_line(from + part.line) : make_uint4(0, 0, 0, 0);
}

/* Looks until the lines of all lanes are there: a line is written as a whole, its flag tells. */
SCHED_OP uint4 wait_ll128(const ccl_work &work, sched_shared &sh, uint32_t index,
                          const sched_part &part, uint4 v)
{
    const sched_buffer &from = sh.move.from[index];
    if (index >= sh.move.in_links) return v;
    uint32_t is_mine = part.is_flag && part.has_line;
#pragma unroll 1
    for (uint32_t spins = 1;; spins++) {
        uint64_t flag = (uint64_t)v.y << 32 | v.x;
        if (__all_sync(~0u, !is_mine || flag == from.extra)) break;
        int ends = spins % CCL_SPINS_PER_LOOK == 0 &&
                   look_up(work, sh, CCL_WAIT_DATA, sh.move.peers[index]);
        if (__any_sync(~0u, ends)) {
            sh.stops = 1;
            return v;
        }
        v = load_ll128(sh.move, index, part);
    }
    uint64_t sign = (uint64_t)v.w << 32 | v.z;
    if (is_mine && sign != work.signature) disagree(work, sh, sh.move.peers[index]);
    return v;
}

/* One instruction for all lanes writes whole lines. */
SCHED_OP void store_ll128(const ccl_work &work, const sched_move &move, uint32_t index,
                          const sched_part &part, uint4 v)
{
    const sched_buffer &to = move.to[index];
    if (index >= move.out_links) {
        store_part(to.at + part.at, part.bytes, v);
        return;
    }
    if (part.is_flag)
        v = make_uint4((uint32_t)to.extra, (uint32_t)(to.extra >> 32), (uint32_t)work.signature,
                       (uint32_t)(work.signature >> 32));
    if (part.has_line) store_line(to.at + part.line, v);
}

/* Four lines of a unit. All lanes go the same way. */
template <class T>
SCHED_OP void move_ll128_lines(const ccl_work &work, sched_shared &sh, const sched_place &place,
                               const sched_part &part)
{
    typedef typename T::word word;
    enum { N = 16 / sizeof(word) };
    word acc[N] = {};
#pragma unroll 1
    for (uint32_t j = 0; j < place.nsources(); j += SCHED_SOURCES) {
        uint4 vectors[SCHED_SOURCES] = {};
#pragma unroll
        for (uint32_t s = 0; s < SCHED_SOURCES; s++)
            if (j + s < place.nsources())
                vectors[s] = load_ll128(sh.move, place.first + j + s, part);
#pragma unroll
        for (uint32_t s = 0; s < SCHED_SOURCES; s++) {
            if (j + s >= place.nsources()) continue;
            word next[N];
            uint4 v = wait_ll128(work, sh, place.first + j + s, part, vectors[s]);
            memcpy(next, &v, sizeof v);
            add_source<T, N>(place, j + s, acc, next);
        }
    }
    divide_all<T, N>(place, acc);
    uint4 v;
    memcpy(&v, acc, sizeof v);
    __syncwarp();
#pragma unroll 1
    for (uint32_t j = 0; j < place.ntargets(); j++)
        store_ll128(work, sh.move, place.first + j, part, v);
}

template <class T> SCHED_OP void move_ll128(const ccl_work &work, sched_shared &sh)
{
    uint32_t groups = (uint32_t)((count_lines(sh.move.bytes) + 3) / 4);
    uint32_t all = count_units(sh.move) * groups;
#pragma unroll 1
    for (uint32_t i = threadIdx.x / 32; i < all; i += blockDim.x / 32) {
        uint32_t index = i / groups;
        sched_place place = {work, sh.move, index};
        move_ll128_lines<T>(work, sh, place, find_part(sh.move.bytes, i - index * groups));
    }
}

template <class T> SCHED_OP void move_step(const ccl_work &work, sched_shared &sh)
{
    switch (sh.move.proto) {
    case CCL_PROTO_LL: move_ll<T>(work, sh); break;
    case CCL_PROTO_LL128: move_ll128<T>(work, sh); break;
    default: move_simple<T>(work, sh.move);
    }
}

#endif
