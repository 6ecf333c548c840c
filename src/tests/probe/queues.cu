/* Probe: of 32 streams, W stand still: in a memory operation that waits for a word, in a gate (one
 * thread that spins), or in a gate with another kernel queued behind it. How many of the others
 * still run a kernel? Shows how many hardware queues a context has, and what takes one. A CPU store
 * frees them all. Run with and without MPS.
 */
#include "probe/kit.h"

#include <stdlib.h>

enum { STREAMS = 32, PATIENCE_US = 40000, LIMIT_MS = 3000 };
static const int counts[] = {1, 2, 3, 4, 6, 7, 8, 12, 16, 24};

enum stop { WAIT, GATE, GATE_AND_WORK };
static const char *const stop_names[] = {"wait for a word", "gate", "gate, a kernel behind it"};

struct scene {
    cudaStream_t streams[STREAMS];
    cudaEvent_t ran[STREAMS];
    volatile uint32_t *word;
    CUdeviceptr word_at;
    unsigned *scratch;
    uint32_t turn;
};

static __global__ void gate(volatile uint32_t *word, uint32_t turn)
{
    while (*word < turn) {
    }
}

static __global__ void touch(unsigned *x)
{
    if (threadIdx.x == 0) *x += 1;
}

static void stop_stream(struct scene *s, enum stop stop, int i)
{
    if (stop == WAIT)
        MUST(drv.cuStreamWaitValue32(s->streams[i], s->word_at, s->turn, CU_STREAM_WAIT_VALUE_GEQ));
    else
        gate<<<1, 1, 0, s->streams[i]>>>((volatile uint32_t *)s->word_at, s->turn);
    if (stop == GATE_AND_WORK) touch<<<1, 32, 0, s->streams[i]>>>(s->scratch + i);
}

static int count_running(struct scene *s, enum stop stop, int nstopped)
{
    int n = 0;
    s->turn++;
    for (int i = 0; i < nstopped; i++) stop_stream(s, stop, i);
    for (int i = nstopped; i < STREAMS; i++) {
        touch<<<1, 32, 0, s->streams[i]>>>(s->scratch + i);
        MUST(cudaEventRecord(s->ran[i], s->streams[i]));
    }
    probe_sleep_us(PATIENCE_US);
    for (int i = nstopped; i < STREAMS; i++) n += cudaEventQuery(s->ran[i]) == cudaSuccess;
    cudaGetLastError();
    *s->word = s->turn;
    for (int i = 0; i < STREAMS; i++)
        if (!probe_drained(s->streams[i], LIMIT_MS)) printf("   stream %d was not freed\n", i);
    return n;
}

/* connections: CUDA_DEVICE_MAX_CONNECTIONS; 0 leaves it unset. */
void probe_queues(int connections)
{
    struct scene scene = {};
    char text[16];
    void *at;
    snprintf(text, sizeof text, "%d", connections);
    if (connections != 0)
        setenv("CUDA_DEVICE_MAX_CONNECTIONS", text, 1);
    else
        unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    probe_open();
    MUST(cudaHostAlloc((void **)&scene.word, 4096, cudaHostAllocMapped));
    *scene.word = 0;
    MUST(cudaHostGetDevicePointer(&at, (void *)scene.word, 0));
    scene.word_at = (CUdeviceptr)at;
    MUST(cudaMalloc(&scene.scratch, STREAMS * sizeof *scene.scratch));
    for (int i = 0; i < STREAMS; i++) {
        MUST(cudaStreamCreateWithFlags(&scene.streams[i], cudaStreamNonBlocking));
        MUST(cudaEventCreateWithFlags(&scene.ran[i], cudaEventDisableTiming));
        gate<<<1, 1, 0, scene.streams[i]>>>((volatile uint32_t *)at, 0);
        touch<<<1, 32, 0, scene.streams[i]>>>(scene.scratch + i);
    }
    MUST(cudaDeviceSynchronize());
    for (enum stop stop : {WAIT, GATE, GATE_AND_WORK}) {
        printf("   %-26s", stop_names[stop]);
        for (int n : counts)
            printf("  %d: %d of %d", n, count_running(&scene, stop, n), STREAMS - n);
        printf("\n");
    }
}
