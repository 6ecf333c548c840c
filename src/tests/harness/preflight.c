/* --preflight: before a long run, whether all processes meet and every pair of ranks can send to
 * and receive from each other. One line per problem; a pair that hangs is named by the watchdog.
 */
#include "harness/ending.h"
#include "harness/run.h"
#include "harness/watchdog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_BYTES = 64 };

/* What rank `from` sends to rank `to`. */
static void make_message(int from, int to, unsigned char *message)
{
    for (int i = 0; i < MESSAGE_BYTES; i++) message[i] = (unsigned char)(from * 31 + to * 17 + i);
}

static int peer_of(const struct perf_rank *rank, int distance)
{
    int n = rank->group_size;
    return ((rank->group_rank + distance) % n + n) % n;
}

static void complain(const struct perf_rank *rank, int peer, const char *what)
{
    fprintf(stderr, "%s: preflight: rank %d from rank %d of group %d: %s\n", perf_program(),
            rank->rank, peer, rank->group, what);
}

/* Each rank sends to the rank `distance` after it and receives from the one before. */
static void enqueue(struct perf_world *world, int distance)
{
    const struct perf_device_ops *devices = perf_devices();
    perf_check(ncclGroupStart(), "ncclGroupStart");
    for (int i = 0; i < world->nlocal; i++) {
        struct perf_rank *rank = &world->ranks[i];
        unsigned char message[MESSAGE_BYTES];
        if (distance >= rank->group_size) continue;
        make_message(rank->group_rank, peer_of(rank, distance), message);
        perf_check(devices->set(rank->device), "setting the device");
        perf_check(devices->copy(rank->buffers.send, message, MESSAGE_BYTES, rank->stream), "copy");
        perf_check(devices->fill(rank->buffers.recv, 0, MESSAGE_BYTES, rank->stream), "fill");
        perf_check(devices->stream_sync(rank->stream), "copy");
        perf_check(ncclSend(rank->buffers.send, MESSAGE_BYTES, ncclUint8, peer_of(rank, distance),
                            rank->comm, rank->stream),
                   "ncclSend");
        perf_check(ncclRecv(rank->buffers.recv, MESSAGE_BYTES, ncclUint8, peer_of(rank, -distance),
                            rank->comm, rank->stream),
                   "ncclRecv");
    }
    perf_check(ncclGroupEnd(), "ncclGroupEnd");
}

static int compare(struct perf_world *world, int distance)
{
    const struct perf_device_ops *devices = perf_devices();
    int problems = 0;
    for (int i = 0; i < world->nlocal; i++) {
        struct perf_rank *rank = &world->ranks[i];
        unsigned char expected[MESSAGE_BYTES], got[MESSAGE_BYTES];
        if (distance >= rank->group_size) continue;
        int from = peer_of(rank, -distance);
        make_message(from, rank->group_rank, expected);
        perf_check(devices->set(rank->device), "setting the device");
        ncclResult_t result = devices->stream_sync(rank->stream);
        if (result == ncclSuccess)
            result = devices->copy(got, rank->buffers.recv, MESSAGE_BYTES, rank->stream);
        if (result == ncclSuccess) result = devices->stream_sync(rank->stream);
        perf_watch_tick();
        if (result == ncclSuccess && memcmp(expected, got, MESSAGE_BYTES) == 0) continue;
        complain(rank, from, result != ncclSuccess ? ncclGetErrorString(result) : "wrong data");
        problems++;
    }
    return problems;
}

int perf_preflight(struct perf_world *world)
{
    int problems = 0;
    perf_watch_row("preflight");
    for (int i = 0; i < world->nlocal; i++) {
        struct perf_rank *rank = &world->ranks[i];
        rank->buffers.send_bytes = rank->buffers.recv_bytes = MESSAGE_BYTES;
        perf_buffers_alloc(&rank->buffers, rank->device, PERF_UNREGISTERED, NULL);
    }
    for (int distance = 0; distance < world->largest_group; distance++) {
        perf_watch_phase(world->ranks, world->nlocal, "pairwise send and receive");
        enqueue(world, distance);
        problems += compare(world, distance);
    }
    for (int i = 0; i < world->nlocal; i++)
        perf_buffers_free(&world->ranks[i].buffers, world->ranks[i].device, NULL);
    int *all = calloc((size_t)world->nprocs, sizeof *all), sum = 0;
    if (all == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    perf_world_allgather(world, &problems, all, sizeof problems);
    for (int p = 0; p < world->nprocs; p++) sum += all[p];
    free(all);
    if (world->proc == 0)
        printf("preflight: %d processes, %d ranks met; every pair sent and received; %d problems\n",
               world->nprocs, world->nranks, sum);
    return sum > 0 ? PERF_EXIT_ERROR : PERF_EXIT_OK;
}
