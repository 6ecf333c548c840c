/* tree.c: binary trees over executors: data goes up being reduced and comes down being copied.
 *
 * All-reduce uses two trees, each for half of the pieces, in which no executor is an inner node
 * twice, so that all carry the same load. The way down is a stage of its own that works `lag`
 * rounds behind the way up: rounds fill the trees like a pipeline. Reduce and broadcast use one
 * tree with the root's executor on top.
 */
#include "algo/sched.h"

#include "base/err.h"

enum { NTREES = 2 };

/* The neighbours of an executor in a tree. */
struct node {
    uint16_t parent, children[2], nchildren;
    int is_top;
};

struct build {
    const struct ccl_sched_args *args;
    const struct ccl_view *view;
    struct ccl_sched *sched;
    struct ccl_range none;
};

static int supports(const struct ccl_sched_args *args)
{
    return args->view->nexecs > 1 && args->coll <= CCL_SCHED_BROADCAST;
}

static uint16_t count_levels(uint16_t nexecs)
{
    uint16_t levels = 0;
    while (nexecs >> levels > 0) levels++;
    return levels;
}

static void shape(const struct ccl_sched_args *args, struct ccl_shape *shape)
{
    double levels = count_levels(args->view->nexecs);
    if (args->coll == CCL_SCHED_ALL_REDUCE)
        *shape = (struct ccl_shape){2 * levels, 4, 6, 1.0 / NTREES};
    else
        *shape = (struct ccl_shape){levels, 2, 4, 1};
}

/* Places 1 to n form a search tree whose leaves are the odd places: a place with lowest bit h
 * stands 2h apart from its like, and hangs off the one beside it with a higher lowest bit. */
static uint32_t place_above(uint32_t place, uint32_t n)
{
    uint32_t low = place & (0u - place);
    uint32_t above = (place - low) | low << 1;
    return above <= n ? above : place - low;
}

static uint32_t place_right(uint32_t place, uint32_t n)
{
    uint32_t step = (place & (0u - place)) >> 1;
    while (step > 0 && place + step > n) step >>= 1;
    return place + step;
}

/* Tree 1 is tree 0 mirrored, or shifted by one where n is odd: its leaves are the inner nodes of
 * tree 0. Both maps turn executors into places; the inverse turns places into executors. */
static uint32_t place_of(uint32_t exec, uint32_t n, int tree)
{
    if (tree == 0) return exec + 1;
    return n % 2 == 0 ? n - exec : (exec + n - 1) % n + 1;
}

static uint16_t exec_at(uint32_t place, uint32_t n, int tree)
{
    if (tree == 0) return (uint16_t)(place - 1);
    return (uint16_t)(n % 2 == 0 ? n - place : place % n);
}

static struct node find_node(uint16_t exec, uint16_t nexecs, int tree)
{
    uint32_t n = nexecs, place = place_of(exec, n, tree), above = place_above(place, n);
    uint32_t half = (place & (0u - place)) >> 1, right = place_right(place, n);
    struct node node = {.is_top = above == 0};
    if (!node.is_top) node.parent = exec_at(above, n, tree);
    if (half > 0) node.children[node.nchildren++] = exec_at(place - half, n, tree);
    if (right != place) node.children[node.nchildren++] = exec_at(right, n, tree);
    return node;
}

/* A heap whose first node is the root's executor. */
static struct node find_rooted(uint16_t exec, uint16_t nexecs, uint16_t root_exec)
{
    uint32_t n = nexecs, place = (exec + n - root_exec) % n;
    struct node node = {.is_top = place == 0};
    if (!node.is_top) node.parent = (uint16_t)((root_exec + (place - 1) / 2) % n);
    for (uint32_t child = 2 * place + 1; child <= 2 * place + 2 && child < n; child++)
        node.children[node.nchildren++] = (uint16_t)((root_exec + child) % n);
    return node;
}

/* Links to or from up to two peers. Links that another tree has made already need not be
 * neighbours; the hop between them serves. */
static ncclResult_t link_range(struct build *b, const uint16_t *peers, uint16_t npeers, int is_send,
                               struct ccl_range *out)
{
    int links[2] = {0, 0};
    for (uint16_t i = 0; i < npeers; i++) {
        links[i] = ccl_sched_link(b->sched, peers[i], is_send);
        if (links[i] < 0) return ncclSystemError;
    }
    *out = b->none;
    if (npeers == 0) return ncclSuccess;
    *out = ccl_range_links((uint16_t)links[0], npeers);
    if (npeers > 1) out->hop = (int16_t)(links[1] - links[0]);
    return ncclSuccess;
}

/* The top keeps the result and sends it in its own time, so that all executors pass the messages
 * of both trees in the same order: two trees may share a connection. */
static ncclResult_t add_up(struct build *b, const struct node *node, uint16_t piece)
{
    struct ccl_step step = {.piece = piece, .in[1] = ccl_view_locals(b->view, CCL_IN, 0)};
    TRY(link_range(b, node->children, node->nchildren, 0, &step.in[0]));
    if (node->is_top) {
        step.flags = CCL_STEP_POST;
        step.out[1] = ccl_view_locals(b->view, CCL_OUT, 0);
    } else {
        TRY(link_range(b, &node->parent, 1, 1, &step.out[0]));
    }
    return ccl_sched_put(b->sched, step);
}

static ncclResult_t add_down(struct build *b, const struct node *node, uint16_t piece)
{
    struct ccl_step step = {.piece = piece, .flags = CCL_STEP_LATE};
    if (node->is_top) {
        step.in[1] = ccl_range_slots(CCL_OUT, b->view->first_slot[b->view->self], 1, 0);
    } else {
        TRY(link_range(b, &node->parent, 1, 0, &step.in[0]));
        step.out[1] = ccl_view_locals(b->view, CCL_OUT, 0);
    }
    TRY(link_range(b, node->children, node->nchildren, 1, &step.out[0]));
    return ccl_sched_put(b->sched, step);
}

static ncclResult_t add_all_reduce(struct build *b)
{
    uint16_t nexecs = b->view->nexecs;
    struct node nodes[NTREES];
    b->sched->npieces = NTREES;
    b->sched->lag = count_levels(nexecs);
    for (int t = 0; t < NTREES; t++) nodes[t] = find_node(b->view->self, nexecs, t);
    for (uint16_t t = 0; t < NTREES; t++) TRY(add_up(b, &nodes[t], t));
    for (uint16_t t = 0; t < NTREES; t++) TRY(add_down(b, &nodes[t], t));
    return ncclSuccess;
}

static ncclResult_t add_reduce(struct build *b, const struct node *node)
{
    struct ccl_step step = {.in[1] = ccl_view_locals(b->view, CCL_IN, 0)};
    TRY(link_range(b, node->children, node->nchildren, 0, &step.in[0]));
    if (node->is_top) {
        step.flags = CCL_STEP_POST;
        step.out[1] = ccl_range_slots(CCL_OUT, b->view->slot_of[b->args->root], 1, 0);
    } else {
        TRY(link_range(b, &node->parent, 1, 1, &step.out[0]));
    }
    return ccl_sched_put(b->sched, step);
}

static ncclResult_t add_broadcast(struct build *b, const struct node *node)
{
    struct ccl_step step = {.out[1] = ccl_view_locals(b->view, CCL_OUT, 0)};
    if (node->is_top)
        step.in[1] = ccl_range_slots(CCL_IN, b->view->slot_of[b->args->root], 1, 0);
    else
        TRY(link_range(b, &node->parent, 1, 0, &step.in[0]));
    TRY(link_range(b, node->children, node->nchildren, 1, &step.out[0]));
    return ccl_sched_put(b->sched, step);
}

static ncclResult_t build(const struct ccl_sched_args *args, struct ccl_sched *sched)
{
    struct build b = {.args = args, .view = args->view, .sched = sched};
    sched->npieces = 1;
    if (args->coll == CCL_SCHED_ALL_REDUCE) return add_all_reduce(&b);
    uint16_t root_exec = ccl_view_exec_of(args->view, args->root);
    struct node node = find_rooted(args->view->self, args->view->nexecs, root_exec);
    return args->coll == CCL_SCHED_REDUCE ? add_reduce(&b, &node) : add_broadcast(&b, &node);
}

const struct ccl_algo_ops ccl_algo_tree = {
    .name = "tree",
    .supports = supports,
    .shape = shape,
    .build = build,
};
