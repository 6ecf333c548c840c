/* arena.cu: see arena.h. */
#include "gpu/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arena arena;

enum { PART_BYTES = 128 << 10, GAP_BYTES = 64, MOST_REPORTS = 20 };

void arena_open(uint64_t seed)
{
    arena.seed = arena.state = seed;
    CK(cudaMallocHost((void **)&arena.host, ARENA_BYTES));
    CK(cudaMallocHost((void **)&arena.back, ARENA_BYTES));
    CK(cudaMalloc((void **)&arena.dev, ARENA_BYTES));
}

void arena_close(void)
{
    CK(cudaFree(arena.dev));
    CK(cudaFreeHost(arena.host));
    CK(cudaFreeHost(arena.back));
}

uint64_t arena_pick(uint64_t below)
{
    return kit_random(&arena.state) % below;
}

static void send(void)
{
    CK(cudaMemcpy(arena.dev, arena.host, ARENA_BYTES, cudaMemcpyHostToDevice));
}

/* A part is random, the rest are pieces of it. */
void arena_refill(const struct kit_type *type)
{
    static const int odds[] = {0, 1, 16};
    kit_fill(arena.host, 2 * PART_BYTES, type, odds[arena_pick(3)], &arena.state);
    for (char *at = arena.host + 2 * PART_BYTES; at < arena.host + ARENA_BYTES; at += PART_BYTES)
        memcpy(at, arena.host + 8 * arena_pick(PART_BYTES / 8), PART_BYTES);
    send();
    arena_restart();
}

void arena_restart(void)
{
    arena.used = ARENA_FRONT_BYTES;
}

char *arena_take(uint64_t bytes, uint64_t offset)
{
    uint64_t at = (arena.used + GAP_BYTES + 15) / 16 * 16 + offset;
    arena.used = at + bytes;
    if (arena.used + GAP_BYTES <= ARENA_BYTES) return arena.host + at;
    printf("not ok - the arena is too small\n");
    exit(1);
}

intptr_t arena_shift(void)
{
    return (intptr_t)arena.dev - (intptr_t)arena.host;
}

int arena_compare(const char *what)
{
    static int nreported;
    uint64_t bytes = arena.used + GAP_BYTES, at = 0;
    CK(cudaMemcpy(arena.back, arena.dev, bytes, cudaMemcpyDeviceToHost));
    if (memcmp(arena.back, arena.host, bytes) == 0) return 1;
    while (arena.back[at] == arena.host[at]) at++;
    if (nreported++ < MOST_REPORTS)
        printf("# seed %llu: %s: byte %llu of the arena is %02x, not %02x\n",
               (unsigned long long)arena.seed, what, (unsigned long long)at,
               (uint8_t)arena.back[at], (uint8_t)arena.host[at]);
    send();
    return 0;
}
