/* track.h: what an executor has launched on a device that calls nobody back: per stream an event
 * behind the latest launch.
 *
 * What only holds up one rank until others call, such as a gate, is that rank's own: another one
 * may leave meanwhile. Called with the executor's lock held; its device is current. On devices that
 * retire kernels (device/device.h) it does nothing and is always idle.
 */
#ifndef CCL_CORE_TRACK_H
#define CCL_CORE_TRACK_H

#include "device/device.h"

/* Instead of a rank: of all ranks of the executor. */
#define CCL_TRACK_ALL (-1)

/* The latest launch on a stream, for a rank or for all. */
struct ccl_track_entry {
    const void *stream;
    int rank;
    chorus_event_t event;
    int is_armed; /* the event was recorded, and not seen done */
};

struct ccl_track {
    struct ccl_track_entry *entries;
    size_t n, room;
};

/* What stands for a stream: the same handle may be another stream in each thread. */
const void *ccl_track_name(cudaStream_t stream);
/* Records an event behind what the stream holds now. */
ncclResult_t ccl_track_add(struct ccl_track *track, cudaStream_t stream, int rank);
/* Nothing that was launched for a rank, or for any, is unfinished. */
int ccl_track_is_idle(struct ccl_track *track, int rank);
void ccl_track_free(struct ccl_track *track);

#endif
