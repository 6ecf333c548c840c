/* Events of host devices: each recording is an object of its own (struct ccl_host_record).
 *
 * Called through the device table. A wait captures the recording that is the latest when it is
 * called; a wait for an event that was never recorded waits for nothing. Invariant: an event
 * holds one reference to its latest recording, operations and waiting threads hold theirs.
 */
#include "device/host_engine.h"

#include "base/alloc.h"
#include "base/err.h"

enum { EVENT_MAGIC = 0x65766e74 };

struct chorus_event {
    uint32_t magic;
    struct ccl_host_record *record; /* the latest, NULL before any */
    struct chorus_event *next;      /* free list */
};

static struct chorus_event *free_events; /* under the engine lock */

static ncclResult_t check_event(chorus_event_t event)
{
    uintptr_t bits = (uintptr_t)event;
    if (bits < 4096 || bits % _Alignof(struct chorus_event) != 0 || event->magic != EVENT_MAGIC)
        return ccl_err(ncclInvalidArgument, "event %p is no event of a host device", (void *)event);
    return ncclSuccess;
}

ncclResult_t ccl_host_event_create(chorus_event_t *event)
{
    if (event == NULL) return ccl_err(ncclInvalidArgument, "event_create: event is NULL");
    struct chorus_event *made;
    ccl_host_lock();
    made = free_events;
    if (made != NULL) free_events = made->next;
    ccl_host_unlock();
    if (made == NULL) TRY(CCL_NEW(&made, 1));
    made->record = NULL;
    made->magic = EVENT_MAGIC;
    *event = made;
    return ncclSuccess;
}

ncclResult_t ccl_host_event_destroy(chorus_event_t event)
{
    TRY(check_event(event));
    ccl_host_lock();
    ccl_host_record_drop(event->record);
    event->record = NULL;
    event->magic = 0;
    event->next = free_events;
    free_events = event;
    ccl_host_unlock();
    return ncclSuccess;
}

ncclResult_t ccl_host_event_record(chorus_event_t event, cudaStream_t handle)
{
    struct ccl_host_stream *stream = NULL;
    struct ccl_host_request req = {.kind = CCL_HOST_RECORD};
    TRY(check_event(event));
    TRY(ccl_host_stream_find(handle, &stream));
    ccl_host_lock();
    ncclResult_t rc = ccl_host_record_new(&req.record);
    ccl_host_unlock();
    TRY(rc);
    rc = ccl_host_enqueue(stream, &req);
    ccl_host_lock();
    struct ccl_host_record *dropped = req.record;
    if (rc == ncclSuccess) {
        dropped = event->record;
        event->record = req.record;
    }
    ccl_host_record_drop(dropped);
    ccl_host_unlock();
    return rc;
}

/* The latest recording with a reference for the caller, or NULL. */
static struct ccl_host_record *latest_record(chorus_event_t event)
{
    ccl_host_lock();
    struct ccl_host_record *record = event->record;
    if (record != NULL) record->refs++;
    ccl_host_unlock();
    return record;
}

static void release_record(struct ccl_host_record *record)
{
    ccl_host_lock();
    ccl_host_record_drop(record);
    ccl_host_unlock();
}

ncclResult_t ccl_host_event_wait(cudaStream_t handle, chorus_event_t event)
{
    struct ccl_host_stream *stream = NULL;
    TRY(ccl_host_stream_find(handle, &stream));
    TRY(check_event(event));
    struct ccl_host_record *record = latest_record(event);
    if (record == NULL) return ncclSuccess;
    struct ccl_host_request req = {.kind = CCL_HOST_WAIT, .record = record};
    ncclResult_t rc = ccl_host_enqueue(stream, &req);
    release_record(record);
    return rc;
}

ncclResult_t ccl_host_event_sync(chorus_event_t event)
{
    TRY(check_event(event));
    struct ccl_host_record *record = latest_record(event);
    if (record == NULL) return ncclSuccess;
    struct ccl_host_goal goal = {.word = &record->done, .value = 1};
    ccl_host_give_own();
    ccl_host_wait(&goal);
    release_record(record);
    return ncclSuccess;
}

ncclResult_t ccl_host_event_query(chorus_event_t event, int *done)
{
    if (done == NULL) return ccl_err(ncclInvalidArgument, "event_query: done is NULL");
    TRY(check_event(event));
    ccl_host_lock();
    /* The lock orders it after what the record's stream did before. */
    *done = event->record == NULL ||
            atomic_load_explicit(&event->record->done, memory_order_acquire) != 0;
    ccl_host_unlock();
    return ncclSuccess;
}

/* Completion time of the latest recording, 0 when there is none. */
static uint64_t completion_ns(chorus_event_t event)
{
    const struct ccl_host_record *record = event->record;
    if (record == NULL || !atomic_load_explicit(&record->done, memory_order_acquire)) return 0;
    return record->time_ns;
}

ncclResult_t ccl_host_event_elapsed(chorus_event_t from, chorus_event_t to, float *milliseconds)
{
    if (milliseconds == NULL)
        return ccl_err(ncclInvalidArgument, "event_elapsed: milliseconds is NULL");
    TRY(check_event(from));
    TRY(check_event(to));
    ccl_host_lock();
    uint64_t from_ns = completion_ns(from), to_ns = completion_ns(to);
    ccl_host_unlock();
    if (from_ns == 0 || to_ns == 0)
        return ccl_err(ncclInvalidUsage, "event_elapsed: event %p has not completed a recording",
                       (void *)(from_ns == 0 ? from : to));
    *milliseconds = (float)((double)(int64_t)(to_ns - from_ns) * 1e-6);
    return ncclSuccess;
}

/* For reset: frees destroyed events. */
void ccl_host_event_pool_free(void)
{
    while (free_events != NULL) {
        struct chorus_event *event = free_events;
        free_events = event->next;
        ccl_free(event);
    }
}
