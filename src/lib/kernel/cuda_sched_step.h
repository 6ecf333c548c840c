/* cuda_sched_step.h: what the first warp of a channel does around a step: waits for slots, finds
 * the addresses, and says afterwards what was filled and drained. A lane takes a link, or a buffer.
 */
#ifndef CCL_KERNEL_CUDA_SCHED_STEP_H
#define CCL_KERNEL_CUDA_SCHED_STEP_H

#include "kernel/cuda_conn.h"
#include "kernel/cuda_fold.h"
#include "kernel/dev.h"
#include "kernel/piece.h"

#define SCHED_OP static __device__ __forceinline__

enum { CCL_SCHED_MAX_THREADS = 512, SCHED_STEPS = 64 /* kept in shared memory */ };

/* Where a channel stands; of its first warp. */
struct sched_at {
    uint32_t body, round, step;
};

/* A buffer of the step in work. Extra: of a link what its words carry as a flag (LL, LL128), of an
 * input that is scaled its factor. */
struct sched_buffer {
    char *at;
    uint64_t extra;
    uint32_t scales;
    uint32_t form; /* SIMPLE: of the unit whose first target this is (cuda_fold.h) */
};

/* A step of which all addresses are known. The first buffers of each side are links. */
struct sched_move {
    uint64_t bytes; /* of each buffer */
    uint32_t nsources, ntargets, in_links, out_links;
    uint32_t is_map, divides, proto;
    uint32_t is_aligned; /* all buffers start at multiples of 16 */
    uint32_t grain;      /* bytes of an element; of copies what all is a multiple of, up to 4 */
    sched_buffer from[CCL_CUDA_MAX_SIDE], to[CCL_CUDA_MAX_SIDE];
    const char *sign_at[CCL_CUDA_MAX_LINKS]; /* LL: of the links that are read */
    uint16_t peers[CCL_CUDA_MAX_LINKS];      /* at their other ends */
};

struct sched_shared {
    ccl_work work;
    ccl_cuda_conn conns[CCL_CUDA_MAX_LINKS];
    ccl_slot table[CCL_CUDA_MAX_SIDE]; /* slots of all executors, after they have met */
    ccl_step steps[SCHED_STEPS];
    sched_move move;
    uint32_t goes_on, stops, has_note;
};

/* What was read from memory is read again: shared memory is close, registers are few. */
SCHED_OP void forget(void)
{
    asm volatile("" : : : "memory");
}

template <class T> SCHED_OP uint32_t elem_bytes(const ccl_work &work)
{
    return T::REDUCES ? (uint32_t)T::ELEM_BYTES : work.elem_bytes;
}

/* A step in a channel and round. */
struct sched_step {
    const ccl_work &work;
    const ccl_body &body;
    const ccl_step &step;
    ccl_piece piece;
};

/* ---- waiting ---- */

/* Called once in many spins: leaves a note of whom it waits for; 1 when it is to end. */
SCHED_OP int look_up(const ccl_work &work, sched_shared &sh, uint32_t kind, uint32_t peer)
{
    store_relaxed_sys(work.note, (uint64_t)kind << 32 | peer);
    sh.has_note = 1;
    return load_relaxed_sys(work.abort_word) != 0 || load_relaxed_sys(work.error) != 0;
}

/* Spins until is_there(); 0 when the communicator was aborted meanwhile. */
template <class TEST>
SCHED_OP int spin_until(const ccl_work &work, sched_shared &sh, uint32_t kind, uint32_t peer,
                        TEST is_there)
{
#pragma unroll 1
    for (uint32_t spins = 1; !is_there(); spins++)
        if (spins % CCL_SPINS_PER_LOOK == 0 && look_up(work, sh, kind, peer)) return 0;
    return 1;
}

/* Executors run different operations: ends all their kernels, with a note of whom. */
SCHED_OP void disagree(const ccl_work &work, sched_shared &sh, uint32_t peer)
{
    store_relaxed_sys(work.note, (uint64_t)CCL_WAIT_DISAGREE << 32 | peer);
    *(volatile uint32_t *)work.error = CCL_ERROR_MISMATCH;
    sh.has_note = 0; /* it stays */
    sh.stops = 1;
}

SCHED_OP const ccl_step &find_step(const ccl_body &body, const sched_shared &sh, uint32_t step)
{
    return step < SCHED_STEPS ? sh.steps[step] : body.steps[step];
}

SCHED_OP ccl_cuda_conn &range_conn(sched_shared &sh, const ccl_range &range, uint32_t j)
{
    return sh.conns[range.first + (int)j * range.hop];
}

SCHED_OP uint32_t count_links(const ccl_range &range)
{
    return range.space == CCL_CONN ? range.count : 0;
}

/* All slots that the step reads are filled (LL and LL128 wait as they read) and all that it writes
 * are free. Acquires pair with the releases of finish_step. */
SCHED_OP int wait_slots(const sched_step &at, sched_shared &sh)
{
    uint32_t is_near = at.work.flags & CCL_WORK_NEAR;
    const ccl_range &in = at.step.in[0], &out = at.step.out[0];
    int is_there = 1;
#pragma unroll 1
    for (uint32_t j = threadIdx.x; j < count_links(out) && is_there; j += 32) {
        ccl_cuda_conn &conn = range_conn(sh, out, j);
        if (conn.seq - conn.credit_seen < conn.depth) continue;
        is_there = spin_until(at.work, sh, CCL_WAIT_CREDIT, conn.peer, [&] {
            conn.credit_seen = load_acquire_near(conn.credit, is_near);
            return conn.seq - conn.credit_seen < conn.depth;
        });
    }
    if (at.body.proto == CCL_PROTO_SIMPLE)
#pragma unroll 1
        for (uint32_t j = threadIdx.x; j < count_links(in) && is_there; j += 32) {
            ccl_cuda_conn &conn = range_conn(sh, in, j);
            is_there = spin_until(at.work, sh, CCL_WAIT_DATA, conn.peer, [&] {
                return load_acquire_near(&conn.flags->ready, is_near) > conn.seq;
            });
        }
    return __all_sync(~0u, is_there);
}

/* ---- addresses ---- */

SCHED_OP uint32_t ll_flag(uint64_t number)
{
    return (uint32_t)number | 0x80000000u;
}

/* 8 bytes and the flag that they carry, as a line of LL. */
SCHED_OP uint4 pack_line(uint64_t value, uint32_t flag)
{
    return make_uint4((uint32_t)value, flag, (uint32_t)(value >> 32), flag);
}

SCHED_OP uint64_t unpack_line(uint4 line)
{
    return (uint64_t)line.z << 32 | line.x;
}

SCHED_OP int line_is_there(uint4 line, uint32_t flag)
{
    return line.y == flag && line.w == flag;
}

SCHED_OP uint64_t count_lines(uint64_t bytes)
{
    return (bytes + CCL_LL128_LINE_DATA - 1) / CCL_LL128_LINE_DATA;
}

/* Where a place starts in a slot. Those of LL follow the signature's line; those of LL128 start a
 * line. */
SCHED_OP uint64_t place_offset(const ccl_body &body, uint64_t place, uint32_t bytes_each)
{
    uint64_t piece_bytes = body.piece_elems * bytes_each;
    if (body.proto == CCL_PROTO_LL) return 16 + 2 * place * piece_bytes;
    return place * (body.proto == CCL_PROTO_LL128 ? 128 * count_lines(piece_bytes) : piece_bytes);
}

SCHED_OP char *slot_at(const ccl_cuda_conn &conn)
{
    return conn.ring + (uint64_t)conn.slot * conn.stride;
}

/* Buffers of a rank: local ones come with the work, others were published at the meeting. */
SCHED_OP ccl_slot find_slot(const ccl_work &work, const sched_shared &sh, uint32_t slot)
{
    if (slot - work.first_local < work.nlocal) return work.local[slot - work.first_local];
    return sh.table[slot];
}

/* Element j of a range. */
template <class T>
SCHED_OP sched_buffer find_buffer(const sched_step &at, const ccl_range &range, uint32_t j,
                                  sched_shared &sh)
{
    const ccl_work &work = at.work;
    uint32_t bytes = elem_bytes<T>(work);
    uint64_t block = (uint64_t)(range.block + (int)j * range.block_hop);
    if (range.space == CCL_CONN) {
        const ccl_cuda_conn &conn = range_conn(sh, range, j);
        uint64_t flag = at.body.proto == CCL_PROTO_LL ? ll_flag(conn.seq) : conn.seq + 1;
        return {slot_at(conn) + place_offset(at.body, block, bytes), flag, 0, 0};
    }
    ccl_slot slot = find_slot(work, sh, (uint32_t)(range.first + (int)j * range.hop));
    uint64_t offset = (block * work.count_elems + at.piece.start) * bytes;
    if (range.space == CCL_OUT) return {(char *)slot.out + offset, 0, 0, 0};
    uint32_t scales = work.flags & CCL_WORK_SCALE;
    if (scales && slot.scalar_at != NULL)
        slot.scalar = load_bytes((const char *)slot.scalar_at, bytes);
    return {(char *)(uintptr_t)slot.in + offset, slot.scalar, scales, 0};
}

/* One side of a step: its buffers; returns how many there are. `low` gets their address bits. */
template <class T>
SCHED_OP uint32_t resolve_side(const sched_step &at, const ccl_range *ranges, sched_buffer *to,
                               sched_shared &sh, uint32_t *low)
{
    uint32_t n = ranges[0].space == CCL_NONE ? 0 : ranges[0].count;
    uint32_t all = n + (ranges[1].space == CCL_NONE ? 0 : ranges[1].count);
#pragma unroll 1
    for (uint32_t j = threadIdx.x; j < all; j += 32) {
        sched_buffer buffer =
            find_buffer<T>(at, j < n ? ranges[0] : ranges[1], j < n ? j : j - n, sh);
        *low |= (uint32_t)(uintptr_t)buffer.at;
        to[j] = buffer;
    }
    return all;
}

/* What a slot of LL holds from 2^31 messages ago would pass for new, therefore it is wiped once in
 * 2^30 messages, before its first words are written. */
SCHED_OP void wipe_slot(const ccl_cuda_conn &conn, uint32_t is_near)
{
    enum { EPOCH_BITS = 30 };
    if (conn.seq < conn.depth || ((conn.seq - conn.depth) ^ conn.seq) >> EPOCH_BITS == 0) return;
    char *slot = slot_at(conn);
#pragma unroll 1
    for (uint32_t at = 0; at < conn.stride; at += 16) store_line(slot + at, make_uint4(0, 0, 0, 0));
    fence_near(is_near);
}

/* Signatures go ahead of the data: in a line of their own (LL), or beside the flag of the slot
 * (SIMPLE). */
SCHED_OP void describe_links(const sched_step &at, sched_shared &sh)
{
    const ccl_range &in = at.step.in[0], &out = at.step.out[0];
#pragma unroll 1
    for (uint32_t j = threadIdx.x; j < count_links(in); j += 32) {
        const ccl_cuda_conn &conn = range_conn(sh, in, j);
        sh.move.sign_at[j] = slot_at(conn);
        sh.move.peers[j] = conn.peer;
    }
#pragma unroll 1
    for (uint32_t j = threadIdx.x; j < count_links(out); j += 32) {
        const ccl_cuda_conn &conn = range_conn(sh, out, j);
        if (at.body.proto == CCL_PROTO_SIMPLE) conn.flags->signs[conn.slot] = at.work.signature;
        if (at.body.proto != CCL_PROTO_LL) continue;
        if (out.block + (int)j * out.block_hop == 0) wipe_slot(conn, at.work.flags & CCL_WORK_NEAR);
        store_line(slot_at(conn), pack_line(at.work.signature, ll_flag(conn.seq)));
    }
}

/* The forms of all units: of a FOLD one, of a MAP one a pair. */
SCHED_OP void find_forms(sched_move &move)
{
    uint32_t to = (uint32_t)(uintptr_t)move.to[0].at, apart = 0, shifted = 0;
#pragma unroll 1
    for (uint32_t j = threadIdx.x; j < move.ntargets; j += 32) {
        uint32_t its = (uint32_t)(uintptr_t)move.to[j].at,
                 from = (uint32_t)(uintptr_t)move.from[j].at;
        apart |= its ^ to;
        if (move.is_map) move.to[j].form = make_form(its, 0, from ^ its, move.bytes, move.grain);
    }
#pragma unroll 1
    for (uint32_t j = threadIdx.x; j < move.nsources; j += 32)
        shifted |= (uint32_t)(uintptr_t)move.from[j].at ^ to;
    apart = __reduce_or_sync(~0u, apart);
    shifted = __reduce_or_sync(~0u, shifted);
    if (threadIdx.x == 0 && !move.is_map)
        move.to[0].form = make_form(to, apart, shifted, move.bytes, move.grain);
}

template <class T> SCHED_OP void resolve_step(const sched_step &at, sched_shared &sh)
{
    sched_move &move = sh.move;
    const ccl_step &step = at.step;
    uint32_t low = 0;
    uint32_t nsources = resolve_side<T>(at, step.in, move.from, sh, &low);
    uint32_t ntargets = resolve_side<T>(at, step.out, move.to, sh, &low);
    low = __reduce_or_sync(~0u, low);
    describe_links(at, sh);
    if (threadIdx.x == 0) {
        move.bytes = at.piece.elems * elem_bytes<T>(at.work);
        move.nsources = nsources;
        move.ntargets = ntargets;
        move.in_links = count_links(step.in[0]);
        move.out_links = count_links(step.out[0]);
        move.is_map = step.kind == CCL_MAP;
        move.divides =
            at.work.flags & CCL_WORK_DIVIDE && step.flags & CCL_STEP_POST && at.work.divisor > 1;
        move.proto = at.body.proto;
        move.is_aligned = low % 16 == 0;
        low |= (uint32_t)move.bytes | 4;
        move.grain = T::REDUCES ? (uint32_t)T::ELEM_BYTES : low & (~low + 1);
    }
    __syncwarp();
    if (!move.is_aligned && at.body.proto == CCL_PROTO_SIMPLE) find_forms(move);
}

/* ---- afterwards ---- */

/* Releases publish what all warps have written, which the barrier has ordered before. */
SCHED_OP void post_slot(ccl_cuda_conn &conn, uint32_t proto, uint32_t is_near)
{
    conn.seq++;
    conn.slot = conn.slot + 1 == conn.depth ? 0 : conn.slot + 1;
    if (proto == CCL_PROTO_SIMPLE) store_release_near(&conn.flags->ready, conn.seq, is_near);
}

/* LL and LL128 say only now and then that slots were drained. */
SCHED_OP void release_slot(ccl_cuda_conn &conn, uint32_t proto, uint32_t is_near)
{
    uint32_t batch = proto != CCL_PROTO_SIMPLE && conn.depth > 2 ? conn.depth / 2u : 1;
    conn.seq++;
    conn.slot = conn.slot + 1 == conn.depth ? 0 : conn.slot + 1;
    if (conn.slot % batch == 0) store_release_near(conn.credit, conn.seq, is_near);
}

SCHED_OP void finish_step(const ccl_work &work, const ccl_body &body, const ccl_step &step,
                          sched_shared &sh)
{
    uint32_t is_near = work.flags & CCL_WORK_NEAR, proto = body.proto;
    if (!(step.flags & CCL_STEP_FILL))
#pragma unroll 1
        for (uint32_t j = threadIdx.x; j < count_links(step.out[0]); j += 32)
            post_slot(range_conn(sh, step.out[0], j), proto, is_near);
    if (!(step.flags & CCL_STEP_KEEP))
#pragma unroll 1
        for (uint32_t j = threadIdx.x; j < count_links(step.in[0]); j += 32) {
            ccl_cuda_conn &conn = range_conn(sh, step.in[0], j);
            if (proto == CCL_PROTO_SIMPLE && conn.flags->signs[conn.slot] != work.signature)
                disagree(work, sh, conn.peer);
            release_slot(conn, proto, is_near);
        }
    __syncwarp();
}

#endif
