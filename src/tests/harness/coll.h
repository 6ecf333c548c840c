/* A driver: one const struct per collective, defined in src/tests/<name>.c.
 *
 * The harness reads it and never knows which collective it runs; a driver knows no option but
 * what its counts() and prepare() are given.
 */
#ifndef PERF_COLL_H
#define PERF_COLL_H

#include "nccl.h"

#include <stddef.h>
#include <stdint.h>

struct perf_options; /* harness/options.h */

enum perf_coll_flags {
    PERF_HAS_OP = 1,       /* takes a reduction operator */
    PERF_HAS_ROOT = 2,     /* takes a root */
    PERF_IN_PLACE = 4,     /* has a valid in-place form */
    PERF_POWER_OF_TWO = 8, /* ranks must be a power of two */
    PERF_PAIRED = 16,      /* ranks talk in pairs (pairs.h); takes --pairs */
    PERF_ONE_WAY = 32,     /* and the two of a pair do different things */
};

/* Two ranks that talk while the others are idle; equal: see perf_pair_role. */
struct perf_pair {
    int first, second;
};

/* What a row asks for. */
struct perf_size {
    size_t elems;      /* requested bytes divided by type_bytes */
    size_t type_bytes; /* of one element */
    int nranks;
    int exact; /* option --exact: counts per rank are not aligned down to 16 bytes */
};

/* Elements of one row. Buffers of all ranks have the same size; what a rank does not use of its
 * own (gather's receive buffer off the root) is still there, so that a stray write is seen. */
struct perf_counts {
    size_t send, recv; /* elements of the send and the receive buffer of each rank */
    size_t count;      /* count argument of the call, and the count column */
    /* In place, rank r's buffers start at element r * this of the one shared buffer, which holds
     * max(send, recv) elements. Both 0: same pointer. */
    size_t in_place_send_offset, in_place_recv_offset;
};

/* What one call of one rank gets. */
struct perf_call {
    const void *send;
    void *recv;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root, rank, nranks;
    int step; /* 0 … steps() - 1 */
    struct perf_pair pair;
    ncclComm_t comm;
    cudaStream_t stream;
};

/* One finished row, for the optional summary. */
struct perf_summary {
    const struct perf_counts *counts;
    size_t type_bytes;
    int nranks;
    double time_us;                 /* the out-of-place time */
    void (*note)(const char *line); /* prints one line under the row */
};

struct perf_pattern;

struct perf_coll {
    const char *name;  /* driver name without _perf: "all_reduce" */
    const char *title; /* "AllReduce", for texts */
    unsigned flags;
    void (*counts)(const struct perf_size *size, struct perf_counts *counts);
    /* Bytes that the size column shows for these counts, and that algbw counts. */
    size_t (*size_bytes)(const struct perf_counts *counts, size_t type_bytes, int nranks);
    /* busbw = algbw * factor; and where it comes from, as text: "2(n-1)/n". */
    double (*bus_factor)(int nranks);
    const char *bus_formula;
    /* The library's function that `run` calls; ncclSend stands for ncclRecv too. */
    const char *function;
    /* Enqueues the collective for one rank (inside a group when the thread drives several). */
    ncclResult_t (*run)(const struct perf_call *call);
    /* Optional: how many groups, one after the other, make one operation (hypercube: its
     * exchanges depend on each other, so they cannot share a caller's group). For each step
     * the harness opens a group, calls `run` with this step for all ranks of the thread, and
     * closes it. NULL: one step. */
    int (*steps)(int nranks);
    /* Times a message crosses in one operation, whose time is divided by it; 0: one. */
    int trips;
    /* Contents: which (rank, element) of which send buffers makes element i of rank's receive
     * buffer; see harness/verify.h. */
    const struct perf_pattern *pattern;
    /* Optional set-up from the environment, before the first counts() and once per process;
     * nranks is the largest group's. Returns 0, or exit code 2 after a message on stderr. */
    int (*prepare)(const struct perf_options *options, int nranks);
    /* Optional: called in rank 0's process after a row. */
    void (*summarize)(const struct perf_summary *summary);
};

/* The whole driver: parse, set up the world, run, report. Returns the exit code. */
int perf_main(const struct perf_coll *coll, int argc, char **argv);

#endif
