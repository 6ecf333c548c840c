/* The world of a run: which processes, threads and ranks there are, and how they were started.
 *
 * Rank = process * threads * gpus + thread * gpus + i. Opened by main.c, used by everything
 * else; fixed after perf_world_open but for the communicators and what the watchdog reads.
 */
#ifndef PERF_WORLD_H
#define PERF_WORLD_H

#include "harness/buffers.h"
#include "harness/coll.h"
#include "harness/oob.h"
#include "harness/options.h"
#include "harness/report.h"
#include "harness/split.h"

#include <pthread.h>
#include <stdatomic.h>

struct perf_rank {
    int rank;                          /* in the world */
    int group, group_rank, group_size; /* colour of the split; rank and size inside it */
    int device;
    ncclComm_t comm;
    ncclComm_t watched; /* comm while the watchdog may ask it; guarded by the watchdog's lock */
    cudaStream_t stream;
    struct perf_buffers buffers;
    struct perf_counts counts;     /* of the current row */
    struct perf_layout layouts[2]; /* out of place, in place */
    _Atomic(const char *) phase;   /* constant text, for the watchdog */
};

struct perf_world;

/* A launch mode. */
struct perf_world_ops {
    const char *name; /* as in --init */
    /* Finds nprocs and proc and connects link (a world of one needs none). Ends the process on
     * errors. In spawn mode the parent never returns. */
    void (*open)(struct perf_world *world);
    /* Makes the communicators of all local ranks; sets init_call. */
    void (*init)(struct perf_world *world);
    /* Another library has left threads and exit handlers in the process, which are not ours to
     * run: it ends by _exit. */
    int ends_at_once;
};

struct perf_world {
    const struct perf_options *options;
    const struct perf_coll *coll;
    const struct perf_world_ops *ops;
    struct perf_link *link; /* NULL in a world of one process */
    struct perf_hub *hub;   /* in rank 0's process of env and mpi */
    pthread_t hub_thread;
    int nprocs, proc;
    int nlocal, first_rank, nranks;
    int host_first, host_ranks; /* ranks of this host before ours, and all of them */
    int ranks_per_device, ndevices;
    int callers_share_gpu; /* ranks of several threads or processes are on one GPU */
    struct perf_split split;
    int ngroups, largest_group, smallest_group;
    struct perf_rank *ranks;     /* [nlocal] */
    struct perf_rank_info *info; /* [nranks] */
    const char *init_call;
    size_t lib_bytes;          /* device memory that went away during initialisation */
    size_t free_before;        /* device memory that was free before it */
    int64_t leak_bytes;        /* less free after the end; -1: host memory, which others use too */
    int *group_sizes;          /* [ngroups] */
    pthread_barrier_t barrier; /* of the threads of this process */
};

/* Chooses the mode, opens it, numbers the ranks, checks that all processes run the same thing. */
void perf_world_open(struct perf_world *world);
/* Gives the ranks their devices, which have been chosen. */
void perf_world_place(struct perf_world *world);
/* Streams, communicators, groups of the split. */
void perf_world_init(struct perf_world *world);
/* Destroys the communicators and streams. */
void perf_world_fini(struct perf_world *world);
/* Leaves the other processes in order. In some modes it ends the process, else it returns. */
void perf_world_close(struct perf_world *world, int code);

/* Contributions of all processes, bytes each, in order of process. By one thread at a time. */
void perf_world_allgather(struct perf_world *world, const void *mine, void *all, size_t bytes);
void perf_world_barrier(struct perf_world *world);

/* Ends the run, naming a setting and its values, unless all processes run the same (agree.c). */
void perf_world_agree(struct perf_world *world);

/* Starts the hub's thread in this process; serves until all have left. */
void perf_world_start_hub(struct perf_world *world, const struct perf_hub_args *args);
/* Connects this process, by fd, to the hub. */
void perf_world_link(struct perf_world *world, int fd, uint64_t token, const char *hub_name);

/* A launcher's variable that counts more than one process, or NULL. */
const char *perf_launcher_variable(void);

/* Seconds that a rendezvous may take. */
double perf_rendezvous_s(const struct perf_options *options);

extern const struct perf_world_ops perf_world_all, perf_world_thread, perf_world_mpi,
    perf_world_env, perf_world_spawn;

/* ---- communicators (comms.c) ---- */
void perf_comms_init_all(struct perf_world *world);
void perf_comms_init_ranks(struct perf_world *world);

#endif
