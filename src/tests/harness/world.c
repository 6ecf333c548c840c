/* The world of a run: choice of the launch mode, numbering of ranks, agreement of processes.
 * A world of one process has no link and its exchanges are copies.
 */
#include "harness/world.h"

#include "harness/devices.h"
#include "harness/ending.h"
#include "harness/timing.h"
#include "harness/watchdog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const launcher_variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                                 "SLURM_STEP_NUM_TASKS"};
static const char *const torch_variables[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};

const char *perf_launcher_variable(void)
{
    for (size_t i = 0; i < sizeof launcher_variables / sizeof launcher_variables[0]; i++) {
        const char *value = getenv(launcher_variables[i]);
        if (value != NULL && atoi(value) > 1) return launcher_variables[i];
    }
    return NULL;
}

double perf_rendezvous_s(const struct perf_options *options)
{
    return options->timeout_s > 0 ? options->timeout_s : 120;
}

static int torch_variables_set(void)
{
    for (size_t i = 0; i < sizeof torch_variables / sizeof torch_variables[0]; i++) {
        const char *value = getenv(torch_variables[i]);
        if (value == NULL || value[0] == '\0') return 0;
    }
    return 1;
}

/* One process can use ncclCommInitAll when nothing asks for more than it offers. */
static int fits_init_all(const struct perf_world *world)
{
    return world->options->threads == 1 && !world->options->parallel_init &&
           world->options->cta_policy < 0 && world->split.op == 0;
}

static const struct perf_world_ops *choose_mode(const struct perf_world *world)
{
    const struct perf_options *options = world->options;
    switch (options->init) {
    case PERF_INIT_ALL:
        if (!fits_init_all(world))
            perf_usage("option --init: all is for one thread, without -x and NCCL_TESTS_SPLIT");
        return &perf_world_all;
    case PERF_INIT_THREAD: return &perf_world_thread;
    case PERF_INIT_MPI: return &perf_world_mpi;
    case PERF_INIT_ENV: return &perf_world_env;
    case PERF_INIT_SPAWN: return &perf_world_spawn;
    default: break;
    }
    if (options->spawn > 0) return &perf_world_spawn;
    if (torch_variables_set()) return &perf_world_env;
    if (perf_launcher_variable() != NULL) return &perf_world_mpi;
    return fits_init_all(world) ? &perf_world_all : &perf_world_thread;
}

/* A launcher that started several processes, each of which would run alone. */
static void refuse_lonely_runs(const struct perf_world *world)
{
    const char *name = perf_launcher_variable();
    if (name == NULL || (world->nprocs > 1 && world->ops != &perf_world_spawn)) return;
    char text[PERF_OOB_TEXT];
    const char *advice = world->ops == &perf_world_mpi
                             ? "MPI_Init found one process only: is this mpirun of the MPI that "
                               "chorus_mpi.so was built with?"
                             : "each of these processes would run alone: use --init mpi, or unset "
                               "it";
    snprintf(text, sizeof text, "%s is %s, but with --init %s %s", name, getenv(name),
             world->ops->name, advice);
    perf_end(PERF_EXIT_ERROR, text);
}

void perf_world_allgather(struct perf_world *world, const void *mine, void *all, size_t bytes)
{
    if (world->link != NULL)
        perf_link_allgather(world->link, mine, all, bytes);
    else if (bytes > 0)
        memcpy(all, mine, bytes);
}

void perf_world_barrier(struct perf_world *world)
{
    if (world->link != NULL) perf_link_allgather(world->link, NULL, NULL, 0);
}

static void *serve_hub(void *argument)
{
    struct perf_hub *hub = argument;
    while (!perf_hub_done(hub)) perf_hub_serve(hub, -1, 1000);
    return NULL;
}

void perf_world_start_hub(struct perf_world *world, const struct perf_hub_args *args)
{
    world->hub = perf_hub_open(args);
}

void perf_world_link(struct perf_world *world, int fd, uint64_t token, const char *hub_name)
{
    struct perf_link_args args = {.fd = fd,
                                  .timeout_s = perf_rendezvous_s(world->options),
                                  .hub_name = hub_name,
                                  .failed = perf_end_linked};
    args.hello = (struct perf_hello){.token = token,
                                     .proc = world->proc,
                                     .nprocs = world->nprocs,
                                     .nranks = world->nlocal,
                                     .first_rank = world->proc * world->nlocal,
                                     .pid = (int32_t)getpid()};
    gethostname(args.hello.host, sizeof args.hello.host - 1);
    if (world->hub != NULL && pthread_create(&world->hub_thread, NULL, serve_hub, world->hub) != 0)
        perf_end(PERF_EXIT_ERROR, "cannot start the thread of the process hub");
    world->link = perf_link_open(&args);
}

static void number_groups(struct perf_world *world)
{
    int n = world->nranks;
    world->largest_group = 0;
    world->smallest_group = n;
    world->group_sizes = calloc((size_t)n, sizeof *world->group_sizes);
    if (world->group_sizes == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    for (int r = 0; r < n; r++) {
        int colour = perf_split_colour(&world->split, r), size = 0, before = 0;
        for (int other = 0; other < n; other++) {
            if (perf_split_colour(&world->split, other) != colour) continue;
            size++;
            before += other < r;
        }
        if (size > world->largest_group) world->largest_group = size;
        if (size < world->smallest_group) world->smallest_group = size;
        if (before == 0) world->group_sizes[world->ngroups++] = size;
        if (r < world->first_rank || r >= world->first_rank + world->nlocal) continue;
        struct perf_rank *rank = &world->ranks[r - world->first_rank];
        rank->group = colour;
        rank->group_rank = before;
        rank->group_size = size;
    }
}

static void count_host_ranks(struct perf_world *world)
{
    char(*hosts)[64] = calloc((size_t)world->nprocs, sizeof *hosts);
    char host[64] = "";
    if (hosts == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    gethostname(host, sizeof host - 1);
    perf_world_allgather(world, host, hosts, sizeof host);
    for (int i = 0; i < world->nprocs; i++) {
        if (strcmp(hosts[i], host) != 0) continue;
        world->host_ranks += world->nlocal;
        if (i < world->proc) world->host_first += world->nlocal;
    }
    free(hosts);
}

/* Round robin over the devices of the host. */
static void place_ranks(struct perf_world *world)
{
    world->ndevices = perf_device_count();
    for (int i = 0; i < world->nlocal; i++) {
        struct perf_rank *rank = &world->ranks[i];
        rank->rank = world->first_rank + i;
        rank->device = perf_device_of(world->host_first + i);
    }
}

/* Processes may see the GPUs of a host by different numbers. */
static int is_same_device(const struct perf_rank_info *a, const struct perf_rank_info *b)
{
    if (strcmp(a->host, b->host) != 0) return 0;
    return a->uuid[0] != '\0' ? strcmp(a->uuid, b->uuid) == 0 : a->device == b->device;
}

static void find_shared(struct perf_world *world)
{
    for (int i = 0; i < world->nranks; i++) {
        int sharing = 0;
        for (int j = 0; j < world->nranks; j++) {
            if (!is_same_device(&world->info[i], &world->info[j])) continue;
            sharing++;
            /* Threads and processes alike have options->gpus ranks each. */
            if (i / world->options->gpus != j / world->options->gpus &&
                !perf_devices_host_visible())
                world->callers_share_gpu = 1;
        }
        if (sharing > world->ranks_per_device) world->ranks_per_device = sharing;
    }
}

static void gather_info(struct perf_world *world)
{
    struct perf_rank_info *mine = calloc((size_t)world->nlocal, sizeof *mine);
    world->info = calloc((size_t)world->nranks, sizeof *world->info);
    if (mine == NULL || world->info == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    for (int i = 0; i < world->nlocal; i++) {
        const struct perf_rank *rank = &world->ranks[i];
        struct perf_device_info device;
        perf_check(perf_devices()->info(rank->device, &device), "device properties");
        mine[i].rank = rank->rank;
        mine[i].group = rank->group;
        mine[i].pid = (int)getpid();
        mine[i].device = rank->device;
        gethostname(mine[i].host, sizeof mine[i].host - 1);
        memcpy(mine[i].device_name, device.name, sizeof device.name);
        memcpy(mine[i].pci, device.pci, sizeof device.pci);
        memcpy(mine[i].uuid, device.uuid, sizeof device.uuid);
    }
    perf_world_allgather(world, mine, world->info, (size_t)world->nlocal * sizeof *mine);
    free(mine);
    find_shared(world);
}

void perf_world_open(struct perf_world *world)
{
    perf_split_read(&world->split);
    world->nlocal = world->options->threads * world->options->gpus;
    world->nprocs = 1;
    world->ops = choose_mode(world);
    perf_ending_start(world);
    if (world->ops == &perf_world_spawn || world->ops == &perf_world_all ||
        world->ops == &perf_world_thread)
        refuse_lonely_runs(world);
    world->ops->open(world);
    refuse_lonely_runs(world);
    world->nranks = world->nprocs * world->nlocal;
    world->first_rank = world->proc * world->nlocal;
    world->ranks = calloc((size_t)world->nlocal, sizeof *world->ranks);
    if (world->ranks == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    pthread_barrier_init(&world->barrier, NULL, (unsigned)world->options->threads);
    perf_world_agree(world);
    count_host_ranks(world);
    number_groups(world);
}

void perf_world_place(struct perf_world *world)
{
    place_ranks(world);
    gather_info(world);
}

void perf_world_close(struct perf_world *world, int code)
{
    perf_link_close(world->link, code);
    world->link = NULL;
    if (world->hub != NULL) {
        pthread_join(world->hub_thread, NULL);
        perf_hub_close(world->hub);
        world->hub = NULL;
    }
    pthread_barrier_destroy(&world->barrier);
    free(world->ranks);
    free(world->info);
    free(world->group_sizes);
    world->ranks = NULL;
    world->info = NULL;
    if (!world->ops->ends_at_once) return;
    fflush(NULL);
    _exit(code);
}
