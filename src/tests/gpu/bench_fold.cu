/* bench_fold.cu: how close the kernels of the local path come to a plain copy. Prints the ceiling,
 * then what the parts say that are named: colls, types, align and moves of the library's kernels,
 * large, small and bulk of other ways to do it. Operations of floats are checked.
 */
#include "gpu/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COPY_THREADS = 512 };

/* ---- the ceiling ---- */

__global__ void __launch_bounds__(COPY_THREADS) plain_copy(uint4 *to, const uint4 *from, uint64_t n)
{
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < n; i += stride)
        __stcs(to + i, __ldcs(from + i));
}

struct copy_run {
    struct bench *bench;
    uint64_t bytes;
    uint32_t ctas; /* 0: cudaMemcpy */
};

static void launch_copy(void *what, uint32_t i)
{
    const struct copy_run *run = (const struct copy_run *)what;
    char *from = run->bench->pool + 2 * (i % 2) * run->bytes, *to = from + run->bytes;
    if (run->ctas == 0)
        CK(cudaMemcpyAsync(to, from, run->bytes, cudaMemcpyDeviceToDevice, run->bench->gpu.stream));
    else
        plain_copy<<<run->ctas, COPY_THREADS, 0, run->bench->gpu.stream>>>(
            (uint4 *)to, (const uint4 *)from, run->bytes / 16);
}

enum { FILL_BYTES = 1 << 30 };

static void launch_fill(void *what, uint32_t i)
{
    const struct bench *bench = (const struct bench *)what;
    CK(cudaMemsetAsync(bench->pool + i % 2 * (uint64_t)FILL_BYTES, 0, FILL_BYTES,
                       bench->gpu.stream));
}

static void find_ceiling(struct bench *bench)
{
    static const uint32_t per_sm[] = {0, 1, 2, 4, 8};
    for (size_t i = 0; i < sizeof per_sm / sizeof per_sm[0]; i++) {
        struct copy_run run = {bench, 512ull << 20, per_sm[i] * (uint32_t)bench->gpu.nsms};
        struct bench_launcher launcher = {launch_copy, &run};
        double rate = 2e6 * (double)run.bytes / bench_stream_us(bench, launcher, 6);
        if (rate > bench->ceiling) bench->ceiling = rate;
        if (run.ctas == 0)
            printf("cudaMemcpy of 512 MiB: %.3f TB/s\n", rate / 1e12);
        else
            printf("plain copy, %u x %d: %.3f TB/s\n", run.ctas, COPY_THREADS, rate / 1e12);
    }
    printf("ceiling: %.3f TB/s\n", bench->ceiling / 1e12);
    struct bench_launcher fill = {launch_fill, bench};
    printf("only writing (cudaMemset): %.3f TB/s\n",
           (double)FILL_BYTES / bench_stream_us(bench, fill, 6) / 1e6);
}

/* ---- the library's kernels ---- */

struct op_run {
    struct bench *bench;
    struct bench_op op;
};

static void launch_op(void *what, uint32_t i)
{
    const struct op_run *run = (const struct op_run *)what;
    struct ccl_work work = bench_op_turn(&run->op, i);
    struct ccl_cuda_target target = {};
    target.stream = run->bench->gpu.stream;
    target.nsms = (uint32_t)run->bench->gpu.nsms;
    CK((cudaError_t)ccl_cuda_launch_local(&work, &target));
}

static struct op_run *make_run(struct bench *bench, enum ccl_sched_coll coll, int n,
                               uint64_t size_bytes)
{
    struct op_run *run = (struct op_run *)calloc(1, sizeof *run);
    run->bench = bench;
    run->op.coll = &kit_colls[coll];
    run->op.type = &kit_types[7];
    run->op.n = n;
    run->op.size_bytes = size_bytes;
    return run;
}

/* Microseconds back to back and in a graph, TB/s and share of the ceiling by the latter. */
static void report_op(struct op_run *run, int check)
{
    struct bench_launcher launcher = {launch_op, run};
    uint32_t nlaunches = run->op.bytes > (64 << 20) ? 8 : 64;
    unsigned wrong = check ? bench_op_check(run->bench, &run->op, launcher) : 0;
    double stream_us = bench_stream_us(run->bench, launcher, nlaunches);
    double graph_us = bench_graph_us(run->bench, launcher, nlaunches);
    double rate = 1e6 * (double)run->op.bytes / graph_us;
    printf(" %9.2f %9.2f %7.3f %5.0f%%%s\n", stream_us, graph_us, rate / 1e12,
           100 * rate / run->bench->ceiling, wrong ? " WRONG" : "");
}

static const char columns[] = "stream us  graph us    TB/s  of ceiling";

static void bench_colls(struct bench *bench)
{
    static const int ranks[] = {2, 4, 8};
    static const uint64_t sizes[] = {8,         128,     1 << 10,  8 << 10,  64 << 10,
                                     512 << 10, 4 << 20, 32 << 20, 128 << 20};
    for (int c = 0; c < CCL_SCHED_NCOLLS; c++)
        for (int n = 0; n < 3; n++) {
            printf("%s, %d ranks of floats: bytes a rank, %s\n", kit_colls[c].name, ranks[n],
                   columns);
            for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
                struct op_run *run = make_run(bench, kit_colls[c].coll, ranks[n], sizes[s]);
                bench_op_make(bench, &run->op);
                printf("%10llu", (unsigned long long)sizes[s]);
                report_op(run, 1);
                bench_op_free(&run->op);
                free(run);
            }
        }
}

/* All types and operators: which are bound by arithmetic? */
static void bench_types(struct bench *bench)
{
    static const struct {
        const char *name;
        int op, flags;
    } ops[] = {
        {"sum", CCL_SUM, 0},
        {"prod", CCL_PROD, 0},
        {"max", CCL_MAX, 0},
        {"scaled", CCL_SUM, CCL_WORK_SCALE},
        {"average", CCL_SUM, CCL_WORK_DIVIDE},
    };
    printf("all_reduce, 4 ranks, 64 MiB: type, op, %s\n", columns);
    for (int t = 0; t < KIT_NTYPES; t++)
        for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++) {
            if (ops[o].flags == CCL_WORK_DIVIDE && kit_types[t].exponent != 0) continue;
            if (!ccl_cuda_reduces(kit_types[t].type, bench->gpu.capability)) continue;
            struct op_run *run = make_run(bench, CCL_SCHED_ALL_REDUCE, 4, 64 << 20);
            run->op.type = &kit_types[t];
            bench_op_make(bench, &run->op);
            run->op.work.redop = (uint8_t)ops[o].op;
            run->op.work.flags = (uint8_t)ops[o].flags;
            run->op.work.divisor = 4;
            for (int r = 0; r < 4; r++) run->op.work.local[r].scalar = 0x3c3c3c3c3c3c3c3c;
            printf("%10s %8s", kit_types[t].name, ops[o].name);
            report_op(run, 0);
            bench_op_free(&run->op);
            free(run);
        }
}

/* Buffers that do not start at 16 bytes, and blocks that do not. */
static void bench_alignments(struct bench *bench)
{
    static const struct {
        const char *name;
        enum ccl_sched_coll coll;
        uint64_t shift_in, shift_out, less;
    } cases[] = {
        {"all_reduce, aligned", CCL_SCHED_ALL_REDUCE, 0, 0, 0},
        {"all_reduce, inputs apart", CCL_SCHED_ALL_REDUCE, 4, 0, 0},
        {"all_reduce, outputs apart", CCL_SCHED_ALL_REDUCE, 0, 4, 0},
        {"all_gather, odd count", CCL_SCHED_ALL_GATHER, 0, 0, 32},
        {"reduce_scatter, odd count", CCL_SCHED_REDUCE_SCATTER, 0, 0, 32},
        {"alltoall, odd count", CCL_SCHED_ALL_TO_ALL, 0, 0, 32},
        {"broadcast, outputs apart", CCL_SCHED_BROADCAST, 0, 4, 0},
    };
    printf("8 ranks of floats, 128 MiB: %s\n", columns);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct op_run *run = make_run(bench, cases[i].coll, 8, (128 << 20) - cases[i].less);
        run->op.shift[0] = cases[i].shift_in;
        run->op.shift[1] = cases[i].shift_out;
        bench_op_make(bench, &run->op);
        printf("%30s", cases[i].name);
        report_op(run, 1);
        bench_op_free(&run->op);
        free(run);
    }
}

/* ---- messages of different lengths ---- */

enum { NMOVES = 64 };

struct moves_run {
    struct bench *bench;
    struct ccl_work work;
};

static void launch_moves(void *what, uint32_t i)
{
    struct moves_run *run = (struct moves_run *)what;
    struct ccl_work work = run->work;
    struct ccl_cuda_target target = {};
    target.stream = run->bench->gpu.stream;
    target.nsms = (uint32_t)run->bench->gpu.nsms;
    for (int p = 0; p < NMOVES; p++) {
        work.local[p].in = (const char *)work.local[p].in + (i % 8 << 28);
        work.local[p].out = (char *)work.local[p].out + (i % 8 << 28);
    }
    CK((cudaError_t)ccl_cuda_launch_local(&work, &target));
}

/* 64 messages, from nothing to twice the mean, all at multiples of `unit` bytes. */
static void bench_moves_of(struct bench *bench, uint64_t mean, uint64_t unit)
{
    struct moves_run *run = (struct moves_run *)calloc(1, sizeof *run);
    struct bench_launcher launcher = {launch_moves, run};
    struct ccl_step step = {};
    uint64_t at = 0, total = 0, longest = 0;
    step.kind = CCL_MAP;
    step.in[1] = ccl_range_slots(CCL_IN, 0, NMOVES, 0);
    step.out[1] = ccl_range_slots(CCL_OUT, 0, NMOVES, 0);
    kit_work_make(&run->work, &step, 1, NMOVES, &kit_types[0], 0);
    run->bench = bench;
    for (uint64_t p = 0; p < NMOVES; p++) {
        uint64_t bytes = p * 37 % NMOVES * 2 * mean / (NMOVES - 1) / unit * unit;
        run->work.local[p].in = bench->pool + at;
        run->work.local[p].out = bench->pool + (4ull << 30) + at;
        run->work.local[p].scalar = bytes;
        at += unit == 16 ? (bytes + 255) / 256 * 256 : bytes;
        total += bytes;
        if (bytes > longest) longest = bytes;
    }
    run->work.count_elems = longest;
    run->work.flags = CCL_WORK_LENGTHS;
    uint32_t nlaunches = total > (64 << 20) ? 8 : 64;
    double stream_us = bench_stream_us(bench, launcher, nlaunches);
    double graph_us = bench_graph_us(bench, launcher, nlaunches);
    printf("%10llu %4llu %9.2f %9.2f %7.3f\n", (unsigned long long)mean, (unsigned long long)unit,
           stream_us, graph_us, 2 * (double)total / graph_us / 1e6);
    free(run);
}

static void bench_moves(struct bench *bench)
{
    static const uint64_t means[] = {16, 1 << 10, 16 << 10, 256 << 10, 2 << 20};
    printf("%d messages: mean bytes, multiples of, stream us  graph us    TB/s\n", NMOVES);
    for (size_t m = 0; m < sizeof means / sizeof means[0]; m++)
        for (uint64_t unit = 16; unit >= 4; unit /= 4) bench_moves_of(bench, means[m], unit);
}

static const struct {
    const char *name;
    void (*run)(struct bench *bench);
} parts[] = {
    {"colls", bench_colls}, {"types", bench_types},       {"align", bench_alignments},
    {"moves", bench_moves}, {"large", bench_sweep_large}, {"small", bench_sweep_small},
    {"bulk", bench_bulk},
};

int main(int argc, char **argv)
{
    struct bench bench = {};
    bench.gpu = kit_open(300);
    bench.pool_bytes = 12ull << 30;
    CK(cudaMalloc((void **)&bench.pool, bench.pool_bytes));
    CK(cudaMemset(bench.pool, 0, bench.pool_bytes));
    find_ceiling(&bench);
    for (int i = 1; i < argc; i++) {
        size_t p = 0, nparts = sizeof parts / sizeof parts[0];
        while (p < nparts && strcmp(parts[p].name, argv[i]) != 0) p++;
        if (p < nparts) {
            parts[p].run(&bench);
            continue;
        }
        printf("bench_fold: no part %s; there are %s\n", argv[i],
               "colls, types, align, moves, large, small, bulk");
        return 2;
    }
    CK(cudaFree(bench.pool));
    return 0;
}
