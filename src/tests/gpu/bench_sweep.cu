/* bench_sweep.cu: the loop of the local path in many configurations: vectors a lane, sources in
 * flight, caches that loads and stores pass, CTAs and threads. kernel/cuda_local.h takes the best.
 */
#include "gpu/bench.h"

#include "kernel/cuda_local.h"

#include <stdio.h>
#include <stdlib.h>

/* Only aligned vectors, so that variants compile quickly; ENDS adds the rest. */
template <class T, class C, int ENDS>
__global__ void __launch_bounds__(1024, 1)
    sweep_kernel(const __grid_constant__ struct ccl_local_args args)
{
    uint32_t warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    run_pass<T, C, PASS_VECTORS>(args, args.vectors, warp);
    if constexpr (ENDS) run_pass<T, C, PASS_ELEMENTS>(args, args.elements, warp);
}

struct sweep_config {
    const void *function;
    int vectors, sources, loads, stores;
};

#define CONFIG(T, ENDS, V, S, L, W)                                                                \
    {                                                                                              \
        (const void *)sweep_kernel<T, fold_shape<V, S, L, W>, ENDS>, V, S, L, W                    \
    }
#define POLICIES(T, V, S)                                                                          \
    CONFIG(T, 0, V, S, CCL_PLAIN, CCL_PLAIN), CONFIG(T, 0, V, S, CCL_STREAM, CCL_STREAM),          \
        CONFIG(T, 0, V, S, CCL_PLAIN, CCL_STREAM), CONFIG(T, 0, V, S, CCL_NO_L1, CCL_STREAM)

static const struct sweep_config folds[] = {
    POLICIES(f32_words, 1, 4), POLICIES(f32_words, 1, 8), POLICIES(f32_words, 2, 2),
    POLICIES(f32_words, 2, 4), POLICIES(f32_words, 4, 1), POLICIES(f32_words, 4, 2),
};
static const struct sweep_config copies[] = {
    POLICIES(copy_words, 1, 1),
    POLICIES(copy_words, 2, 1),
    POLICIES(copy_words, 4, 1),
    POLICIES(copy_words, 8, 1),
};
#define SMALL(T, V, S) CONFIG(T, 1, V, S, CCL_STREAM, CCL_STREAM)
static const struct sweep_config small_folds[] = {
    SMALL(f32_words, 1, 4),
    SMALL(f32_words, 1, 8),
    SMALL(f32_words, 2, 2),
    SMALL(f32_words, 2, 4),
};
static const struct sweep_config small_copies[] = {
    SMALL(copy_words, 1, 1),
    SMALL(copy_words, 2, 1),
    SMALL(copy_words, 4, 1),
};

#define COUNT_OF(table) (sizeof(table) / sizeof(table)[0])

struct grid {
    uint32_t ctas, threads;
};

struct sweep_run {
    struct bench *bench;
    struct bench_op op;
    const struct sweep_config *config;
    struct grid grid;
};

static void launch_sweep(void *what, uint32_t i)
{
    struct sweep_run *run = (struct sweep_run *)what;
    struct ccl_work work = bench_op_turn(&run->op, i);
    struct ccl_local_args args;
    ccl_local_fill(&args, &work, 0, run->op.type->bytes);
    ccl_local_cut(&args, CCL_FOLD_TILE_BYTES((uint32_t)run->config->vectors));
    ccl_local_deal_to(&args, run->grid.ctas * run->grid.threads / 32);
    void *arguments[] = {&args};
    CK(cudaLaunchKernel(run->config->function, dim3(run->grid.ctas), dim3(run->grid.threads),
                        arguments, 0, run->bench->gpu.stream));
}

static void make_run(struct sweep_run *run, struct bench *bench, enum ccl_sched_coll coll, int n,
                     uint64_t size_bytes)
{
    run->bench = bench;
    run->op = (struct bench_op){};
    run->op.coll = &kit_colls[coll];
    run->op.type = &kit_types[7];
    run->op.n = n;
    run->op.size_bytes = size_bytes;
    bench_op_make(bench, &run->op);
}

/* ---- at size: TB/s ---- */

enum { NSHAPES = 4, NGRIDS = 5, LARGE_BYTES = 128 << 20 };

struct shape {
    enum ccl_sched_coll coll;
    int n;
};

static const struct shape fold_shapes[NSHAPES] = {
    {CCL_SCHED_ALL_REDUCE, 2},
    {CCL_SCHED_ALL_REDUCE, 4},
    {CCL_SCHED_ALL_REDUCE, 8},
    {CCL_SCHED_REDUCE_SCATTER, 8},
};
static const struct shape copy_shapes[NSHAPES] = {
    {CCL_SCHED_BROADCAST, 1},
    {CCL_SCHED_BROADCAST, 8},
    {CCL_SCHED_ALL_GATHER, 4},
    {CCL_SCHED_ALL_TO_ALL, 8},
};

static void sweep_line(struct sweep_run *runs, const struct sweep_config *config, struct grid grid)
{
    static const char *const policies[] = {"plain", "stream", "no-L1"};
    printf("%d vectors x %d sources, %-6s loads, %-6s stores, %4u x %4u:", config->vectors,
           config->sources, policies[config->loads], policies[config->stores], grid.ctas,
           grid.threads);
    for (int s = 0; s < NSHAPES; s++) {
        struct sweep_run *run = &runs[s];
        struct bench_launcher launcher = {launch_sweep, run};
        run->config = config;
        run->grid = grid;
        unsigned wrong = grid.ctas % 264 == 0 ? bench_op_check(run->bench, &run->op, launcher) : 0;
        double us = bench_stream_us(run->bench, launcher, 4);
        printf(" %6.3f%s", (double)run->op.bytes / us / 1e6, wrong ? " WRONG" : "");
    }
    printf("\n");
}

static void sweep_shapes(struct bench *bench, const struct shape *shapes,
                         const struct sweep_config *configs, size_t nconfigs)
{
    uint32_t sms = (uint32_t)bench->gpu.nsms;
    const struct grid grids[NGRIDS] = {
        {sms, 1024}, {2 * sms, 512}, {4 * sms, 256}, {8 * sms, 256}, {sms, 512},
    };
    struct sweep_run *runs = (struct sweep_run *)calloc(NSHAPES, sizeof *runs);
    printf("TB/s of bytes read and written, 128 MiB a rank:");
    for (int s = 0; s < NSHAPES; s++) {
        make_run(&runs[s], bench, shapes[s].coll, shapes[s].n, LARGE_BYTES);
        printf(" %s n=%d", runs[s].op.coll->name, shapes[s].n);
    }
    printf("\n");
    for (size_t c = 0; c < nconfigs; c++)
        for (int g = 0; g < NGRIDS; g++) sweep_line(runs, &configs[c], grids[g]);
    for (int s = 0; s < NSHAPES; s++) bench_op_free(&runs[s].op);
    free(runs);
}

void bench_sweep_large(struct bench *bench)
{
    sweep_shapes(bench, fold_shapes, folds, COUNT_OF(folds));
    sweep_shapes(bench, copy_shapes, copies, COUNT_OF(copies));
}

/* ---- small: microseconds in a graph ---- */

/* The best grid of each number of warps a CTA. */
static void sweep_small_line(struct sweep_run *run)
{
    static const uint32_t ctas[] = {1, 2, 4, 8, 16, 33, 66, 132, 264};
    struct bench_launcher launcher = {launch_sweep, run};
    struct cudaFuncAttributes attributes;
    CK(cudaFuncGetAttributes(&attributes, run->config->function));
    printf("  %d vectors x %d sources:", run->config->vectors, run->config->sources);
    for (uint32_t warps = 1; warps <= 16; warps *= 2) {
        double best = 1e30;
        uint32_t best_ctas = 0;
        for (size_t c = 0; c < COUNT_OF(ctas); c++) {
            run->grid = (struct grid){ctas[c], warps * 32};
            double us = bench_graph_us(run->bench, launcher, 32);
            if (us < best) best_ctas = ctas[c];
            if (us < best) best = us;
        }
        run->grid = (struct grid){best_ctas, warps * 32};
        unsigned wrong = bench_op_check(run->bench, &run->op, launcher);
        printf("  %6.2f (%u x %u)%s", best, best_ctas, warps, wrong ? " WRONG" : "");
    }
    printf("\n");
}

static void sweep_small_op(struct bench *bench, struct shape shape,
                           const struct sweep_config *configs, size_t nconfigs)
{
    static const uint64_t sizes[] = {8, 1024, 16 << 10, 128 << 10, 1 << 20, 8 << 20};
    struct sweep_run *run = (struct sweep_run *)calloc(1, sizeof *run);
    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        make_run(run, bench, shape.coll, shape.n, sizes[s]);
        printf("%s n=%d, %llu bytes: best us (CTAs x warps) for 1, 2, 4, 8, 16 warps\n",
               run->op.coll->name, shape.n, (unsigned long long)sizes[s]);
        for (size_t c = 0; c < nconfigs; c++) {
            run->config = &configs[c];
            sweep_small_line(run);
        }
        bench_op_free(&run->op);
    }
    free(run);
}

void bench_sweep_small(struct bench *bench)
{
    static const struct shape reduce8 = {CCL_SCHED_ALL_REDUCE, 8};
    static const struct shape reduce2 = {CCL_SCHED_ALL_REDUCE, 2};
    static const struct shape exchange8 = {CCL_SCHED_ALL_TO_ALL, 8};
    sweep_small_op(bench, reduce8, small_folds, COUNT_OF(small_folds));
    sweep_small_op(bench, reduce2, small_folds, COUNT_OF(small_folds));
    sweep_small_op(bench, exchange8, small_copies, COUNT_OF(small_copies));
}
