/* chorus.h: what this library offers beyond nccl.h. All names start with chorus_.
 *
 * A program that must also run on another libnccl declares these weak and tests for NULL.
 */
#ifndef CHORUS_H
#define CHORUS_H

#include "nccl.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CHORUS_API __attribute__((visibility("default")))

typedef struct chorus_event *chorus_event_t;

/* What a device is. */
struct chorus_device_info {
    char name[64];      /* "host device 3" or the GPU's name */
    char pci[24];       /* "0000:3b:00" on a GPU; "host:03" on a host device */
    size_t total_bytes; /* of the device's memory; a host device counts the RAM of the host */
    size_t free_bytes;  /* free now */
};

/* The devices of this process: the same table for GPUs and for host devices (virtual devices
 * whose memory is RAM and whose streams are served by threads). Every function returns
 * ncclSuccess or an error whose text ncclGetLastError(NULL) gives, and is thread-safe unless two
 * threads destroy the same object. The current device is per thread and starts as 0.
 *
 * A cudaStream_t of a host device comes from stream_create; NULL, and the handles 1 and 2 that
 * CUDA reserves, are the default stream of the current device. Streams run in order,
 * asynchronously, and progress without anyone waiting for them. Host devices belong to the
 * process that uses them: a child of fork() must not use its parent's, it may exec or exit. */
struct chorus_devices {
    size_t size;      /* sizeof this struct in the library: later fields exist if it says so */
    const char *kind; /* "host" or "cuda" */

    ncclResult_t (*count)(int *ndevices);
    ncclResult_t (*get)(int *device);
    ncclResult_t (*set)(int device);
    ncclResult_t (*info)(int device, struct chorus_device_info *info);

    /* Memory of the current device, at least 256-byte aligned. free waits for nothing. */
    ncclResult_t (*alloc)(void **memory, size_t bytes);
    ncclResult_t (*free)(void *memory);

    ncclResult_t (*stream_create)(cudaStream_t *stream);
    ncclResult_t (*stream_destroy)(cudaStream_t stream); /* waits until the stream is idle */
    ncclResult_t (*stream_sync)(cudaStream_t stream);    /* blocks; helps with the work */
    /* *idle = 1 when everything enqueued so far is done; never blocks. */
    ncclResult_t (*stream_query)(cudaStream_t stream, int *idle);
    ncclResult_t (*stream_wait)(cudaStream_t stream, chorus_event_t event);

    ncclResult_t (*event_create)(chorus_event_t *event);
    ncclResult_t (*event_destroy)(chorus_event_t event);
    ncclResult_t (*event_record)(chorus_event_t event, cudaStream_t stream);
    ncclResult_t (*event_sync)(chorus_event_t event);
    ncclResult_t (*event_query)(chorus_event_t event, int *done);
    /* Milliseconds between two completed events; ncclInvalidUsage when one is not completed. */
    ncclResult_t (*event_elapsed)(chorus_event_t from, chorus_event_t to, float *milliseconds);

    /* Asynchronous, in stream order; any mix of device and host memory. */
    ncclResult_t (*copy)(void *to, const void *from, size_t bytes, cudaStream_t stream);
    ncclResult_t (*fill)(void *memory, int byte, size_t bytes, cudaStream_t stream);
    /* host_func: on a thread of the library's, one function at a time; it may block. */
    ncclResult_t (*host_func)(cudaStream_t stream, void (*function)(void *), void *argument);

    /* Ends the worker threads of idle devices, so that a leak check finds none. Later calls
     * start them again. ncclInvalidUsage while work is queued. */
    ncclResult_t (*reset)(void);
};

/* The device table in use; never NULL, constant for the life of the process. */
CHORUS_API const struct chorus_devices *chorus_devices(void);

/* The git hash that the library was built from, "unknown" outside a checkout. */
CHORUS_API const char *chorus_git_hash(void);

/* Writes one line that says what this rank of `comm` is doing and whom it waits for, for example
 * "AllReduce #12: waits for ranks 3,7 (have not called)", "idle", or "inside a call" while another
 * thread is in one. Never blocks; any thread, any state of the communicator, but not beside its
 * destruction. Cuts at `bytes`. comm NULL: ncclInvalidArgument. */
CHORUS_API ncclResult_t chorus_comm_status(ncclComm_t comm, char *text, size_t bytes);

/* What a collective of a rank ran. The texts live as long as the communicator. */
struct chorus_choice {
    size_t size; /* sizeof this struct in the library: later fields exist if it says so */
    const char *collective; /* "AllReduce" */
    const char *algorithm; /* "ring", or the name in a schedule file; "pairwise": sends, receives */
    const char *protocol;  /* "LL" or "Simple"; "-" where nothing passes a connection */
    const char *transport; /* "memory", "p2p", "shm", "p2p+shm" */
    int channels;          /* that ran side by side */
    const char
        *join; /* how the ranks of a device came together: "events", "gates"; "none": alone */
};

/* The choice for the latest collective that `comm` has enqueued and all ranks of its device have
 * joined. Thread-safe, does not block. comm or choice NULL: ncclInvalidArgument; none yet:
 * ncclInvalidUsage. */
CHORUS_API ncclResult_t chorus_comm_last_choice(ncclComm_t comm, struct chorus_choice *choice);

/* Writes the schedule of that collective, for all ranks, to a file in the text form that
 * CHORUS_SCHEDULE_FILE reads. An existing file is replaced. ncclInvalidUsage when there is none,
 * or when the collective ran as sends and receives; ncclSystemError when the file cannot be
 * written. */
CHORUS_API ncclResult_t chorus_comm_save_schedule(ncclComm_t comm, const char *path);

#ifdef __cplusplus
}
#endif

#endif
