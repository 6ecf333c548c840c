/* cost.h: the cost model: how long an operation takes with each algorithm and protocol, and the
 * cheapest of those that are allowed.
 *
 * Depends only on what all ranks know alike, so that all pick the same. Called by core/plan.c and
 * core/launch.c.
 */
#ifndef CCL_ALGO_COST_H
#define CCL_ALGO_COST_H

#include "algo/choice.h"

struct ccl_pick {
    const struct ccl_algo_ops *algo; /* NULL: nothing allowed can do it */
    enum ccl_proto proto;
    double cost_us;
};

/* What lies between the executors: a process or several, on host devices; on GPUs nothing, as there
 * is one, or their weakest link: NVLink, another that reaches memory of a peer, or memory of the
 * host. */
enum ccl_cost_place {
    CCL_COST_IN_PROCESS,
    CCL_COST_ACROSS,
    CCL_COST_GPU_ALONE,
    CCL_COST_GPU_NVLINK,
    CCL_COST_GPU_PEER,
    CCL_COST_GPU_HOST,
};

/* What a pick depends on. args->slot_bytes is that of SIMPLE; LL has its own. */
struct ccl_pick_args {
    struct ccl_sched_args sched;
    uint64_t bytes; /* of a rank's largest buffer */
    enum ccl_cost_place place;
    int certain; /* only what works wherever the buffers lie */
    const struct ccl_choice *choice;
};

/* What an operation costs in units of the table: time = base + messages * hop + turns * turn +
 * bytes / rate. */
struct ccl_cost_terms {
    double messages, turns, bytes;
};
struct ccl_cost_terms ccl_cost_terms(const struct ccl_pick_args *args,
                                     const struct ccl_algo_ops *algo, enum ccl_proto proto);

/* The cheapest of all that is allowed. A single executor has no connections and nothing to choose:
 * its one algorithm is taken whatever the choice says. */
struct ccl_pick ccl_cost_pick(const struct ccl_pick_args *args);

/* Microseconds by an algorithm and a protocol; 0: not allowed, or the table has no row. */
double ccl_cost_us(const struct ccl_pick_args *args, const struct ccl_algo_ops *algo,
                   enum ccl_proto proto);

/* Microseconds of a rank's `n` halves of messages, all side by side, that have args->bytes in all:
 * base + n * hop + bytes / rate, as a ring's connections have them. */
double ccl_cost_messages_us(const struct ccl_pick_args *args, uint64_t n);

/* Across processes direct is worth its meeting from here on, also when the meeting ends with
 * another algorithm because some buffer is out of reach. */
enum { CCL_COST_SHARED_BYTES = 32 << 10 };

/* Data bytes of a slot of a protocol. */
uint32_t ccl_proto_slot_bytes(enum ccl_proto proto, uint32_t simple_slot_bytes);

/* Channels for pieces of `piece_bytes`, at most `most`, at least 1. A schedule without connections
 * wants larger pieces, since its channels only share out memory bandwidth. */
uint16_t ccl_cost_channels(uint64_t piece_bytes, uint64_t most, int has_links);

/* The same on GPUs, where a channel is a CTA. */
uint16_t ccl_cost_gpu_channels(uint64_t piece_bytes, uint64_t most, enum ccl_proto proto);

/* Whether a protocol works there: LL128 needs lines of 128 bytes that arrive whole. */
int ccl_cost_has_proto(enum ccl_cost_place place, enum ccl_proto proto);

const char *ccl_proto_name(enum ccl_proto proto);

#endif
