/* Devices as the core sees them: the public table plus kernel launches.
 *
 * core calls these; each backend (host, cuda) is one const struct ccl_device_ops at the bottom of
 * its file. Kernels of a host device are coroutines: they never block a thread.
 */
#ifndef CCL_DEVICE_DEVICE_H
#define CCL_DEVICE_DEVICE_H

#include "chorus.h"

#include <stdint.h>

/* What one lane (channel) of a kernel did when it was resumed. */
enum ccl_run {
    CCL_RUN_DONE,    /* this lane has finished and is not resumed again */
    CCL_RUN_BLOCKED, /* nothing to do until some flag changes; its writer rings the bell */
    CCL_RUN_MORE,    /* could go on at once, but lets others run */
};

/* Private state of a lane between resumptions, zeroed at launch. */
struct ccl_cursor {
    uint64_t word[8];
};

/* Runs lane `lane` as far as it can. Lanes of a launch may run at the same time on different
 * threads; one lane never does. A lane that publishes a flag rings the doorbell of the process
 * whose lane polls it, also when that is its own (ccl_bell_self). */
typedef enum ccl_run ccl_host_kernel(void *args, uint32_t lane, struct ccl_cursor *cursor);

/* Launches a kernel of the GPU on a stream; a cudaError_t. */
typedef int ccl_cuda_kernel(const void *args, cudaStream_t stream);

/* One kernel launch. `args` (at most CCL_LAUNCH_ARGS_BYTES) are copied at the call and 64-byte
 * aligned in the copy; the lanes share the copy. `retire`, if not NULL, is called once with
 * the copy after the last lane is done and before the stream moves on; it may not block. A GPU
 * calls nobody back: where `retires` is 0, an event tells when a kernel is done. */
enum { CCL_LAUNCH_ARGS_BYTES = 4000 };
struct ccl_launch_spec {
    const void *args;
    size_t args_bytes;
    uint32_t nlanes;
    int is_small; /* one lane, short runs: the calling thread may as well run it itself */
    ccl_host_kernel *host;
    ccl_cuda_kernel *cuda;
    void (*retire)(void *args);
};

/* Memory that other processes of the host can map, and where it lies in this one. */
struct ccl_arena {
    int fd; /* a sealed memfd, owned by the device; -1: there is no arena */
    void *base;
    size_t bytes;
};

/* The handle that means another stream in each thread. */
enum { CCL_STREAM_PER_THREAD = 2 };

/* Instead of a stream's device: it belongs to a context of the program's own. */
enum { CCL_STREAM_OF_OTHER_CONTEXT = -1 };

/* Queues of the hardware that the streams of a process on one device share. A stream at whose head
 * stands a wait holds one. */
struct ccl_queues {
    uint32_t n;
    int are_shared; /* with other processes (MPS), so that n tells nothing */
};

struct ccl_foreign_ops;
struct ccl_zone_ops;

struct ccl_device_ops {
    struct chorus_devices base;
    int retires; /* calls spec.retire */

    /* Makes a device current for calls of the core, and gives the thread back what it had, on a GPU
     * also a context of its own. *before is for leave. */
    ncclResult_t (*enter)(int device, void **before);
    void (*leave)(void *before);
    /* Text that is equal exactly for two handles of one physical device: ranks with equal texts
     * form an executor. A host device belongs to its process. */
    ncclResult_t (*identity)(int device, char text[64]);
    /* Why kernels of the device cannot use these bytes (at least 1), "is no memory of ..."; NULL:
     * they can. Looks at both ends on a GPU, at all of it on a host device. */
    const char *(*memory_fault)(int device, const void *memory, size_t bytes);
    /* How many lanes run at once with profit. */
    uint32_t (*lanes)(int device);
    /* The device of a stream, or CCL_STREAM_OF_OTHER_CONTEXT; ncclInvalidArgument for a handle that
     * is no stream. */
    ncclResult_t (*stream_device)(cudaStream_t stream, int *device);
    /* NULL: each stream has a queue of its own, as far as calls go. */
    struct ccl_queues (*queues)(int device);
    /* The compute capability of a GPU, 90 for 9.0. NULL: no GPU. */
    ncclResult_t (*capability)(int device, int *capability);
    /* *capture = which capture the stream is part of; 0: it runs. NULL: streams only run. */
    ncclResult_t (*capture)(cudaStream_t stream, uint64_t *capture);
    /* An event that only orders work: it keeps no time. And a stream of the library's own. Both
     * come from a stock of the current device, which stock_fill fills: a call that makes one may
     * have to wait for others. NULL: nothing is kept in stock. */
    void (*stock_fill)(void);
    ncclResult_t (*event_make)(chorus_event_t *event);
    ncclResult_t (*stream_make)(cudaStream_t *stream);
    /* For streams that capture: the graph records the event when it runs, or waits for what was
     * recorded outside of it. NULL: streams only run. */
    ncclResult_t (*event_record_outside)(chorus_event_t event, cudaStream_t stream);
    ncclResult_t (*stream_wait_outside)(cudaStream_t stream, chorus_event_t event);
    /* Zeroed memory of the current device for what kernels of one device tell each other, which
     * the host may not touch on a GPU; and zeroed words that the host and kernels of all devices
     * share. */
    ncclResult_t (*flags_alloc)(void **memory, size_t bytes);
    ncclResult_t (*flags_free)(void *memory);
    ncclResult_t (*words_alloc)(void **memory, size_t bytes);
    ncclResult_t (*words_free)(void *memory);
    /* Makes whole pages that several processes map such words as well; *mapped is what the device
     * calls them. And what a stream does with a word: to write it, after what it did before, and to
     * wait until it is `value` or later (by the sign of the difference). NULL: no such streams. */
    ncclResult_t (*words_map)(void *memory, size_t bytes, void **mapped);
    ncclResult_t (*words_unmap)(void *memory);
    ncclResult_t (*word_write)(cudaStream_t stream, uint32_t *word, uint32_t value);
    ncclResult_t (*word_wait)(cudaStream_t stream, const uint32_t *word, uint32_t value);
    /* For graphs, which cannot count: waits until the word is 1 and makes it 0 again. */
    ncclResult_t (*word_take)(cudaStream_t stream, uint32_t *word);
    const struct ccl_foreign_ops *foreign; /* device/foreign.h; NULL: there is none */
    const struct ccl_zone_ops *zones;      /* device/zone.h; NULL: there are none */

    ncclResult_t (*launch)(cudaStream_t stream, const struct ccl_launch_spec *spec);
    /* A launch returns when the kernel is done (CUDA_LAUNCH_BLOCKING): a gate would hold its
     * caller. NULL: it never does. */
    int (*launches_block)(void);
    /* The arena that large blocks of alloc lie in, made at the first call. */
    void (*arena)(struct ccl_arena *out);
    /* Lets what the thread has launched take its first step. Called after launches, with no lock
     * held that a retire function or another launch may want. */
    void (*advance)(void);
    /* Communicators hold the device's threads while they live. */
    ncclResult_t (*hold)(void);
    void (*drop)(void);
    /* Works and sleeps until ready(arg) is true (returns 1) or `timeout_us` is over (0). ready is
     * called often, on the calling thread, with no lock held; whoever makes it true rings the
     * doorbell of the process. The wait door of host-side waits (core/wait.c). */
    int (*help_until)(int (*ready)(void *arg), void *arg, uint32_t timeout_us);
};

/* The backend in use. Relaxed: whoever chooses, it is the same constant table. */
#ifndef __cplusplus
extern const struct ccl_device_ops *ccl_device_chosen;
const struct ccl_device_ops *ccl_device_choose(void);
static inline const struct ccl_device_ops *ccl_device(void)
{
    const struct ccl_device_ops *ops = __atomic_load_n(&ccl_device_chosen, __ATOMIC_RELAXED);
    return ops != NULL ? ops : ccl_device_choose();
}

/* Calls with the stream need its device to be current. */
static inline int ccl_needs_device(cudaStream_t stream)
{
    return !ccl_device()->retires || (uintptr_t)stream <= CCL_STREAM_PER_THREAD;
}
#endif

extern const struct ccl_device_ops ccl_device_host;

/* What only a library with CUDA has: NULL elsewhere, unless a program brings its own, as tests do.
 */
#ifdef CCL_CUDA
#define CCL_OF_CUDA
#define CCL_HAS_CUDA 1
#else
#define CCL_OF_CUDA  __attribute__((weak, visibility("hidden")))
#define CCL_HAS_CUDA (&ccl_device_cuda != NULL)
#endif
extern const struct ccl_device_ops ccl_device_cuda CCL_OF_CUDA;

/* GPUs that can be used; 0 without a driver, or with one that is too old. `why` (may be NULL) gets
 * a text then. */
int ccl_cuda_count(const char **why) CCL_OF_CUDA;

#endif
