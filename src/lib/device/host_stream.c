/* Streams of host devices: handles, hardware queues, and what can be enqueued.
 *
 * Called through the device table. Invariant: a live stream carries the magic; the memory of a
 * destroyed one is kept until reset, so that a stale handle is refused instead of followed.
 */
#include "device/host_engine.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/param.h"

#include <string.h>

enum {
    STREAM_MAGIC = 0x73747265,
    LAST_SPECIAL_HANDLE = 2, /* NULL, 1 and 2 are the default stream */
    PIECE_BYTES = 1 << 20,   /* a copy lets others run after so many bytes */
    LANE_BYTES = 4 << 20,    /* and gets one lane for so many */
    MAX_COPY_LANES = 16,
};

struct queue_set {
    struct ccl_host_queue *queues; /* shared by the device's streams; NULL: one a stream */
    uint32_t next;
};

/* All under the engine lock. */
static struct queue_set queue_sets[CCL_HOST_MAX_DEVICES];
static struct ccl_host_stream *default_streams[CCL_HOST_MAX_DEVICES];
static struct ccl_host_stream *free_streams;
static uint32_t ncreated;

/* Gives the new stream its queue: its own, or the next of its device. */
static ncclResult_t assign_queue(struct ccl_host_stream *stream)
{
    uint32_t nqueues = (uint32_t)ccl_param_int(CCL_PARAM_HOST_QUEUES);
    struct queue_set *set = &queue_sets[stream->device];
    stream->queue = &stream->own_queue;
    if (nqueues == 0) return ncclSuccess;
    if (set->queues == NULL) TRY(CCL_NEW(&set->queues, nqueues));
    stream->queue = &set->queues[set->next++ % nqueues];
    return ncclSuccess;
}

static ncclResult_t make_stream(int device, struct ccl_host_stream **out)
{
    struct ccl_host_stream *stream = free_streams;
    if (stream != NULL)
        free_streams = stream->next;
    else
        TRY(CCL_NEW(&stream, 1));
    memset(&stream->own_queue, 0, sizeof stream->own_queue);
    atomic_store_explicit(&stream->submitted, 0, memory_order_relaxed);
    atomic_store_explicit(&stream->completed, 0, memory_order_relaxed);
    stream->device = device;
    ncclResult_t rc = assign_queue(stream);
    if (rc != ncclSuccess) {
        stream->next = free_streams;
        free_streams = stream;
        return rc;
    }
    stream->magic = STREAM_MAGIC;
    *out = stream;
    return ncclSuccess;
}

static void unmake_stream(struct ccl_host_stream *stream)
{
    ccl_host_end_keep(stream);
    stream->magic = 0;
    stream->next = free_streams;
    free_streams = stream;
}

static ncclResult_t find_default(struct ccl_host_stream **out)
{
    int device = ccl_host_device();
    ncclResult_t rc = ncclSuccess;
    ccl_host_lock();
    if (default_streams[device] == NULL) rc = make_stream(device, &default_streams[device]);
    *out = default_streams[device];
    ccl_host_unlock();
    return rc;
}

/* The stream behind a handle; ncclInvalidArgument names one that is no stream. `out` is written
 * in any case: a compiler that does not know that ccl_err returns no 0 warns of NULL else. */
ncclResult_t ccl_host_stream_find(cudaStream_t handle, struct ccl_host_stream **out)
{
    uintptr_t bits = (uintptr_t)handle;
    if (bits <= LAST_SPECIAL_HANDLE) return find_default(out);
    struct ccl_host_stream *stream = *out = (struct ccl_host_stream *)(void *)handle;
    if (bits % _Alignof(struct ccl_host_queue) != 0 || bits < 4096 || stream->magic != STREAM_MAGIC)
        return ccl_err(ncclInvalidArgument, "stream %p is no stream of a host device",
                       (void *)handle);
    return ncclSuccess;
}

ncclResult_t ccl_host_stream_create(cudaStream_t *stream)
{
    if (stream == NULL) return ccl_err(ncclInvalidArgument, "stream_create: stream is NULL");
    struct ccl_host_stream *made = NULL;
    ccl_host_lock();
    ncclResult_t rc = make_stream(ccl_host_device(), &made);
    if (rc == ncclSuccess) ncreated++;
    ccl_host_unlock();
    TRY(rc);
    *stream = (cudaStream_t)(void *)made;
    return ccl_host_hold();
}

static void wait_idle(struct ccl_host_stream *stream)
{
    struct ccl_host_goal goal = {
        .word = &stream->completed,
        .value = atomic_load_explicit(&stream->submitted, memory_order_acquire)};
    if (!ccl_host_run_kept(stream, goal.value)) ccl_host_wait(&goal);
}

ncclResult_t ccl_host_stream_destroy(cudaStream_t handle)
{
    struct ccl_host_stream *stream = NULL;
    if ((uintptr_t)handle <= LAST_SPECIAL_HANDLE)
        return ccl_err(ncclInvalidArgument,
                       "stream_destroy: the default stream cannot be destroyed");
    TRY(ccl_host_stream_find(handle, &stream));
    wait_idle(stream);
    ccl_host_claim(stream);
    unmake_stream(stream);
    ncreated--;
    ccl_host_release(stream);
    ccl_host_drop();
    return ncclSuccess;
}

ncclResult_t ccl_host_stream_sync(cudaStream_t handle)
{
    struct ccl_host_stream *stream = NULL;
    TRY(ccl_host_stream_find(handle, &stream));
    wait_idle(stream);
    return ncclSuccess;
}

ncclResult_t ccl_host_stream_query(cudaStream_t handle, int *idle)
{
    struct ccl_host_stream *stream = NULL;
    if (idle == NULL) return ccl_err(ncclInvalidArgument, "stream_query: idle is NULL");
    TRY(ccl_host_stream_find(handle, &stream));
    ccl_host_poll_kept(stream);
    uint64_t submitted = atomic_load_explicit(&stream->submitted, memory_order_relaxed);
    /* Acquire: a caller that sees its work done sees what the work wrote. */
    *idle = atomic_load_explicit(&stream->completed, memory_order_acquire) >= submitted;
    return ncclSuccess;
}

ncclResult_t ccl_host_stream_device(cudaStream_t handle, int *device)
{
    struct ccl_host_stream *stream = NULL;
    if (device == NULL) return ccl_err(ncclInvalidArgument, "stream_device: device is NULL");
    TRY(ccl_host_stream_find(handle, &stream));
    *device = stream->device;
    return ncclSuccess;
}

ncclResult_t ccl_host_launch(cudaStream_t handle, const struct ccl_launch_spec *spec)
{
    struct ccl_host_stream *stream = NULL;
    TRY(ccl_host_stream_find(handle, &stream));
    if (spec == NULL || spec->host == NULL || spec->nlanes == 0)
        return ccl_err(ncclInvalidArgument, "launch: a kernel needs a function and a lane");
    if (spec->args_bytes > CCL_LAUNCH_ARGS_BYTES)
        return ccl_err(ncclInvalidArgument, "launch: %zu bytes of arguments, at most %d",
                       spec->args_bytes, CCL_LAUNCH_ARGS_BYTES);
    if (spec->is_small && ccl_host_keep(stream, spec)) return ncclSuccess;
    return ccl_host_enqueue(stream,
                            &(struct ccl_host_request){.kind = CCL_HOST_KERNEL, .spec = spec});
}

/* Copies and fills are kernels of our own; their lanes take pieces in turn. */
struct move_args {
    unsigned char *to;
    const unsigned char *from; /* NULL: fill */
    size_t bytes;
    uint32_t nlanes;
    int byte;
};

static enum ccl_run run_move(void *args, uint32_t lane, struct ccl_cursor *cursor)
{
    const struct move_args *move = args;
    size_t piece = (size_t)cursor->word[0]++ * move->nlanes + lane;
    size_t at = piece * PIECE_BYTES;
    if (at >= move->bytes) return CCL_RUN_DONE;
    size_t bytes = move->bytes - at < PIECE_BYTES ? move->bytes - at : PIECE_BYTES;
    if (move->from != NULL)
        memcpy(move->to + at, move->from + at, bytes);
    else
        memset(move->to + at, move->byte, bytes);
    size_t next = at + (size_t)move->nlanes * PIECE_BYTES;
    return next < move->bytes ? CCL_RUN_MORE : CCL_RUN_DONE;
}

static ncclResult_t enqueue_move(cudaStream_t handle, struct move_args *move)
{
    uint32_t nworkers = ccl_host_nworkers();
    size_t nlanes = move->bytes / LANE_BYTES;
    if (nlanes > nworkers) nlanes = nworkers;
    if (nlanes > MAX_COPY_LANES) nlanes = MAX_COPY_LANES;
    move->nlanes = nlanes == 0 ? 1 : (uint32_t)nlanes;
    struct ccl_launch_spec spec = {
        .args = move, .args_bytes = sizeof *move, .nlanes = move->nlanes, .host = run_move};
    return ccl_host_launch(handle, &spec);
}

ncclResult_t ccl_host_copy(void *to, const void *from, size_t bytes, cudaStream_t handle)
{
    struct move_args move = {.to = to, .from = from, .bytes = bytes};
    if (bytes > 0 && (to == NULL || from == NULL))
        return ccl_err(ncclInvalidArgument, "copy: %s is NULL", to == NULL ? "to" : "from");
    if (to == from) move.bytes = 0;
    return enqueue_move(handle, &move);
}

ncclResult_t ccl_host_fill(void *memory, int byte, size_t bytes, cudaStream_t handle)
{
    struct move_args move = {.to = memory, .bytes = bytes, .byte = byte};
    if (bytes > 0 && memory == NULL) return ccl_err(ncclInvalidArgument, "fill: memory is NULL");
    return enqueue_move(handle, &move);
}

ncclResult_t ccl_host_func(cudaStream_t handle, void (*function)(void *), void *argument)
{
    struct ccl_host_stream *stream = NULL;
    TRY(ccl_host_stream_find(handle, &stream));
    if (function == NULL) return ccl_err(ncclInvalidArgument, "host_func: function is NULL");
    struct ccl_host_request req = {
        .kind = CCL_HOST_FUNC, .function = function, .argument = argument};
    return ccl_host_enqueue(stream, &req);
}

/* For reset: frees default streams, destroyed streams and, unless streams of the program use
 * them, the shared queues. Nothing is pending. */
void ccl_host_stream_pool_free(void)
{
    for (int i = 0; i < CCL_HOST_MAX_DEVICES; i++) {
        if (default_streams[i] != NULL) unmake_stream(default_streams[i]);
        default_streams[i] = NULL;
        if (ncreated > 0) continue;
        ccl_free(queue_sets[i].queues);
        queue_sets[i] = (struct queue_set){0};
    }
    while (free_streams != NULL) {
        struct ccl_host_stream *stream = free_streams;
        free_streams = stream->next;
        ccl_free(stream);
    }
}
