/* Device buffers of a rank: one for sending, one for receiving, each with guard bytes around the
 * part that a row uses. A buffer larger than a row holds several slots; each iteration uses the
 * next one, so that the timed data is not always in the cache.
 */
#ifndef PERF_BUFFERS_H
#define PERF_BUFFERS_H

#include "harness/coll.h"

struct perf_rank;

struct perf_buffers {
    char *send, *recv; /* device memory, 256-byte aligned */
    size_t send_bytes, recv_bytes;
    int from_library;                /* they are ncclMemAlloc's */
    void *send_handle, *recv_handle; /* of ncclCommRegister */
    ncclWindow_t send_window, recv_window;
    void *scratch; /* device memory for verification (trial.h), or NULL */
};

/* One row's use of the buffers. */
struct perf_layout {
    size_t send_bytes, recv_bytes; /* of data, per rank */
    size_t send_offset,
        recv_offset;    /* in place: of the rank's parts in the shared data, in bytes */
    size_t shift_bytes; /* option -u: data starts this far behind the alignment */
    int in_place;
    size_t slots;
};

/* Where a call's data are in one slot. In place both lie in one area. */
struct perf_place {
    char *send, *recv;
    char *send_area, *recv_area; /* first data byte of the area; equal in place */
    size_t send_area_bytes, recv_area_bytes;
};

/* Bytes of one buffer that a row with this much data needs, guards included. */
size_t perf_buffer_need(size_t data_bytes, size_t shift_bytes);

/* How the library is told of them (-R). */
enum perf_registration { PERF_UNREGISTERED, PERF_REGISTERED, PERF_WINDOWS };

/* Allocates zeroed buffers on `device` and registers them with comm if asked; windows are for
 * perf_buffers_windows. Errors end the run. */
void perf_buffers_alloc(struct perf_buffers *buffers, int device,
                        enum perf_registration registration, ncclComm_t comm);
/* Makes both buffers of n ranks of this process symmetric windows; every process calls. */
void perf_buffers_windows(struct perf_rank *ranks, int n);
void perf_buffers_free(struct perf_buffers *buffers, int device, ncclComm_t comm);

/* Sets slots from what fits into the buffers. */
void perf_layout_slots(struct perf_layout *layout, const struct perf_buffers *buffers);
void perf_layout_place(const struct perf_layout *layout, const struct perf_buffers *buffers,
                       size_t slot, struct perf_place *place);

#endif
