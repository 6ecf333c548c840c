/* Probe: what an operation of one process costs while another process, without MPS, leaves the
 * device idle, runs short kernels one after the other, or runs one long kernel. An operation that
 * needs the other context off the SMs pays a switch; copies by an engine and stream memory
 * operations may not. The other process also counts what it lost.
 */
#include "probe/kit.h"

#include <atomic>
#include <functional>
#include <string.h>

enum state { IDLE, SHORT_KERNELS, ONE_KERNEL, LEAVE, NSTATES = LEAVE };
static const char *const state_names[] = {"idle", "short kernels", "one kernel"};
enum { MAX_CALLS = 40, CELL_US = 200000, SHORT_NS = 20000 };

struct shared {
    std::atomic<int> asked, in_state;
    std::atomic<uint64_t> kernels;
};

static __device__ uint64_t clock_ns(void)
{
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

static __global__ void run_for(uint64_t ns)
{
    uint64_t end = clock_ns() + ns;
    while (clock_ns() < end) {
    }
}

static __global__ void run_until(volatile uint32_t *stop)
{
    uint64_t end = clock_ns() + 20000000000ull;
    while (*stop == 0 && clock_ns() < end) {
    }
}

static __global__ void touch(unsigned *x)
{
    if (threadIdx.x == 0) *x += 1;
}

/* The other process: enters the state it is asked for, says so, and stays until asked anew. */
static void disturb(struct shared *shared)
{
    cudaStream_t stream;
    uint32_t *stop;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaHostAlloc(&stop, 4096, cudaHostAllocMapped));
    *stop = 1;
    run_until<<<1, 1, 0, stream>>>(stop);
    run_for<<<132, 256, 0, stream>>>(SHORT_NS);
    MUST(cudaStreamSynchronize(stream));
    for (int state = IDLE; state != LEAVE;) {
        *(volatile uint32_t *)stop = 0;
        if (state == ONE_KERNEL) run_until<<<1, 1, 0, stream>>>(stop);
        shared->in_state = state;
        while (shared->asked == state) {
            if (state != SHORT_KERNELS) {
                probe_sleep_us(200);
                continue;
            }
            for (int i = 0; i < 10; i++) run_for<<<132, 256, 0, stream>>>(SHORT_NS);
            MUST(cudaStreamSynchronize(stream));
            shared->kernels += 10;
        }
        *(volatile uint32_t *)stop = 1;
        MUST(cudaStreamSynchronize(stream));
        state = shared->asked;
    }
}

static void time_cell(struct shared *shared, const char *name, const std::function<void(void)> &op)
{
    printf("   %-26s", name);
    for (int state = IDLE; state < NSTATES; state++) {
        double us[MAX_CALLS], began_us;
        int n = 0;
        shared->asked = state;
        while (shared->in_state != state) probe_sleep_us(100);
        probe_sleep_us(2000);
        op();
        uint64_t kernels = shared->kernels;
        double cell_us = probe_now_us();
        while (n < MAX_CALLS && probe_now_us() - cell_us < CELL_US) {
            began_us = probe_now_us();
            op();
            us[n++] = probe_now_us() - began_us;
        }
        cell_us = probe_now_us() - cell_us;
        kernels = shared->kernels - kernels;
        printf("  %8.1f", probe_median(us, n));
        if (state == SHORT_KERNELS) printf(" (%5.1f us a kernel)", cell_us / (double)kernels);
    }
    printf("\n");
}

static void measure(struct shared *shared)
{
    cudaStream_t stream;
    char *device, *host;
    size_t big = 64 << 20;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaMalloc(&device, 2 * big));
    MUST(cudaHostAlloc(&host, 4096, cudaHostAllocMapped));
    touch<<<1, 32, 0, stream>>>((unsigned *)device);
    MUST(cudaStreamSynchronize(stream));
    printf("   operation + synchronize, us:");
    for (const char *name : state_names) printf("  beside %s", name);
    printf("\n");
    auto copy = [&](void *to, const void *from, size_t bytes) {
        MUST(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
        MUST(cudaStreamSynchronize(stream));
    };
    time_cell(shared, "device copy, 1 KiB", [&] { copy(device, device + big, 1024); });
    time_cell(shared, "device copy, 1 MiB", [&] { copy(device, device + big, 1 << 20); });
    time_cell(shared, "device copy, 64 MiB", [&] { copy(device, device + big, big); });
    time_cell(shared, "device to host, 1 KiB", [&] { copy(host, device, 1024); });
    time_cell(shared, "host to device, 1 KiB", [&] { copy(device, host, 1024); });
    time_cell(shared, "memset, 1 KiB", [&] {
        MUST(cudaMemsetAsync(device, 0, 1024, stream));
        MUST(cudaStreamSynchronize(stream));
    });
    time_cell(shared, "stream write of a word", [&] {
        MUST(drv.cuStreamWriteValue32(stream, (CUdeviceptr)device, 1, 0));
        MUST(cudaStreamSynchronize(stream));
    });
    time_cell(shared, "kernel, 1 CTA", [&] {
        touch<<<1, 32, 0, stream>>>((unsigned *)device);
        MUST(cudaStreamSynchronize(stream));
    });
}

void probe_copies(int arg)
{
    struct shared *shared = (struct shared *)probe_shared(sizeof *shared);
    (void)arg;
    int me = probe_fork(2);
    probe_open();
    probe_meet(2);
    if (me == 1) {
        disturb(shared);
    } else {
        measure(shared);
        shared->asked = LEAVE;
    }
    probe_join(me);
}
