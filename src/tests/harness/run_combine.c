/* What the threads of all processes found, put together: the time that counts, of which rank, how
 * much is wrong. Called by run.c on all threads in step; thread 0 of each process does the work
 * between two barriers, and all threads may read the result until the next one.
 */
#include "harness/ending.h"
#include "harness/library.h"
#include "harness/run.h"
#include "harness/watchdog.h"

#include <stdlib.h>
#include <string.h>

static void fold_wrong(struct perf_part *total, const struct perf_part *part)
{
    total->wrong += part->wrong;
    if (part->bad_rank < 0) return;
    if (total->bad_rank >= 0 && total->bad_rank < part->bad_rank) return;
    total->bad_rank = part->bad_rank;
    total->mismatch = part->mismatch;
}

/* Of threads whose ranks had nothing to do only what is wrong counts. `total` starts empty, with
 * bad_rank -1. */
static void fold(struct perf_part *total, const struct perf_part *part)
{
    fold_wrong(total, part);
    if (part->nthreads == 0) return;
    if (total->nthreads == 0 || part->time_max > total->time_max) {
        total->time_max = part->time_max;
        total->max_rank = part->max_rank;
    }
    if (total->nthreads == 0) {
        total->time_first = part->time_first;
        total->time_min = part->time_min;
        total->calls = part->calls;
    }
    total->time_sum += part->time_sum;
    total->nthreads += part->nthreads;
    if (part->time_min < total->time_min) total->time_min = part->time_min;
    if (part->cpu_us > total->cpu_us) total->cpu_us = part->cpu_us;
}

void perf_combine(struct perf_thread *thread)
{
    struct perf_sweep *sweep = thread->sweep;
    struct perf_world *world = sweep->world;
    perf_watch_phase(thread->ranks, thread->n, "waiting for the others");
    pthread_barrier_wait(&world->barrier);
    if (thread->index == 0) {
        struct perf_part mine;
        memset(&mine, 0, sizeof mine);
        mine.bad_rank = -1;
        for (int t = 0; t < world->options->threads; t++) fold(&mine, &sweep->parts[t]);
        struct perf_part *all = calloc((size_t)world->nprocs, sizeof *all);
        if (all == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
        perf_world_allgather(world, &mine, all, sizeof mine);
        memset(&sweep->total, 0, sizeof sweep->total);
        sweep->total.bad_rank = -1;
        for (int p = 0; p < world->nprocs; p++) fold(&sweep->total, &all[p]);
        free(all);
    }
    pthread_barrier_wait(&world->barrier);
}

static double chosen_time(const struct perf_options *options, const struct perf_part *total)
{
    switch (options->average) {
    case 0: return total->time_first;
    case 2: return total->time_min;
    case 3: return total->time_max;
    default: return total->time_sum / total->nthreads;
    }
}

/* The interval is that of the mean, so that one slow series among many does not go on for ever. */
static int is_stable(struct perf_batches *batches, double wanted_percent)
{
    double sorted[PERF_BATCHES_MOST];
    memcpy(sorted, batches->us, sizeof sorted);
    perf_stats_compute(sorted, (size_t)batches->n, &batches->stats);
    return perf_stats_ci_percent(&batches->stats) <= wanted_percent;
}

void perf_time_batches(struct perf_thread *thread, const struct perf_case *row, int in_place,
                       struct perf_batches *batches)
{
    const struct perf_options *options = thread->sweep->world->options;
    int is_done = 0;
    while (!is_done) {
        perf_time_case(thread, row, in_place);
        if (options->until_stable <= 0) return;
        perf_combine(thread);
        batches->us[batches->n++] = chosen_time(options, &thread->sweep->total);
        is_done = is_stable(batches, options->until_stable);
        is_done = (is_done && batches->n >= PERF_BATCHES_LEAST) || batches->n == PERF_BATCHES_MOST;
    }
}

void perf_measure_make(struct perf_sweep *sweep, const struct perf_row *row,
                       const struct perf_batches *batches, struct perf_measure *measure)
{
    const struct perf_world *world = sweep->world;
    const struct perf_rank *first = &world->ranks[0];
    const struct perf_part *total = &sweep->total;
    int nseries = batches->n > 0 ? batches->n : 1;
    *measure = (struct perf_measure){
        .run = 1,
        .time_us = batches->n > 0 ? batches->stats.mean : chosen_time(world->options, total),
        .cputime_us = total->cpu_us,
        .wrong = world->options->check > 0 ? (int64_t)total->wrong : -1,
        .rank_min_us = total->time_min,
        .rank_avg_us = total->time_sum / total->nthreads,
        .rank_max_us = total->time_max,
        .max_rank = total->max_rank,
        .iters = batches->stats,
        .calls = (int64_t)(total->calls * nseries),
        .batches = nseries,
        .ci_percent = batches->n > 1 ? perf_stats_ci_percent(&batches->stats) : 0,
        .slots = first->layouts[measure == &row->in_place].slots,
    };
    if (measure->time_us > 0) measure->algbw = (double)row->size_bytes / measure->time_us / 1000;
    measure->busbw = measure->algbw * world->coll->bus_factor(first->group_size);
    if (world->proc == 0) perf_comm_ran(first->comm, &measure->ran);
}
