/* Devices of the drivers: a table of functions with two implementations, host devices of the
 * loaded library and GPUs through the CUDA runtime, so that a driver runs on any libnccl.so.2.
 * Which one, is chosen once per process, after it has forked what it forks.
 */
#ifndef PERF_DEVICES_H
#define PERF_DEVICES_H

#include "harness/cuda_values.h"

#include "chorus.h"

struct perf_device_info {
    char name[64];
    char pci[24];  /* "0000:3b:00", "host:03" */
    char uuid[48]; /* "GPU-…", "" on a host device */
    size_t total_bytes, free_bytes;
    size_t cache_bytes; /* the largest cache in front of its memory, 0: not known */
};

typedef struct perf_graph *perf_graph_t;

/* As struct chorus_devices (chorus.h), whose rules hold. A call that fails leaves its reason in
 * perf_devices_error. */
struct perf_device_ops {
    const char *kind; /* "host" or "cuda" */
    int host_visible; /* pointers into device memory are good for the CPU */

    ncclResult_t (*count)(int *ndevices);
    ncclResult_t (*set)(int device);
    /* A GPU becomes the current device, so that no context is made on another one. */
    ncclResult_t (*info)(int device, struct perf_device_info *info);
    ncclResult_t (*alloc)(void **memory, size_t bytes);
    ncclResult_t (*free)(void *memory);
    ncclResult_t (*copy)(void *to, const void *from, size_t bytes, cudaStream_t stream);
    ncclResult_t (*fill)(void *memory, int byte, size_t bytes, cudaStream_t stream);

    ncclResult_t (*stream_create)(cudaStream_t *stream);
    ncclResult_t (*stream_destroy)(cudaStream_t stream);
    ncclResult_t (*stream_sync)(cudaStream_t stream);
    ncclResult_t (*stream_wait)(cudaStream_t stream, chorus_event_t event);
    ncclResult_t (*event_create)(chorus_event_t *event);
    ncclResult_t (*event_destroy)(chorus_event_t event);
    ncclResult_t (*event_record)(chorus_event_t event, cudaStream_t stream);
    ncclResult_t (*event_query)(chorus_event_t event, int *done);
    ncclResult_t (*event_elapsed)(chorus_event_t from, chorus_event_t to, float *milliseconds);

    /* NULL on host devices. What is enqueued on the stream, and on streams that wait for its
     * events, between begin and end by this thread, becomes a graph. */
    ncclResult_t (*capture_begin)(cudaStream_t stream);
    ncclResult_t (*capture_end)(cudaStream_t stream, perf_graph_t *graph);
    ncclResult_t (*graph_launch)(perf_graph_t graph, cudaStream_t stream);
    ncclResult_t (*graph_destroy)(perf_graph_t graph);

    /* NULL where the CPU sees the memory and does it. */
    ncclResult_t (*values)(const struct perf_value_job *job, cudaStream_t stream);
};

/* Option --device, in the order of its words. */
enum perf_device_choice { PERF_DEVICE_AUTO, PERF_DEVICE_CUDA, PERF_DEVICE_HOST };

/* What the user wants. */
void perf_devices_prefer(enum perf_device_choice choice);

/* Chooses, once, for so many ranks on this host: sets CHORUS_DEVICE so that the library chooses
 * alike and, for more ranks than GPUs, NCCL_MULTI_RANK_GPU_ENABLE. The process must not fork
 * later. 0, or an exit code and why. */
int perf_devices_choose(int ranks, char *why, size_t bytes);

/* The table in use; chooses when nobody has, and then ends the process when there is nothing to
 * choose from. */
const struct perf_device_ops *perf_devices(void);

/* For tests: these are the devices from now on. */
void perf_devices_take(const struct perf_device_ops *ops);

/* Why host devices were chosen where GPUs could have been; "" when it needs no reason. */
const char *perf_devices_reason(void);

/* Whether this process has set NCCL_MULTI_RANK_GPU_ENABLE. */
int perf_devices_multi_rank(void);

/* The reason of the last failed call of this thread; "" when the library tells it. */
const char *perf_devices_error(void);

/* How many devices there are; ends the process with exit code 3 when there are none. */
int perf_device_count(void);

/* Whether pointers into device memory are good for the CPU. */
int perf_devices_host_visible(void);

/* The device of the rank with this number on its host: NCCL_TESTS_DEVICE + local, modulo the
 * count. A bad value of the variable exits 2. */
int perf_device_of(int local_rank);

/* Reads NCCL_TESTS_DEVICE; a bad value exits 2. Touches no device. */
void perf_devices_check(void);

/* --devices: lists them on stdout. */
void perf_devices_list(void);

/* ---- the implementations; each returns NULL, and why, when it cannot be used here ---- */
const struct perf_device_ops *perf_devices_host(char *why, size_t bytes);
const struct perf_device_ops *perf_devices_cuda(char *why, size_t bytes);
/* The reason of the last failed call into CUDA of this thread. */
const char *perf_devices_cuda_error(void);

#endif
