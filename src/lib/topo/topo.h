/* topo.h: who is near whom: ranks grouped into processes and executors.
 *
 * Built once per communicator by core/comm_init.c from what all ranks told at the bootstrap;
 * the same on every rank. Immutable afterwards.
 */
#ifndef CCL_TOPO_TOPO_H
#define CCL_TOPO_TOPO_H

#include "nccl.h"

#include <stdint.h>

/* What a rank tells the others. Plain data, all-gathered as bytes. */
struct ccl_peer {
    char host[64];       /* name for texts */
    uint64_t host_id;    /* equal exactly for processes that can share memory */
    int64_t pid;         /* with start_time: the process */
    uint64_t start_time; /* of the process, clock ticks since boot */
    int32_t device;
    int32_t min_channels; /* that its configuration asks for */
    int32_t max_channels; /* and allows */
    int32_t is_gpu;       /* the device is a GPU; else a host device */
    int32_t capability;   /* of the GPU, 90 for 9.0; 0: none */
    int32_t has_arena;    /* its process has memory that others can map */
    char identity[64];    /* of the device; equal texts form an executor */
    int32_t split;        /* so many ranks of a GPU form an executor; 0: all */
    int32_t part;         /* which of those; set by ccl_topo_build */
};

struct ccl_topo {
    uint16_t nranks, nexecs, nprocs;
    struct ccl_peer *peers; /* [nranks] by rank */
    uint16_t *rank_of;      /* [nranks] by slot: ranks sorted by executor, then rank */
    uint16_t *slot_of;      /* [nranks] by rank */
    uint16_t *first_slot;   /* [nexecs + 1] */
    uint16_t *exec_of;      /* [nranks] by rank */
    uint16_t *proc_of;      /* [nranks] by rank */
    uint16_t *proc_of_exec; /* [nexecs] of its lowest rank, which leads it */
    int *first_rank;        /* [nprocs] lowest rank of each process */
};

/* Fills `peer` for this process and device (identity comes from the device). */
ncclResult_t ccl_topo_describe(struct ccl_peer *peer);

/* Executors and processes are numbered by their lowest rank. */
ncclResult_t ccl_topo_build(const struct ccl_peer *peers, int nranks, struct ccl_topo **out);
void ccl_topo_free(struct ccl_topo *topo);

/* Writes "3,7,9" of those ranks whose `in` is set; "none" when no one is. */
void ccl_topo_list(const uint8_t *in, int nranks, char *text, size_t bytes);

/* The same for the ranks of one executor. */
void ccl_topo_list_exec(const struct ccl_topo *topo, uint16_t exec, char *text, size_t bytes);

#endif
