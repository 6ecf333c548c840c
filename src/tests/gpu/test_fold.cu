/* Results of the GPU's local path equal those of the host's interpreter bit for bit: folds of all
 * types, operators and scalings from 1 to 64 sources, at all offsets, and the direct schedules of
 * all collectives. Host and GPU work on an arena each that start equal; all of it is compared, so
 * that a byte written beside a buffer is seen as well.
 */
#include "gpu/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    struct kit_gpu gpu;
    uint64_t every; /* which folds run: for a slow tool, not all */
} test;

/* The same work with its buffers in the GPU's arena. */
static struct ccl_work on_gpu(const struct ccl_work *work)
{
    struct ccl_work moved = *work;
    for (int i = 0; i < work->nlocal; i++) {
        struct ccl_slot *slot = &moved.local[i];
        if (slot->in) slot->in = (const char *)slot->in + arena_shift();
        if (slot->out) slot->out = (char *)slot->out + arena_shift();
        if (slot->scalar_at) slot->scalar_at = (const char *)slot->scalar_at + arena_shift();
    }
    return moved;
}

/* What the host has no kernel for: pairs of different lengths. */
static void run_host(const struct ccl_work *work)
{
    if (!(work->flags & CCL_WORK_LENGTHS)) {
        kit_work_run(work);
        return;
    }
    for (int i = 0; i < work->nlocal; i++)
        memcpy(work->local[i].out, work->local[i].in, work->local[i].scalar);
}

/* Runs a work on both; 1 when the arenas are equal, else says where they differ. */
static int run_both(const struct ccl_work *work, const char *what)
{
    struct ccl_work moved = on_gpu(work);
    struct ccl_cuda_target target = {};
    static const uint32_t caps[] = {0, 0, 0, 1, 3};
    target.stream = test.gpu.stream;
    target.nsms = (uint32_t)test.gpu.nsms;
    target.max_ctas = caps[arena_pick(5)];
    CK((cudaError_t)ccl_cuda_launch_local(&moved, &target));
    run_host(work);
    CK(cudaStreamSynchronize(test.gpu.stream));
    return arena_compare(what);
}

/* ---- folds ---- */

enum scaling { NO_SCALE, IMMEDIATE, BY_POINTER, DIVIDED };

struct variant {
    const char *name;
    enum ccl_redop_kind op;
    enum scaling scaling;
};

static const struct variant variants[] = {
    {"sum", CCL_SUM, NO_SCALE},
    {"prod", CCL_PROD, NO_SCALE},
    {"max", CCL_MAX, NO_SCALE},
    {"min", CCL_MIN, NO_SCALE},
    {"sum of scaled", CCL_SUM, IMMEDIATE},
    {"sum of scaled by pointers", CCL_SUM, BY_POINTER},
    {"max of scaled", CCL_MAX, IMMEDIATE},
    {"average", CCL_SUM, DIVIDED},
};

/* How buffers lie: all equally, only the targets equally, each somewhere. In place: each target is
 * a source. */
enum layout { EQUAL, TARGETS_EQUAL, ANYWHERE, IN_PLACE, NLAYOUTS };

struct fold_case {
    const struct kit_type *type;
    const struct variant *variant;
    int nsources, ntargets;
    enum layout layout;
    uint64_t offset, count;
};

/* Multiples of the element, but for one case in four. */
static uint64_t any_offset(const struct fold_case *c)
{
    uint64_t offset = arena_pick(16);
    return arena_pick(4) == 0 ? offset : offset / c->type->bytes * c->type->bytes;
}

static void place_buffers(const struct fold_case *c, struct ccl_work *work)
{
    uint64_t bytes = c->count * c->type->bytes;
    arena_restart();
    for (int i = 0; i < c->nsources; i++) {
        uint64_t offset = c->layout == EQUAL || c->layout == IN_PLACE ? c->offset : any_offset(c);
        work->local[i].in = arena_take(bytes, offset);
    }
    for (int i = 0; i < c->ntargets; i++) {
        uint64_t offset = c->layout == ANYWHERE ? any_offset(c) : c->offset;
        int is_source = c->layout == IN_PLACE && i < c->nsources;
        work->local[i].out = is_source ? (void *)work->local[i].in : arena_take(bytes, offset);
    }
}

static void set_factors(const struct fold_case *c, struct ccl_work *work)
{
    if (c->variant->scaling == DIVIDED) {
        work->flags = CCL_WORK_DIVIDE;
        work->divisor = (uint32_t)(c->nsources > 1 ? c->nsources : 3);
    }
    if (c->variant->scaling != IMMEDIATE && c->variant->scaling != BY_POINTER) return;
    work->flags = CCL_WORK_SCALE;
    for (int i = 0; i < c->nsources; i++) {
        char *at = arena.host + 16 * i + arena_pick(9);
        if (c->variant->scaling == BY_POINTER) work->local[i].scalar_at = at;
        memcpy(&work->local[i].scalar, at, c->type->bytes);
    }
}

static int run_fold(const struct fold_case *c)
{
    struct ccl_step step = {};
    struct ccl_work work;
    char what[200];
    int nslots = c->nsources > c->ntargets ? c->nsources : c->ntargets;
    step.kind = CCL_FOLD;
    step.flags = CCL_STEP_POST;
    step.in[1] = ccl_range_slots(CCL_IN, 0, (uint16_t)c->nsources, 0);
    step.out[1] = ccl_range_slots(CCL_OUT, 0, (uint16_t)c->ntargets, 0);
    kit_work_make(&work, &step, 1, nslots, c->type, c->count);
    work.redop = (uint8_t)c->variant->op;
    place_buffers(c, &work);
    set_factors(c, &work);
    snprintf(what, sizeof what, "%s %s, %d to %d, %llu elements, layout %d, offset %llu",
             c->type->name, c->variant->name, c->nsources, c->ntargets,
             (unsigned long long)c->count, c->layout, (unsigned long long)c->offset);
    return run_both(&work, what);
}

static uint64_t any_count(int nsources)
{
    static const uint16_t counts[] = {1,  2,  3,   4,   5,   7,   8,    15,   16,   17,  31,
                                      32, 33, 100, 255, 256, 257, 1000, 2047, 4096, 4099};
    if (arena_pick(3) == 0) return 1 + arena_pick(nsources > 9 ? 3000 : 40000);
    return counts[arena_pick(sizeof counts / sizeof counts[0])];
}

static void test_folds(const struct kit_type *type, const struct variant *variant)
{
    static const int sources[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 64};
    int nbad = 0, ncases = 0;
    for (int k = 0; k < 10; k++) {
        arena_refill(type);
        for (uint64_t offset = arena_pick(test.every); offset < 16; offset += test.every) {
            struct fold_case c = {type, variant, sources[k], 1, (enum layout)arena_pick(NLAYOUTS),
                                  0,    0};
            static const int targets[] = {1, 2, 3, 0};
            c.ntargets = targets[arena_pick(4)] > 0 ? targets[arena_pick(3)] : c.nsources;
            c.offset = arena_pick(4) == 0 ? offset : offset / type->bytes * type->bytes;
            c.count = any_count(c.nsources);
            nbad += !run_fold(&c);
            ncases++;
        }
    }
    kit_case(nbad == 0, "%s: %s: %d of %d folds differ", type->name, variant->name, nbad, ncases);
}

/* fp8 has arithmetic from 9.0 on, and is refused before. */
static void test_capabilities(void)
{
    int is_right = 1;
    for (int t = 0; t < KIT_NTYPES; t++) {
        int type = kit_types[t].type, is_byte = type == ncclFloat8e4m3 || type == ncclFloat8e5m2;
        is_right &= ccl_cuda_reduces(type, 80) == !is_byte && ccl_cuda_reduces(type, 90) == 1;
    }
    kit_case(is_right && !ccl_cuda_reduces(ncclNumTypes, 90), "which GPUs reduce which types");
}

static void test_all_folds(void)
{
    for (int t = 0; t < KIT_NTYPES; t++)
        for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
            if (variants[v].scaling == DIVIDED && kit_types[t].exponent != 0) continue;
            if (!ccl_cuda_reduces(kit_types[t].type, test.gpu.capability)) continue;
            test_folds(&kit_types[t], &variants[v]);
        }
}

/* ---- collectives ---- */

/* Buffers as a program has them; in place where the collective allows it. */
static void place_ranks(struct ccl_work *work, const struct kit_coll *coll, int n, uint64_t bytes,
                        int in_place)
{
    uint64_t in_bytes = bytes * (uint64_t)(coll->in_all ? n : 1);
    uint64_t out_bytes = bytes * (uint64_t)(coll->out_all ? n : 1);
    arena_restart();
    for (int r = 0; r < n; r++) {
        char *in = arena_take(in_bytes > out_bytes ? in_bytes : out_bytes, 0);
        char *out = in_place ? in : arena_take(out_bytes, 0);
        if (in_place && coll->out_all) in = out + (uint64_t)r * bytes;
        if (in_place && coll->in_all) out = in + (uint64_t)r * bytes;
        work->local[r].in = in;
        work->local[r].out = out;
    }
}

static int run_coll(const struct kit_coll *coll, int n, const struct kit_type *type, uint64_t count)
{
    struct kit_sched made;
    struct ccl_work work;
    char what[200];
    int root = coll->has_root ? (int)arena_pick((uint64_t)n) : -1;
    int in_place = coll->coll != CCL_SCHED_ALL_TO_ALL && arena_pick(2);
    kit_sched_make(&made, coll->coll, n, root);
    kit_work_make(&work, made.sched.steps, made.sched.nsteps, n, type, count);
    place_ranks(&work, coll, n, count * type->bytes, in_place);
    snprintf(what, sizeof what, "%s of %llu %s, %d ranks, root %d%s", coll->name,
             (unsigned long long)count, type->name, n, root, in_place ? ", in place" : "");
    int is_good = run_both(&work, what);
    kit_sched_free(&made);
    return is_good;
}

static void test_coll(const struct kit_coll *coll)
{
    static const int ranks[] = {1, 2, 3, 4, 5, 7, 8, 16, 33, 64, KIT_MAX_RANKS};
    static const uint64_t counts[] = {0, 1, 2, 3, 4, 5, 8, 15, 16, 33, 100, 128};
    int nbad = 0, ncases = 0;
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        const struct kit_type *type = &kit_types[arena_pick(10)];
        arena_refill(type);
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            uint64_t count = ranks[i] > 16 ? counts[c] % 101 : counts[c] * (1 + arena_pick(20));
            nbad += !run_coll(coll, ranks[i], type, count);
            ncases++;
        }
    }
    kit_case(nbad == 0, "%s: %d of %d runs differ", coll->name, nbad, ncases);
}

/* ---- moves: pairs of different lengths ---- */

/* Lengths of all magnitudes, also none; places that agree in their low bits, or not. */
static int run_moves(int n)
{
    struct ccl_step step = {};
    struct ccl_work work;
    char what[100];
    uint64_t grain = (uint64_t)1 << arena_pick(5), is_apart = arena_pick(2);
    step.kind = CCL_MAP;
    step.in[1] = ccl_range_slots(CCL_IN, 0, (uint16_t)n, 0);
    step.out[1] = ccl_range_slots(CCL_OUT, 0, (uint16_t)n, 0);
    kit_work_make(&work, &step, 1, n, &kit_types[0], 0);
    work.flags = CCL_WORK_LENGTHS;
    arena_restart();
    for (int i = 0; i < n; i++) {
        uint64_t bytes =
            arena_pick(4) ? arena_pick((uint64_t)1 << arena_pick(16)) / grain * grain : 0;
        uint64_t offset = arena_pick(16) / grain * grain;
        work.local[i].in = arena_take(bytes, offset);
        work.local[i].out = arena_take(bytes, is_apart ? arena_pick(16) / grain * grain : offset);
        work.local[i].scalar = bytes;
        if (bytes > work.count_elems) work.count_elems = bytes;
    }
    snprintf(what, sizeof what, "%d moves at multiples of %llu%s", n, (unsigned long long)grain,
             is_apart ? ", apart" : "");
    return run_both(&work, what);
}

static void test_moves(void)
{
    int nbad = 0, ncases = 0;
    for (; ncases < 200; ncases++) {
        if (ncases % 20 == 0) arena_refill(&kit_types[0]);
        nbad +=
            !run_moves(ncases % 5 ? 1 + (int)arena_pick(KIT_MAX_RANKS) : 1 + (int)arena_pick(3));
    }
    kit_case(nbad == 0, "moves of different lengths: %d of %d differ", nbad, ncases);
}

int main(int argc, char **argv)
{
    test.gpu = kit_open(300);
    arena_open(argc > 1 ? strtoull(argv[1], NULL, 0) : 20261130);
    test.every = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    printf("# seed %llu; usage: test_fold [SEED [every N-th offset]]\n",
           (unsigned long long)arena.seed);
    test_capabilities();
    test_all_folds();
    for (int i = 0; i < CCL_SCHED_NCOLLS; i++) test_coll(&kit_colls[i]);
    test_moves();
    arena_close();
    return kit_close();
}
