/* Probe: n separately captured graphs, each with a gate kernel that waits for all others (or for a
 * kernel launched last), replayed by one thread. Does cudaGraphLaunch block until another graph
 * has run? Gates give up after two seconds, so a launch that blocks shows as its duration and as
 * gates that gave up; nothing hangs.
 */
#include "probe/kit.h"

#include <stdlib.h>
#include <string.h>

enum { GRAPHS = 8, REPLAYS = 4 };
#define GATE_LIMIT_NS 2000000000ull

/* In device memory. Sequence numbers live here, as a launch may not bake them in. */
struct meeting {
    unsigned arrived, opened, gave_up;
    unsigned seq[GRAPHS + 1];
};

static __device__ uint64_t clock_ns(void)
{
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

static __device__ void wait_until(volatile unsigned *word, unsigned target, struct meeting *m)
{
    uint64_t end = clock_ns() + GATE_LIMIT_NS;
    while (*word < target && *(volatile unsigned *)&m->gave_up == 0) {
        if (clock_ns() > end) atomicAdd(&m->gave_up, 1);
    }
}

/* Waits until all have arrived, or until the opener ran. */
static __global__ void gate(struct meeting *m, int me, bool by_opener)
{
    unsigned seq = ++m->seq[me];
    __threadfence();
    atomicAdd(&m->arrived, 1);
    wait_until(by_opener ? &m->opened : &m->arrived, by_opener ? seq : seq * GRAPHS, m);
}

/* The leader's kernel: waits for all gates, then lets them go. */
static __global__ void open_gates(struct meeting *m)
{
    if (threadIdx.x != 0 || blockIdx.x != 0) return;
    unsigned seq = ++m->seq[GRAPHS];
    wait_until(&m->arrived, seq * GRAPHS, m);
    __threadfence();
    *(volatile unsigned *)&m->opened = seq;
}

static __global__ void touch(unsigned *x)
{
    if (threadIdx.x == 0) *x += 1;
}

enum shape { GATE_ONLY, BETWEEN_KERNELS, IN_A_BRANCH, BY_OPENER };
static const char *const shape_names[] = {"gate alone", "kernel, gate, kernel",
                                          "gate in one of two branches", "opened by a ninth graph"};

struct scene {
    cudaStream_t streams[GRAPHS + 1], side;
    cudaEvent_t fork, join;
    cudaGraphExec_t execs[GRAPHS + 1];
    struct meeting *meeting;
    unsigned *scratch;
};

static void capture(struct scene *s, enum shape shape, int me)
{
    cudaStream_t stream = s->streams[me];
    cudaGraph_t graph;
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    if (me == GRAPHS) {
        open_gates<<<264, 512, 0, stream>>>(s->meeting);
    } else {
        if (shape == BETWEEN_KERNELS) touch<<<1, 32, 0, stream>>>(s->scratch + me);
        if (shape == IN_A_BRANCH) {
            MUST(cudaEventRecord(s->fork, stream));
            MUST(cudaStreamWaitEvent(s->side, s->fork, 0));
            touch<<<1, 32, 0, s->side>>>(s->scratch + me);
            MUST(cudaEventRecord(s->join, s->side));
        }
        gate<<<1, 1, 0, stream>>>(s->meeting, me, shape == BY_OPENER);
        if (shape == BETWEEN_KERNELS) touch<<<1, 32, 0, stream>>>(s->scratch + me);
        if (shape == IN_A_BRANCH) MUST(cudaStreamWaitEvent(stream, s->join, 0));
    }
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiate(&s->execs[me], graph, 0));
    MUST(cudaGraphDestroy(graph));
}

/* Replays every graph REPLAYS times, round by round or graph by graph. */
static void replay(struct scene *s, int n, bool graph_by_graph)
{
    unsigned gave_up;
    double longest_us = 0, began_us = probe_now_us();
    MUST(cudaMemset(s->meeting, 0, sizeof *s->meeting));
    MUST(cudaDeviceSynchronize());
    began_us = probe_now_us();
    for (int i = 0; i < n * REPLAYS; i++) {
        int me = graph_by_graph ? i / REPLAYS : i % n;
        double launch_us = probe_now_us();
        MUST(cudaGraphLaunch(s->execs[me], s->streams[me]));
        launch_us = probe_now_us() - launch_us;
        if (launch_us > longest_us) longest_us = launch_us;
    }
    double queued_us = probe_now_us() - began_us;
    MUST(cudaDeviceSynchronize());
    double all_us = probe_now_us() - began_us;
    MUST(cudaMemcpy(&gave_up, &s->meeting->gave_up, sizeof gave_up, cudaMemcpyDeviceToHost));
    printf(" | %s: longest launch %.0f us, launches %.0f us, all %.0f us%s",
           graph_by_graph ? "graph by graph" : "round by round", longest_us, queued_us, all_us,
           gave_up ? ", GATES GAVE UP" : "");
}

static void try_shape(struct scene *s, enum shape shape)
{
    int n = shape == BY_OPENER ? GRAPHS + 1 : GRAPHS;
    for (int i = 0; i < n; i++) capture(s, shape, i);
    printf("   %s", shape_names[shape]);
    replay(s, n, false);
    replay(s, n, true);
    printf("\n");
    for (int i = 0; i < n; i++) MUST(cudaGraphExecDestroy(s->execs[i]));
}

/* Every kernel runs once before a gate spins: loading a kernel then would wait for the gate. */
static void load_kernels(struct scene *s)
{
    for (int i = 0; i < GRAPHS; i++) gate<<<1, 1, 0, s->streams[i]>>>(s->meeting, i, false);
    MUST(cudaDeviceSynchronize());
    open_gates<<<264, 512, 0, s->side>>>(s->meeting);
    touch<<<1, 32, 0, s->side>>>(s->scratch);
    MUST(cudaDeviceSynchronize());
}

/* connections: CUDA_DEVICE_MAX_CONNECTIONS, which CUDA reads when it starts. */
void probe_graphs(int connections)
{
    struct scene scene = {};
    char text[16];
    snprintf(text, sizeof text, "%d", connections);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", text, 1);
    probe_open();
    for (int i = 0; i <= GRAPHS; i++)
        MUST(cudaStreamCreateWithFlags(&scene.streams[i], cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&scene.side, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&scene.fork, cudaEventDisableTiming));
    MUST(cudaEventCreateWithFlags(&scene.join, cudaEventDisableTiming));
    MUST(cudaMalloc(&scene.meeting, sizeof *scene.meeting));
    MUST(cudaMemset(scene.meeting, 0, sizeof *scene.meeting));
    MUST(cudaMalloc(&scene.scratch, GRAPHS * sizeof *scene.scratch));
    MUST(cudaDeviceSynchronize());
    load_kernels(&scene);
    for (enum shape shape : {GATE_ONLY, BETWEEN_KERNELS, IN_A_BRANCH, BY_OPENER})
        try_shape(&scene, shape);
}
