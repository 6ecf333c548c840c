/* The memory of a sweep: what a rank may use, which rows fit, and the buffers for the largest of
 * them. Called by main.c before the header, which says what does not fit, and by run.c.
 */
#include "harness/ending.h"
#include "harness/library.h"
#include "harness/run.h"
#include "harness/sizes.h"
#include "harness/watchdog.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* --rotate, where a device does not tell its cache: more than most have. */
static const size_t unknown_cache_bytes = (size_t)256 << 20;

/* What a process finds out about its devices. */
struct finding {
    size_t budget_bytes, rotated_bytes;
};

/* What one rank may use: nine tenths of what is free now, shared by the ranks of a device, or of
 * the host where the devices' memory is the host's. And how large its buffers must be so that
 * those of all who share a cache are twice that cache. */
static void find_out(const struct perf_world *world, struct finding *found)
{
    *found = (struct finding){SIZE_MAX, 0};
    for (int i = 0; i < world->nlocal; i++) {
        struct perf_device_info info;
        perf_check(perf_devices()->info(world->ranks[i].device, &info), "device memory");
        int sharing = perf_devices_host_visible() ? world->host_ranks : world->ranks_per_device;
        size_t share = info.free_bytes / 10 * 9 / (size_t)sharing;
        size_t cache = info.cache_bytes > 0 ? info.cache_bytes : unknown_cache_bytes;
        size_t part = 2 * cache / (size_t)sharing;
        if (share < found->budget_bytes) found->budget_bytes = share;
        if (part > found->rotated_bytes) found->rotated_bytes = part;
    }
}

/* --rotate: buffers that hold several slots of every row, as far as there is memory. */
static void widen(struct perf_sweep *sweep, size_t rotated_bytes)
{
    size_t most = sweep->budget_bytes / 2;
    if (rotated_bytes > most) rotated_bytes = most;
    if (sweep->send_bytes == 0 || sweep->recv_bytes == 0) return;
    if (sweep->send_bytes < rotated_bytes) sweep->send_bytes = rotated_bytes;
    if (sweep->recv_bytes < rotated_bytes) sweep->recv_bytes = rotated_bytes;
}

/* Buffer sizes for the largest row of a type that fits; returns its requested size. */
static uint64_t size_type(struct perf_sweep *sweep, int type)
{
    const struct perf_world *world = sweep->world;
    struct perf_case row = {.type = type, .op = -1, .root = -1};
    struct perf_sizes sizes;
    uint64_t size_bytes, fit_bytes = 0;
    perf_sizes_start(&sizes, world->options);
    while (perf_sizes_next(&sizes, &size_bytes)) {
        size_t send, recv;
        perf_start_case(&row, size_bytes);
        perf_row_need(world, &row, &send, &recv);
        if (send > sweep->budget_bytes || recv > sweep->budget_bytes - send) {
            if (size_bytes > sweep->too_large_bytes) sweep->too_large_bytes = size_bytes;
            continue;
        }
        if (size_bytes > fit_bytes) fit_bytes = size_bytes;
        if (send > sweep->send_bytes) sweep->send_bytes = send;
        if (recv > sweep->recv_bytes) sweep->recv_bytes = recv;
    }
    return fit_bytes;
}

void perf_sweep_plan(struct perf_sweep *sweep)
{
    struct perf_world *world = sweep->world;
    struct finding mine;
    struct finding *all = calloc((size_t)world->nprocs, sizeof *all);
    size_t rotated_bytes = 0;
    if (all == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    find_out(world, &mine);
    perf_world_allgather(world, &mine, all, sizeof mine);
    sweep->budget_bytes = mine.budget_bytes;
    for (int p = 0; p < world->nprocs; p++) {
        if (all[p].budget_bytes < sweep->budget_bytes) sweep->budget_bytes = all[p].budget_bytes;
        if (all[p].rotated_bytes > rotated_bytes) rotated_bytes = all[p].rotated_bytes;
    }
    free(all);
    struct perf_span types = perf_choose(1, world->options->type, PERF_NTYPES);
    sweep->fit_bytes = UINT64_MAX;
    for (int type = types.first; type <= types.last; type++) {
        uint64_t fit_bytes = size_type(sweep, type);
        if (fit_bytes < sweep->fit_bytes) sweep->fit_bytes = fit_bytes;
    }
    if (world->options->rotate) widen(sweep, rotated_bytes);
    if (sweep->too_large_bytes == 0 || world->proc != 0) return;
    fprintf(stderr,
            "%s: memory: 0.9 * free memory / ranks that share it = %zu bytes a rank; a row of "
            "%llu bytes needs more for its two buffers: such rows are skipped\n",
            perf_program(), sweep->budget_bytes, (unsigned long long)sweep->too_large_bytes);
}

void perf_sweep_alloc(struct perf_sweep *sweep)
{
    struct perf_world *world = sweep->world;
    enum perf_registration registration =
        (enum perf_registration)world->options->local_register; /* -R 0, 1, 2 */
    perf_watch_phase(world->ranks, world->nlocal, "allocating the buffers");
    for (int i = 0; i < world->nlocal; i++) {
        struct perf_rank *rank = &world->ranks[i];
        rank->buffers.send_bytes = sweep->send_bytes;
        rank->buffers.recv_bytes = sweep->recv_bytes;
        perf_buffers_alloc(&rank->buffers, rank->device, registration, rank->comm);
        perf_watch_tick();
    }
    if (registration == PERF_WINDOWS) perf_buffers_windows(world->ranks, world->nlocal);
    struct perf_footer *footer = perf_ending_footer();
    footer->buffer_bytes = (sweep->send_bytes + sweep->recv_bytes) * (size_t)world->nlocal;
    footer->lib_bytes = world->lib_bytes;
}

void perf_sweep_memory(struct perf_sweep *sweep)
{
    static struct perf_rank_memory *kept; /* for the footer, until the process ends */
    struct perf_world *world = sweep->world;
    if (!world->options->memory_report) return;
    size_t n = (size_t)world->nlocal;
    struct perf_rank_memory *mine = calloc(n, sizeof *mine);
    free(kept);
    kept = calloc((size_t)world->nranks, sizeof *kept);
    if (mine == NULL || kept == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    for (size_t i = 0; i < n; i++) {
        ncclComm_t comm = world->ranks[i].comm;
        mine[i].total_bytes = perf_comm_memory(comm, ncclStatGpuMemTotal);
        mine[i].suspendable_bytes = perf_comm_memory(comm, ncclStatGpuMemSuspend);
        mine[i].buffer_bytes = (int64_t)(sweep->send_bytes + sweep->recv_bytes);
    }
    perf_world_allgather(world, mine, kept, n * sizeof *mine);
    free(mine);
    perf_report_lock();
    perf_ending_footer()->memory = kept;
    perf_ending_footer()->nranks = world->nranks;
    perf_report_unlock();
}

void perf_sweep_free(struct perf_sweep *sweep)
{
    struct perf_world *world = sweep->world;
    for (int i = 0; i < world->nlocal; i++)
        perf_buffers_free(&world->ranks[i].buffers, world->ranks[i].device, world->ranks[i].comm);
}
