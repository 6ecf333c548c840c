/* Option -I: the time of each iteration, by events on the stream of a thread's first rank. Threads
 * read their own; thread 0 of each process takes the slowest of its threads and gathers those of
 * all processes. Statistics are over the slowest process of each iteration, without the first -K.
 */
#include "harness/ending.h"
#include "harness/run.h"

#include <stdlib.h>
#include <string.h>

/* Of both placements, since a row is written after the second. */
struct perf_iterations {
    size_t n;
    double *scratch;       /* [n] */
    double *slowest_us[2]; /* [n] */
    double *by_proc_us[2]; /* [nprocs][n] */
};

void perf_events_open(struct perf_thread *thread)
{
    const struct perf_options *options = thread->sweep->world->options;
    if (thread->sweep->iterations == NULL) return;
    size_t n = (size_t)options->iters;
    thread->events = calloc(n + 1, sizeof(chorus_event_t));
    thread->iter_us = calloc(n, sizeof *thread->iter_us);
    if (thread->events == NULL || thread->iter_us == NULL)
        perf_end(PERF_EXIT_ERROR, "out of memory for the events of -I");
    perf_check(perf_devices()->set(thread->ranks[0].device), "setting the device");
    for (size_t i = 0; i <= n; i++)
        perf_check(perf_devices()->event_create(&thread->events[i]), "making an event");
}

void perf_events_close(struct perf_thread *thread)
{
    for (int i = 0; thread->events != NULL && i <= thread->sweep->world->options->iters; i++)
        perf_devices()->event_destroy(thread->events[i]);
    free(thread->events);
    free(thread->iter_us);
}

void perf_events_read(struct perf_thread *thread)
{
    const struct perf_options *options = thread->sweep->world->options;
    int trips = thread->sweep->world->coll->trips > 0 ? thread->sweep->world->coll->trips : 1;
    if (thread->events == NULL) return;
    for (int i = 0; i < options->iters; i++) {
        float ms = 0;
        perf_check(perf_devices()->event_elapsed(thread->events[i], thread->events[i + 1], &ms),
                   "reading an event");
        thread->iter_us[i] = (double)ms * 1000 / options->agg_iters / trips;
    }
}

void perf_iterations_open(struct perf_sweep *sweep)
{
    const struct perf_world *world = sweep->world;
    if (!world->options->iter_report) return;
    struct perf_iterations *iterations = calloc(1, sizeof *iterations);
    size_t n = (size_t)world->options->iters, nprocs = (size_t)world->nprocs;
    double *memory = calloc(n * (3 + 2 * nprocs), sizeof *memory);
    if (iterations == NULL || memory == NULL)
        perf_end(PERF_EXIT_ERROR, "out of memory for the times of -I");
    iterations->n = n;
    iterations->scratch = memory;
    for (size_t place = 0; place < 2; place++) {
        iterations->slowest_us[place] = memory + n * (1 + place);
        iterations->by_proc_us[place] = memory + n * (3 + place * nprocs);
    }
    sweep->iterations = iterations;
}

void perf_iterations_close(struct perf_sweep *sweep)
{
    if (sweep->iterations == NULL) return;
    free(sweep->iterations->scratch);
    free(sweep->iterations);
    sweep->iterations = NULL;
}

static void keep_larger(double *to, const double *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (from[i] > to[i]) to[i] = from[i];
}

void perf_iterations_gather(struct perf_sweep *sweep, int in_place, struct perf_measure *measure)
{
    struct perf_iterations *iterations = sweep->iterations;
    struct perf_world *world = sweep->world;
    if (iterations == NULL) return;
    size_t n = iterations->n, skip = (size_t)world->options->iter_skip;
    double *slowest = iterations->slowest_us[in_place], *all = iterations->by_proc_us[in_place];
    memset(slowest, 0, n * sizeof *slowest);
    for (int t = 0; t < world->options->threads; t++)
        keep_larger(slowest, sweep->threads[t].iter_us, n);
    perf_world_allgather(world, slowest, all, n * sizeof *all);
    for (int p = 0; p < world->nprocs; p++) keep_larger(slowest, all + (size_t)p * n, n);
    memcpy(iterations->scratch, slowest, n * sizeof *slowest);
    perf_stats_compute(iterations->scratch + skip, n - skip, &measure->iters);
    measure->times = (struct perf_times){.n = (int)n,
                                         .nprocs = world->nprocs,
                                         .skipped = (int)skip,
                                         .slowest_us = slowest,
                                         .by_proc_us = all};
}
