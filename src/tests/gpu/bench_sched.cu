/* bench_sched.cu: what collectives of several executors take, by algorithm, protocol and size, with
 * the best number of channels. `bench_sched [GPUS [MEGABYTES]]`: executors of a rank each, spread
 * over so many GPUs; sizes up to so many MiB. Each kernel is one of many in a graph, so that
 * launches do not count; results are checked.
 */
#include "gpu/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench_world {
    struct world world;
    float *in[WORLD_EXECS], *out[WORLD_EXECS];
    unsigned *nwrong; /* of the host */
};

static __device__ float value_at(uint64_t i, int rank)
{
    return (float)((i * 7 + (uint64_t)rank * 13) & 63);
}

__global__ void write_values(float *to, uint64_t count, int rank)
{
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        to[i] = value_at(i, rank);
}

/* The sum of n ranks, or (is_sum 0) their blocks of `count` one after the other. */
__global__ void check_values(const float *at, uint64_t count, int n, int is_sum, unsigned *nwrong)
{
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x, all = is_sum ? count : count * n;
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < all; i += stride) {
        float expected = is_sum ? 0 : value_at(i % count, (int)(i / count));
        for (int r = 0; r < n && is_sum; r++) expected += value_at(i, r);
        if (at[i] != expected) atomicAdd_system(nwrong, 1);
    }
}

static void open_world(struct bench_world *bench, int nexecs, int ngpus, uint64_t bytes)
{
    static const uint32_t slot_bytes[CCL_NPROTOS] = {128 << 10, CCL_LL_SLOT_BYTES,
                                                     CCL_LL128_SLOT_BYTES};
    static const uint16_t depth[CCL_NPROTOS] = {8, CCL_LL_DEPTH, CCL_LL128_DEPTH};
    struct world_shape shape = {};
    shape.nexecs = shape.nranks = nexecs;
    shape.nchannels = WORLD_CHANNELS;
    shape.ngpus = ngpus;
    for (int e = 0; e < nexecs; e++) shape.exec_of[e] = (uint8_t)e;
    memcpy(shape.slot_bytes, slot_bytes, sizeof slot_bytes);
    memcpy(shape.depth, depth, sizeof depth);
    world_open(&bench->world, &shape);
    for (int e = 0; e < nexecs; e++) {
        CK(cudaSetDevice(bench->world.execs[e].device));
        CK(cudaMalloc((void **)&bench->in[e], bytes));
        CK(cudaMalloc((void **)&bench->out[e], bytes));
        write_values<<<512, 512>>>(bench->in[e], bytes / sizeof(float), e);
        CK(cudaDeviceSynchronize());
    }
    CK(cudaSetDevice(0));
    CK(cudaHostAlloc((void **)&bench->nwrong, sizeof *bench->nwrong, cudaHostAllocPortable));
}

static void close_world(struct bench_world *bench)
{
    for (int e = 0; e < bench->world.shape.nexecs; e++) {
        CK(cudaFree(bench->in[e]));
        CK(cudaFree(bench->out[e]));
    }
    CK(cudaFreeHost(bench->nwrong));
    world_close(&bench->world);
}

static unsigned check(struct bench_world *bench, const struct world_op *op)
{
    int n = bench->world.shape.nexecs, is_sum = op->coll == CCL_SCHED_ALL_REDUCE;
    *bench->nwrong = 0;
    for (int e = 0; e < n; e++) {
        CK(cudaSetDevice(bench->world.execs[e].device));
        check_values<<<512, 512>>>(bench->out[e], op->count, n, is_sum, bench->nwrong);
        CK(cudaDeviceSynchronize());
    }
    CK(cudaSetDevice(0));
    return *bench->nwrong;
}

static cudaGraphExec_t capture(struct bench_world *bench, const struct world_op *op, int e,
                               int nlaunches)
{
    cudaStream_t stream = bench->world.execs[e].stream;
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    CK(cudaSetDevice(bench->world.execs[e].device));
    CK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < nlaunches; i++) world_launch(&bench->world, op, e);
    CK(cudaSetDevice(bench->world.execs[e].device));
    CK(cudaStreamEndCapture(stream, &graph));
    CK(cudaGraphInstantiate(&replay, graph, 0));
    CK(cudaGraphUpload(replay, stream));
    CK(cudaGraphDestroy(graph));
    CK(cudaSetDevice(0));
    return replay;
}

/* Microseconds of one run of all graphs. */
static double run_once(struct bench_world *bench, cudaGraphExec_t *replays)
{
    cudaStream_t stream = bench->world.execs[0].stream;
    cudaEvent_t from, to;
    float ms;
    CK(cudaEventCreate(&from));
    CK(cudaEventCreate(&to));
    CK(cudaEventRecord(from, stream));
    for (int e = bench->world.shape.nexecs - 1; e >= 0; e--)
        CK(cudaGraphLaunch(replays[e], bench->world.execs[e].stream));
    CK(cudaEventRecord(to, stream));
    if (!world_wait(&bench->world, 20000)) {
        printf("not ok - no end\n");
        exit(1);
    }
    CK(cudaEventElapsedTime(&ms, from, to));
    CK(cudaEventDestroy(from));
    CK(cudaEventDestroy(to));
    return 1e3 * ms;
}

/* Microseconds an operation: what a long graph takes more than a short one. */
static double time_op(struct bench_world *bench, const struct world_op *op, uint64_t bytes)
{
    int n = bench->world.shape.nexecs, more = bytes > (4 << 20) ? 4 : 24;
    cudaGraphExec_t replays[2][WORLD_EXECS];
    double best[2] = {1e30, 1e30};
    for (int g = 0; g < 2; g++) {
        for (int e = 0; e < n; e++) replays[g][e] = capture(bench, op, e, g == 0 ? 2 : 2 + more);
        for (int run = 0; run < 4; run++) {
            double us = run_once(bench, replays[g]);
            if (us < best[g]) best[g] = us;
        }
        for (int e = 0; e < n; e++) CK(cudaGraphExecDestroy(replays[g][e]));
    }
    return (best[1] - best[0]) / more;
}

/* One row: the best number of channels. */
static void bench_row(struct bench_world *bench, struct world_op *op, uint64_t bytes)
{
    static const int channels[] = {1, 2, 4, 8, 16, 32};
    int best_channels = 0, n = bench->world.shape.nexecs;
    double best = 1e30;
    unsigned wrong = 0;
    for (size_t c = 0; c < sizeof channels / sizeof channels[0]; c++) {
        if (c > 0 && bytes / (uint64_t)channels[c] < 2048) break;
        bench->world.shape.nchannels = channels[c];
        world_op_make(&bench->world, op, 0);
        double us = time_op(bench, op, bytes);
        wrong += check(bench, op);
        world_op_free(&bench->world, op);
        if (us < best) best_channels = channels[c];
        if (us < best) best = us;
    }
    bench->world.shape.nchannels = WORLD_CHANNELS;
    double factor = op->coll == CCL_SCHED_ALL_REDUCE ? 2.0 * (n - 1) / n : (n - 1.0) / n;
    double rate = (double)bytes / best / 1e3;
    printf("%11llu %9.2f %8.2f %8.2f %4d%s\n", (unsigned long long)bytes, best, rate, rate * factor,
           best_channels, wrong ? " WRONG" : "");
}

static const char *const protos[CCL_NPROTOS] = {"Simple", "LL", "LL128"};

static void bench_algo(struct bench_world *bench, enum ccl_sched_coll coll,
                       const struct ccl_algo_ops *algo, enum ccl_proto proto, uint64_t most)
{
    static const uint64_t limits[CCL_NPROTOS] = {1ull << 40, 1 << 20, 32 << 20};
    int n = bench->world.shape.nexecs;
    struct world_op *op = (struct world_op *)calloc(1, sizeof *op);
    op->coll = coll;
    op->algo = algo;
    op->proto = proto;
    op->root = op->outside = -1;
    op->type = &kit_types[7];
    op->signature = 4711;
    for (int s = 0; s < n; s++) {
        op->slots[s].in = bench->in[s];
        op->slots[s].out = bench->out[s];
    }
    if (world_supports(&bench->world, op)) {
        printf("%s, %d executors, %s %s: bytes, us, GB/s, bus GB/s, channels\n",
               kit_colls[coll].name, n, algo->name, protos[proto]);
        for (uint64_t bytes = 64; bytes <= most && bytes <= limits[proto]; bytes *= 8) {
            op->count = bytes / sizeof(float);
            if (coll != CCL_SCHED_ALL_REDUCE) op->count /= (uint64_t)n;
            if (algo == &ccl_algo_oneshot && bytes > (1 << 20)) break;
            bench_row(bench, op,
                      op->count * sizeof(float) * (coll != CCL_SCHED_ALL_REDUCE ? (uint64_t)n : 1));
        }
    }
    free(op);
}

int main(int argc, char **argv)
{
    static const int execs[] = {2, 4, 8};
    static const enum ccl_sched_coll colls[] = {CCL_SCHED_ALL_REDUCE, CCL_SCHED_ALL_GATHER};
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); /* a queue for each executor */
    kit_open(500);
    int ngpus = argc > 1 ? atoi(argv[1]) : 1;
    uint64_t most = (argc > 2 ? strtoull(argv[2], NULL, 0) : 128) << 20;
    for (int i = 0; i < 3; i++) {
        if (ngpus > 1 && execs[i] != ngpus) continue;
        struct bench_world *bench = (struct bench_world *)calloc(1, sizeof *bench);
        open_world(bench, execs[i], ngpus, most);
        for (int c = 0; c < 2; c++)
            for (int a = 0; ccl_algos[a] != NULL; a++)
                for (int p = 0; p < CCL_NPROTOS; p++)
                    if (p == 0 || ccl_algos[a] != &ccl_algo_direct)
                        bench_algo(bench, colls[c], ccl_algos[a], (enum ccl_proto)p, most);
        close_world(bench);
        free(bench);
    }
    return 0;
}
