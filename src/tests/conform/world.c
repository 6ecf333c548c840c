/* The world of the conformance tests; see world.h. Every failure ends the running case. */
#include "conform/world.h"

#include <stdio.h>
#include <string.h>

int world_device(int i)
{
    int ndevices = 0;
    CHECK_OK(chorus_devices()->count(&ndevices));
    CHECK(ndevices > 0);
    return i % ndevices;
}

void world_open_bare(struct world *world)
{
    const struct chorus_devices *devices = chorus_devices();
    int device = current_device();
    memset(world, 0, sizeof *world);
    world->nranks = NRANKS;
    for (int i = 0; i < NRANKS; i++) {
        size_t bytes = NRANKS * NELEMS * sizeof(int32_t);
        CHECK_OK(devices->set(world_device(i)));
        CHECK_OK(devices->stream_create(&world->stream[i]));
        CHECK_OK(devices->alloc((void **)&world->in[i], bytes));
        CHECK_OK(devices->alloc((void **)&world->out[i], bytes));
    }
    CHECK_OK(devices->set(device));
}

void world_open(struct world *world)
{
    int devlist[NRANKS];
    for (int i = 0; i < NRANKS; i++) devlist[i] = world_device(i);
    world_open_bare(world);
    CHECK_OK(ncclCommInitAll(world->comm, NRANKS, devlist));
}

void world_close(struct world *world)
{
    const struct chorus_devices *devices = chorus_devices();
    for (int i = 0; i < NRANKS; i++)
        if (world->comm[i] != NULL) CHECK_OK(ncclCommDestroy(world->comm[i]));
    for (int i = 0; i < NRANKS; i++) {
        CHECK_OK(devices->stream_destroy(world->stream[i]));
        CHECK_OK(devices->free(world->in[i]));
        CHECK_OK(devices->free(world->out[i]));
    }
}

void world_sync(struct world *world)
{
    for (int i = 0; i < NRANKS; i++) CHECK_OK(chorus_devices()->stream_sync(world->stream[i]));
}

/* Host copies: device memory is not touched by the program itself. */
static int32_t sent[NELEMS], received[NELEMS];

static void put_input(struct world *world, int rank)
{
    for (int e = 0; e < NELEMS; e++) sent[e] = (rank + 1) * 1000003 + e * (rank + 7);
    CHECK_OK(chorus_devices()->copy(world->in[rank], sent, sizeof sent, world->stream[rank]));
    CHECK_OK(chorus_devices()->fill(world->out[rank], 0x55, sizeof sent, world->stream[rank]));
    CHECK_OK(chorus_devices()->stream_sync(world->stream[rank]));
}

void world_works(struct world *world)
{
    int32_t expected[NELEMS] = {0};
    for (int i = 0; i < NRANKS; i++) {
        put_input(world, i);
        for (int e = 0; e < NELEMS; e++) expected[e] += sent[e];
    }
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < NRANKS; i++)
        CHECK_OK(ncclAllReduce(world->in[i], world->out[i], NELEMS, ncclInt32, ncclSum,
                               world->comm[i], world->stream[i]));
    CHECK_OK(ncclGroupEnd());
    for (int i = 0; i < NRANKS; i++) {
        CHECK_OK(
            chorus_devices()->copy(received, world->out[i], sizeof received, world->stream[i]));
        CHECK_OK(chorus_devices()->stream_sync(world->stream[i]));
        CHECK_MEM(received, expected, sizeof expected);
    }
}

void expect_error(ncclResult_t got, ncclResult_t code, const char *function, const char *detail)
{
    char start[64];
    NOTE("%s returned %d: %s", function, (int)got, ncclGetLastError(NULL));
    CHECK_EQ(got, code);
    snprintf(start, sizeof start, "%s: ", function);
    CHECK_HAS(ncclGetLastError(NULL), start);
    CHECK_HAS(ncclGetLastError(NULL), detail);
}

int current_device(void)
{
    int device = -1;
    CHECK_OK(chorus_devices()->get(&device));
    return device;
}

void *world_garbage(void)
{
    static uint64_t bytes[4096 / sizeof(uint64_t)];
    memset(bytes, 0xa5, sizeof bytes);
    return bytes;
}
