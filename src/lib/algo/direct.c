/* direct.c: collectives over mapped buffers: one executor, or several in one process.
 *
 * The work is split among the executors; each reads every input it needs where it lies and writes
 * every output where it belongs, so each byte is read once and written once. With several
 * executors a meeting before publishes the buffers, and one after keeps them until all are done.
 * Across processes the first meeting may find that it cannot be done (kernel/work.h).
 * Elements that one executor writes are read by no other, which makes in-place forms safe.
 */
#include "algo/sched.h"

#include "base/err.h"
#include "kernel/fold.h"

static int supports(const struct ccl_sched_args *args)
{
    /* A fold takes a limited number of buffers; the other collectives are pairs of them. */
    int is_pairs = args->coll >= CCL_SCHED_ALL_TO_ALL;
    if (args->view->mapped == CCL_MAPPED_NONE) return 0;
    if (is_pairs) return args->view->mapped == CCL_MAPPED_ALL;
    return args->view->nranks <= CCL_FOLD_MAX;
}

static void shape(const struct ccl_sched_args *args, struct ccl_shape *shape)
{
    double nranks = args->view->nranks, nexecs = args->view->nexecs;
    if (nexecs > 1) shape->hops = shape->messages = 2;
    shape->traffic = (args->coll == CCL_SCHED_ALL_REDUCE ? 2 * nranks : nranks + 1) / nexecs;
}

/* One fold of a whole operation: this executor's piece of a buffer that all ranks share. */
static ncclResult_t add_shared(struct ccl_sched *sched, const struct ccl_view *view,
                               struct ccl_range in, struct ccl_range out)
{
    struct ccl_step *step = ccl_sched_add(sched, CCL_FOLD);
    if (step == NULL) return ncclSystemError;
    sched->npieces = view->nexecs;
    step->piece = view->self;
    step->flags = CCL_STEP_POST;
    step->in[1] = in;
    step->out[1] = out;
    return ncclSuccess;
}

static ncclResult_t add_fold(struct ccl_sched *sched, struct ccl_range in, struct ccl_range out)
{
    struct ccl_step *step = ccl_sched_add(sched, CCL_FOLD);
    if (step == NULL) return ncclSystemError;
    step->flags = CCL_STEP_POST;
    step->in[1] = in;
    step->out[1] = out;
    return ncclSuccess;
}

/* Blocks of one source rank to all ranks, one MAP per run of ranks that neighbour in both orders.
 */
static ncclResult_t add_spread(struct ccl_sched *sched, const struct ccl_view *view, uint16_t slot)
{
    for (uint16_t first = 0; first < view->nranks;) {
        uint16_t count = 1;
        while (first + count < view->nranks &&
               view->rank_of[first + count] == view->rank_of[first] + count)
            count++;
        struct ccl_step *step = ccl_sched_add(sched, CCL_MAP);
        if (step == NULL) return ncclSystemError;
        step->in[0] =
            (struct ccl_range){CCL_IN, 0, slot, count, 0, (int16_t)view->rank_of[first], 1};
        step->out[0] = ccl_range_slots(CCL_OUT, first, count, view->rank_of[slot]);
        first = (uint16_t)(first + count);
    }
    return ncclSuccess;
}

/* What this executor does for one of its ranks. */
static ncclResult_t add_rank(struct ccl_sched *sched, const struct ccl_sched_args *args,
                             uint16_t slot)
{
    const struct ccl_view *view = args->view;
    uint16_t all = view->nranks, rank = view->rank_of[slot];
    uint16_t root_slot = args->root < 0 ? 0 : view->slot_of[args->root];
    switch (args->coll) {
    case CCL_SCHED_ALL_GATHER:
        return add_fold(sched, ccl_range_slots(CCL_IN, slot, 1, 0),
                        ccl_range_slots(CCL_OUT, 0, all, rank));
    case CCL_SCHED_REDUCE_SCATTER:
        return add_fold(sched, ccl_range_slots(CCL_IN, 0, all, rank),
                        ccl_range_slots(CCL_OUT, slot, 1, 0));
    case CCL_SCHED_GATHER:
        return add_fold(sched, ccl_range_slots(CCL_IN, slot, 1, 0),
                        ccl_range_slots(CCL_OUT, root_slot, 1, rank));
    case CCL_SCHED_SCATTER:
        return add_fold(sched, ccl_range_slots(CCL_IN, root_slot, 1, rank),
                        ccl_range_slots(CCL_OUT, slot, 1, 0));
    default: return add_spread(sched, view, slot);
    }
}

static ncclResult_t add_body(struct ccl_sched *sched, const struct ccl_sched_args *args)
{
    const struct ccl_view *view = args->view;
    uint16_t all = view->nranks;
    struct ccl_range every_in = ccl_range_slots(CCL_IN, 0, all, 0);
    struct ccl_range every_out = ccl_range_slots(CCL_OUT, 0, all, 0);
    uint16_t root_slot = args->root < 0 ? 0 : view->slot_of[args->root];
    switch (args->coll) {
    case CCL_SCHED_ALL_REDUCE: return add_shared(sched, view, every_in, every_out);
    case CCL_SCHED_REDUCE:
        return add_shared(sched, view, every_in, ccl_range_slots(CCL_OUT, root_slot, 1, 0));
    case CCL_SCHED_BROADCAST:
        return add_shared(sched, view, ccl_range_slots(CCL_IN, root_slot, 1, 0), every_out);
    default: break;
    }
    for (uint16_t s = view->first_slot[view->self]; s < view->first_slot[view->self + 1]; s++)
        TRY(add_rank(sched, args, s));
    return ncclSuccess;
}

static ncclResult_t build(const struct ccl_sched_args *args, struct ccl_sched *sched)
{
    int several = args->view->nexecs > 1;
    sched->npieces = 1;
    if (several) {
        struct ccl_step *meet = ccl_sched_add(sched, CCL_MEET);
        if (meet == NULL) return ncclSystemError;
        meet->flags = CCL_STEP_PUBLISH;
    }
    TRY(add_body(sched, args));
    if (several && ccl_sched_add(sched, CCL_MEET) == NULL) return ncclSystemError;
    return ncclSuccess;
}

const struct ccl_algo_ops ccl_algo_direct = {
    .name = "direct",
    .supports = supports,
    .shape = shape,
    .build = build,
};
