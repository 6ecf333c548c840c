/* Joins of the GPU's local path: members' streams meet the executor's kernel at gates, eagerly and
 * in replays of a captured graph; an abort ends kernels and gates that miss somebody. And counts
 * beyond 2^31, checked on the GPU.
 */
#include "gpu/kit.h"

#include <stdio.h>
#include <string.h>

enum { N = 5, COUNT = 3001, ROUNDS = 200, REPLAYS = 50 };

static struct {
    struct kit_gpu gpu;
    cudaStream_t streams[N]; /* of the members; the last one launches */
    float *in[N], *out[N], *seen[N];
    struct ccl_gate *gates;
    uint32_t *arrived, *abort_word, *done;
    int *round;
} test;

/* The member's own work before a collective, slow enough that one without a join would be seen. */
__global__ void write_input(float *in, int rank, const int *round)
{
    for (int i = 0; i < 20; i++) __nanosleep(1000);
    for (int i = threadIdx.x; i < COUNT; i += blockDim.x) in[i] = (float)(rank + i % 10 + *round);
}

__global__ void next_round(int *round)
{
    *round += 1;
}

/* The member's work after it: counts wrong elements. */
__global__ void check_output(const float *out, const int *round, unsigned *nwrong)
{
    for (int i = threadIdx.x; i < COUNT; i += blockDim.x) {
        float expected = N * (float)(i % 10 + *round) + N * (N - 1) / 2;
        if (out[i] != expected) atomicAdd(nwrong, 1);
    }
}

static void make_work(struct ccl_work *work, struct kit_sched *made)
{
    kit_sched_make(made, CCL_SCHED_ALL_REDUCE, N, -1);
    kit_work_make(work, made->sched.steps, made->sched.nsteps, N, &kit_types[7], COUNT);
    for (int i = 0; i < N; i++) {
        work->local[i].in = test.in[i];
        work->local[i].out = test.out[i];
    }
    work->gates = test.gates;
    work->ngates = N - 1;
    work->abort_word = test.abort_word;
}

static int launch_work(const struct ccl_work *work, uint32_t max_ctas)
{
    struct ccl_cuda_target target = {};
    target.stream = test.streams[N - 1];
    target.arrived = test.arrived;
    target.nsms = (uint32_t)test.gpu.nsms;
    target.max_ctas = max_ctas;
    return ccl_cuda_launch_local(work, &target);
}

/* One collective of all members, each with work of its own around it. */
static void run_round(const struct ccl_work *work, unsigned *nwrong)
{
    for (int i = 0; i < N; i++)
        write_input<<<1, 256, 0, test.streams[i]>>>(test.in[i], i, test.round);
    for (int i = 0; i + 1 < N; i++)
        CK((cudaError_t)ccl_cuda_launch_gate(&test.gates[i], test.abort_word, test.streams[i]));
    CK((cudaError_t)launch_work(work, 0));
    for (int i = 0; i < N; i++)
        check_output<<<1, 256, 0, test.streams[i]>>>(test.out[i], test.round, nwrong);
}

/* Forks the members' streams from `main` and joins them again: a captured graph must. */
static void run_forked(const struct ccl_work *work, unsigned *nwrong, cudaStream_t main,
                       cudaEvent_t event)
{
    next_round<<<1, 1, 0, main>>>(test.round);
    CK(cudaEventRecord(event, main));
    for (int i = 0; i < N; i++) CK(cudaStreamWaitEvent(test.streams[i], event, 0));
    run_round(work, nwrong);
    for (int i = 0; i < N; i++) {
        CK(cudaEventRecord(event, test.streams[i]));
        CK(cudaStreamWaitEvent(main, event, 0));
    }
}

static unsigned take_wrong(unsigned *nwrong)
{
    unsigned count;
    CK(cudaDeviceSynchronize());
    CK(cudaMemcpy(&count, nwrong, sizeof count, cudaMemcpyDeviceToHost));
    CK(cudaMemset(nwrong, 0, sizeof *nwrong));
    CK(cudaDeviceSynchronize());
    return count;
}

static void test_gates(const struct ccl_work *work, unsigned *nwrong, cudaEvent_t event)
{
    for (int i = 0; i < ROUNDS; i++) run_forked(work, nwrong, test.gpu.stream, event);
    unsigned wrong = take_wrong(nwrong);
    kit_case(wrong == 0, "gates: %d collectives, %u elements wrong", ROUNDS, wrong);
}

static void test_replays(const struct ccl_work *work, unsigned *nwrong, cudaEvent_t event)
{
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    CK(cudaStreamBeginCapture(test.gpu.stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 3; i++) run_forked(work, nwrong, test.gpu.stream, event);
    CK(cudaStreamEndCapture(test.gpu.stream, &graph));
    CK(cudaGraphInstantiate(&replay, graph, 0));
    for (int i = 0; i < REPLAYS; i++) {
        CK(cudaGraphLaunch(replay, test.gpu.stream));
        run_forked(work, nwrong, test.gpu.stream, event);
    }
    unsigned wrong = take_wrong(nwrong);
    kit_case(wrong == 0, "gates: %d replays of 3 between eager ones, %u elements wrong", REPLAYS,
             wrong);
    CK(cudaGraphExecDestroy(replay));
    CK(cudaGraphDestroy(graph));
}

/* A word of the host, as other processes wait for, says that all is written, whatever the number of
 * CTAs and of elements; another stream that waits for it finds the results. */
static void test_word(const struct ccl_work *of_gates, unsigned *nwrong)
{
    struct ccl_work work = *of_gates;
    work.ngates = 0;
    work.done = test.done;
    int nearly = 0;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        work.count_elems = i % 10 == 0 ? 0 : COUNT;
        work.done_value = i;
        for (int r = 0; r < N; r++)
            write_input<<<1, 256, 0, test.streams[N - 1]>>>(test.in[r], r, test.round);
        CK((cudaError_t)launch_work(&work, 1 + i % 9));
        while ((int32_t)(*(volatile uint32_t *)test.done - i) < 0) continue;
        for (int r = 0; r < N; r++)
            check_output<<<1, 256, 0, test.gpu.stream>>>(test.out[r], test.round, nwrong);
        CK(cudaDeviceSynchronize());
        nearly += *test.done != i;
    }
    unsigned wrong = take_wrong(nwrong);
    kit_case(wrong == 0 && nearly == 0, "a word tells the end: %d times, %u elements wrong", ROUNDS,
             wrong);
}

/* The last member waits for one whose gate never comes, and a gate for a kernel. */
static void test_abort(const struct ccl_work *work)
{
    CK((cudaError_t)ccl_cuda_launch_gate(&test.gates[0], test.abort_word, test.streams[0]));
    CK((cudaError_t)launch_work(work, 7));
    cudaError_t before = cudaStreamQuery(test.streams[N - 1]);
    *(volatile uint32_t *)test.abort_word = 1;
    CK(cudaDeviceSynchronize());
    kit_case(before == cudaErrorNotReady, "abort ends a kernel and a gate that wait");
}

/* ---- large counts ---- */

static __device__ uint8_t value_at(uint64_t i, uint32_t source)
{
    return (uint8_t)((i * 2654435761u >> 13) + i + 91 * source);
}

__global__ void write_large(uint8_t *to, uint64_t count, uint32_t source)
{
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        to[i] = value_at(i, source);
}

/* What should be the sum of two sources, or a copy of the first. */
__global__ void check_large(const uint8_t *at, uint64_t count, int is_sum, unsigned *nwrong)
{
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        uint8_t expected = (uint8_t)(value_at(i, 0) + (is_sum ? value_at(i, 1) : 0));
        if (at[i] != expected) atomicAdd(nwrong, 1);
    }
}

static void test_large(enum ccl_sched_coll coll, uint64_t count, unsigned *nwrong)
{
    struct kit_sched made;
    struct ccl_work work;
    uint8_t *buffers[4];
    int is_sum = coll == CCL_SCHED_ALL_REDUCE;
    kit_sched_make(&made, coll, 2, is_sum ? -1 : 0);
    kit_work_make(&work, made.sched.steps, made.sched.nsteps, 2, &kit_types[1], count);
    for (uint32_t i = 0; i < 4; i++) {
        CK(cudaMalloc((void **)&buffers[i], count + 16));
        CK(cudaMemset(buffers[i], 0xee, count + 16));
        if (i < 2) write_large<<<512, 512>>>(buffers[i], count, i);
        if (i < 2) work.local[i].in = buffers[i];
        if (i >= 2) work.local[i - 2].out = buffers[i];
    }
    CK(cudaDeviceSynchronize());
    CK((cudaError_t)launch_work(&work, 0));
    CK(cudaDeviceSynchronize());
    unsigned nbeside = 0;
    for (int i = 2; i < 4; i++) {
        uint8_t beside[16];
        check_large<<<512, 512>>>(buffers[i], count, is_sum, nwrong);
        CK(cudaMemcpy(beside, buffers[i] + count, sizeof beside, cudaMemcpyDeviceToHost));
        for (int b = 0; b < 16; b++) nbeside += beside[b] != 0xee;
    }
    unsigned wrong = take_wrong(nwrong);
    kit_case(wrong == 0 && nbeside == 0, "%s of %llu bytes: %u wrong, %u beside",
             kit_colls[coll].name, (unsigned long long)count, wrong, nbeside);
    for (int i = 0; i < 4; i++) CK(cudaFree(buffers[i]));
    kit_sched_free(&made);
}

static void make_memory(unsigned **nwrong)
{
    for (int i = 0; i < N; i++) {
        CK(cudaStreamCreateWithFlags(&test.streams[i], cudaStreamNonBlocking));
        CK(cudaMalloc((void **)&test.in[i], COUNT * sizeof(float)));
        CK(cudaMalloc((void **)&test.out[i], COUNT * sizeof(float)));
    }
    CK(cudaMalloc((void **)&test.gates, N * sizeof *test.gates));
    CK(cudaMemset(test.gates, 0, N * sizeof *test.gates));
    CK(cudaMalloc((void **)&test.arrived, sizeof *test.arrived));
    CK(cudaMemset(test.arrived, 0, sizeof *test.arrived));
    CK(cudaMalloc((void **)nwrong, sizeof **nwrong));
    CK(cudaMemset(*nwrong, 0, sizeof **nwrong));
    CK(cudaMalloc((void **)&test.round, sizeof *test.round));
    CK(cudaMemset(test.round, 0, sizeof *test.round));
    CK(cudaMallocHost((void **)&test.abort_word, 2 * sizeof *test.abort_word));
    test.done = test.abort_word + 1;
    *test.abort_word = *test.done = 0;
}

/* Kernels are loaded before a stream waits for another. */
static void load_kernels(void)
{
    struct cudaFuncAttributes attributes;
    CK(cudaFuncGetAttributes(&attributes, write_input));
    CK(cudaFuncGetAttributes(&attributes, check_output));
    CK(cudaFuncGetAttributes(&attributes, next_round));
    CK(cudaDeviceSynchronize());
}

int main(void)
{
    struct kit_sched made;
    struct ccl_work work;
    unsigned *nwrong;
    cudaEvent_t event;
    test.gpu = kit_open(60);
    make_memory(&nwrong);
    load_kernels();
    CK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    make_work(&work, &made);
    test_gates(&work, nwrong, event);
    test_large(CCL_SCHED_ALL_REDUCE, (1ull << 31) + 12345, nwrong);
    test_large(CCL_SCHED_BROADCAST, (1ull << 32) + 54321, nwrong);
    test_replays(&work, nwrong, event);
    test_word(&work, nwrong);
    test_abort(&work);
    kit_sched_free(&made);
    return kit_close();
}
