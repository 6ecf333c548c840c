/* cuda_conn.h: what executors on GPUs share: the ends of their FIFOs and the areas in which they
 * meet. Plain C: core and the transports make them, the kernels (cuda_sched.h) use them.
 *
 * Everything starts as zeros and is then written by kernels alone, sequence numbers included, so
 * that a captured launch can be replayed. The kernels of an executor that share connections or
 * meetings run one after the other. What another executor polls lies where it polls: what a sender
 * writes in memory of the receiver's device, what a receiver gives back in memory of the sender's,
 * or both in pinned memory of the host where devices cannot reach each other.
 */
#ifndef CCL_KERNEL_CUDA_CONN_H
#define CCL_KERNEL_CUDA_CONN_H

#include "kernel/dev.h"
#include "kernel/work.h"

/* ---- connections ---- */

/* SIMPLE: what the sender says of its slots. A signature for each, by number of the message. */
struct ccl_cuda_flags {
    uint64_t ready; /* slots filled so far */
    uint64_t spare[15];
    uint64_t signs[CCL_FIFO_MAX_DEPTH];
};

/* At the receiver: the flags, then the slots. At the sender: a line with the count of slots that
 * were drained. Depths are those of work.h for LL and LL128. */
enum { CCL_CUDA_RING_AT = 1024, CCL_CUDA_CREDIT_BYTES = 128 };

/* Bytes from one slot to the next; slot_bytes of data, a multiple of 64. */
static inline size_t ccl_cuda_stride(enum ccl_proto proto, size_t slot_bytes)
{
    if (proto == CCL_PROTO_LL) return (CCL_LL_STRIDE(slot_bytes) + 127) / 128 * 128;
    if (proto == CCL_PROTO_LL128) return CCL_LL128_STRIDE(slot_bytes);
    return (slot_bytes + 127) / 128 * 128;
}

/* Bytes at the receiver, which start at a multiple of 128. */
static inline size_t ccl_cuda_fifo_bytes(enum ccl_proto proto, size_t slot_bytes, size_t depth)
{
    return CCL_CUDA_RING_AT + depth * ccl_cuda_stride(proto, slot_bytes);
}

/* One end of a FIFO, in memory of its executor's device. Addresses are as this device sees them. */
struct ccl_cuda_conn {
    struct ccl_cuda_flags *flags; /* at the receiver */
    char *ring;                   /* there, behind the flags */
    uint64_t *credit;             /* at the sender */
    uint64_t seq;                 /* slots filled (sender) or drained (receiver) so far */
    uint64_t credit_seen;         /* the sender's latest look at `credit` */
    uint32_t stride;
    uint16_t depth; /* 2 to CCL_FIFO_MAX_DEPTH */
    uint16_t peer;  /* executor */
    uint32_t slot;  /* seq % depth while a kernel runs */
    uint32_t spare[3];
};

/* ---- meetings ---- */

/* The area of an executor on a channel, in memory of its device; the others write to it. A pair of
 * words says itself that it is there, like a line of LL: value and number of the publication, in
 * halves. Two sets of what is published are used in turn, as in struct ccl_meet:
 *     [2][nslots][CCL_CUDA_SLOT_WORDS] pairs: input, output, factor of a slot
 *     [2][nexecs] pairs: signatures
 *     [nexecs] counts of meetings reached */
enum { CCL_CUDA_SLOT_WORDS = 3, CCL_CUDA_PAIR_BYTES = 16 };

static inline size_t ccl_cuda_area_bytes(size_t nslots, size_t nexecs)
{
    return 2 * (nslots * CCL_CUDA_SLOT_WORDS + nexecs) * CCL_CUDA_PAIR_BYTES + nexecs * 8;
}

/* What an executor knows of the meetings on a channel, in memory of its device. */
struct ccl_cuda_meet {
    char *const *areas;     /* [nexecs] as this device sees them, its own included */
    const uintptr_t *bases; /* [nslots] where place 0 of the slot's memory lies for this device */
    uintptr_t shared_bytes; /* of this executor's memory: places are below */
    uint64_t epoch;         /* meetings so far, without publications */
    uint64_t npublished;
    uint64_t spare[3];
};

/* ---- messages ---- */

/* One half of a message between ranks of two executors. Its bytes are cut into as many parts as
 * lanes pay, a connection each; both halves know the bytes and so cut alike. */
struct ccl_cuda_half {
    char *buffer;
    uint64_t bytes;
    struct ccl_cuda_conn *ends; /* [nlanes] of the pair of ranks, in one direction */
    uint16_t peer;              /* rank */
    uint8_t is_send, is_next;   /* is_next: goes behind the half before it, over the same ends */
    uint16_t run;               /* number of the row of such halves that it is in */
    uint16_t rank;              /* whose half it is */
};

enum { CCL_CUDA_LANE_BYTES = 32 << 10 }; /* bytes of a message that are worth a lane */

CCL_DEVICE uint32_t ccl_cuda_lanes(uint64_t bytes, uint32_t nlanes)
{
    uint64_t wanted = bytes / CCL_CUDA_LANE_BYTES;
    return wanted > nlanes ? nlanes : wanted > 1 ? (uint32_t)wanted : 1;
}

/* All halves of one launch, which progress side by side: rows of halves times lanes are tasks, and
 * each CTA looks at its share of them in turn. Arguments of the kernel. */
enum { CCL_MISMATCH_FROM, CCL_MISMATCH_TO, CCL_MISMATCH_SENT, CCL_MISMATCH_WANTED };
enum { CCL_CUDA_MISMATCH = 4 };
enum { CCL_CUDA_HALVES = 120, CCL_CUDA_TASKS = 128 /* of a CTA */ };
struct ccl_cuda_pairs {
    const struct ccl_cuda_half *list; /* NULL: `halves`; else memory of the host that GPUs reach */
    const uint32_t *abort_word;
    uint32_t *error;
    uint64_t *note;
    uint64_t *mismatch; /* what the receiver of a message of another size has seen */
    uint32_t nhalves, nruns, nlanes, slot_bytes, nctas, spare;
    struct ccl_cuda_half halves[CCL_CUDA_HALVES];
};

/* ---- limits ---- */

/* Of a schedule with several executors on GPUs. */
enum {
    CCL_CUDA_MAX_LINKS = 128,
    CCL_CUDA_MAX_SIDE = 2 * CCL_MAX_LOCAL, /* sources, or targets, of a step; slots that meet */
};

static inline uint32_t ccl_cuda_count_buffers(const struct ccl_range *range)
{
    uint32_t n = 0;
    for (int i = 0; i < 2; i++)
        if (range[i].space != CCL_NONE) n += range[i].count;
    return n;
}

/* 1 when a schedule for several executors can run on GPUs; `steps` as the algorithm built them, in
 * memory of the host. */
static inline int ccl_cuda_fits(const struct ccl_step *steps, uint32_t nsteps, uint32_t nlinks,
                                uint32_t nslots)
{
    if (nlinks > CCL_CUDA_MAX_LINKS) return 0;
    for (uint32_t i = 0; i < nsteps; i++) {
        const struct ccl_step *step = &steps[i];
        if (step->kind == CCL_MEET && nslots > CCL_CUDA_MAX_SIDE) return 0;
        if (ccl_cuda_count_buffers(step->in) > CCL_CUDA_MAX_SIDE) return 0;
        if (ccl_cuda_count_buffers(step->out) > CCL_CUDA_MAX_SIDE) return 0;
    }
    return 1;
}

#ifndef __cplusplus
static_assert(sizeof(struct ccl_cuda_flags) <= CCL_CUDA_RING_AT, "slots follow the flags");
static_assert(sizeof(struct ccl_cuda_conn) == 64, "ABI of connections");
static_assert(sizeof(struct ccl_cuda_meet) == 64, "ABI of meetings");
static_assert(sizeof(struct ccl_cuda_half) == 32, "ABI of halves");
static_assert(sizeof(struct ccl_cuda_pairs) <= 4000, "messages fit the launch arguments");
#endif

#endif
