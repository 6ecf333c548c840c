/* track.h: what an executor has launched on a device that calls nobody back: per stream an event
 * behind the latest launch.
 *
 * Called by join.c, launch.c and pairs.c with the executor's lock held; its device is current. On
 * devices that retire kernels (device/device.h) it does nothing and is always idle.
 */
#ifndef CCL_CORE_TRACK_H
#define CCL_CORE_TRACK_H

#include "device/device.h"

/* The latest launch on a stream. */
struct ccl_track_entry {
    const void *stream;
    chorus_event_t event;
    int is_armed; /* the event was recorded, and not seen done */
};

struct ccl_track {
    struct ccl_track_entry *entries;
    size_t n, room;
};

/* Records an event behind what the stream holds now; *event (may be NULL) gets it: it is recorded
 * again by the next launch on that stream. */
ncclResult_t ccl_track_add(struct ccl_track *track, cudaStream_t stream, chorus_event_t *event);
/* Nothing that was launched is unfinished. */
int ccl_track_is_idle(struct ccl_track *track);
void ccl_track_free(struct ccl_track *track);

#endif
