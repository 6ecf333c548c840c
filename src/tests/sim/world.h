/* world.h: a communicator simulated in one thread, for the schedule prover.
 *
 * Real schedules, real sizes and the real interpreter, over plain memory; the order in which
 * executors run is random. Every buffer holds garbage before its owner is ready and is spoiled
 * the moment its owner is done, so that a schedule that touches it outside gives a wrong result.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "algo/sched.h"

#include <stdint.h>

struct sim_case {
    const uint16_t *exec_of; /* [nranks] executor of each rank, numbered by lowest rank */
    int nranks, nexecs;
    enum ccl_sched_coll coll;
    const struct ccl_algo_ops *algo;
    const struct ccl_algo_ops *second; /* with it some buffers may be out of reach; NULL: none */
    int outside;                       /* with `second`: rank whose buffers are, -1 none */
    enum ccl_proto proto;
    int root; /* -1 none */
    enum ccl_mapped mapped;
    int in_place;
    uint16_t depth, nchannels;
    uint32_t slot_bytes;
    uint64_t count;
    uint64_t seed;
};

/* Runs the case; NULL when proved, else a text that says what broke. */
const char *sim_run(const struct sim_case *sim);

#endif
