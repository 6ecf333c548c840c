/* world.h: several executors whose kernels run at once, on one GPU or spread over some, with the
 * connections and meetings between them; and the same operation on the host, to compare with.
 *
 * What core and the transports do for a communicator is done here in a few lines: memory of each
 * executor's device holds its FIFOs, its ends of connections, its areas, and the schedules of the
 * operation at hand.
 */
#ifndef GPU_WORLD_H
#define GPU_WORLD_H

#include "gpu/kit.h"
#include "kernel/cuda_conn.h"

enum { WORLD_EXECS = 8, WORLD_RANKS = 24, WORLD_CHANNELS = 32 };

struct world_shape {
    int nexecs, nranks, nchannels, ngpus; /* executor e runs on GPU e % ngpus */
    uint8_t exec_of[WORLD_RANKS];
    uint32_t slot_bytes[CCL_NPROTOS];
    uint16_t depth[CCL_NPROTOS];
    uint64_t first_seq; /* messages that have passed each connection before */
};

/* Memory that host and kernels share. */
struct world_words {
    uint32_t abort, error;
    uint64_t note[WORLD_EXECS], second[WORLD_EXECS];
};

struct world_exec {
    struct ccl_view view;
    int device;
    cudaStream_t stream;
    char *memory; /* of the device */
    uint64_t bytes, used;
    int is_outside;              /* its buffers are out of reach */
    struct ccl_cuda_meet *meets; /* [nchannels] in that memory */
    char *areas[WORLD_CHANNELS]; /* there too */
    struct ccl_cuda_conn *conns[CCL_NPROTOS][WORLD_EXECS][2][WORLD_CHANNELS]; /* by peer, is_send */
};

struct world {
    struct world_shape shape;
    uint16_t rank_of[WORLD_RANKS], slot_of[WORLD_RANKS], first_slot[WORLD_EXECS + 1];
    struct world_exec execs[WORLD_EXECS];
    struct world_words *words;
};

/* An operation. The first part is the caller's. */
struct world_op {
    enum ccl_sched_coll coll;
    const struct ccl_algo_ops *algo, *second; /* second: where a buffer is out of reach; or NULL */
    enum ccl_proto proto;
    int root;    /* -1: none */
    int outside; /* executor whose buffers are out of reach; -1: none */
    const struct kit_type *type;
    uint64_t count;
    enum ccl_redop_kind redop;
    int flags; /* of the work */
    uint64_t signature;
    struct ccl_slot slots[WORLD_RANKS]; /* by slot, on the host */

    struct ccl_sched scheds[WORLD_EXECS][2]; /* by body */
    struct ccl_work works[WORLD_EXECS];      /* for the GPU */
    uint64_t marks[WORLD_EXECS];             /* memory used before */
};

/* Shapes of n executors with 1 to 3 ranks each, in any order. */
void world_shape_make(struct world_shape *shape, int nexecs, int nchannels, uint64_t *random);
void world_open(struct world *world, const struct world_shape *shape);
void world_close(struct world *world);

/* 1 when the algorithm can do the operation in this world. */
int world_supports(const struct world *world, const struct world_op *op);
/* Makes the schedules and puts them on the devices; `shift` is from an address on the host to that
 * of the same byte on the GPU. Freed by world_op_free. */
void world_op_make(struct world *world, struct world_op *op, intptr_t shift);
void world_op_free(struct world *world, struct world_op *op);
/* Launches the kernel of one executor on its stream. */
void world_launch(struct world *world, const struct world_op *op, int exec);
/* Waits until all streams are idle; 0 when they are not within limit_ms, and aborts then. */
int world_wait(struct world *world, unsigned limit_ms);

/* The work of an executor as far as host and GPU have it in common. */
void world_fill(const struct world *world, const struct world_op *op, int exec,
                struct ccl_work *work);
/* Runs the operation on the host, by the interpreter, with the protocol Simple. */
void world_run_host(const struct world *world, const struct world_op *op);

#endif
