/* The ranks of one communicator of the long check: where each sits, and those of this process with
 * stream, buffers and communicator. Used by check_all.c; a second process is a fork from before the
 * first use of the library, and follows the same calls.
 */
#ifndef ALL_WORLD_H
#define ALL_WORLD_H

#include "core/kit.h"

/* How ranks sit on devices: one each; two each, far apart; 1, 2, 3 … each; all on one device of
 * their process. */
enum world_place { PLACE_EACH, PLACE_EVEN, PLACE_UNEVEN, PLACE_ONE, NPLACES };

/* The processes: `me` of `count`, and the socket between the two of them. */
struct world_procs {
    int count, me, line;
};

struct world_member {
    struct kit_rank rank;
    void *scalar; /* of a PreMulSum operator, in device memory */
};

struct world {
    struct world_procs procs;
    int nranks, nexecs, nmembers; /* members are the ranks of this process, in order */
    int proc_of[KIT_MAX_RANKS], device_of[KIT_MAX_RANKS], exec_of[KIT_MAX_RANKS];
    struct world_member members[KIT_MAX_RANKS];
};

/* Says where the ranks sit; 0 when this placement equals a simpler one or leaves a process bare. */
int world_place(struct world *world, struct world_procs procs, enum world_place place, int nranks);
/* Communicators, and buffers for blocks of `count` elements. */
void world_open(struct world *world, size_t count);
void world_close(struct world *world);

/* Forks the second process when `count` is 2. */
struct world_procs world_fork(int count);
/* Adds the numbers of the second process to those of the first, which waits for its end; returns
 * only there. */
void world_join(struct world_procs procs, long *numbers, int nnumbers);

#endif
