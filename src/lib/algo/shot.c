/* shot.c: one-shot and two-shot collectives through FIFOs between all pairs of executors.
 *
 * One-shot sends every executor's (locally reduced) data to all who need it: one hop. Two-shot
 * all-reduce splits the buffer in a piece per executor: reduce-scatter, then all-gather: two hops
 * and a g-th of the traffic. Where shares are folded, an executor sends its own to itself through a
 * loopback link, so that all executors fold the same values in the same order and get the same
 * bits; but not a single rank beside one other executor, since operators commute. Sends and
 * receives of blocks are interleaved by local index, which keeps every FIFO from holding more than
 * two undrained blocks.
 */
#include "algo/sched.h"

#include "base/err.h"
#include "kernel/fold.h"

struct build {
    const struct ccl_sched_args *args;
    const struct ccl_view *view;
    struct ccl_sched *sched;
    uint16_t sends, recvs; /* first link of each */
};

/* A fold takes a limited number of buffers. */
static int oneshot_supports(const struct ccl_sched_args *args)
{
    const struct ccl_view *view = args->view;
    if (view->nexecs < 2 || args->coll > CCL_SCHED_REDUCE_SCATTER) return 0;
    return view->nexecs <= CCL_FOLD_MAX - CCL_MAX_LOCAL;
}

static int twoshot_supports(const struct ccl_sched_args *args)
{
    return args->coll == CCL_SCHED_ALL_REDUCE && oneshot_supports(args);
}

static void oneshot_shape(const struct ccl_sched_args *args, struct ccl_shape *shape)
{
    double nexecs = args->view->nexecs, nranks = args->view->nranks;
    double folded = nranks > 2 ? 2 * nexecs : 2; /* the same on all executors */
    switch (args->coll) {
    case CCL_SCHED_ALL_REDUCE: *shape = (struct ccl_shape){1, folded, 2 * nexecs + 2, 1}; break;
    case CCL_SCHED_ALL_GATHER:
        *shape = (struct ccl_shape){1, 2 * nranks * (1 - 1 / nexecs), 3, 1 / nranks};
        break;
    case CCL_SCHED_REDUCE_SCATTER:
        *shape = (struct ccl_shape){1, folded * nranks / nexecs, 3, 1 / nranks};
        break;
    default: *shape = (struct ccl_shape){1, 2, 4, 1};
    }
}

static void twoshot_shape(const struct ccl_sched_args *args, struct ccl_shape *shape)
{
    double nexecs = args->view->nexecs;
    *shape = (struct ccl_shape){4, 4 * nexecs, 6, 1 / nexecs};
}

static struct ccl_range one_link(uint16_t first, uint16_t e)
{
    return ccl_range_links((uint16_t)(first + e), 1);
}

static struct ccl_range all_links(const struct build *b, uint16_t first)
{
    return ccl_range_links(first, b->view->nexecs);
}

/* Links to and from every executor in their order, the own one included. */
static ncclResult_t add_links(struct build *b)
{
    b->sends = 0;
    b->recvs = b->view->nexecs;
    for (int is_send = 1; is_send >= 0; is_send--)
        for (uint16_t e = 0; e < b->view->nexecs; e++)
            if (ccl_sched_link(b->sched, e, is_send) < 0) return ncclSystemError;
    return ncclSuccess;
}

/* Links to all others, from the next executor on. */
static ncclResult_t add_sends(struct build *b, struct ccl_range *sends)
{
    uint16_t nexecs = b->view->nexecs, self = b->view->self;
    for (uint16_t i = 1; i < nexecs; i++)
        if (ccl_sched_link(b->sched, (uint16_t)((self + i) % nexecs), 1) < 0)
            return ncclSystemError;
    *sends = ccl_range_links(0, (uint16_t)(nexecs - 1));
    return ncclSuccess;
}

static ncclResult_t add_recv(struct build *b, uint16_t e, struct ccl_range *recv)
{
    int link = ccl_sched_link(b->sched, e, 0);
    if (link < 0) return ncclSystemError;
    *recv = ccl_range_links((uint16_t)link, 1);
    return ncclSuccess;
}

/* ---- what is folded ---- */

/* A single rank beside one other executor folds its own buffer with what that one sends. */
static int is_alone(const struct ccl_view *view)
{
    return view->nexecs == 2 && ccl_view_count(view, view->self) == 1;
}

/* Sends what the local ranks have in a block to executor `e`; the own one only by a loopback. */
static ncclResult_t add_send(const struct build *b, uint16_t e, uint16_t block)
{
    if (e == b->view->self && is_alone(b->view)) return ncclSuccess;
    return ccl_sched_put(b->sched,
                         (struct ccl_step){.in[1] = ccl_view_locals(b->view, CCL_IN, block),
                                           .out[0] = one_link(b->sends, e)});
}

/* Folds the shares of all executors in a block, which each has sent. */
static ncclResult_t add_result(const struct build *b, uint16_t block, struct ccl_range out)
{
    struct ccl_step step = {.flags = CCL_STEP_POST, .in[0] = all_links(b, b->recvs), .out[1] = out};
    if (is_alone(b->view)) {
        step.in[0] = one_link(b->recvs, (uint16_t)(1 - b->view->self));
        step.in[1] = ccl_view_locals(b->view, CCL_IN, block);
    }
    return ccl_sched_put(b->sched, step);
}

static ncclResult_t add_all_reduce(struct build *b)
{
    struct ccl_range out = ccl_view_locals(b->view, CCL_OUT, 0);
    if (is_alone(b->view)) {
        TRY(add_send(b, (uint16_t)(1 - b->view->self), 0));
        return add_result(b, 0, out);
    }
    TRY(ccl_sched_put(b->sched, (struct ccl_step){.in[1] = ccl_view_locals(b->view, CCL_IN, 0),
                                                  .out[0] = all_links(b, b->sends)}));
    return add_result(b, 0, out);
}

static ncclResult_t add_reduce(struct build *b)
{
    uint16_t root_exec = ccl_view_exec_of(b->view, b->args->root);
    TRY(add_send(b, root_exec, 0));
    if (root_exec != b->view->self) return ncclSuccess;
    uint16_t root_slot = b->view->slot_of[b->args->root];
    return add_result(b, 0, ccl_range_slots(CCL_OUT, root_slot, 1, 0));
}

static ncclResult_t add_reduce_scatter(struct build *b)
{
    const struct ccl_view *view = b->view;
    for (uint16_t i = 0; i < ccl_view_most(view); i++) {
        for (uint16_t e = 0; e < view->nexecs; e++)
            if (i < ccl_view_count(view, e))
                TRY(add_send(b, e, view->rank_of[view->first_slot[e] + i]));
        if (i >= ccl_view_count(view, view->self)) continue;
        uint16_t slot = (uint16_t)(view->first_slot[view->self] + i);
        TRY(add_result(b, view->rank_of[slot], ccl_range_slots(CCL_OUT, slot, 1, 0)));
    }
    return ncclSuccess;
}

/* ---- what is copied ---- */

static ncclResult_t add_broadcast(struct build *b)
{
    uint16_t root_exec = ccl_view_exec_of(b->view, b->args->root);
    struct ccl_step step = {.out[1] = ccl_view_locals(b->view, CCL_OUT, 0)};
    if (root_exec == b->view->self) {
        step.in[1] = ccl_range_slots(CCL_IN, b->view->slot_of[b->args->root], 1, 0);
        TRY(add_sends(b, &step.out[0]));
    } else {
        TRY(add_recv(b, root_exec, &step.in[0]));
    }
    return ccl_sched_put(b->sched, step);
}

static ncclResult_t add_all_gather(struct build *b)
{
    const struct ccl_view *view = b->view;
    struct ccl_range sends, recv;
    TRY(add_sends(b, &sends));
    for (uint16_t i = 0; i < ccl_view_most(view); i++) {
        if (i < ccl_view_count(view, view->self)) {
            uint16_t slot = (uint16_t)(view->first_slot[view->self] + i);
            struct ccl_range outs = ccl_view_locals(view, CCL_OUT, view->rank_of[slot]);
            TRY(ccl_sched_put(b->sched,
                              (struct ccl_step){.in[1] = ccl_range_slots(CCL_IN, slot, 1, 0),
                                                .out[0] = sends,
                                                .out[1] = outs}));
        }
        for (uint16_t e = 0; e < view->nexecs; e++) {
            if (e == view->self || i >= ccl_view_count(view, e)) continue;
            uint16_t rank = view->rank_of[view->first_slot[e] + i];
            TRY(add_recv(b, e, &recv));
            TRY(ccl_sched_put(
                b->sched,
                (struct ccl_step){.in[0] = recv, .out[1] = ccl_view_locals(view, CCL_OUT, rank)}));
        }
    }
    return ncclSuccess;
}

static ncclResult_t oneshot_build(const struct ccl_sched_args *args, struct ccl_sched *sched)
{
    struct build b = {.args = args, .view = args->view, .sched = sched};
    sched->npieces = 1;
    int folds = args->coll != CCL_SCHED_BROADCAST && args->coll != CCL_SCHED_ALL_GATHER;
    if (folds) TRY(add_links(&b));
    switch (args->coll) {
    case CCL_SCHED_ALL_REDUCE: return add_all_reduce(&b);
    case CCL_SCHED_REDUCE: return add_reduce(&b);
    case CCL_SCHED_BROADCAST: return add_broadcast(&b);
    case CCL_SCHED_ALL_GATHER: return add_all_gather(&b);
    default: return add_reduce_scatter(&b);
    }
}

static ncclResult_t twoshot_build(const struct ccl_sched_args *args, struct ccl_sched *sched)
{
    struct build b = {.args = args, .view = args->view, .sched = sched};
    uint16_t nexecs = args->view->nexecs, self = args->view->self;
    sched->npieces = nexecs;
    TRY(add_links(&b));
    for (uint16_t e = 0; e < nexecs; e++)
        TRY(ccl_sched_put(b.sched, (struct ccl_step){.piece = e,
                                                     .in[1] = ccl_view_locals(b.view, CCL_IN, 0),
                                                     .out[0] = one_link(b.sends, e)}));
    TRY(ccl_sched_put(b.sched, (struct ccl_step){.piece = self,
                                                 .flags = CCL_STEP_POST,
                                                 .in[0] = all_links(&b, b.recvs),
                                                 .out[0] = all_links(&b, b.sends)}));
    for (uint16_t e = 0; e < nexecs; e++)
        TRY(ccl_sched_put(b.sched,
                          (struct ccl_step){.piece = e,
                                            .in[0] = one_link(b.recvs, e),
                                            .out[1] = ccl_view_locals(b.view, CCL_OUT, 0)}));
    return ncclSuccess;
}

const struct ccl_algo_ops ccl_algo_oneshot = {
    .name = "oneshot",
    .supports = oneshot_supports,
    .shape = oneshot_shape,
    .build = oneshot_build,
};

const struct ccl_algo_ops ccl_algo_twoshot = {
    .name = "twoshot",
    .supports = twoshot_supports,
    .shape = twoshot_shape,
    .build = twoshot_build,
};
