/* Probe: how soon the host sees the end of a kernel: by a word in pinned memory that the kernel or
 * its stream writes, or by asking the event, the stream, or waiting for either. The kernel waits
 * for a word of the host, so that each round begins with the host's store to a running kernel, and
 * the first row is what that store and a word back take.
 */
#include "probe/kit.h"

#include <string.h>

enum { ROUNDS = 300 };

struct words {
    volatile uint32_t go, running, kernel_end, stream_end;
};

static __global__ void wait_and_tell(struct words *words, uint32_t round, unsigned *arrived)
{
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) words->running = round;
    while (words->go < round) {
    }
    __threadfence_system();
    if (atomicAdd(arrived, 1) + 1 == gridDim.x * round) words->kernel_end = round;
}

enum way { BY_KERNEL_WORD, BY_STREAM_WORD, BY_EVENT_QUERY, BY_STREAM_QUERY, BY_SYNC, NWAYS };
static const char *const way_names[NWAYS] = {"word by the kernel", "word by the stream",
                                             "cudaEventQuery", "cudaStreamQuery",
                                             "cudaStreamSynchronize"};

struct scene {
    cudaStream_t stream;
    cudaEvent_t event;
    struct words *words, *words_at;
    unsigned *arrived;
    uint32_t round;
    int ctas;
};

static void see_end(struct scene *s, enum way way)
{
    switch (way) {
    case BY_KERNEL_WORD:
        while (s->words->kernel_end < s->round) {
        }
        break;
    case BY_STREAM_WORD:
        while (s->words->stream_end < s->round) {
        }
        break;
    case BY_EVENT_QUERY:
        while (cudaEventQuery(s->event) == cudaErrorNotReady) {
        }
        break;
    case BY_STREAM_QUERY:
        while (cudaStreamQuery(s->stream) == cudaErrorNotReady) {
        }
        break;
    default: MUST(cudaStreamSynchronize(s->stream));
    }
}

/* Time from the store that lets the kernel end until `way` sees it, and the event's delay then. */
static void time_way(struct scene *s, enum way way)
{
    double seen[ROUNDS], more[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        s->round++;
        wait_and_tell<<<s->ctas, 32, 0, s->stream>>>(s->words_at, s->round, s->arrived);
        MUST(cudaEventRecord(s->event, s->stream));
        MUST(drv.cuStreamWriteValue32(s->stream, (CUdeviceptr)&s->words_at->stream_end, s->round,
                                      0));
        while (s->words->running < s->round) {
        }
        probe_sleep_us(20);
        double began_us = probe_now_us();
        s->words->go = s->round;
        see_end(s, way);
        double seen_us = probe_now_us();
        while (cudaEventQuery(s->event) == cudaErrorNotReady) {
        }
        seen[i] = seen_us - began_us;
        more[i] = probe_now_us() - seen_us;
        MUST(cudaStreamSynchronize(s->stream));
    }
    printf("   %5d  %-24s %8.2f %8.2f\n", s->ctas, way_names[way], probe_median(seen, ROUNDS),
           probe_median(more, ROUNDS));
}

void probe_words(int arg)
{
    struct scene scene = {};
    (void)arg;
    probe_open();
    MUST(cudaStreamCreateWithFlags(&scene.stream, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&scene.event, cudaEventDisableTiming));
    MUST(cudaHostAlloc(&scene.words, 4096, cudaHostAllocMapped));
    MUST(cudaHostGetDevicePointer(&scene.words_at, scene.words, 0));
    MUST(cudaMalloc(&scene.arrived, 4));
    printf("    CTAs  seen by                   us from go   then event\n");
    for (int ctas : {1, 132}) {
        memset((void *)scene.words, 0, sizeof *scene.words);
        scene.round = 0;
        scene.ctas = ctas;
        MUST(cudaMemset(scene.arrived, 0, 4));
        MUST(cudaDeviceSynchronize());
        for (int way = 0; way < NWAYS; way++) time_way(&scene, (enum way)way);
    }
}
