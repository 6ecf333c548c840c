/* bench.h: the timing loop of `make bench`, the same source for this library and for MPI.
 *
 * Owned by loop.c; bench_chorus.c and bench_mpi.c each fill a struct bench_side and call
 * bench_run once per rank. Invariant: nothing here knows which side it times.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>

enum bench_coll {
    BENCH_ALL_REDUCE,
    BENCH_ALL_GATHER,
    BENCH_BROADCAST,
    BENCH_ALL_TO_ALL,
    BENCH_REDUCE_SCATTER,
    BENCH_SENDRECV,
    BENCH_NCOLLS
};

enum { BENCH_MAX_SIZES = 32 };

/* What is asked for: sizes in bytes of the larger buffer of a rank, and how long the timed calls
 * of one cell may take. */
struct bench_plan {
    size_t sizes[BENCH_MAX_SIZES];
    int nsizes;
    double target_s;
};

/* One operation on floats. count_elems is the count argument of the call: of the whole buffer, or
 * of one rank's block where the larger buffer has a block per rank. */
struct bench_cell {
    enum bench_coll coll;
    size_t count_elems;
};

/* One rank of the side under test. `in` and `out` hold bench_buffer_bytes each; broadcast works
 * in place: the root's buffer is `in`, the others' is `out`. */
struct bench_side {
    void *self;
    int rank, nranks;
    float *in, *out;
    void (*call)(void *self, const struct bench_cell *cell); /* returns when the rank is done */
    double (*max)(void *self, double value); /* over all ranks, to all; nobody leaves early */
};

/* Reads "8,1024,65536" and the milliseconds of a cell; exits with 2 on anything else. */
void bench_plan_read(struct bench_plan *plan, const char *sizes, const char *milliseconds);

/* Bytes of each of the two buffers of a rank. */
size_t bench_buffer_bytes(const struct bench_plan *plan, int nranks);

/* Times every collective at every size. Rank 0 prints a line for each: collective, bytes,
 * microseconds of a call as the median and the least of several batches (of each the mean of the
 * slowest rank), calls timed. Exits with 1 when a result is
 * wrong. Every rank calls it. */
void bench_run(const struct bench_side *side, const struct bench_plan *plan);

#endif
