/* bench.h: what the parts of bench_fold share: one operation with its buffers, and its time.
 *
 * Operations rotate through buffers until what they touch no longer fits the second-level cache.
 * Times are the best of several runs of many launches: back to back on a stream, or as a graph,
 * which takes the CPU's share off.
 */
#ifndef GPU_BENCH_H
#define GPU_BENCH_H

#include "gpu/kit.h"

struct bench {
    struct kit_gpu gpu;
    char *pool;
    uint64_t pool_bytes;
    double ceiling; /* bytes read and written a second by the best copy */
};

/* A collective of floats (or `type`) on n ranks. */
struct bench_op {
    const struct kit_coll *coll;
    const struct kit_type *type;
    int n;
    uint64_t size_bytes;   /* of a rank's larger buffer */
    uint64_t shift[2];     /* bytes that rank r's input and output lie off 16 times r */
    uint64_t bytes, count; /* read and written; elements of a block */
    struct kit_sched made;
    struct ccl_work work; /* the first rotation */
    uint64_t stride;      /* bytes from one rotation to the next */
    uint32_t nrotations;
};

/* Lays the buffers out; the caller sets coll, type, n, size_bytes and shift before. */
void bench_op_make(struct bench *bench, struct bench_op *op);
void bench_op_free(struct bench_op *op);
/* The work of the i-th launch. */
struct ccl_work bench_op_turn(const struct bench_op *op, uint32_t i);
/* Fills the inputs of the first rotation of an operation of floats, runs launch(0), counts wrong
 * elements of the outputs. */
struct bench_launcher {
    void (*launch)(void *what, uint32_t i);
    void *what;
};
unsigned bench_op_check(struct bench *bench, const struct bench_op *op,
                        struct bench_launcher launcher);

/* Microseconds a launch. */
double bench_stream_us(struct bench *bench, struct bench_launcher launcher, uint32_t nlaunches);
double bench_graph_us(struct bench *bench, struct bench_launcher launcher, uint32_t nlaunches);

/* bench_bulk.cu */
void bench_bulk(struct bench *bench);
/* bench_sweep.cu */
void bench_sweep_large(struct bench *bench);
void bench_sweep_small(struct bench *bench);

#endif
