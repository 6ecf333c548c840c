/* plan.h: schedules of an executor, made at the first use of a shape and kept.
 */
#ifndef CCL_CORE_PLAN_H
#define CCL_CORE_PLAN_H

#include "core/clique.h"

struct ccl_plan {
    struct ccl_plan *next;
    enum ccl_coll coll;
    int root;
    const struct ccl_algo_ops *algo;   /* NULL: from a file */
    const struct ccl_program *program; /* of that file */
    const char *name;
    enum ccl_proto proto;
    uint32_t slot_bytes;
    struct ccl_sched sched;
    struct ccl_conn **conns; /* [nchannels][nlinks] on host devices */
    /* On several GPUs: steps, then the same table of ends, as the device has them; the host's
     * original is memory that streams copy from. */
    char *on_device, *original;
    size_t bytes, table_at;
    int is_sent;             /* an eager launch has copied them */
    struct ccl_plan *second; /* runs instead when a buffer is out of reach; NULL: none is */
};

/* Equal where executors run the same plan, with high probability. */
uint64_t ccl_plan_sign(const struct ccl_plan *plan);

/* Bit c: something allowed can do enum ccl_coll c on this communicator's executors. */
uint32_t ccl_plan_possible(const struct ccl_exec *exec);
/* ncclInvalidUsage: nothing that NCCL_ALGO and NCCL_PROTO leave can do the operation. */
ncclResult_t ccl_plan_fail_empty(const struct ccl_exec *exec, const struct ccl_op *op);

/* The plan for an operation of `bytes` in a rank's largest buffer. Lock of the executor held.
 * ncclInvalidUsage when nothing that NCCL_ALGO and NCCL_PROTO leave can do it. */
ncclResult_t ccl_plan_get(struct ccl_exec *exec, const struct ccl_op *op, uint64_t bytes,
                          struct ccl_plan **out);
/* Before a kernel on several GPUs: what it reads of the plan is copied, on its stream, unless an
 * earlier launch has done so. `capture` as of the launch. */
ncclResult_t ccl_plan_send(struct ccl_plan *plan, cudaStream_t stream, uint64_t capture);
/* Microseconds as the cost model has them, whatever the file of schedules says: by a plan (0: from
 * that file); of an operation; of a rank's n halves of messages with so many bytes in all. */
double ccl_plan_us(const struct ccl_exec *exec, const struct ccl_plan *plan, uint64_t bytes);
double ccl_plan_estimate_us(const struct ccl_exec *exec, const struct ccl_op *op, uint64_t bytes);
double ccl_plan_messages_us(const struct ccl_exec *exec, uint64_t n, uint64_t bytes);
/* Bit p: an algorithm may run with protocol p in some operation of a collective. */
uint32_t ccl_plan_allowed(const struct ccl_exec *exec, enum ccl_coll coll,
                          const struct ccl_algo_ops *algo);

void ccl_plan_free(struct ccl_exec *exec);

#endif
