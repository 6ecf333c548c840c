/* window.h: windows: buffers that all ranks of a communicator have told each other of.
 *
 * A window is made by all ranks together and given up by each alone, at the latest with its rank.
 * What the program holds is the handle, which device code may read through; the record of the host
 * is found by it, in the rank's list or in that of the process. A record stays where it is until it
 * is given up, which a program must not do while it uses the window.
 */
#ifndef CCL_CORE_WINDOW_H
#define CCL_CORE_WINDOW_H

#include "core/comm.h"

struct ccl_region;

/* A rank's buffer, where it lies for the kernels and streams of this rank. */
struct ccl_window_part {
    char *base;
    uint64_t bytes;
    struct ccl_region *region; /* of another process's GPU memory, pinned; NULL: not needed */
};

struct ccl_window {
    struct ccl_window *next;    /* of the rank */
    struct ccl_window *next_of; /* of the process */
    ncclWindow_t handle;
    struct ncclComm *comm;
    int flags;                      /* NCCL_WIN_* */
    struct ccl_window_part parts[]; /* [nranks] */
};

/* All of a rank that ends. */
void ccl_window_free(struct ncclComm *comm);

#endif
