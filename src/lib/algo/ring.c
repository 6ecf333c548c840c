/* ring.c: rings and chains over executors: each passes to the next what the one before gave it,
 * adding its own ranks on the way. Bandwidth-optimal, latency linear in the executors.
 *
 * All-gather and reduce-scatter run one ring per local index, since executors may hold different
 * numbers of ranks; an executor without that index only passes on. A step that receives and sends
 * needs two slots a FIFO to be free of cyclic waits; the parameter's range guarantees them.
 */
#include "algo/sched.h"

#include "base/err.h"

struct build {
    const struct ccl_sched_args *args;
    const struct ccl_view *view;
    struct ccl_sched *sched;
    struct ccl_range from_prev, to_next, none;
};

static int supports(const struct ccl_sched_args *args)
{
    return args->view->nexecs > 1 && args->coll <= CCL_SCHED_REDUCE_SCATTER;
}

static void shape(const struct ccl_sched_args *args, struct ccl_shape *shape)
{
    double nexecs = args->view->nexecs, nranks = args->view->nranks;
    switch (args->coll) {
    case CCL_SCHED_ALL_REDUCE:
        *shape = (struct ccl_shape){2 * nexecs, 4 * nexecs, 5, 1 / nexecs};
        break;
    case CCL_SCHED_ALL_GATHER:
        *shape = (struct ccl_shape){nexecs, 2 * nranks, 3, 1 / nranks};
        break;
    case CCL_SCHED_REDUCE_SCATTER:
        *shape = (struct ccl_shape){nexecs, 2 * nranks, 4, 1 / nranks};
        break;
    default: *shape = (struct ccl_shape){nexecs, 2, 3, 1};
    }
}

/* The executor `back` places before this one. */
static uint16_t before(const struct build *b, uint16_t back)
{
    uint16_t nexecs = b->view->nexecs;
    return (uint16_t)((b->view->self + nexecs - back % nexecs) % nexecs);
}

/* Pieces travel once around being reduced, then once around being copied. */
static ncclResult_t add_all_reduce(struct build *b)
{
    uint16_t nexecs = b->view->nexecs;
    b->sched->npieces = nexecs;
    for (uint16_t hop = 0; hop < nexecs; hop++) {
        int last = hop == nexecs - 1;
        struct ccl_range nowhere = b->none;
        TRY(ccl_sched_put(
            b->sched,
            (struct ccl_step){.piece = before(b, hop),
                              .flags = last ? CCL_STEP_POST : 0,
                              .in[0] = hop == 0 ? b->none : b->from_prev,
                              .in[1] = ccl_view_locals(b->view, CCL_IN, 0),
                              .out[0] = b->to_next,
                              .out[1] = last ? ccl_view_locals(b->view, CCL_OUT, 0) : nowhere}));
    }
    for (uint16_t hop = 0; hop + 1 < nexecs; hop++)
        TRY(ccl_sched_put(b->sched,
                          (struct ccl_step){.piece = before(b, hop),
                                            .in[0] = b->from_prev,
                                            .out[0] = hop + 2 < nexecs ? b->to_next : b->none,
                                            .out[1] = ccl_view_locals(b->view, CCL_OUT, 0)}));
    return ncclSuccess;
}

/* A chain that starts behind the root's executor and ends there. */
static ncclResult_t add_reduce(struct build *b)
{
    uint16_t root_exec = ccl_view_exec_of(b->view, b->args->root);
    int at_end = root_exec == b->view->self;
    int at_start = root_exec == before(b, 1);
    uint16_t root_slot = b->view->slot_of[b->args->root];
    return ccl_sched_put(
        b->sched,
        (struct ccl_step){.flags = at_end ? CCL_STEP_POST : 0,
                          .in[0] = at_start ? b->none : b->from_prev,
                          .in[1] = ccl_view_locals(b->view, CCL_IN, 0),
                          .out[0] = at_end ? b->none : b->to_next,
                          .out[1] = at_end ? ccl_range_slots(CCL_OUT, root_slot, 1, 0) : b->none});
}

static ncclResult_t add_broadcast(struct build *b)
{
    uint16_t nexecs = b->view->nexecs;
    uint16_t root_exec = ccl_view_exec_of(b->view, b->args->root);
    int at_start = root_exec == b->view->self;
    int at_end = root_exec == (b->view->self + 1) % nexecs;
    uint16_t root_slot = b->view->slot_of[b->args->root];
    return ccl_sched_put(
        b->sched,
        (struct ccl_step){.in[0] = at_start ? b->none : b->from_prev,
                          .in[1] = at_start ? ccl_range_slots(CCL_IN, root_slot, 1, 0) : b->none,
                          .out[0] = at_end ? b->none : b->to_next,
                          .out[1] = ccl_view_locals(b->view, CCL_OUT, 0)});
}

static ncclResult_t add_all_gather(struct build *b)
{
    const struct ccl_view *view = b->view;
    for (uint16_t i = 0; i < ccl_view_most(view); i++)
        for (uint16_t hop = 0; hop < view->nexecs; hop++) {
            uint16_t e = before(b, hop);
            if (i >= ccl_view_count(view, e)) continue;
            uint16_t slot = (uint16_t)(view->first_slot[e] + i);
            TRY(ccl_sched_put(
                b->sched, (struct ccl_step){
                              .in[0] = hop == 0 ? b->none : b->from_prev,
                              .in[1] = hop == 0 ? ccl_range_slots(CCL_IN, slot, 1, 0) : b->none,
                              .out[0] = hop + 1 < view->nexecs ? b->to_next : b->none,
                              .out[1] = ccl_view_locals(b->view, CCL_OUT, view->rank_of[slot])}));
        }
    return ncclSuccess;
}

/* The block of a rank starts behind its executor and ends there. */
static ncclResult_t add_reduce_scatter(struct build *b)
{
    const struct ccl_view *view = b->view;
    for (uint16_t i = 0; i < ccl_view_most(view); i++)
        for (uint16_t hop = 0; hop < view->nexecs; hop++) {
            uint16_t e = before(b, (uint16_t)(hop + 1));
            if (i >= ccl_view_count(view, e)) continue;
            uint16_t slot = (uint16_t)(view->first_slot[e] + i);
            int last = hop + 1 == view->nexecs;
            TRY(ccl_sched_put(
                b->sched, (struct ccl_step){
                              .flags = last ? CCL_STEP_POST : 0,
                              .in[0] = hop == 0 ? b->none : b->from_prev,
                              .in[1] = ccl_view_locals(b->view, CCL_IN, view->rank_of[slot]),
                              .out[0] = last ? b->none : b->to_next,
                              .out[1] = last ? ccl_range_slots(CCL_OUT, slot, 1, 0) : b->none}));
        }
    return ncclSuccess;
}

static ncclResult_t build(const struct ccl_sched_args *args, struct ccl_sched *sched)
{
    struct build b = {.args = args, .view = args->view, .sched = sched};
    uint16_t nexecs = args->view->nexecs;
    int to_next = ccl_sched_link(sched, (uint16_t)((args->view->self + 1) % nexecs), 1);
    int from_prev = ccl_sched_link(sched, before(&b, 1), 0);
    if (to_next < 0 || from_prev < 0) return ncclSystemError;
    b.to_next = ccl_range_links((uint16_t)to_next, 1);
    b.from_prev = ccl_range_links((uint16_t)from_prev, 1);
    sched->npieces = 1;
    switch (args->coll) {
    case CCL_SCHED_ALL_REDUCE: return add_all_reduce(&b);
    case CCL_SCHED_REDUCE: return add_reduce(&b);
    case CCL_SCHED_BROADCAST: return add_broadcast(&b);
    case CCL_SCHED_ALL_GATHER: return add_all_gather(&b);
    default: return add_reduce_scatter(&b);
    }
}

const struct ccl_algo_ops ccl_algo_ring = {
    .name = "ring",
    .supports = supports,
    .shape = shape,
    .build = build,
};
