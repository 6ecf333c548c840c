/* Communicators of a process: made by ncclCommInitAll, or one by one from ids that the first rank
 * of each group makes; streams beside them. Called by the launch modes and by world users.
 */
#include "harness/devices.h"
#include "harness/ending.h"
#include "harness/library.h"
#include "harness/watchdog.h"
#include "harness/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All ranks of this process, by one call. */
void perf_comms_init_all(struct perf_world *world)
{
    size_t n = (size_t)world->nlocal;
    /* Other libraries refuse a device that is named twice here, even where ranks may share it. */
    if (world->ranks_per_device > 1 && !perf_library_is_ours()) {
        perf_comms_init_ranks(world);
        return;
    }
    ncclComm_t *comms = calloc(n, sizeof *comms);
    int *devices = calloc(n, sizeof *devices);
    if (comms == NULL || devices == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    for (size_t i = 0; i < n; i++) devices[i] = world->ranks[i].device;
    perf_check(ncclCommInitAll(comms, world->nlocal, devices), "ncclCommInitAll");
    for (size_t i = 0; i < n; i++) world->ranks[i].comm = comms[i];
    world->init_call = "ncclCommInitAll";
    free(devices);
    free(comms);
}

/* The id of each local rank's group: made where the group's first rank lives. */
static ncclUniqueId *exchange_ids(struct perf_world *world)
{
    size_t n = (size_t)world->nlocal;
    ncclUniqueId *mine = calloc(n, sizeof *mine);
    ncclUniqueId *all = calloc((size_t)world->nranks, sizeof *all);
    if (mine == NULL || all == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    for (size_t i = 0; i < n; i++)
        if (world->ranks[i].group_rank == 0)
            perf_check(ncclGetUniqueId(&mine[i]), "ncclGetUniqueId");
    perf_world_allgather(world, mine, all, n * sizeof *mine);
    for (size_t i = 0; i < n; i++)
        for (int r = world->nranks - 1; r >= 0; r--)
            if (perf_split_colour(&world->split, r) == world->ranks[i].group) mine[i] = all[r];
    free(all);
    return mine;
}

struct init_args {
    struct perf_world *world;
    const ncclUniqueId *ids;
    int first, n; /* local ranks */
};

static void init_one(const struct init_args *args, int index)
{
    struct perf_rank *rank = &args->world->ranks[index];
    int policy = args->world->options->cta_policy;
    char what[96];
    snprintf(what, sizeof what, "rank %d: %s", rank->rank, args->world->init_call);
    perf_check(perf_devices()->set(rank->device), "setting the device");
    if (policy < 0) {
        perf_check(
            ncclCommInitRank(&rank->comm, rank->group_size, args->ids[index], rank->group_rank),
            what);
        return;
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.CTAPolicy = policy;
    perf_check(ncclCommInitRankConfig(&rank->comm, rank->group_size, args->ids[index],
                                      rank->group_rank, &config),
               what);
}

/* Ranks [first, first + n) in a group: of one thread, or of all. */
static void *init_group(void *argument)
{
    const struct init_args *args = argument;
    perf_check(ncclGroupStart(), "ncclGroupStart");
    for (int i = 0; i < args->n; i++) init_one(args, args->first + i);
    perf_check(ncclGroupEnd(), args->world->init_call);
    return NULL;
}

static void init_parallel(struct perf_world *world, const ncclUniqueId *ids)
{
    int threads = world->options->threads;
    pthread_t *handles = calloc((size_t)threads, sizeof *handles);
    struct init_args *args = calloc((size_t)threads, sizeof *args);
    if (handles == NULL || args == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    for (int t = 0; t < threads; t++) {
        int gpus = world->options->gpus;
        args[t] = (struct init_args){world, ids, t * gpus, gpus};
        if (pthread_create(&handles[t], NULL, init_group, &args[t]) != 0)
            perf_end(PERF_EXIT_ERROR, "cannot start a thread");
    }
    for (int t = 0; t < threads; t++) pthread_join(handles[t], NULL);
    free(args);
    free(handles);
}

void perf_comms_init_ranks(struct perf_world *world)
{
    ncclUniqueId *ids = exchange_ids(world);
    world->init_call =
        world->options->cta_policy < 0 ? "ncclCommInitRank" : "ncclCommInitRankConfig";
    if (world->options->parallel_init) {
        init_parallel(world, ids);
    } else {
        struct init_args args = {world, ids, 0, world->nlocal};
        init_group(&args);
    }
    free(ids);
}

/* Free bytes of all devices that this process uses, each counted once. */
static size_t free_bytes(const struct perf_world *world)
{
    size_t sum = 0;
    for (int i = 0; i < world->nlocal; i++) {
        int counted = 0;
        for (int j = 0; j < i; j++) counted |= world->ranks[j].device == world->ranks[i].device;
        counted |= i > 0 && perf_devices_host_visible(); /* the host's memory is one */
        struct perf_device_info info = {.free_bytes = 0};
        if (!counted) perf_check(perf_devices()->info(world->ranks[i].device, &info), "device");
        sum += info.free_bytes;
    }
    return sum;
}

void perf_world_init(struct perf_world *world)
{
    const struct perf_device_ops *devices = perf_devices();
    size_t before = world->free_before = free_bytes(world);
    perf_watch_row("initialisation");
    perf_watch_phase(world->ranks, world->nlocal, "making the communicators");
    for (int i = 0; i < world->nlocal; i++) {
        perf_check(devices->set(world->ranks[i].device), "setting the device");
        if (!world->options->null_stream)
            perf_check(devices->stream_create(&world->ranks[i].stream), "making a stream");
    }
    world->ops->init(world);
    for (int i = 0; i < world->nlocal; i++) perf_watch_comm(&world->ranks[i], world->ranks[i].comm);
    perf_watch_phase(world->ranks, world->nlocal, "communicators made");
    size_t after = free_bytes(world);
    world->lib_bytes = before > after ? before - after : 0;
}

void perf_world_fini(struct perf_world *world)
{
    const struct perf_device_ops *devices = perf_devices();
    perf_watch_row("the end");
    perf_watch_phase(world->ranks, world->nlocal, "destroying the communicators");
    for (int i = 0; i < world->nlocal; i++) {
        struct perf_rank *rank = &world->ranks[i];
        perf_watch_comm(rank, NULL);
        perf_check(devices->set(rank->device), "setting the device");
        if (rank->comm != NULL) perf_check(ncclCommDestroy(rank->comm), "ncclCommDestroy");
        if (rank->stream != NULL) perf_check(devices->stream_destroy(rank->stream), "stream");
        rank->comm = NULL;
        rank->stream = NULL;
    }
    world->leak_bytes =
        perf_devices_host_visible() ? -1 : (int64_t)world->free_before - (int64_t)free_bytes(world);
}
