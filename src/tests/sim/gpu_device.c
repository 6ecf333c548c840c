/* The table of the simulated GPU, which is the only device: stands for device/cuda_device.c. */
#include "sim/gpu.h"

#include "base/clock.h"
#include "base/err.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CAPABILITY = 90, LANES = 4 };

int ccl_cuda_count(const char **why)
{
    if (why != NULL) *why = "simulated";
    return 1;
}

static ncclResult_t get_count(int *ndevices)
{
    if (ndevices == NULL) return ccl_err(ncclInvalidArgument, "count: ndevices is NULL");
    *ndevices = 1;
    return ncclSuccess;
}

static ncclResult_t get_device(int *device)
{
    if (device == NULL) return ccl_err(ncclInvalidArgument, "get: device is NULL");
    *device = 0;
    return ncclSuccess;
}

static ncclResult_t set_device(int device)
{
    if (device == 0) return ncclSuccess;
    return ccl_err(ncclInvalidArgument, "set: device %d does not exist; there is 1 GPU", device);
}

static ncclResult_t get_info(int device, struct chorus_device_info *info)
{
    if (info == NULL) return ccl_err(ncclInvalidArgument, "info: info is NULL");
    TRY(set_device(device));
    *info = (struct chorus_device_info){.name = "simulated GPU", .pci = "0000:00:00"};
    info->total_bytes = info->free_bytes = (size_t)8 << 30;
    return ncclSuccess;
}

static ncclResult_t enter(int device, void **before)
{
    *before = NULL;
    return set_device(device);
}

static void leave(void *before)
{
    (void)before;
}

static ncclResult_t get_identity(int device, char text[64])
{
    snprintf(text, 64, "simulated %d", device);
    return ncclSuccess;
}

static uint32_t count_lanes(int device)
{
    (void)device;
    return LANES;
}

static ncclResult_t get_capability(int device, int *capability)
{
    (void)device;
    *capability = CAPABILITY;
    return ncclSuccess;
}

static struct ccl_queues count_queues(int device)
{
    (void)device;
    return (struct ccl_queues){.n = sim_queues(), .are_shared = getenv("SIM_GPU_MPS") != NULL};
}

/* ---- memory ---- */

static ncclResult_t alloc_memory(void **memory, size_t bytes)
{
    if (memory == NULL) return ccl_err(ncclInvalidArgument, "alloc: memory is NULL");
    *memory = NULL;
    if (bytes == 0) return ncclSuccess;
    *memory = sim_alloc(bytes, 1);
    if (*memory != NULL) return ncclSuccess;
    return ccl_err(ncclUnhandledCudaError, "%zu bytes: out of memory", bytes);
}

/* As cudaFree, waits for all that the device does. */
static const char *find_fault(int device, const void *memory, size_t bytes)
{
    struct sim_block first, last;
    (void)device;
    if (sim_find_block(memory, &first) && sim_find_block((const char *)memory + bytes - 1, &last) &&
        first.base == last.base)
        return NULL;
    return "is no memory of a GPU";
}

static ncclResult_t free_memory(void *memory)
{
    if (memory == NULL) return ncclSuccess;
    sim_device_drain();
    if (sim_free(memory)) return ncclSuccess;
    return ccl_err(ncclUnhandledCudaError, "%p is no memory of the device", memory);
}

/* Memory of the program that CUDA does not know is copied by way of the driver's own: a source at
 * the call, a target before the call returns. */
static ncclResult_t copy_memory(void *to, const void *from, size_t bytes, cudaStream_t handle)
{
    struct sim_block block;
    struct sim_stream *stream = sim_stream_of(handle);
    struct sim_op op = {.kind = SIM_COPY, .to = to, .from = from, .bytes = bytes};
    if (!sim_find_block(from, &block)) {
        op.kept = sim_need(bytes + 1);
        memcpy(op.kept, from, bytes);
        op.from = op.kept;
    }
    TRY(sim_put(stream, op));
    if (!sim_find_block(to, &block)) sim_stream_drain(stream);
    return ncclSuccess;
}

static ncclResult_t fill_memory(void *memory, int byte, size_t bytes, cudaStream_t stream)
{
    struct sim_op op = {.kind = SIM_FILL, .to = memory, .byte = byte, .bytes = bytes};
    return sim_put(sim_stream_of(stream), op);
}

/* ---- streams ---- */

static ncclResult_t create_stream(cudaStream_t *stream)
{
    if (stream == NULL) return ccl_err(ncclInvalidArgument, "stream_create: stream is NULL");
    *stream = (cudaStream_t)(void *)sim_stream_make();
    return ncclSuccess;
}

static ncclResult_t refuse_capture(struct sim_stream *stream)
{
    pthread_mutex_lock(&sim_lock);
    int captures = stream->capture != NULL;
    pthread_mutex_unlock(&sim_lock);
    return captures ? ccl_err(ncclUnhandledCudaError, "not while the stream captures")
                    : ncclSuccess;
}

static ncclResult_t sync_stream(cudaStream_t stream)
{
    TRY(refuse_capture(sim_stream_of(stream)));
    sim_stream_drain(sim_stream_of(stream));
    return ncclSuccess;
}

static ncclResult_t destroy_stream(cudaStream_t stream)
{
    TRY(sync_stream(stream));
    sim_stream_destroy(sim_stream_of(stream));
    return ncclSuccess;
}

static ncclResult_t query_stream(cudaStream_t stream, int *idle)
{
    if (idle == NULL) return ccl_err(ncclInvalidArgument, "stream_query: idle is NULL");
    TRY(refuse_capture(sim_stream_of(stream)));
    *idle = sim_stream_is_idle(sim_stream_of(stream));
    return ncclSuccess;
}

static ncclResult_t find_device(cudaStream_t stream, int *device)
{
    (void)stream;
    *device = 0;
    return ncclSuccess;
}

static ncclResult_t find_capture(cudaStream_t handle, uint64_t *capture)
{
    struct sim_stream *stream = sim_stream_of(handle);
    pthread_mutex_lock(&sim_lock);
    *capture = sim_capture_id(stream);
    pthread_mutex_unlock(&sim_lock);
    return ncclSuccess;
}

struct host_function {
    void (*function)(void *);
    void *argument;
};

static void call_host(const void *args)
{
    const struct host_function *host = args;
    host->function(host->argument);
}

static ncclResult_t put_host_function(cudaStream_t stream, void (*function)(void *), void *argument)
{
    struct host_function host = {function, argument};
    struct sim_kernel *kernel = sim_kernel_make(call_host, &host, sizeof host);
    ncclResult_t rc =
        sim_put(sim_stream_of(stream), (struct sim_op){.kind = SIM_RUN, .kernel = kernel});
    pthread_mutex_lock(&sim_lock);
    sim_kernel_put(kernel);
    pthread_mutex_unlock(&sim_lock);
    return rc;
}

/* ---- events ---- */

static struct sim_event *event_of(chorus_event_t event)
{
    return (struct sim_event *)(void *)event;
}

static ncclResult_t create_event(chorus_event_t *event)
{
    if (event == NULL) return ccl_err(ncclInvalidArgument, "event_create: event is NULL");
    *event = (chorus_event_t)(void *)sim_event_make();
    return ncclSuccess;
}

static ncclResult_t destroy_event(chorus_event_t event)
{
    pthread_mutex_lock(&sim_lock);
    sim_event_put(event_of(event));
    pthread_mutex_unlock(&sim_lock);
    return ncclSuccess;
}

static ncclResult_t put_event(enum sim_kind kind, chorus_event_t event, cudaStream_t stream,
                              int is_outside)
{
    struct sim_op op = {.kind = kind, .event = event_of(event), .is_outside = is_outside};
    return sim_put(sim_stream_of(stream), op);
}

static ncclResult_t record_event(chorus_event_t event, cudaStream_t stream)
{
    return put_event(SIM_RECORD, event, stream, 0);
}

static ncclResult_t record_outside(chorus_event_t event, cudaStream_t stream)
{
    return put_event(SIM_RECORD, event, stream, 1);
}

static ncclResult_t follow_event(cudaStream_t stream, chorus_event_t event)
{
    return put_event(SIM_FOLLOW, event, stream, 0);
}

static ncclResult_t follow_outside(cudaStream_t stream, chorus_event_t event)
{
    return put_event(SIM_FOLLOW, event, stream, 1);
}

/* Of an event whose latest record was captured the driver tells nothing. */
static ncclResult_t query_event(chorus_event_t handle, int *done)
{
    const struct sim_event *event = event_of(handle);
    if (done == NULL) return ccl_err(ncclInvalidArgument, "event_query: done is NULL");
    pthread_mutex_lock(&sim_lock);
    int is_captured = event->capture != 0;
    *done = sim_event_is_done(event, event->issued);
    pthread_mutex_unlock(&sim_lock);
    return is_captured ? ccl_err(ncclUnhandledCudaError, "the event was captured") : ncclSuccess;
}

static ncclResult_t sync_event(chorus_event_t handle)
{
    const struct sim_event *event = event_of(handle);
    pthread_mutex_lock(&sim_lock);
    uint64_t issued = event->issued;
    while (!sim_event_is_done(event, issued)) pthread_cond_wait(&sim_changed, &sim_lock);
    pthread_mutex_unlock(&sim_lock);
    return ncclSuccess;
}

static ncclResult_t tell_elapsed(chorus_event_t from, chorus_event_t to, float *milliseconds)
{
    const struct sim_event *first = event_of(from), *last = event_of(to);
    if (milliseconds == NULL)
        return ccl_err(ncclInvalidArgument, "event_elapsed: milliseconds is NULL");
    pthread_mutex_lock(&sim_lock);
    int are_done = first->issued > 0 && sim_event_is_done(first, first->issued) &&
                   last->issued > 0 && sim_event_is_done(last, last->issued);
    *milliseconds = (float)(int64_t)(last->done_ns - first->done_ns) / 1e6F;
    pthread_mutex_unlock(&sim_lock);
    if (are_done) return ncclSuccess;
    return ccl_err(ncclInvalidUsage, "event_elapsed: an event is not completed");
}

/* ---- words ---- */

static ncclResult_t map_words(void *memory, size_t bytes, void **mapped)
{
    (void)bytes;
    *mapped = memory;
    return ncclSuccess;
}

static ncclResult_t unmap_words(void *memory)
{
    (void)memory;
    return ncclSuccess;
}

static ncclResult_t write_word(cudaStream_t stream, uint32_t *word, uint32_t value)
{
    struct sim_op op = {.kind = SIM_STORE, .word = word, .value = value};
    return sim_put(sim_stream_of(stream), op);
}

static ncclResult_t wait_word(cudaStream_t stream, const uint32_t *word, uint32_t value)
{
    struct sim_op op = {.kind = SIM_AWAIT, .word = (uint32_t *)(uintptr_t)word, .value = value};
    return sim_put(sim_stream_of(stream), op);
}

static ncclResult_t take_word(cudaStream_t stream, uint32_t *word)
{
    struct sim_op op = {.kind = SIM_AWAIT, .word = word, .value = 1, .is_equal = 1};
    TRY(sim_put(sim_stream_of(stream), op));
    return write_word(stream, word, 0);
}

/* ---- the rest ---- */

static ncclResult_t launch(cudaStream_t stream, const struct ccl_launch_spec *spec)
{
    if (spec->cuda(spec->args, stream) == 0) return ncclSuccess;
    return ccl_err(ncclUnhandledCudaError, "kernel launch: refused by the simulated GPU");
}

static void get_arena(struct ccl_arena *out)
{
    *out = (struct ccl_arena){.fd = -1};
}

static void advance(void)
{
}

static ncclResult_t succeed(void)
{
    return ncclSuccess;
}

static void drop(void)
{
}

static int help_until(int (*ready)(void *arg), void *arg, uint32_t timeout_us)
{
    uint64_t start_ns = ccl_clock_ns();
    uint32_t naps = 0;
    for (;;) {
        if (ready(arg)) return 1;
        if ((ccl_clock_ns() - start_ns) / 1000 >= timeout_us) return 0;
        sim_nap(&naps);
    }
}

const struct ccl_device_ops ccl_device_cuda = {
    .base =
        {
            .size = sizeof(struct chorus_devices),
            .kind = "cuda",
            .count = get_count,
            .get = get_device,
            .set = set_device,
            .info = get_info,
            .alloc = alloc_memory,
            .free = free_memory,
            .stream_create = create_stream,
            .stream_destroy = destroy_stream,
            .stream_sync = sync_stream,
            .stream_query = query_stream,
            .stream_wait = follow_event,
            .event_create = create_event,
            .event_destroy = destroy_event,
            .event_record = record_event,
            .event_sync = sync_event,
            .event_query = query_event,
            .event_elapsed = tell_elapsed,
            .copy = copy_memory,
            .fill = fill_memory,
            .host_func = put_host_function,
            .reset = succeed,
        },
    .enter = enter,
    .leave = leave,
    .identity = get_identity,
    .memory_fault = find_fault,
    .lanes = count_lanes,
    .stream_device = find_device,
    .queues = count_queues,
    .capability = get_capability,
    .capture = find_capture,
    .event_make = create_event,
    .stream_make = create_stream,
    .event_record_outside = record_outside,
    .stream_wait_outside = follow_outside,
    .flags_alloc = sim_flags_alloc,
    .flags_free = sim_pool_free,
    .words_alloc = sim_words_alloc,
    .words_free = sim_pool_free,
    .words_map = map_words,
    .words_unmap = unmap_words,
    .word_write = write_word,
    .word_wait = wait_word,
    .word_take = take_word,
    .foreign = &sim_foreign,
    .launch = launch,
    .launches_block = sim_launches_block,
    .arena = get_arena,
    .advance = advance,
    .hold = succeed,
    .drop = drop,
    .help_until = help_until,
};
