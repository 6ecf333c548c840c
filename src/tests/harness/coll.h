/* A driver: one const struct per collective, defined in src/tests/<name>.c. */
#ifndef PERF_COLL_H
#define PERF_COLL_H

#include "nccl.h"

#include <stddef.h>
#include <stdint.h>

enum perf_coll_flags {
    PERF_HAS_OP = 1,       /* takes a reduction operator */
    PERF_HAS_ROOT = 2,     /* takes a root */
    PERF_IN_PLACE = 4,     /* has a valid in-place form */
    PERF_POWER_OF_TWO = 8, /* ranks must be a power of two */
};

/* Elements per rank of one row. `count` is what the count column shows and the call gets. */
struct perf_counts {
    size_t send, recv;         /* elements of the send and the receive buffer of each rank */
    size_t count;              /* count argument / count column */
    size_t in_place_send_offset, in_place_recv_offset; /* per rank factor: element offset of rank r
                                                          in the shared buffer is r * this */
};

/* What a run of one rank gets. */
struct perf_call {
    const void *send;
    void *recv;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root, rank, nranks;
    ncclComm_t comm;
    cudaStream_t stream;
};

struct perf_coll {
    const char *name;     /* driver name without _perf: "all_reduce" */
    const char *title;    /* "AllReduce", for texts */
    unsigned flags;
    /* Elements from the requested bytes of a row (already divided by the type size), for n ranks. */
    void (*counts)(size_t elems, int nranks, struct perf_counts *counts);
    /* Bytes that the size column shows for these counts. */
    size_t (*size_bytes)(const struct perf_counts *counts, size_t type_bytes, int nranks);
    /* busbw = algbw * factor; and where it comes from, as text: "2(n-1)/n". */
    double (*bus_factor)(int nranks);
    const char *bus_formula;
    /* Bytes that algbw counts: size column by default (NULL). */
    /* Enqueues the collective for one rank (inside a group when the thread drives several). */
    ncclResult_t (*run)(const struct perf_call *call);
    /* Contents: which (rank, element) of which send buffers makes element i of rank's receive
     * buffer; see harness/verify.h. */
    const struct perf_pattern *pattern;
    /* Optional: driver-specific set-up from the environment (alltoallv matrix). NULL if none. */
    int (*prepare)(int nranks);
};

/* The whole driver: parse, set up the world, run, report. Returns the exit code. */
int perf_main(const struct perf_coll *coll, int argc, char **argv);

#endif
