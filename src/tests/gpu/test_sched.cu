/* Schedules of several executors on the GPU: their kernels run at once, and the results equal those
 * of the host's interpreter bit for bit, for all algorithms, protocols and collectives, in and out
 * of place, at any alignment; with numbers of messages about to wrap; captured and replayed. Those
 * that disagree, or miss somebody and are aborted, end. `test_sched [SEED [GPUS]]`.
 */
#include "gpu/arena.h"
#include "gpu/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_MS = 10000 };

static int ngpus = 1;
static struct kit_gpu gpu;

/* ---- an operation of any kind ---- */

/* Where the buffers lie; in place where the collective allows it. */
static void place_buffers(const struct world *world, struct world_op *op, int in_place)
{
    const struct kit_coll *coll = &kit_colls[op->coll];
    uint64_t n = (uint64_t)world->shape.nranks, bytes = op->count * op->type->bytes;
    uint64_t in_bytes = bytes * (coll->in_all ? n : 1), out_bytes = bytes * (coll->out_all ? n : 1);
    uint64_t grain = arena_pick(2) ? 16 : op->type->bytes;
    for (uint64_t s = 0; s < n; s++) {
        uint64_t mine = bytes * world->rank_of[s],
                 most = in_bytes > out_bytes ? in_bytes : out_bytes;
        char *in = arena_take(in_place ? most : in_bytes, arena_pick(16) / grain * grain);
        char *out = in_place ? in : arena_take(out_bytes, arena_pick(16) / grain * grain);
        if (in_place && coll->out_all) in = out + mine;
        if (in_place && coll->in_all) out = in + mine;
        op->slots[s].in = in;
        op->slots[s].out = out;
    }
}

static void set_operator(struct world_op *op)
{
    static const enum ccl_redop_kind kinds[] = {CCL_SUM, CCL_PROD, CCL_MAX, CCL_MIN};
    op->redop = kinds[arena_pick(4)];
    op->flags = 0;
    if (!kit_colls[op->coll].reduces) return;
    if (arena_pick(4) == 0 && op->type->exponent == 0) op->flags = CCL_WORK_DIVIDE;
    if (arena_pick(4) != 0) return;
    op->flags = CCL_WORK_SCALE;
    for (int s = 0; s < WORLD_RANKS; s++) {
        char *at = arena.host + 16 * s + arena_pick(9);
        if (arena_pick(2)) op->slots[s].scalar_at = at;
        memcpy(&op->slots[s].scalar, at, op->type->bytes);
    }
}

/* From nothing to several rounds. */
static uint64_t any_count(const struct world *world, const struct world_op *op)
{
    static const uint16_t counts[] = {0, 1, 2, 3, 7, 8, 9, 31, 64, 100, 1000, 4097};
    const struct kit_coll *coll = &kit_colls[op->coll];
    uint64_t n = (uint64_t)world->shape.nranks;
    uint64_t blocks = n * ((coll->in_all ? n : 1) + (coll->out_all ? n : 1));
    uint64_t most = (ARENA_BYTES - (64 << 10)) / blocks / op->type->bytes;
    uint64_t count = arena_pick(2) ? counts[arena_pick(12)] : 1 + arena_pick(most);
    if (count > 200000 && arena_pick(8)) count /= 8;
    return count < most ? count : most;
}

static const struct kit_type *any_type(void)
{
    const struct kit_type *type;
    do type = &kit_types[arena_pick(KIT_NTYPES)];
    while (!ccl_cuda_reduces(type->type, gpu.capability));
    return type;
}

static const char *name_of(const struct world *world, const struct world_op *op)
{
    static char text[240];
    snprintf(text, sizeof text,
             "%s of %llu %s by %s proto %d, op %d flags %d, %d executors, %d ranks, %d channels, "
             "outside %d",
             kit_colls[op->coll].name, (unsigned long long)op->count, op->type->name,
             op->algo->name, op->proto, op->redop, op->flags, world->shape.nexecs,
             world->shape.nranks, world->shape.nchannels, op->outside);
    return text;
}

static void make_op(struct world *world, struct world_op *op)
{
    int may_be_in_place = op->coll != CCL_SCHED_ALL_TO_ALL;
    op->type = any_type();
    op->count = any_count(world, op);
    op->root = kit_colls[op->coll].has_root ? (int)arena_pick((uint64_t)world->shape.nranks) : -1;
    op->signature = kit_random(&arena.state);
    memset(op->slots, 0, sizeof op->slots);
    arena_refill(op->type);
    set_operator(op);
    place_buffers(world, op, may_be_in_place && arena_pick(2));
    world_op_make(world, op, arena_shift());
}

static void launch_all(struct world *world, const struct world_op *op)
{
    int n = world->shape.nexecs, first = (int)arena_pick((uint64_t)n);
    for (int e = 0; e < n; e++) world_launch(world, op, (first + e) % n);
}

/* Runs it on both; 1 when all is equal and the right body ran. */
static int run_op(struct world *world, struct world_op *op)
{
    make_op(world, op);
    world->words->second[0] = 0;
    op->works[0].ticket = 41;
    launch_all(world, op);
    world_run_host(world, op);
    if (!world_wait(world, LIMIT_MS)) {
        printf("not ok - seed %llu: no end: %s\n", (unsigned long long)arena.seed,
               name_of(world, op));
        exit(1);
    }
    int is_good = arena_compare(name_of(world, op));
    if (world->words->error != 0) printf("# an error is reported: %s\n", name_of(world, op));
    uint64_t second = op->second != NULL && op->outside >= 0 && op->count > 0 ? 42 : 0;
    if (world->words->second[0] != second) printf("# wrong body: %s\n", name_of(world, op));
    is_good = is_good && world->words->error == 0 && world->words->second[0] == second;
    world->words->error = 0;
    world_op_free(world, op);
    return is_good;
}

/* ---- all algorithms ---- */

static const char *const protos[CCL_NPROTOS] = {"Simple", "LL", "LL128"};

static void test_algo(struct world *world, const struct ccl_algo_ops *algo, enum ccl_proto proto)
{
    enum { RUNS = 6 };
    int nbad = 0, ncases = 0;
    for (int coll = 0; coll < CCL_SCHED_NCOLLS; coll++)
        for (int i = 0; i < RUNS; i++) {
            struct world_op *op = (struct world_op *)calloc(1, sizeof *op);
            op->coll = (enum ccl_sched_coll)coll;
            op->algo = algo;
            op->proto = proto;
            op->outside = -1;
            if (world_supports(world, op)) nbad += !run_op(world, op);
            if (world_supports(world, op)) ncases++;
            free(op);
        }
    if (ncases == 0) return;
    kit_case(nbad == 0, "%d executors, %d ranks, %d channels: %s, %s: %d of %d differ",
             world->shape.nexecs, world->shape.nranks, world->shape.nchannels, algo->name,
             protos[proto], nbad, ncases);
}

static void open_world(struct world *world, int nexecs, int nchannels)
{
    struct world_shape shape;
    world_shape_make(&shape, nexecs, nchannels, &arena.state);
    shape.ngpus = ngpus;
    world_open(world, &shape);
}

static void test_algos(int nexecs, int nchannels)
{
    struct world *world = (struct world *)calloc(1, sizeof *world);
    open_world(world, nexecs, nchannels);
    for (int a = 0; ccl_algos[a] != NULL; a++)
        for (int p = 0; p < CCL_NPROTOS; p++)
            if (p == 0 || ccl_algos[a] != &ccl_algo_direct)
                test_algo(world, ccl_algos[a], (enum ccl_proto)p);
    world_close(world);
    free(world);
}

/* ---- buffers out of reach ---- */

static void test_second(int nexecs)
{
    static const struct ccl_algo_ops *const seconds[] = {&ccl_algo_ring, &ccl_algo_oneshot};
    struct world *world = (struct world *)calloc(1, sizeof *world);
    int nbad = 0, ncases = 0;
    open_world(world, nexecs, 2);
    for (int i = 0; i < 40; i++) {
        struct world_op *op = (struct world_op *)calloc(1, sizeof *op);
        op->coll = (enum ccl_sched_coll)arena_pick(CCL_SCHED_REDUCE_SCATTER + 1);
        op->algo = &ccl_algo_direct;
        op->second = seconds[arena_pick(2)];
        op->proto = (enum ccl_proto)arena_pick(CCL_NPROTOS);
        op->outside = (int)arena_pick((uint64_t)nexecs + 1) - 1;
        nbad += !run_op(world, op);
        ncases++;
        free(op);
    }
    kit_case(nbad == 0, "%d executors: direct, or another out of reach: %d of %d differ", nexecs,
             nbad, ncases);
    world_close(world);
    free(world);
}

/* ---- numbers of messages ---- */

/* Far enough below where a counter wraps that the operations pass it. */
static void test_wrap(uint64_t boundary, enum ccl_proto proto)
{
    struct world *world = (struct world *)calloc(1, sizeof *world);
    struct world_shape shape;
    int nbad = 0;
    enum { RUNS = 20 };
    world_shape_make(&shape, 3, 1, &arena.state);
    shape.ngpus = ngpus;
    shape.first_seq = boundary - 5;
    world_open(world, &shape);
    for (int i = 0; i < RUNS; i++) {
        struct world_op *op = (struct world_op *)calloc(1, sizeof *op);
        op->coll = CCL_SCHED_ALL_REDUCE;
        op->algo = i % 2 ? &ccl_algo_ring : &ccl_algo_oneshot;
        op->proto = proto;
        op->outside = -1;
        nbad += !run_op(world, op);
        free(op);
    }
    kit_case(nbad == 0, "%s past %llu messages: %d of %d differ", protos[proto],
             (unsigned long long)boundary, nbad, RUNS);
    world_close(world);
    free(world);
}

/* ---- graphs ---- */

/* One operation, twice in a graph of each executor's stream; replays between eager launches, each
 * with new values in the buffers. */
static int run_replays(struct world *world, struct world_op *op)
{
    enum { REPLAYS = 6 };
    cudaGraphExec_t replays[WORLD_EXECS];
    int nbad = 0, n = world->shape.nexecs;
    make_op(world, op);
    for (int e = 0; e < n; e++) {
        cudaGraph_t graph;
        CK(cudaSetDevice(world->execs[e].device));
        CK(cudaStreamBeginCapture(world->execs[e].stream, cudaStreamCaptureModeThreadLocal));
        world_launch(world, op, e);
        world_launch(world, op, e);
        CK(cudaSetDevice(world->execs[e].device));
        CK(cudaStreamEndCapture(world->execs[e].stream, &graph));
        CK(cudaGraphInstantiate(&replays[e], graph, 0));
        CK(cudaGraphUpload(replays[e], world->execs[e].stream));
        CK(cudaGraphDestroy(graph));
    }
    nbad += !world_wait(world, LIMIT_MS);
    for (int i = 0; i < REPLAYS && nbad == 0; i++) {
        uint64_t used = arena.used;
        arena_refill(op->type);
        arena.used = used;
        for (int e = 0; e < n && i % 2 == 0; e++)
            CK(cudaGraphLaunch(replays[e], world->execs[e].stream));
        if (i % 2 == 1) launch_all(world, op);
        world_run_host(world, op);
        if (i % 2 == 0) world_run_host(world, op);
        nbad += !world_wait(world, LIMIT_MS) || !arena_compare(name_of(world, op));
    }
    for (int e = 0; e < n; e++) CK(cudaGraphExecDestroy(replays[e]));
    world_op_free(world, op);
    return nbad == 0;
}

static void test_replays(const struct ccl_algo_ops *algo, enum ccl_proto proto)
{
    struct world *world = (struct world *)calloc(1, sizeof *world);
    struct world_op *op = (struct world_op *)calloc(1, sizeof *op);
    open_world(world, 4, 2);
    op->coll = CCL_SCHED_ALL_REDUCE;
    op->algo = algo;
    op->proto = proto;
    op->outside = -1;
    kit_case(run_replays(world, op), "%s, %s: replays of graphs between eager launches", algo->name,
             protos[proto]);
    world_close(world);
    free(world);
    free(op);
}

/* ---- what goes wrong ---- */

static struct world *open_wrong(struct world_op **op, const struct ccl_algo_ops *algo,
                                enum ccl_proto proto)
{
    struct world *world = (struct world *)calloc(1, sizeof *world);
    *op = (struct world_op *)calloc(1, sizeof **op);
    open_world(world, 3, 2);
    (*op)->coll = CCL_SCHED_ALL_REDUCE;
    (*op)->algo = algo;
    (*op)->proto = proto;
    (*op)->outside = -1;
    do {
        if ((*op)->scheds[0][0].nsteps > 0) world_op_free(world, *op);
        make_op(world, *op);
    } while ((*op)->count < 100);
    return world;
}

/* Executor 1 runs another operation than the others. */
static void test_mismatch(const struct ccl_algo_ops *algo, enum ccl_proto proto)
{
    struct world_op *op;
    struct world *world = open_wrong(&op, algo, proto);
    op->works[1].signature++;
    launch_all(world, op);
    int ends = world_wait(world, LIMIT_MS);
    kit_case(ends && world->words->error == CCL_ERROR_MISMATCH,
             "%s, %s: executors that disagree end with an error", algo->name, protos[proto]);
    world_close(world);
    free(world);
    free(op);
}

/* Executor 2 never comes. */
static void test_abort(const struct ccl_algo_ops *algo, enum ccl_proto proto)
{
    struct world_op *op;
    struct world *world = open_wrong(&op, algo, proto);
    world_launch(world, op, 0);
    world_launch(world, op, 1);
    volatile uint64_t *note = &world->words->note[0];
    for (uint64_t i = 0; i < 1000000000 && *note == 0; i++)
        ;
    int waits = cudaStreamQuery(world->execs[0].stream) == cudaErrorNotReady && *note >> 32 != 0;
    *(volatile uint32_t *)&world->words->abort = 1;
    kit_case(world_wait(world, LIMIT_MS) && waits,
             "%s, %s: an abort ends those that wait, which say for whom", algo->name,
             protos[proto]);
    world_close(world);
    free(world);
    free(op);
}

static void test_faults(void)
{
    test_mismatch(&ccl_algo_direct, CCL_PROTO_SIMPLE);
    test_abort(&ccl_algo_direct, CCL_PROTO_SIMPLE);
    for (int p = 0; p < CCL_NPROTOS; p++) {
        test_mismatch(&ccl_algo_ring, (enum ccl_proto)p);
        test_abort(&ccl_algo_ring, (enum ccl_proto)p);
    }
}

int main(int argc, char **argv)
{
    static const uint64_t boundaries[] = {1ull << 30, 1ull << 31, 1ull << 32};
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); /* a queue for each executor */
    gpu = kit_open(400);
    arena_open(argc > 1 ? strtoull(argv[1], NULL, 0) : 20261130);
    if (argc > 2) ngpus = atoi(argv[2]);
    printf("# seed %llu, %d GPUs\n", (unsigned long long)arena.seed, ngpus);
    test_algos(2, 1);
    test_algos(2, 4);
    test_algos(3, 2);
    test_algos(4, 4);
    test_algos(8, 4);
    test_algos(8, 1);
    test_second(2);
    test_second(5);
    for (int p = 0; p < CCL_NPROTOS; p++)
        for (int b = 0; b < 3; b++) test_wrap(boundaries[b], (enum ccl_proto)p);
    test_replays(&ccl_algo_direct, CCL_PROTO_SIMPLE);
    for (int p = 0; p < CCL_NPROTOS; p++) test_replays(&ccl_algo_ring, (enum ccl_proto)p);
    test_faults();
    arena_close();
    return kit_close();
}
