/* track.c: the table of streams, searched from its latest use. */
#include "core/track.h"

#include "base/alloc.h"
#include "base/err.h"

/* Of the default stream of a thread the thread is the name. */
const void *ccl_track_name(cudaStream_t stream)
{
    static _Thread_local char of_thread;
    return (uintptr_t)stream == CCL_STREAM_PER_THREAD ? &of_thread : (const void *)stream;
}

static int is_done(struct ccl_track_entry *entry)
{
    int done = 1;
    if (entry->is_armed && ccl_device()->base.event_query(entry->event, &done) != ncclSuccess)
        done = 1; /* a device in error finishes nothing any more */
    if (done) entry->is_armed = 0;
    return done;
}

/* One of this stream, or one whose stream is idle. */
static struct ccl_track_entry *find_entry(struct ccl_track *track, const void *name, int rank)
{
    for (size_t i = 0; i < track->n; i++)
        if (track->entries[i].stream == name && track->entries[i].rank == rank)
            return &track->entries[i];
    for (size_t i = 0; i < track->n; i++)
        if (is_done(&track->entries[i])) return &track->entries[i];
    return NULL;
}

static ncclResult_t add_entry(struct ccl_track *track, struct ccl_track_entry **out)
{
    TRY(ccl_grow((void **)&track->entries, track->n, &track->room, sizeof *track->entries));
    struct ccl_track_entry *entry = &track->entries[track->n];
    *entry = (struct ccl_track_entry){.stream = NULL};
    TRY(ccl_device()->event_make(&entry->event));
    track->n++;
    *out = entry;
    return ncclSuccess;
}

ncclResult_t ccl_track_add(struct ccl_track *track, cudaStream_t stream, int rank)
{
    if (ccl_device()->retires) return ncclSuccess;
    const void *name = ccl_track_name(stream);
    struct ccl_track_entry *entry = find_entry(track, name, rank);
    if (entry == NULL) TRY(add_entry(track, &entry));
    entry->stream = name;
    entry->rank = rank;
    TRY(ccl_device()->base.event_record(entry->event, stream));
    entry->is_armed = 1;
    return ncclSuccess;
}

int ccl_track_is_idle(struct ccl_track *track, int rank)
{
    for (size_t i = 0; i < track->n; i++) {
        struct ccl_track_entry *entry = &track->entries[i];
        int counts = rank == CCL_TRACK_ALL || entry->rank == CCL_TRACK_ALL || entry->rank == rank;
        if (counts && !is_done(entry)) return 0;
    }
    return 1;
}

void ccl_track_free(struct ccl_track *track)
{
    for (size_t i = 0; i < track->n; i++) ccl_device()->base.event_destroy(track->entries[i].event);
    ccl_free(track->entries);
    *track = (struct ccl_track){NULL, 0, 0};
}
