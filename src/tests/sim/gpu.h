/* A GPU that is simulated, between its files: streams over a few hardware queues, events, kernels,
 * captures. It takes the place of the CUDA device in test programs (SIM_GPU_TESTS in tests.mk) and
 * is no part of the library. src/tests/README.md says what it is like a GPU in, and what not.
 *
 * One lock guards all of it; what says "under the lock" is called with it held. A failure of the
 * simulation itself ends the program.
 */
#ifndef SIM_GPU_H
#define SIM_GPU_H

#include "device/device.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* ---- gpu_queue.c: streams and what runs on them ---- */

enum sim_kind {
    SIM_RECORD, /* of an event */
    SIM_FOLLOW, /* waits for an event */
    SIM_STORE,  /* writes a word of the host */
    SIM_AWAIT,  /* waits for one */
    SIM_COPY,
    SIM_FILL,
    SIM_RUN, /* a kernel, or a function of the host */
};

/* Records are counted: a wait is for the latest before it was called. Freed with the last
 * operation that names it. Records are done in any order, as they may be of several streams. */
struct sim_event {
    uint64_t issued;   /* records so far */
    uint64_t *pending; /* [npending] numbers of those that are not done */
    size_t npending;
    uint64_t done_ns;
    uint32_t refs;
    struct sim_event *captured; /* what stands for the latest record, which was captured */
    uint64_t capture;           /* the number of that capture; 0: none */
};

/* What a kernel is: a function and a copy of its arguments; shared by replays. */
struct sim_kernel {
    void (*run)(const void *args);
    uint32_t refs;
    size_t bytes;
    _Alignas(64) char args[];
};

struct sim_op {
    struct sim_op *next;
    enum sim_kind kind;
    struct sim_stream *stream;
    struct sim_event *event;
    uint64_t ticket;
    uint32_t *word, value;
    int is_equal; /* AWAIT: exactly `value`, else that or later */
    void *to;
    const void *from;
    size_t bytes;
    int byte;
    int is_outside; /* RECORD, FOLLOW: in a capture too, the event itself */
    char *kept;     /* COPY: `from`, when it is the operation's own */
    struct sim_kernel *kernel;
};

/* Freed when it is destroyed and idle. */
struct sim_stream {
    struct sim_stream *next;
    uint32_t place, queue;
    uint64_t queued, done;
    uint64_t mark;        /* of `queued`, by who waits for the whole device */
    int runs;             /* a kernel of it */
    struct sim_op *after; /* records behind that kernel */
    int is_destroyed;
    struct sim_capture *capture; /* it is part of; NULL: it runs */
    uint32_t branch;
};

extern pthread_mutex_t sim_lock;
extern pthread_cond_t sim_changed; /* some operation is done */

uint32_t sim_queues(void);
int sim_launches_block(void);

struct sim_stream *sim_stream_make(void);
void sim_stream_destroy(struct sim_stream *stream);
/* A handle, which may be one that the runtime defines. */
struct sim_stream *sim_stream_of(cudaStream_t handle);
/* All that was put before is done. */
void sim_stream_drain(struct sim_stream *stream);
void sim_device_drain(void);
int sim_stream_is_idle(struct sim_stream *stream);

struct sim_event *sim_event_make(void);
/* Under the lock. */
void sim_event_put(struct sim_event *event);
/* Whether the record of this number is done; the lock is held. */
int sim_event_is_done(const struct sim_event *event, uint64_t record);

/* Queues a copy of the operation, or adds it to the capture that the stream is part of. */
ncclResult_t sim_put(struct sim_stream *stream, struct sim_op op);
/* The same for a stream that runs, under the lock. */
void sim_queue(struct sim_stream *stream, const struct sim_op *op);

/* Memory of the simulation itself: never NULL, zeroed. */
void *sim_need(size_t bytes);

/* ---- gpu_kernel.c ---- */

struct sim_kernel *sim_kernel_make(void (*run)(const void *), const void *args, size_t bytes);
/* Under the lock. */
void sim_kernel_put(struct sim_kernel *kernel);
/* Runs a kernel on a thread, then calls sim_kernel_done. Under the lock. */
void sim_kernel_start(struct sim_op *op);
void sim_kernel_done(struct sim_op *op);
/* Starts the thread of a body that never returns, as the driver's are called. */
void sim_thread(void *(*body)(void *), void *argument, const char *name);
/* A pause of somebody who polls; `naps` counts them. */
void sim_nap(uint32_t *naps);

/* ---- gpu_graph.c ---- */

/* All under the lock. */
ncclResult_t sim_capture_add(struct sim_stream *stream, const struct sim_op *op);
/* Before a wait for an event of a capture, which makes the stream part of it. */
ncclResult_t sim_capture_join(struct sim_stream *stream, const struct sim_op *op);
uint64_t sim_capture_id(const struct sim_stream *stream);

/* ---- gpu_memory.c ---- */

/* A piece of memory as the driver knows it. Addresses are used again, numbers are not. */
struct sim_block {
    struct sim_block *next; /* by address */
    char *base;
    size_t bytes;
    uint64_t id;
    int is_shared; /* other processes can map it */
};

void *sim_alloc(size_t bytes, int is_shared);
/* 0: there is no such block. */
int sim_free(void *memory);
/* The block that an address lies in, copied; 0: none. */
int sim_find_block(const void *address, struct sim_block *out);
/* Whether a block has not been freed. */
int sim_has_block(uint64_t id);
/* The memfd of all blocks, and where a block lies in it. */
int sim_memory_fd(void);
uint64_t sim_memory_place(const void *address);

ncclResult_t sim_flags_alloc(void **memory, size_t bytes);
ncclResult_t sim_words_alloc(void **memory, size_t bytes);
ncclResult_t sim_pool_free(void *memory);

/* ---- gpu_foreign.c ---- */

extern const struct ccl_foreign_ops sim_foreign;

#endif
