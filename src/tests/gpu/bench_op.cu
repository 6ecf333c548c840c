/* bench_op.cu: see bench.h. */
#include "gpu/bench.h"

#include <stdio.h>

/* ---- layout ---- */

static uint64_t blocks_of(int all, int n)
{
    return all ? (uint64_t)n : 1;
}

static uint64_t moved_blocks(const struct kit_coll *coll, int n)
{
    uint64_t k = (uint64_t)n;
    switch (coll->coll) {
    case CCL_SCHED_ALL_REDUCE: return 2 * k;
    case CCL_SCHED_ALL_TO_ALL: return 2 * k * k;
    case CCL_SCHED_ALL_GATHER: return k + k * k;
    case CCL_SCHED_REDUCE_SCATTER: return k * k + k;
    case CCL_SCHED_GATHER:
    case CCL_SCHED_SCATTER: return 2 * k;
    default: return k + 1;
    }
}

void bench_op_make(struct bench *bench, struct bench_op *op)
{
    uint64_t nin = blocks_of(op->coll->in_all, op->n), nout = blocks_of(op->coll->out_all, op->n);
    uint64_t most = nin > nout ? nin : nout, at = 0;
    op->count = op->size_bytes / op->type->bytes / most;
    if (op->count == 0) op->count = 1;
    uint64_t block = op->count * op->type->bytes;
    op->bytes = block * moved_blocks(op->coll, op->n);
    kit_sched_make(&op->made, op->coll->coll, op->n, op->coll->has_root ? 0 : -1);
    kit_work_make(&op->work, op->made.sched.steps, op->made.sched.nsteps, op->n, op->type,
                  op->count);
    for (int r = 0; r < op->n; r++) {
        op->work.local[r].in = bench->pool + at + op->shift[0] * (uint64_t)r;
        at += (block * nin + 511) / 256 * 256;
        op->work.local[r].out = bench->pool + at + op->shift[1] * (uint64_t)r;
        at += (block * nout + 511) / 256 * 256;
    }
    op->stride = at;
    uint64_t wanted = (512ull << 20) / at + 1, possible = bench->pool_bytes / at;
    if (wanted > 64) wanted = 64;
    op->nrotations = (uint32_t)(wanted < possible ? wanted : possible);
    if (op->nrotations > 0) return;
    printf("%s of %llu bytes on %d ranks does not fit\n", op->coll->name,
           (unsigned long long)op->size_bytes, op->n);
    op->nrotations = 1;
}

void bench_op_free(struct bench_op *op)
{
    kit_sched_free(&op->made);
}

struct ccl_work bench_op_turn(const struct bench_op *op, uint32_t i)
{
    struct ccl_work work = op->work;
    uint64_t shift = op->stride * (i % op->nrotations);
    for (int r = 0; r < op->n; r++) {
        work.local[r].in = (const char *)work.local[r].in + shift;
        work.local[r].out = (char *)work.local[r].out + shift;
    }
    return work;
}

/* ---- results ---- */

static __device__ float value_at(uint64_t i, uint64_t rank)
{
    return (float)((i * 7 + rank * 13) & 63);
}

static __device__ float sum_at(uint64_t i, int n)
{
    float sum = 0;
    for (int q = 0; q < n; q++) sum += value_at(i, (uint64_t)q);
    return sum;
}

static __device__ float expected_at(int coll, int n, uint64_t count, uint64_t rank, uint64_t i)
{
    uint64_t block = i / count, inside = i % count;
    switch (coll) {
    case CCL_SCHED_ALL_REDUCE:
    case CCL_SCHED_REDUCE: return sum_at(i, n);
    case CCL_SCHED_BROADCAST: return value_at(i, 0);
    case CCL_SCHED_REDUCE_SCATTER: return sum_at(rank * count + i, n);
    case CCL_SCHED_ALL_TO_ALL: return value_at(rank * count + inside, block);
    case CCL_SCHED_SCATTER: return value_at(rank * count + i, 0);
    default: return value_at(inside, block);
    }
}

__global__ void write_values(float *to, uint64_t count, uint64_t rank)
{
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        to[i] = value_at(i, rank);
}

struct check_at {
    int coll, n;
    uint64_t count, rank, total;
};

__global__ void check_values(const float *at, struct check_at c, unsigned *nwrong)
{
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < c.total; i += stride)
        if (at[i] != expected_at(c.coll, c.n, c.count, c.rank, i)) atomicAdd(nwrong, 1);
}

unsigned bench_op_check(struct bench *bench, const struct bench_op *op,
                        struct bench_launcher launcher)
{
    cudaStream_t stream = bench->gpu.stream;
    uint64_t nin = op->count * blocks_of(op->coll->in_all, op->n);
    uint64_t nout = op->count * blocks_of(op->coll->out_all, op->n);
    unsigned *nwrong, wrong = 0;
    CK(cudaMalloc((void **)&nwrong, sizeof *nwrong));
    CK(cudaMemset(nwrong, 0, sizeof *nwrong));
    for (int r = 0; r < op->n; r++) {
        const struct ccl_slot *slot = &op->work.local[r];
        CK(cudaMemsetAsync(slot->out, 0xff, nout * sizeof(float), stream));
        write_values<<<512, 512, 0, stream>>>((float *)slot->in, nin, (uint64_t)r);
    }
    launcher.launch(launcher.what, 0);
    for (int r = 0; r < op->n; r++) {
        struct check_at c = {op->coll->coll, op->n, op->count, (uint64_t)r, nout};
        int only_root = op->coll->coll == CCL_SCHED_REDUCE || op->coll->coll == CCL_SCHED_GATHER;
        if (only_root && r != 0) continue;
        check_values<<<512, 512, 0, stream>>>((const float *)op->work.local[r].out, c, nwrong);
    }
    CK(cudaStreamSynchronize(stream));
    CK(cudaMemcpy(&wrong, nwrong, sizeof wrong, cudaMemcpyDeviceToHost));
    CK(cudaFree(nwrong));
    return wrong;
}

/* ---- times ---- */

enum { NRUNS = 4 };

static double elapsed_us(cudaEvent_t from, cudaEvent_t to)
{
    float ms;
    CK(cudaEventSynchronize(to));
    CK(cudaEventElapsedTime(&ms, from, to));
    return 1e3 * ms;
}

double bench_stream_us(struct bench *bench, struct bench_launcher launcher, uint32_t nlaunches)
{
    cudaEvent_t from, to;
    double best = 1e30;
    CK(cudaEventCreate(&from));
    CK(cudaEventCreate(&to));
    for (int run = 0; run < NRUNS; run++) {
        CK(cudaEventRecord(from, bench->gpu.stream));
        for (uint32_t i = 0; i < nlaunches; i++) launcher.launch(launcher.what, i);
        CK(cudaEventRecord(to, bench->gpu.stream));
        double us = elapsed_us(from, to) / nlaunches;
        if (run > 0 && us < best) best = us;
    }
    CK(cudaEventDestroy(from));
    CK(cudaEventDestroy(to));
    return best;
}

struct replayed {
    cudaGraphExec_t exec;
    cudaStream_t stream;
};

static void launch_graph(void *what, uint32_t)
{
    const struct replayed *replayed = (const struct replayed *)what;
    CK(cudaGraphLaunch(replayed->exec, replayed->stream));
}

double bench_graph_us(struct bench *bench, struct bench_launcher launcher, uint32_t nlaunches)
{
    cudaGraph_t graph;
    struct replayed replayed = {};
    replayed.stream = bench->gpu.stream;
    CK(cudaStreamBeginCapture(bench->gpu.stream, cudaStreamCaptureModeThreadLocal));
    for (uint32_t i = 0; i < nlaunches; i++) launcher.launch(launcher.what, i);
    CK(cudaStreamEndCapture(bench->gpu.stream, &graph));
    CK(cudaGraphInstantiate(&replayed.exec, graph, 0));
    struct bench_launcher whole = {launch_graph, &replayed};
    double us = bench_stream_us(bench, whole, 1) / nlaunches;
    CK(cudaGraphExecDestroy(replayed.exec));
    CK(cudaGraphDestroy(graph));
    return us;
}
