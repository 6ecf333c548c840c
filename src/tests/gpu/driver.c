/* Functions of the driver, see driver.h. */
#define _GNU_SOURCE
#include "gpu/driver.h"

#include "unit/memory.h"

#include <stdlib.h>

/* Calls a function of the driver by name with these types of parameters. */
#define DRIVER(name, types, ...)                                                                   \
    do {                                                                                           \
        int(*function_) types;                                                                     \
        *(void **)&function_ = test_driver_function(name);                                         \
        int error_ = function_(__VA_ARGS__);                                                       \
        if (error_ != 0) FAIL("%s: CUDA error %d", name, error_);                                  \
    } while (0)

static void set_default(const char *name, const char *value)
{
    if (getenv(name) == NULL) setenv(name, value, 1);
}

static void warm_up(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, 4);
    kit_open(&kit, 2, 1, 4);
    kit_run(&kit, &op);
    kit_close(&kit);
}

void gpu_prepare(void)
{
    set_default("CHORUS_DEVICE", "cuda");
    set_default("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    test_lib_prepare();
    if (getenv("CORE_INDEX") == NULL && getenv("GPU_COLD") == NULL) warm_up();
}

/* ---- contexts ---- */

void *gpu_context(void)
{
    void *context = NULL;
    DRIVER("cuCtxGetCurrent", (void **), &context);
    return context;
}

void gpu_context_set(void *context)
{
    DRIVER("cuCtxSetCurrent", (void *), context);
}

void *gpu_context_create(void)
{
    void *context = NULL;
    DRIVER("cuCtxCreate_v2", (void **, unsigned, int), &context, 0, 0);
    return context;
}

void gpu_context_destroy(void *context)
{
    DRIVER("cuCtxDestroy_v2", (void *), context);
}

/* ---- streams and captures ---- */

cudaStream_t gpu_stream_create(void)
{
    cudaStream_t stream = NULL;
    DRIVER("cuStreamCreate", (cudaStream_t *, unsigned), &stream, 0);
    return stream;
}

void gpu_capture_begin(cudaStream_t stream)
{
    enum { RELAXED = 2 };
    DRIVER("cuStreamBeginCapture_v2", (cudaStream_t, int), stream, RELAXED);
}

void *gpu_capture_end(cudaStream_t stream)
{
    void *graph = NULL, *ready = NULL;
    DRIVER("cuStreamEndCapture", (cudaStream_t, void **), stream, &graph);
    DRIVER("cuGraphInstantiateWithFlags", (void **, void *, unsigned long long), &ready, graph, 0);
    DRIVER("cuGraphDestroy", (void *), graph);
    return ready;
}

void gpu_graph_launch(void *graph, cudaStream_t stream)
{
    DRIVER("cuGraphLaunch", (void *, cudaStream_t), graph, stream);
}

void gpu_graph_destroy(void *graph)
{
    DRIVER("cuGraphExecDestroy", (void *), graph);
}
