/* Probe: stream memory operations between n processes, on words of a memfd page that each of them
 * registers with CUDA (a CPU store frees any stream that waits there) and, for comparison, on words
 * in device memory. Rounds of two streams, the leader's protocol with one kernel for all, with more
 * streams waiting, and replayed from graphs. Run with and without MPS. A part whose streams are
 * still busy after its limit is said to be stuck; the flags are then set by the CPU.
 */
#include "probe/kit.h"

#include <atomic>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_PROCESSES = 8, MAX_EXTRA = 6, ROUNDS = 100, REPEATS = 5, STRIDE = 16, LIMIT_MS = 1500 };
enum { PAGE_BYTES = 65536, RELEASE = 1u << 30 };
/* Words, STRIDE apart: ready of each process, then done, ping, pong, and what extra streams await.
 */
enum { DONE = MAX_PROCESSES, PING, PONG, EXTRA, WORDS };

struct shared {
    std::atomic<uint32_t> post[MAX_PROCESSES * STRIDE];
    std::atomic<int> stuck;
    cudaIpcMemHandle_t device_words;
};

struct scene {
    int n, me;
    struct shared *shared;
    volatile uint32_t *host_words;
    CUdeviceptr host_at, device_at;
    cudaStream_t stream, extra[MAX_EXTRA];
    unsigned *scratch;
    uint32_t seq;
};

static __global__ void touch(unsigned *x)
{
    if (threadIdx.x == 0 && blockIdx.x == 0) *x += 1;
}

static CUdeviceptr at(CUdeviceptr base, int word)
{
    return base + (CUdeviceptr)(word * STRIDE * sizeof(uint32_t));
}

static void put(struct scene *s, CUdeviceptr base, int word, uint32_t value)
{
    MUST(drv.cuStreamWriteValue32(s->stream, at(base, word), value, 0));
}

static void wait_for(struct scene *s, CUdeviceptr base, int word, uint32_t value)
{
    MUST(drv.cuStreamWaitValue32(s->stream, at(base, word), value, CU_STREAM_WAIT_VALUE_GEQ));
}

static void reset_words(struct scene *s)
{
    probe_meet(s->n);
    if (s->me == 0) {
        for (int w = 0; w < WORDS; w++) s->host_words[w * STRIDE] = 0;
        MUST(cudaMemset((void *)s->device_at, 0, PAGE_BYTES));
        MUST(cudaDeviceSynchronize());
        s->shared->stuck = 0;
    }
    s->seq = 0;
    probe_meet(s->n);
}

/* Waits for the stream; one that is stuck is freed by the CPU, on the words in host memory. */
static void drain(struct scene *s)
{
    if (probe_drained(s->stream, LIMIT_MS)) return;
    s->shared->stuck = 1;
    for (int w = 0; w < WORDS; w++) s->host_words[w * STRIDE] = RELEASE;
    if (!probe_drained(s->stream, LIMIT_MS)) printf("   [%d] not freed by the CPU\n", s->me);
}

static void say(struct scene *s, const char *what, double *us)
{
    probe_meet(s->n);
    if (s->me != 0) return;
    double median = probe_median(us, REPEATS);
    if (s->shared->stuck)
        printf("   %d processes  %-56s stuck\n", s->n, what);
    else
        printf("   %d processes  %-56s %8.2f us\n", s->n, what, median);
}

/* Processes 0 and 1 answer each other; all rounds are queued at once. */
static void ping_pong(struct scene *s, CUdeviceptr base, const char *what)
{
    double us[REPEATS];
    reset_words(s);
    for (int r = 0; r < REPEATS; r++) {
        probe_meet(s->n);
        double began_us = probe_now_us();
        for (int i = 0; i < ROUNDS && s->me < 2; i++) {
            s->seq++;
            if (s->me == 0) put(s, base, PING, s->seq);
            wait_for(s, base, s->me == 0 ? PONG : PING, s->seq);
            if (s->me == 1) put(s, base, PONG, s->seq);
        }
        drain(s);
        us[r] = (probe_now_us() - began_us) / ROUNDS;
        probe_meet(s->n);
        if (s->shared->stuck) break;
    }
    say(s, what, us);
}

struct leading {
    bool on_host, waits_for_posts, member_kernels;
    int ctas, extra;
};

/* One operation: members say ready and wait for done, process 0 runs the kernel in between. */
static void lead(struct scene *s, const struct leading *how)
{
    CUdeviceptr base = how->on_host ? s->host_at : s->device_at;
    s->seq++;
    if (how->member_kernels) touch<<<1, 32, 0, s->stream>>>(s->scratch);
    if (s->me != 0) {
        put(s, base, s->me, s->seq);
        s->shared->post[s->me * STRIDE].store(s->seq);
        wait_for(s, base, DONE, s->seq);
        return;
    }
    for (int p = 1; p < s->n; p++) {
        while (how->waits_for_posts && s->shared->post[p * STRIDE].load() < s->seq) {
        }
        wait_for(s, base, p, s->seq);
    }
    touch<<<how->ctas, 512, 0, s->stream>>>(s->scratch);
    put(s, base, DONE, s->seq);
}

static void time_leading(struct scene *s, const struct leading *how)
{
    double us[REPEATS];
    char what[96];
    snprintf(what, sizeof what, "leader, %s words, %3d CTAs%s%s, %d more streams wait",
             how->on_host ? "host" : "device", how->ctas, how->waits_for_posts ? "" : ", no post",
             how->member_kernels ? ", own kernels" : "", how->extra);
    s->shared->post[s->me * STRIDE] = 0;
    reset_words(s);
    for (int e = 0; e < how->extra; e++)
        MUST(drv.cuStreamWaitValue32(s->extra[e], at(s->host_at, EXTRA), 1,
                                     CU_STREAM_WAIT_VALUE_GEQ));
    for (int r = 0; r < REPEATS; r++) {
        int rounds = how->member_kernels ? ROUNDS / 5 : ROUNDS;
        probe_meet(s->n);
        double began_us = probe_now_us();
        for (int i = 0; i < rounds; i++) lead(s, how);
        drain(s);
        us[r] = (probe_now_us() - began_us) / rounds;
        probe_meet(s->n);
        if (s->shared->stuck) break;
    }
    say(s, what, us);
    if (s->me == 0) s->host_words[EXTRA * STRIDE] = 1;
    MUST(cudaDeviceSynchronize());
}

/* A round from graphs: the words return to 0, since a graph always waits for the same value. */
static void replay_graphs(struct scene *s)
{
    double us[REPEATS];
    cudaGraph_t graph;
    cudaGraphExec_t exec = NULL;
    reset_words(s);
    if (s->me < 2) {
        int mine = s->me == 0 ? PONG : PING, other = s->me == 0 ? PING : PONG;
        CUdeviceptr base = s->host_at;
        MUST(cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeThreadLocal));
        if (s->me == 0) put(s, base, other, 1);
        MUST(drv.cuStreamWaitValue32(s->stream, at(base, mine), 1, CU_STREAM_WAIT_VALUE_EQ));
        put(s, base, mine, 0);
        if (s->me == 1) put(s, base, other, 1);
        MUST(cudaStreamEndCapture(s->stream, &graph));
        MUST(cudaGraphInstantiate(&exec, graph, 0));
    }
    for (int r = 0; r < REPEATS; r++) {
        probe_meet(s->n);
        double began_us = probe_now_us();
        for (int i = 0; i < ROUNDS && exec; i++) MUST(cudaGraphLaunch(exec, s->stream));
        drain(s);
        us[r] = (probe_now_us() - began_us) / ROUNDS;
        probe_meet(s->n);
        if (s->shared->stuck) break;
    }
    say(s, "a round from two graphs, host words", us);
}

/* One process: a CPU store frees the stream, which writes a word that the CPU polls. */
static void through_cpu(struct scene *s)
{
    double us[REPEATS * ROUNDS];
    reset_words(s);
    if (s->me == 0) {
        for (int i = 0; i < REPEATS * ROUNDS; i++) {
            wait_for(s, s->host_at, PING, (uint32_t)i + 1);
            put(s, s->host_at, PONG, (uint32_t)i + 1);
            probe_sleep_us(30);
            double began_us = probe_now_us();
            s->host_words[PING * STRIDE] = (uint32_t)i + 1;
            while (s->host_words[PONG * STRIDE] < (uint32_t)i + 1) {
            }
            us[i] = probe_now_us() - began_us;
        }
        printf("   %d processes  %-56s %8.2f us\n", s->n,
               "CPU store, stream wait, stream write, CPU", probe_median(us, REPEATS * ROUNDS));
    }
    probe_meet(s->n);
}

static void open_scene(struct scene *s)
{
    void *mapped;
    probe_open();
    MUST(cudaHostRegister((void *)s->host_words, PAGE_BYTES, cudaHostRegisterMapped));
    MUST(cudaHostGetDevicePointer(&mapped, (void *)s->host_words, 0));
    s->host_at = (CUdeviceptr)mapped;
    if (s->me == 0) {
        MUST(cudaMalloc(&mapped, 2 << 20));
        MUST(cudaIpcGetMemHandle(&s->shared->device_words, mapped));
    }
    probe_meet(s->n);
    if (s->me != 0)
        MUST(
            cudaIpcOpenMemHandle(&mapped, s->shared->device_words, cudaIpcMemLazyEnablePeerAccess));
    s->device_at = (CUdeviceptr)mapped;
    MUST(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
    for (int e = 0; e < MAX_EXTRA; e++)
        MUST(cudaStreamCreateWithFlags(&s->extra[e], cudaStreamNonBlocking));
    MUST(cudaMalloc(&s->scratch, 4096));
    touch<<<1, 32, 0, s->stream>>>(s->scratch);
    MUST(cudaDeviceSynchronize());
    probe_meet(s->n);
}

static void say_support(struct scene *s)
{
    int v1 = -1, bits64 = -1, nor = -1, registered = -1;
    CUdevice device;
    if (s->me != 0) return;
    MUST(drv.cuCtxGetDevice(&device));
    drv.cuDeviceGetAttribute(&v1, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, device);
    drv.cuDeviceGetAttribute(&bits64, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device);
    drv.cuDeviceGetAttribute(&nor, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, device);
    drv.cuDeviceGetAttribute(&registered,
                             CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, device);
    printf("   MPS %s; attributes: memory operations v1 %d, 64 bits %d, NOR %d, host pointer of"
           " registered memory %d; same pointer %s\n",
           getenv("CUDA_MPS_PIPE_DIRECTORY") ? "asked for" : "off", v1, bits64, nor, registered,
           (void *)s->host_at == (void *)s->host_words ? "yes" : "no");
}

void probe_memops(int n)
{
    static const struct leading ways[] = {
        {true, true, false, 1, 0},    {true, true, false, 264, 0}, {true, false, false, 1, 0},
        {false, true, false, 1, 0},   {true, true, true, 1, 0},    {true, true, false, 1, 2},
        {true, true, false, 1, 4},    {true, true, false, 1, 5},   {true, true, false, 1, 6},
        {true, false, false, 264, 2},
    };
    struct scene scene = {};
    int fd = memfd_create("probe", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, PAGE_BYTES) != 0) _exit(1);
    scene.host_words =
        (volatile uint32_t *)mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    scene.shared = (struct shared *)probe_shared(sizeof *scene.shared);
    scene.n = n;
    scene.me = probe_fork(n);
    open_scene(&scene);
    say_support(&scene);
    through_cpu(&scene);
    ping_pong(&scene, scene.host_at, "a round of two streams, host words");
    ping_pong(&scene, scene.device_at, "a round of two streams, device words");
    for (const struct leading &how : ways) time_leading(&scene, &how);
    replay_graphs(&scene);
    probe_join(scene.me);
}
