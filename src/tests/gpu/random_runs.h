/* Random configurations: a number decides how many ranks there are, how they call, what, and with
 * which buffers. Used by test_random.c; the same number makes the same configuration in every
 * process.
 */
#ifndef GPU_RANDOM_RUNS_H
#define GPU_RANDOM_RUNS_H

#include "gpu/driver.h"

enum random_mode {
    RANDOM_GROUP,   /* one thread, one group */
    RANDOM_THREADS, /* a thread per rank */
    RANDOM_LATE,    /* the same, at different times, so that gates are needed */
    RANDOM_HALVES,  /* two threads with a group each */
    RANDOM_GRAPH,   /* captured by one thread, launched twice */
    RANDOM_NMODES
};

enum { RANDOM_MAX_CALLS = 5 };

struct random_run {
    uint32_t seed;
    int nprocs, local; /* processes, ranks in each */
    enum random_mode mode;
    int is_far, aborts;
    size_t most; /* elements of a block */
    int ncalls;
    struct kit_op ops[RANDOM_MAX_CALLS];
};

/* nprocs 1: all ranks in this process. */
struct random_run random_pick(uint32_t seed, int nprocs);
void random_describe(const struct random_run *run, char *text, size_t bytes);
/* Opens, calls, checks, closes; with several processes in one of procs_start's. */
void random_do(const struct random_run *run);

#endif
