/* logstep.c: all-gather and reduce-scatter in as many steps as the executors have bits.
 *
 * In the step of distance d each executor passes on what it has of the next min(d, n - d)
 * executors, itself first, as one message: rank blocks side by side in a slot. All-gather starts
 * with the nearest and hands blocks backward; reduce-scatter starts with the farthest and hands
 * sums forward, each made of the ranks here and of all messages that hold the block, which stay
 * in their slots until the round ends: no scratch memory. Any number of executors, any number of
 * ranks on each. One round holds little of each block, so this is for small and middle sizes.
 */
#include "algo/sched.h"

#include "base/err.h"

enum { LEAST_PLACE_BYTES = 64 };

struct build {
    const struct ccl_view *view;
    struct ccl_sched *sched;
    uint32_t nexecs, self, ndistances;
    uint16_t sends, recvs; /* first link of each; link sends + i belongs to distance 1 << i */
    struct ccl_range none;
};

static uint32_t count_distances(uint32_t nexecs)
{
    uint32_t n = 0;
    while (1u << n < nexecs) n++;
    return n;
}

/* Executors whose blocks a message of distance 1 << i holds. */
static uint32_t window_of(uint32_t nexecs, uint32_t i)
{
    uint32_t distance = 1u << i;
    return distance < nexecs - distance ? distance : nexecs - distance;
}

/* Ranks on the `count` executors from `first` on, around the end. */
static uint32_t ranks_on(const struct ccl_view *view, uint32_t first, uint32_t count)
{
    uint32_t n = view->nexecs, end = first % n + count;
    first %= n;
    if (end <= n) return (uint32_t)(view->first_slot[end] - view->first_slot[first]);
    return (uint32_t)(view->nranks - view->first_slot[first]) + view->first_slot[end - n];
}

/* Places of a slot: the ranks in the largest message of any executor. */
static uint32_t count_places(const struct ccl_view *view)
{
    uint32_t most = 1, ndistances = count_distances(view->nexecs);
    for (uint32_t i = 0; i < ndistances; i++)
        for (uint32_t e = 0; e < view->nexecs; e++) {
            uint32_t places = ranks_on(view, e, window_of(view->nexecs, i));
            if (places > most) most = places;
        }
    return most;
}

static int supports(const struct ccl_sched_args *args)
{
    if (args->view->nexecs < 2) return 0;
    if (args->coll != CCL_SCHED_ALL_GATHER && args->coll != CCL_SCHED_REDUCE_SCATTER) return 0;
    return count_places(args->view) * LEAST_PLACE_BYTES <= args->slot_bytes;
}

static void shape(const struct ccl_sched_args *args, struct ccl_shape *shape)
{
    double hops = count_distances(args->view->nexecs);
    double places = count_places(args->view), nranks = args->view->nranks;
    double traffic = args->coll == CCL_SCHED_ALL_GATHER ? 4 : 5;
    *shape = (struct ccl_shape){hops, 2 * hops, traffic, places / nranks};
}

static struct ccl_range place_in(uint32_t link, uint16_t count, uint32_t place)
{
    struct ccl_range range = ccl_range_links((uint16_t)link, count);
    range.block = (int16_t)place;
    return range;
}

/* The slot of the ranks in a window, counted over the end. */
static uint16_t slot_in(const struct build *b, uint32_t first, uint32_t place)
{
    return (uint16_t)((b->view->first_slot[first % b->nexecs] + place) % b->view->nranks);
}

/* ---- all-gather ---- */

static ncclResult_t add_own(struct build *b)
{
    const struct ccl_view *view = b->view;
    for (uint16_t s = view->first_slot[b->self]; s < view->first_slot[b->self + 1]; s++)
        TRY(ccl_sched_put(b->sched, (struct ccl_step){.in[1] = ccl_range_slots(CCL_IN, s, 1, 0),
                                                      .out[1] = ccl_view_locals(
                                                          b->view, CCL_OUT, view->rank_of[s])}));
    return ncclSuccess;
}

static ncclResult_t add_pass_on(struct build *b, uint32_t i)
{
    const struct ccl_view *view = b->view;
    uint32_t window = window_of(b->nexecs, i), from = b->self + (1u << i);
    uint32_t nsent = ranks_on(view, b->self, window), ngot = ranks_on(view, from, window);
    uint16_t mine = view->first_slot[b->self];
    for (uint32_t p = 0; p < nsent; p++) {
        uint16_t rank = view->rank_of[slot_in(b, b->self, p)];
        TRY(ccl_sched_put(b->sched,
                          (struct ccl_step){.flags = p + 1 < nsent ? CCL_STEP_FILL : 0,
                                            .in[1] = ccl_range_slots(CCL_OUT, mine, 1, rank),
                                            .out[0] = place_in(b->sends + i, 1, p)}));
    }
    for (uint32_t p = 0; p < ngot; p++) {
        uint16_t rank = view->rank_of[slot_in(b, from, p)];
        TRY(ccl_sched_put(b->sched,
                          (struct ccl_step){.flags = p + 1 < ngot ? CCL_STEP_KEEP : 0,
                                            .in[0] = place_in(b->recvs + i, 1, p),
                                            .out[1] = ccl_view_locals(b->view, CCL_OUT, rank)}));
    }
    return ncclSuccess;
}

static ncclResult_t add_all_gather(struct build *b)
{
    TRY(add_own(b));
    for (uint32_t i = 0; i < b->ndistances; i++) TRY(add_pass_on(b, i));
    return ncclSuccess;
}

/* ---- reduce-scatter ---- */

/* The messages that hold sums for the executor `ahead` places ahead: those of distances above
 * `i` whose window reaches it. Only the farthest may be too short. */
static struct ccl_range received(const struct build *b, uint32_t i, uint32_t ahead, uint32_t place)
{
    uint32_t end = b->ndistances;
    if (end > 0 && window_of(b->nexecs, end - 1) <= ahead) end--;
    if (end <= i) return b->none;
    return place_in(b->recvs + i, (uint16_t)(end - i), place);
}

/* Sends the sums for the executors from distance 1 << i on. */
static ncclResult_t add_hand_on(struct build *b, uint32_t i)
{
    const struct ccl_view *view = b->view;
    uint32_t distance = 1u << i, window = window_of(b->nexecs, i), to = b->self + distance;
    uint32_t nsent = ranks_on(view, to, window), passed = ranks_on(view, b->self, distance);
    uint32_t place = 0;
    for (uint32_t x = 0; x < window; x++)
        for (uint32_t k = ranks_on(view, to + x, 1); k > 0; k--, place++) {
            uint16_t rank = view->rank_of[slot_in(b, to, place)];
            uint8_t fill = place + 1 < nsent ? CCL_STEP_FILL : 0;
            TRY(ccl_sched_put(
                b->sched,
                (struct ccl_step){.flags = CCL_STEP_KEEP | fill,
                                  .in[0] = received(b, i + 1, distance + x, passed + place),
                                  .in[1] = ccl_view_locals(b->view, CCL_IN, rank),
                                  .out[0] = place_in(b->sends + i, 1, place)}));
        }
    return ncclSuccess;
}

static ncclResult_t add_reduce_scatter(struct build *b)
{
    const struct ccl_view *view = b->view;
    for (uint32_t i = b->ndistances; i > 0; i--) TRY(add_hand_on(b, i - 1));
    uint16_t first = view->first_slot[b->self], nlocal = ccl_view_count(view, view->self);
    for (uint16_t k = 0; k < nlocal; k++) {
        uint16_t slot = (uint16_t)(first + k);
        uint8_t keep = k + 1 < nlocal ? CCL_STEP_KEEP : 0;
        TRY(ccl_sched_put(
            b->sched,
            (struct ccl_step){.flags = CCL_STEP_POST | keep,
                              .in[0] = received(b, 0, 0, k),
                              .in[1] = ccl_view_locals(b->view, CCL_IN, view->rank_of[slot]),
                              .out[1] = ccl_range_slots(CCL_OUT, slot, 1, 0)}));
    }
    return ncclSuccess;
}

/* All-gather sends backward, reduce-scatter forward. */
static ncclResult_t add_links(struct build *b, int forward)
{
    b->sends = 0;
    b->recvs = (uint16_t)b->ndistances;
    for (int is_send = 1; is_send >= 0; is_send--)
        for (uint32_t i = 0; i < b->ndistances; i++) {
            uint32_t distance = 1u << i;
            uint32_t ahead = forward == is_send ? distance : b->nexecs - distance;
            uint16_t peer = (uint16_t)((b->self + ahead) % b->nexecs);
            if (ccl_sched_link(b->sched, peer, is_send) < 0) return ncclSystemError;
        }
    return ncclSuccess;
}

static ncclResult_t build(const struct ccl_sched_args *args, struct ccl_sched *sched)
{
    struct build b = {.view = args->view,
                      .sched = sched,
                      .nexecs = args->view->nexecs,
                      .self = args->view->self,
                      .ndistances = count_distances(args->view->nexecs)};
    int is_gather = args->coll == CCL_SCHED_ALL_GATHER;
    sched->npieces = 1;
    sched->pack = (uint16_t)count_places(args->view);
    TRY(add_links(&b, !is_gather));
    return is_gather ? add_all_gather(&b) : add_reduce_scatter(&b);
}

const struct ccl_algo_ops ccl_algo_logstep = {
    .name = "logstep",
    .supports = supports,
    .shape = shape,
    .build = build,
};
