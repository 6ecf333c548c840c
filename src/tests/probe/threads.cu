/* Probe: one kernel for the streams of k threads. Each thread records its event and arrives; the
 * last one launches on its own stream and tells the rest, who were parked and then let their
 * streams wait for the kernel. How they park, and who makes the calls for a stream, is what the
 * rows differ in; calls from several threads also contend inside the driver.
 */
#include "probe/kit.h"

#include <atomic>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

enum { MAX_THREADS = 8, OPERATIONS = 400, REPEATS = 7 };

enum park { SPIN, YIELD, SPIN_YIELD, SPIN_FUTEX };
static const char *const park_names[] = {"spin", "yield", "spin 2 us, yield", "spin 2 us, futex"};

struct way {
    enum park park;
    bool last_does_all; /* the last thread records and waits on the streams of the others too */
    bool unlock_first;  /* the others are told before done is recorded: a floor, not a design */
    bool sync_each;
};
static const struct way ways[] = {
    {SPIN, false, false, false},       {YIELD, false, false, false},
    {SPIN_YIELD, false, false, false}, {SPIN_FUTEX, false, false, false},
    {SPIN, true, false, false},        {SPIN_FUTEX, true, false, false},
    {SPIN, false, true, false},        {SPIN, false, false, true},
    {SPIN_FUTEX, false, false, true},  {SPIN_FUTEX, true, false, true},
};

static __global__ void fold(unsigned *sum)
{
    if (threadIdx.x == 0) *sum += 1;
}

struct scene {
    int k;
    const struct way *way;
    cudaStream_t streams[MAX_THREADS];
    cudaEvent_t ready[MAX_THREADS], done;
    unsigned *sum;
    alignas(64) std::atomic<uint32_t> arrived;
    alignas(64) std::atomic<uint32_t> launched;
    alignas(64) std::atomic<uint32_t> sleepers;
    alignas(64) std::atomic<uint32_t> at_start;
};

static void park(struct scene *s, uint32_t turn)
{
    enum park how = s->way->park;
    double spin_end_us = how >= SPIN_YIELD ? probe_now_us() + 2 : 0;
    while (s->launched.load(std::memory_order_acquire) != turn) {
        if (how == SPIN) continue;
        if (how != YIELD && probe_now_us() < spin_end_us) continue;
        if (how != SPIN_FUTEX) {
            sched_yield();
            continue;
        }
        s->sleepers.fetch_add(1);
        syscall(SYS_futex, &s->launched, FUTEX_WAIT_PRIVATE, turn - 1, NULL, NULL, 0);
        s->sleepers.fetch_sub(1);
    }
}

static void tell(struct scene *s, uint32_t turn)
{
    s->launched.store(turn);
    if (s->sleepers.load() != 0)
        syscall(SYS_futex, &s->launched, FUTEX_WAKE_PRIVATE, MAX_THREADS, NULL, NULL, 0);
}

static void launch_for_all(struct scene *s, int me, uint32_t turn)
{
    cudaStream_t mine = s->streams[me];
    for (int i = 0; i < s->k; i++) {
        if (i == me) continue;
        if (s->way->last_does_all) MUST(cudaEventRecord(s->ready[i], s->streams[i]));
        MUST(cudaStreamWaitEvent(mine, s->ready[i], 0));
    }
    fold<<<1, 512, 0, mine>>>(s->sum);
    if (s->way->unlock_first) tell(s, turn);
    MUST(cudaEventRecord(s->done, mine));
    if (s->way->last_does_all) {
        for (int i = 0; i < s->k; i++)
            if (i != me) MUST(cudaStreamWaitEvent(s->streams[i], s->done, 0));
    }
    if (!s->way->unlock_first) tell(s, turn);
}

static void call(struct scene *s, int me, uint32_t turn)
{
    if (!s->way->last_does_all) MUST(cudaEventRecord(s->ready[me], s->streams[me]));
    if (s->arrived.fetch_add(1) + 1 == turn * (uint32_t)s->k) {
        launch_for_all(s, me, turn);
    } else {
        park(s, turn);
        if (!s->way->last_does_all) MUST(cudaStreamWaitEvent(s->streams[me], s->done, 0));
    }
    if (s->way->sync_each) MUST(cudaStreamSynchronize(s->streams[me]));
}

static void meet_at_start(struct scene *s, uint32_t repeat)
{
    s->at_start.fetch_add(1);
    while (s->at_start.load() < repeat * (uint32_t)s->k) {
    }
}

static void run_thread(struct scene *s, int me, double *us)
{
    uint32_t turn = 0;
    MUST(cudaSetDevice(0));
    for (int r = 0; r < REPEATS; r++) {
        meet_at_start(s, (uint32_t)(2 * r + 1));
        double began_us = probe_now_us();
        for (int i = 0; i < OPERATIONS; i++) call(s, me, ++turn);
        MUST(cudaStreamSynchronize(s->streams[me]));
        meet_at_start(s, (uint32_t)(2 * r + 2));
        if (me == 0) us[r] = (probe_now_us() - began_us) / OPERATIONS;
    }
}

static void time_way(struct scene *s, const struct way *way)
{
    double us[REPEATS];
    std::thread threads[MAX_THREADS];
    s->way = way;
    s->arrived = 0;
    s->launched = 0;
    s->sleepers = 0;
    s->at_start = 0;
    MUST(cudaDeviceSynchronize());
    for (int i = 0; i < s->k; i++) threads[i] = std::thread(run_thread, s, i, us);
    for (int i = 0; i < s->k; i++) threads[i].join();
    printf("   %d  %-17s %-20s %-18s %8.2f\n", s->k, park_names[way->park],
           way->last_does_all ? "last does all calls" : "each its own calls",
           way->unlock_first ? "told before done"
           : way->sync_each  ? "sync each"
                             : "queued",
           probe_median(us, REPEATS));
}

void probe_threads(int arg)
{
    static struct scene scene;
    (void)arg;
    probe_open();
    for (int i = 0; i < MAX_THREADS; i++) {
        MUST(cudaStreamCreateWithFlags(&scene.streams[i], cudaStreamNonBlocking));
        MUST(cudaEventCreateWithFlags(&scene.ready[i], cudaEventDisableTiming));
    }
    MUST(cudaEventCreateWithFlags(&scene.done, cudaEventDisableTiming));
    MUST(cudaMalloc(&scene.sum, 4));
    fold<<<1, 512>>>(scene.sum);
    MUST(cudaDeviceSynchronize());
    printf("   k  parks by          calls                                      us/op\n");
    for (int k : {2, 4, 8}) {
        scene.k = k;
        for (const struct way &way : ways) time_way(&scene, &way);
    }
    MUST(cudaGetLastError());
}
