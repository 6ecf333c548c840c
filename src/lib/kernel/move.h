/* move.h: the data movement of one step on the host: resolves ranges to addresses and folds.
 * The GPU has its own; both follow the address rule in kernel/work.h.
 */
#ifndef CCL_KERNEL_MOVE_H
#define CCL_KERNEL_MOVE_H

#include "kernel/copy.h"
#include "kernel/fifo.h"
#include "kernel/fold.h"
#include "kernel/work.h"

/* One step at one place: elements [start, start + elems) of the blocks. */
struct move_at {
    const struct ccl_work *work;
    const struct ccl_body *body;
    const struct ccl_step *step;
    uint32_t channel;
    uint64_t start, elems;
};

/* Buffers of a slot: local ones come with the work, others were published at the meeting. */
CCL_DEVICE const struct ccl_slot *find_slot(const struct move_at *at, uint32_t slot)
{
    const struct ccl_work *work = at->work;
    if (slot - work->first_local < work->nlocal) return &work->local[slot - work->first_local];
    return &work->meets[at->channel].table[slot];
}

CCL_DEVICE struct ccl_conn *range_conn(const struct move_at *at, const struct ccl_range *range,
                                       uint32_t j)
{
    uint32_t link = (uint32_t)(range->first + (int)j * range->hop);
    return at->body->conns[at->channel * at->body->nlinks + link];
}

/* Where element j of a range of links starts in its slot. */
CCL_DEVICE uint64_t place_offset(const struct move_at *at, const struct ccl_range *range,
                                 uint32_t j)
{
    uint64_t place = (uint64_t)(range->block + (int)j * range->block_hop);
    return place * at->body->piece_elems * ccl_fold_type_bytes(at->work->type);
}

CCL_DEVICE void *find_address(const struct move_at *at, const struct ccl_range *range, uint32_t j)
{
    const struct ccl_work *work = at->work;
    uint32_t index = (uint32_t)(range->first + (int)j * range->hop);
    if (range->space == CCL_CONN) {
        const struct ccl_conn *conn = range_conn(at, range, j);
        if (at->body->proto == CCL_PROTO_LL) return conn->scratch + place_offset(at, range, j);
        if (at->body->packs) return fifo_slot(conn) + place_offset(at, range, j);
        return fifo_place(conn, at->elems * ccl_fold_type_bytes(work->type));
    }
    const struct ccl_slot *slot = find_slot(at, index);
    uint64_t block = (uint64_t)(range->block + (int)j * range->block_hop);
    uint64_t elem = block * work->count_elems + at->start;
    char *base = range->space == CCL_IN ? (char *)(uintptr_t)slot->in : slot->out;
    return base + elem * ccl_fold_type_bytes(work->type);
}

CCL_DEVICE struct ccl_source find_source(const struct move_at *at, const struct ccl_range *range,
                                         uint32_t j)
{
    struct ccl_source source = {.data = find_address(at, range, j)};
    if (range->space != CCL_IN || !(at->work->flags & CCL_WORK_SCALE)) return source;
    const struct ccl_slot *slot = find_slot(at, (uint32_t)(range->first + (int)j * range->hop));
    source.scaled = 1;
    source.scale.bits = slot->scalar;
    if (slot->scalar_at != NULL)
        memcpy(&source.scale.bits, slot->scalar_at, ccl_fold_type_bytes(at->work->type));
    return source;
}

CCL_DEVICE void move_fold(const struct move_at *at)
{
    const struct ccl_step *step = at->step;
    struct ccl_fold fold;
    fold.nsources = 0;
    fold.ntargets = fold.nnear = 0;
    fold.type = at->work->type;
    fold.op = at->work->redop;
    fold.divisor =
        at->work->flags & CCL_WORK_DIVIDE && step->flags & CCL_STEP_POST ? at->work->divisor : 0;
    for (int side = 0; side < 2; side++)
        if (step->in[side].space != CCL_NONE)
            for (uint32_t j = 0; j < step->in[side].count; j++)
                fold.sources[fold.nsources++] = find_source(at, &step->in[side], j);
    for (int side = 0; side < 2; side++) {
        if (step->out[side].space == CCL_NONE) continue;
        for (uint32_t j = 0; j < step->out[side].count; j++)
            fold.targets[fold.ntargets++] = find_address(at, &step->out[side], j);
        if (step->out[side].space == CCL_CONN) fold.nnear = fold.ntargets;
    }
    fold.streams = (at->work->flags & CCL_WORK_STREAMS) != 0 && fold.nnear < fold.ntargets;
    ccl_fold_run(&fold, at->elems);
}

CCL_DEVICE void move_map(const struct move_at *at)
{
    const struct ccl_step *step = at->step;
    size_t bytes = at->elems * ccl_fold_type_bytes(at->work->type);
    int streams = (at->work->flags & CCL_WORK_STREAMS) != 0 && step->out[0].space != CCL_CONN;
    for (uint32_t j = 0; j < step->in[0].count; j++) {
        const void *from = find_address(at, &step->in[0], j);
        void *to = find_address(at, &step->out[0], j);
        if (to != from) ccl_copy(to, from, bytes, streams);
    }
    if (streams) ccl_copy_fence();
}

#endif
