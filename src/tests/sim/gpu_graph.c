/* Captures and graphs of the simulated GPU, and the functions of the driver that tests look up.
 *
 * A graph is the operations of a capture in the order in which they were called, each with its
 * branch: the first is the stream that it is launched to, the others are streams of the graph's
 * own. Events that order them are the graph's own, too. That order is one in which the graph may
 * run, so a replay queues them again one by one.
 */
#include "sim/gpu.h"

#include "base/err.h"
#include "unit/memory.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BRANCHES = 256 };

struct node {
    struct node *next;
    uint32_t branch;
    struct sim_op op;
};

struct sim_capture {
    uint64_t id;
    struct node *head, **tail;
    uint32_t nbranches;
    struct sim_stream *branches[MOST_BRANCHES]; /* while it captures, and the graph's own */
};

static uint64_t ncaptures;

/* ---- while a stream captures ---- */

uint64_t sim_capture_id(const struct sim_stream *stream)
{
    return stream->capture != NULL ? stream->capture->id : 0;
}

static void add_branch(struct sim_capture *capture, struct sim_stream *stream)
{
    if (capture->nbranches == MOST_BRANCHES) abort();
    stream->capture = capture;
    stream->branch = capture->nbranches;
    capture->branches[capture->nbranches++] = stream;
}

static void add_node(struct sim_stream *stream, const struct sim_op *op)
{
    struct node *node = sim_need(sizeof *node);
    node->branch = stream->branch;
    node->op = *op;
    if (op->event != NULL) op->event->refs++;
    if (op->kernel != NULL) op->kernel->refs++;
    *stream->capture->tail = node;
    stream->capture->tail = &node->next;
}

/* From now on the event is one of the capture. */
static struct sim_event *capture_event(struct sim_event *event, const struct sim_capture *capture)
{
    sim_event_put(event->captured);
    event->captured = sim_event_make();
    event->capture = capture->id;
    return event->captured;
}

ncclResult_t sim_capture_add(struct sim_stream *stream, const struct sim_op *op)
{
    struct sim_op inner = *op;
    if (op->is_outside || op->event == NULL) {
        add_node(stream, &inner);
        return ncclSuccess;
    }
    if (op->kind == SIM_RECORD) {
        inner.event = capture_event(op->event, stream->capture);
    } else {
        if (op->event->capture != stream->capture->id)
            return ccl_err(ncclUnhandledCudaError, "a capture waits for an event outside of it");
        inner.event = op->event->captured;
    }
    add_node(stream, &inner);
    return ncclSuccess;
}

static struct sim_capture *open_captures[64];

ncclResult_t sim_capture_join(struct sim_stream *stream, const struct sim_op *op)
{
    if (op->is_outside || op->event->capture == 0 || stream->capture != NULL) return ncclSuccess;
    for (size_t i = 0; i < sizeof open_captures / sizeof open_captures[0]; i++) {
        if (open_captures[i] == NULL || open_captures[i]->id != op->event->capture) continue;
        add_branch(open_captures[i], stream);
        return ncclSuccess;
    }
    return ccl_err(ncclUnhandledCudaError, "a stream waits for an event of a capture that is over");
}

/* ---- graphs ---- */

static int begin_capture(cudaStream_t handle, int mode)
{
    (void)mode;
    struct sim_stream *stream = sim_stream_of(handle);
    size_t i = 0;
    pthread_mutex_lock(&sim_lock);
    while (open_captures[i] != NULL) i++;
    struct sim_capture *capture = sim_need(sizeof *capture);
    capture->id = ++ncaptures;
    capture->tail = &capture->head;
    open_captures[i] = capture;
    add_branch(capture, stream);
    pthread_mutex_unlock(&sim_lock);
    return 0;
}

/* The other branches become streams of the graph's own. */
static int end_capture(cudaStream_t handle, void **graph)
{
    struct sim_stream *stream = sim_stream_of(handle);
    size_t i = 0;
    pthread_mutex_lock(&sim_lock);
    struct sim_capture *capture = stream->capture;
    while (open_captures[i] != capture) i++;
    open_captures[i] = NULL;
    for (uint32_t b = 0; b < capture->nbranches; b++) capture->branches[b]->capture = NULL;
    pthread_mutex_unlock(&sim_lock);
    for (uint32_t b = 1; b < capture->nbranches; b++) capture->branches[b] = sim_stream_make();
    *graph = capture;
    return 0;
}

/* What is instantiated is the graph itself, and what is destroyed is what was instantiated. */
static int instantiate(void **ready, void *graph, unsigned long long flags)
{
    (void)flags;
    *ready = graph;
    return 0;
}

static int destroy_description(void *graph)
{
    (void)graph;
    return 0;
}

static int launch_graph(void *graph, cudaStream_t handle)
{
    struct sim_capture *capture = graph;
    struct sim_stream *stream = sim_stream_of(handle);
    pthread_mutex_lock(&sim_lock);
    for (const struct node *node = capture->head; node != NULL; node = node->next)
        sim_queue(node->branch == 0 ? stream : capture->branches[node->branch], &node->op);
    pthread_mutex_unlock(&sim_lock);
    return 0;
}

static int destroy_graph(void *graph)
{
    struct sim_capture *capture = graph;
    for (uint32_t b = 1; b < capture->nbranches; b++) sim_stream_destroy(capture->branches[b]);
    pthread_mutex_lock(&sim_lock);
    while (capture->head != NULL) {
        struct node *gone = capture->head;
        capture->head = gone->next;
        if (gone->op.event != NULL) sim_event_put(gone->op.event);
        if (gone->op.kernel != NULL) sim_kernel_put(gone->op.kernel);
        free(gone);
    }
    pthread_mutex_unlock(&sim_lock);
    free(capture);
    return 0;
}

/* ---- the rest of the driver ---- */

static int host_alloc(void **memory, size_t bytes, unsigned flags)
{
    enum { OUT_OF_MEMORY = 2 };
    (void)flags;
    *memory = sim_alloc(bytes, 0);
    return *memory != NULL ? 0 : OUT_OF_MEMORY;
}

static int host_free(void *memory)
{
    enum { INVALID_VALUE = 1 };
    return sim_free(memory) ? 0 : INVALID_VALUE;
}

static int get_uuid(char uuid[16], int device)
{
    (void)device;
    memset(uuid, 0x51, 16);
    return 0;
}

/* There is one context, of the only device. */
static char context;

static int get_context(void **current)
{
    *current = &context;
    return 0;
}

static int set_context(void *current)
{
    (void)current;
    return 0;
}

static int create_stream(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = (cudaStream_t)(void *)sim_stream_make();
    return 0;
}

#define ROW(name, function)                                                                        \
    {                                                                                              \
        name, (void (*)(void))(function)                                                           \
    }
static const struct {
    const char *name;
    void (*function)(void);
} functions[] = {
    ROW("cuCtxGetCurrent", get_context),      ROW("cuCtxSetCurrent", set_context),
    ROW("cuDeviceGetUuid_v2", get_uuid),      ROW("cuGraphDestroy", destroy_description),
    ROW("cuGraphExecDestroy", destroy_graph), ROW("cuGraphInstantiateWithFlags", instantiate),
    ROW("cuGraphLaunch", launch_graph),       ROW("cuMemFreeHost", host_free),
    ROW("cuMemHostAlloc", host_alloc),        ROW("cuStreamBeginCapture_v2", begin_capture),
    ROW("cuStreamCreate", create_stream),     ROW("cuStreamEndCapture", end_capture),
};

static void *find_function(const char *name)
{
    void *found = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(functions[i].name, name) == 0)
            memcpy(&found, &functions[i].function, sizeof found);
    return found;
}

/* Before main, as whoever looks for a driver at any time finds this one; variables that a program
 * or its caller has set stay. */
__attribute__((constructor)) static void stand_in(void)
{
    test_driver_stand_in = find_function;
    setenv("CHORUS_DEVICE", "cuda", 0);
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
}
