/* Probe: one kernel that stands for k streams, all driven by one thread: records and waits around
 * the launch, by the runtime or by the driver, and the launch by each of the ways there are. Each
 * figure is the time per operation of many queued ones, as collectives are timed, and the part of
 * it that the host spends.
 */
#include "probe/kit.h"

enum { MAX_STREAMS = 8, OPERATIONS = 400, REPEATS = 9, THREADS = 512 };

struct fold_args {
    uint32_t *sum;
    uint32_t spare[60];
};

static __global__ void __launch_bounds__(THREADS) fold(const __grid_constant__ fold_args args)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    if (threadIdx.x == 0) *args.sum += 1;
}

enum launch { ANGLES, KERNEL_EX, PROGRAMMATIC, DRIVER };
enum join { NONE, SPARE_STREAM, LAST_STREAM, ALL_DRIVER };

struct row {
    const char *name;
    enum join join;
    enum launch launch;
};
static const struct row rows[] = {
    {"no join, <<<>>>", NONE, ANGLES},
    {"no join, cudaLaunchKernelExC", NONE, KERNEL_EX},
    {"no join, the same, programmatic", NONE, PROGRAMMATIC},
    {"no join, cuLaunchKernel", NONE, DRIVER},
    {"events, a spare stream runs it", SPARE_STREAM, ANGLES},
    {"events, the last stream runs it", LAST_STREAM, ANGLES},
    {"the same, cudaLaunchKernelExC", LAST_STREAM, KERNEL_EX},
    {"the same, programmatic", LAST_STREAM, PROGRAMMATIC},
    {"the same, cuLaunchKernel", LAST_STREAM, DRIVER},
    {"the same, cuEvent… and cuStream… too", ALL_DRIVER, DRIVER},
};

struct scene {
    int k;
    cudaStream_t streams[MAX_STREAMS], spare;
    cudaEvent_t ready[MAX_STREAMS], done;
    CUfunction function;
    struct fold_args args;
};

static void launch_fold(struct scene *s, cudaStream_t stream, enum launch launch)
{
    void *params[] = {&s->args};
    if (launch == ANGLES) {
        fold<<<1, THREADS, 0, stream>>>(s->args);
    } else if (launch == DRIVER) {
        MUST(drv.cuLaunchKernel(s->function, 1, 1, 1, THREADS, 1, 1, 0, stream, params, NULL));
    } else {
        cudaLaunchAttribute attribute = {};
        cudaLaunchConfig_t config = {};
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
        config.gridDim = dim3(1);
        config.blockDim = dim3(THREADS);
        config.stream = stream;
        config.attrs = &attribute;
        config.numAttrs = launch == PROGRAMMATIC;
        MUST(cudaLaunchKernelExC(&config, (const void *)fold, params));
    }
}

static void join_by_runtime(struct scene *s, const struct row *row)
{
    int others = row->join == SPARE_STREAM ? s->k : s->k - 1;
    cudaStream_t runner = row->join == SPARE_STREAM ? s->spare : s->streams[others];
    for (int i = 0; i < others; i++) {
        MUST(cudaEventRecord(s->ready[i], s->streams[i]));
        MUST(cudaStreamWaitEvent(runner, s->ready[i], 0));
    }
    launch_fold(s, runner, row->launch);
    MUST(cudaEventRecord(s->done, runner));
    for (int i = 0; i < others; i++) MUST(cudaStreamWaitEvent(s->streams[i], s->done, 0));
}

static void join_by_driver(struct scene *s, const struct row *row)
{
    cudaStream_t runner = s->streams[s->k - 1];
    for (int i = 0; i < s->k - 1; i++) {
        MUST(drv.cuEventRecord(s->ready[i], s->streams[i]));
        MUST(drv.cuStreamWaitEvent(runner, s->ready[i], 0));
    }
    launch_fold(s, runner, row->launch);
    MUST(drv.cuEventRecord(s->done, runner));
    for (int i = 0; i < s->k - 1; i++) MUST(drv.cuStreamWaitEvent(s->streams[i], s->done, 0));
}

static void run_once(struct scene *s, const struct row *row)
{
    if (row->join == NONE)
        launch_fold(s, s->streams[0], row->launch);
    else if (row->join == ALL_DRIVER)
        join_by_driver(s, row);
    else
        join_by_runtime(s, row);
}

static void time_row(struct scene *s, const struct row *row)
{
    double all[REPEATS], host[REPEATS], alone[OPERATIONS];
    for (int r = 0; r < REPEATS; r++) {
        double began_us = probe_now_us();
        for (int i = 0; i < OPERATIONS; i++) run_once(s, row);
        host[r] = (probe_now_us() - began_us) / OPERATIONS;
        MUST(cudaDeviceSynchronize());
        all[r] = (probe_now_us() - began_us) / OPERATIONS;
    }
    for (int i = 0; i < OPERATIONS; i++) {
        double began_us = probe_now_us();
        run_once(s, row);
        for (int k = 0; k < s->k; k++) MUST(cudaStreamSynchronize(s->streams[k]));
        alone[i] = probe_now_us() - began_us;
    }
    printf("   %d  %-40s %8.2f %8.2f %8.2f\n", s->k, row->name, probe_median(all, REPEATS),
           probe_median(host, REPEATS), probe_median(alone, OPERATIONS));
}

void probe_joins(int arg)
{
    struct scene scene = {};
    cudaFunction_t function;
    (void)arg;
    probe_open();
    for (int i = 0; i < MAX_STREAMS; i++) {
        MUST(cudaStreamCreateWithFlags(&scene.streams[i], cudaStreamNonBlocking));
        MUST(cudaEventCreateWithFlags(&scene.ready[i], cudaEventDisableTiming));
    }
    MUST(cudaStreamCreateWithFlags(&scene.spare, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&scene.done, cudaEventDisableTiming));
    MUST(cudaMalloc(&scene.args.sum, 4));
    MUST(cudaGetFuncBySymbol(&function, (const void *)fold));
    scene.function = (CUfunction)function;
    printf("   k  way                                        us/op     host  op + sync\n");
    for (int k : {2, 4, 8}) {
        scene.k = k;
        for (const struct row &row : rows) {
            if (row.join == NONE && k != 2) continue;
            time_row(&scene, &row);
        }
    }
    MUST(cudaGetLastError());
}
