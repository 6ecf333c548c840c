/* arena.h: memory of host and GPU that starts equal, for operations that run on both: afterwards
 * all of it is compared, so that a byte written beside a buffer is seen as well. One a program.
 */
#ifndef GPU_ARENA_H
#define GPU_ARENA_H

#include "gpu/kit.h"

enum { ARENA_BYTES = 16 << 20, ARENA_FRONT_BYTES = 4096 };

struct arena {
    char *host, *back, *dev; /* what the host computed, what the GPU did, the GPU's memory */
    uint64_t used;           /* the first ARENA_FRONT_BYTES are for factors */
    uint64_t seed, state;    /* of random numbers */
};
extern struct arena arena;

/* On the current GPU. */
void arena_open(uint64_t seed);
void arena_close(void);
/* A random number. */
uint64_t arena_pick(uint64_t below);
/* Fills both with elements of the type; all places are free. */
void arena_refill(const struct kit_type *type);
/* Frees all places and keeps what is in them. */
void arena_restart(void);
/* A place for a buffer, `offset` bytes behind a multiple of 16, at the host. */
char *arena_take(uint64_t bytes, uint64_t offset);
/* From an address of the host to that of the same byte on the GPU. */
intptr_t arena_shift(void);
/* 1 when both are equal; else says where not, after `what`, and makes them equal. */
int arena_compare(const char *what);

#endif
