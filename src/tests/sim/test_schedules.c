/* test_schedules.c: the schedule prover: every algorithm and collective, ranks to 128, even,
 * uneven and interleaved executors, all roots to 16 ranks, counts with tails, FIFO depths,
 * in place and not. Each case proves: every output holds every input exactly once, no cyclic
 * wait, no buffer touched before its owner is ready or after it is done. */
#include "sim/shape.h"
#include "sim/world.h"

#include "kernel/size.h"
#include "unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which roots to prove: all up to 16 ranks, above that the first, middle and last. */
static int wants_root(int root, int nranks)
{
    return nranks <= 16 || root == 0 || root == nranks / 2 || root == nranks - 1;
}

static unsigned long nproved;
static unsigned long ncovered[8][CCL_SCHED_NCOLLS][CCL_NPROTOS];
static int one_count; /* proves each shape with one of the counts only */

/* In a slow build larger shapes are proved with one count each, and one placing in turn. */
static int is_slice(void)
{
    return getenv("CHORUS_TEST_SLICE") != NULL;
}

static void prove(const struct sim_case *sim)
{
    const char *text = sim_run(sim);
    nproved++;
    for (int a = 0; ccl_algos[a] != NULL; a++)
        if (ccl_algos[a] == sim->algo) ncovered[a][sim->coll][sim->proto]++;
    if (text != NULL)
        FAIL("%s, proto %d, coll %d, %d ranks on %d executors, root %d, count %llu, depth %u, "
             "channels %u, in place %d, seed %llu: %s",
             sim->algo->name, (int)sim->proto, (int)sim->coll, sim->nranks, sim->nexecs, sim->root,
             (unsigned long long)sim->count, sim->depth, sim->nchannels, sim->in_place,
             (unsigned long long)sim->seed, text);
}

/* 8-byte elements, so a slot of 1,024 bytes holds 128. */
static void prove_counts(struct sim_case *sim)
{
    static const uint64_t counts[] = {1, 7, 127, 1009, 0};
    static const uint16_t depths[] = {2, 8};
    size_t first = one_count ? nproved % TEST_COUNT(counts) : 0;
    size_t end = one_count ? first + 1 : TEST_COUNT(counts);
    for (size_t c = first; c < end; c++) {
        if (sim->nranks > 64 && counts[c] != 127) continue;
        sim->count = counts[c];
        sim->in_place = nproved % 2 && sim->coll != CCL_SCHED_ALL_TO_ALL; /* has no such form */
        sim->depth = depths[sim->nexecs <= 32 ? nproved / 2 % 2 : 0];
        sim->nchannels = (uint16_t)(1 + nproved / 4 % 2);
        sim->proto = nproved / 8 % 2 ? CCL_PROTO_LL : CCL_PROTO_SIMPLE;
        sim->seed = nproved * 0x9e3779b97f4a7c15u + 1;
        if (sim->nranks > 16 && counts[c] == 1009 && sim->coll != CCL_SCHED_ALL_REDUCE)
            sim->count = 128;
        prove(sim);
    }
}

static void prove_algo(const struct ccl_algo_ops *algo, int nranks, enum shape_kind kind)
{
    struct shape shape;
    enum ccl_mapped mapped = algo == &ccl_algo_direct ? CCL_MAPPED_ALL : CCL_MAPPED_NONE;
    if (!shape_make(&shape, kind, nranks, mapped)) return;
    struct sim_case sim = {.exec_of = shape.exec_of,
                           .nranks = nranks,
                           .nexecs = shape.nexecs,
                           .algo = algo,
                           .mapped = mapped,
                           /* logstep wants room for a place a rank */
                           .slot_bytes = algo == &ccl_algo_logstep ? 8192 : 1024};
    for (int coll = 0; coll < CCL_SCHED_NCOLLS; coll++) {
        sim.coll = (enum ccl_sched_coll)coll;
        for (int root = 0; root < nranks; root++) {
            sim.root = shape_has_root(sim.coll) ? root : -1;
            struct ccl_sched_args args = {&shape.view, sim.coll, sim.root, sim.slot_bytes};
            if (!algo->supports(&args)) break;
            if (wants_root(root, nranks)) prove_counts(&sim);
            if (!shape_has_root(sim.coll)) break;
        }
    }
}

static void prove_ranks(int low, int high)
{
    for (int a = 0; ccl_algos[a] != NULL; a++)
        for (int n = low; n <= high; n++)
            for (int p = 0; p < NSHAPES; p++) prove_algo(ccl_algos[a], n, (enum shape_kind)p);
    NOTE("%lu schedules proved so far", nproved);
}

static void test_to_8(void)
{
    prove_ranks(1, 8);
}

/* One placing and one count for each algorithm. */
static void prove_in_turn(int n)
{
    one_count = 1;
    for (int a = 0; ccl_algos[a] != NULL; a++)
        prove_algo(ccl_algos[a], n, (enum shape_kind)((n + a) % NSHAPES));
    one_count = 0;
}

static void test_to_17(void)
{
    for (int n = 9; n <= 17; n++) {
        if (n == 14 || n == 15) continue;
        if (is_slice())
            prove_in_turn(n);
        else
            prove_ranks(n, n);
    }
}

static void test_to_128(void)
{
    static const int ranks[] = {31, 32, 33, 64, 127, 128};
    for (size_t i = 0; i < TEST_COUNT(ranks); i++)
        if (is_slice())
            prove_in_turn(ranks[i]);
        else
            prove_ranks(ranks[i], ranks[i]);
}

/* The numbers between, with one placing and one count each. */
static void test_between(void)
{
    for (int n = 14; n <= 63; n += is_slice() ? 7 : 1)
        if (n != 16 && n != 17 && (n < 31 || n > 33)) prove_in_turn(n);
    NOTE("%lu schedules proved so far", nproved);
}

/* Nothing to move: sizes of 0 elements give no step a round, with and without connections. */
static void test_nothing(void)
{
    for (uint16_t channels = 1; channels <= 4; channels++)
        for (uint64_t slot_bytes = 0; slot_bytes <= 1024; slot_bytes += 1024) {
            struct ccl_work work = {.nchannels = channels};
            struct ccl_body body = {.npieces = 3, .nrounds = 7};
            ccl_size_body(&work, &body, 8, slot_bytes);
            CHECK_EQ(body.nrounds, 0);
            CHECK_EQ(body.chan_elems, 0);
            CHECK_EQ(body.piece_elems, 0);
        }
}

/* Counts to a few slots, one by one: every tail. */
static void test_tails(void)
{
    struct shape shape;
    for (int a = 0; ccl_algos[a] != NULL; a++)
        for (int p = 0; p < NSHAPES; p++)
            for (uint64_t count = 1; count < 300; count++) {
                enum ccl_mapped mapped =
                    ccl_algos[a] == &ccl_algo_direct ? CCL_MAPPED_ALL : CCL_MAPPED_NONE;
                shape_make(&shape, (enum shape_kind)p, 5, mapped);
                struct sim_case sim = {.exec_of = shape.exec_of,
                                       .nranks = 5,
                                       .nexecs = shape.nexecs,
                                       .coll = CCL_SCHED_ALL_REDUCE,
                                       .algo = ccl_algos[a],
                                       .proto = count % 2 ? CCL_PROTO_LL : CCL_PROTO_SIMPLE,
                                       .root = -1,
                                       .mapped = mapped,
                                       .depth = 2,
                                       .nchannels = (uint16_t)(1 + count % 4),
                                       .slot_bytes = 1024,
                                       .count = count,
                                       .seed = count};
                struct ccl_sched_args args = {&shape.view, sim.coll, sim.root, sim.slot_bytes};
                if (sim.algo->supports(&args)) prove(&sim);
            }
}

/* Buffers that processes share: direct where all are in reach, else each other algorithm instead,
 * whichever rank is the one whose buffers are not. */
static void prove_second(const struct ccl_algo_ops *second, int nranks, enum shape_kind kind)
{
    struct shape shape;
    if (!shape_make(&shape, kind, nranks, CCL_MAPPED_SHARED) || shape.nexecs < 2) return;
    struct sim_case sim = {.exec_of = shape.exec_of,
                           .nranks = nranks,
                           .nexecs = shape.nexecs,
                           .algo = &ccl_algo_direct,
                           .second = second,
                           .mapped = CCL_MAPPED_SHARED,
                           .slot_bytes = 8192};
    for (int coll = 0; coll < CCL_SCHED_NCOLLS; coll++) {
        sim.coll = (enum ccl_sched_coll)coll;
        sim.root = shape_has_root(sim.coll) ? nranks - 1 : -1;
        struct ccl_sched_args args = {&shape.view, sim.coll, sim.root, sim.slot_bytes};
        if (!ccl_algo_direct.supports(&args) || !second->supports(&args)) continue;
        for (sim.outside = -1; sim.outside < nranks; sim.outside++) prove_counts(&sim);
    }
}

static void test_second(void)
{
    for (int a = 0; ccl_algos[a] != NULL; a++)
        for (int n = 2; n <= 9 && ccl_algos[a] != &ccl_algo_direct; n++)
            for (int p = 0; p < NSHAPES; p++) prove_second(ccl_algos[a], n, (enum shape_kind)p);
    NOTE("%lu schedules proved so far", nproved);
}

/* The cases above ran every algorithm that can do a collective with both protocols. */
static void test_coverage(void)
{
    unsigned long least = is_slice() ? 50 : 100;
    for (int a = 0; ccl_algos[a] != NULL; a++)
        for (int coll = 0; coll < CCL_SCHED_NCOLLS; coll++) {
            const unsigned long *n = ncovered[a][coll];
            if (n[0] + n[1] > 0)
                NOTE("%s, coll %d: %lu with Simple, %lu with LL", ccl_algos[a]->name, coll, n[0],
                     n[1]);
            if (n[0] + n[1] > 0) CHECK(n[0] > least && n[1] > least);
        }
}

/* A schedule with a step left out must be seen: the prover itself is tested. */
static ncclResult_t build_short(const struct ccl_sched_args *args, struct ccl_sched *sched)
{
    ncclResult_t rc = ccl_algo_ring.build(args, sched);
    if (args->view->self == 1) sched->nsteps--;
    return rc;
}

static ncclResult_t build_unmet(const struct ccl_sched_args *args, struct ccl_sched *sched)
{
    ncclResult_t rc = ccl_algo_direct.build(args, sched);
    sched->nsteps--; /* the meeting at the end */
    return rc;
}

static void test_prover(void)
{
    static const struct ccl_algo_ops short_ring = {.name = "short", .build = build_short};
    static const struct ccl_algo_ops unmet = {.name = "unmet", .build = build_unmet};
    static const uint16_t exec_of[] = {0, 1, 2, 3};
    struct sim_case sim = {.exec_of = exec_of,
                           .nranks = 4,
                           .nexecs = 4,
                           .coll = CCL_SCHED_ALL_REDUCE,
                           .algo = &short_ring,
                           .root = -1,
                           .depth = 2,
                           .nchannels = 1,
                           .slot_bytes = 1024,
                           .count = 100,
                           .seed = 1};
    CHECK(sim_run(&sim) != NULL);
    sim.algo = &unmet;
    sim.mapped = CCL_MAPPED_ALL;
    int seen = 0;
    for (sim.seed = 1; sim.seed <= 50; sim.seed++) seen += sim_run(&sim) != NULL;
    CHECK(seen > 25);
    sim.algo = &ccl_algo_ring;
    sim.mapped = CCL_MAPPED_NONE;
    sim.count = 1000;
    sim.depth = 1;
    CHECK_STR(sim_run(&sim), "cyclic wait: no executor can go on");
}

static const struct test_case cases[] = {
    {"the prover sees broken schedules", test_prover, 0},
    {"1 to 8 ranks, all roots", test_to_8, 0},
    {"9 to 17 ranks", test_to_17, 0},
    {"31 to 128 ranks", test_to_128, 0},
    {"14 to 63 ranks", test_between, 0},
    {"direct, or another where buffers are out of reach", test_second, 0},
    {"no elements, no rounds", test_nothing, 0},
    {"every tail", test_tails, 0},
    {"every algorithm, protocol and collective", test_coverage, 0},
};

TEST_LIB_MAIN(cases)
