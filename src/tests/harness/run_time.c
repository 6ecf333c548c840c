/* One timed placement of a row. The clock is the wall clock of each thread, from the first call
 * to the moment when all its ranks are idle again; all threads start together from a barrier that
 * is not timed. The warm-up does exactly what is timed.
 */
#include "harness/ending.h"
#include "harness/redop.h"
#include "harness/run.h"
#include "harness/timing.h"
#include "harness/watchdog.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { ENDLESS_SYNC = 64 };

/* One rank's call of one step. */
struct one_call {
    struct perf_thread *thread;
    const struct perf_issue *issue;
    int rank_index, step;
};

static void check_call(ncclResult_t result, const struct perf_thread *thread,
                       const struct perf_rank *rank)
{
    if (result == ncclSuccess) return;
    char what[96];
    snprintf(what, sizeof what, "rank %d: %s", rank->rank, thread->sweep->world->coll->title);
    perf_check(result, what);
}

static void call_rank(const struct one_call *one)
{
    struct perf_world *world = one->thread->sweep->world;
    struct perf_rank *rank = &one->thread->ranks[one->rank_index];
    const struct perf_case *row = one->issue->row;
    const struct perf_layout *layout = &rank->layouts[one->issue->in_place];
    struct perf_place place;
    perf_layout_place(layout, &rank->buffers, one->issue->iteration % layout->slots, &place);
    struct perf_redop redop;
    check_call(
        perf_redop_begin(&redop, row->op, (ncclDataType_t)row->type, rank->group_rank, rank->comm),
        one->thread, rank);
    struct perf_call call = {.send = place.send,
                             .recv = place.recv,
                             .count = rank->counts.count,
                             .type = (ncclDataType_t)row->type,
                             .op = redop.op,
                             .root = row->root < 0 ? 0 : row->root,
                             .rank = rank->group_rank,
                             .nranks = rank->group_size,
                             .step = one->step,
                             .pair = row->pair,
                             .comm = rank->comm,
                             .stream = rank->stream};
    check_call(world->coll->run(&call), one->thread, rank);
    check_call(perf_redop_end(&redop, rank->comm), one->thread, rank);
}

/* One group: a step of `calls` collectives for all ranks of the thread. */
static void issue_group(struct perf_thread *thread, const struct perf_issue *issue, int step,
                        int calls)
{
    int grouped = calls * thread->n > 1;
    if (grouped) perf_check(ncclGroupStart(), "ncclGroupStart");
    for (int c = 0; c < calls; c++)
        for (int i = 0; i < thread->n; i++) call_rank(&(struct one_call){thread, issue, i, step});
    if (grouped) check_call(ncclGroupEnd(), thread, &thread->ranks[0]);
}

void perf_issue(struct perf_thread *thread, const struct perf_issue *issue)
{
    const struct perf_coll *coll = thread->sweep->world->coll;
    if (coll->steps == NULL) {
        issue_group(thread, issue, 0, issue->calls);
        return;
    }
    /* A rank's group may have fewer steps than another's: it sits the rest out in `run`. */
    int nsteps = coll->steps(thread->sweep->world->largest_group);
    for (int c = 0; c < issue->calls; c++)
        for (int step = 0; step < nsteps; step++) issue_group(thread, issue, step, 1);
}

void perf_sync(struct perf_thread *thread)
{
    const struct perf_device_ops *devices = perf_devices();
    for (int i = 0; i < thread->n; i++) {
        struct perf_rank *rank = &thread->ranks[i];
        perf_check(devices->set(rank->device), "setting the device");
        ncclResult_t result = devices->stream_sync(rank->stream);
        check_call(result, thread, rank);
        perf_watch_tick();
    }
}

static void record_event(struct perf_thread *thread, int index)
{
    if (thread->events == NULL) return;
    perf_check(perf_devices()->set(thread->ranks[0].device), "setting the device");
    perf_check(perf_devices()->event_record(thread->events[index], thread->ranks[0].stream),
               "recording an event");
}

/* A series of iterations of one placement. */
struct series {
    const struct perf_case *row;
    int in_place;
    int n;
    int timed;          /* the one that -I reports; the warm-up is not */
    perf_graph_t graph; /* -G: an iteration is a launch of it */
};

/* A series that waits as it goes needs no marks. An endless one waits now and then. */
static void plan_marks(struct perf_thread *thread, int n, double iteration_s)
{
    const struct perf_options *options = thread->sweep->world->options;
    struct perf_marks_plan plan = {options->iters > 0 ? n : ENDLESS_SYNC, iteration_s,
                                   options->blocking == 0 ? options->timeout_s : 0};
    perf_marks_plan(thread->marks, &plan);
}

/* Iterations [0, n), the way -z and -m ask for: 1 and 2 wait for each call, 3 for the group of an
 * iteration; 1 and 3 then meet the others. Returns the nanoseconds that do not count: 3's
 * barriers. */
static uint64_t iterate(struct perf_thread *thread, const struct series *series)
{
    const struct perf_options *options = thread->sweep->world->options;
    int blocking = options->blocking, single = blocking == 1 || blocking == 2;
    struct perf_issue issue = {series->row, series->in_place, 0, single ? 1 : options->agg_iters};
    int repeats = single ? options->agg_iters : 1;
    uint64_t excluded_ns = 0;
    for (int i = 0; i < series->n; i++) {
        issue.iteration = (size_t)i;
        for (int repeat = 0; repeat < repeats; repeat++) {
            perf_issue(thread, &issue);
            if (blocking != 0) perf_sync(thread);
            if (blocking == 1) perf_thread_barrier(thread);
        }
        if (series->timed) record_event(thread, i + 1);
        perf_marks_pass(thread->marks, i);
        if (blocking == 3) {
            uint64_t start_ns = perf_clock_ns();
            perf_thread_barrier(thread);
            excluded_ns += perf_clock_ns() - start_ns;
        }
        /* An endless row must not run ahead of its streams for ever. */
        if (options->iters == 0 && i % ENDLESS_SYNC == 0) {
            perf_sync(thread);
            plan_marks(thread, 0, -1);
        }
        perf_watch_tick();
    }
    return excluded_ns;
}

static void launch(struct perf_thread *thread, const struct series *series)
{
    int waits = perf_replays_wait(thread->sweep->world);
    for (int i = 0; i < series->n; i++) {
        perf_graph_launch(thread, series->graph);
        if (waits) perf_sync(thread);
        perf_marks_pass(thread->marks, i);
        perf_watch_tick();
    }
}

/* All of a series; returns the nanoseconds that do not count. */
static uint64_t enqueue(struct perf_thread *thread, const struct series *series)
{
    if (series->graph == NULL) return iterate(thread, series);
    launch(thread, series);
    return 0;
}

/* Returns the seconds that one iteration took, -1 without any. */
static double warm_up(struct perf_thread *thread, const struct series *series)
{
    perf_watch_phase(thread->ranks, thread->n, "warm-up");
    plan_marks(thread, series->n, -1);
    uint64_t start_ns = perf_clock_ns();
    enqueue(thread, series);
    perf_sync(thread);
    return series->n > 0 ? (double)(perf_clock_ns() - start_ns) / 1e9 / series->n : -1;
}

/* All iterations in one graph, or one call where each launch is waited for. */
static void capture_series(struct perf_thread *thread, struct series *series)
{
    const struct perf_options *options = thread->sweep->world->options;
    int waits = perf_replays_wait(thread->sweep->world);
    struct perf_issue captured = {series->row, series->in_place, 0, waits ? 1 : options->agg_iters};
    series->graph = perf_graph_capture(thread, &captured, waits ? 1 : options->iters);
}

/* How often the graph is launched for the calls that -G, -n and -m ask for. */
static int launches_of(const struct perf_world *world)
{
    const struct perf_options *options = world->options;
    int64_t launches = options->graph_launches;
    if (perf_replays_wait(world)) launches *= (int64_t)options->iters * options->agg_iters;
    return launches < INT_MAX ? (int)launches : INT_MAX;
}

void perf_time_case(struct perf_thread *thread, const struct perf_case *row, int in_place)
{
    const struct perf_options *options = thread->sweep->world->options;
    struct perf_part *part = &thread->sweep->parts[thread->index];
    memset(part, 0, sizeof *part);
    part->bad_rank = -1;
    part->nthreads = perf_is_busy(thread, row);
    part->max_rank = thread->ranks[0].rank;
    struct series series = {
        .row = row, .in_place = in_place, .n = options->iters > 0 ? options->warmup : 0};
    if (options->graph_launches > 0) capture_series(thread, &series);
    double iteration_s = warm_up(thread, &series);
    series.timed = options->iters > 0;
    series.n = series.timed ? options->iters : INT_MAX;
    if (series.graph != NULL) series.n = launches_of(thread->sweep->world);
    plan_marks(thread, series.n, iteration_s);
    perf_thread_barrier(thread);
    perf_watch_phase(thread->ranks, thread->n, "timed iterations");
    uint64_t start_ns = perf_clock_ns(), start_cpu_ns = perf_cpu_ns();
    record_event(thread, 0);
    start_ns += enqueue(thread, &series);
    uint64_t cpu_ns = perf_cpu_ns() - start_cpu_ns;
    perf_sync(thread);
    double calls = (double)options->iters * options->agg_iters;
    if (series.graph != NULL) calls *= options->graph_launches;
    if (perf_replays_wait(thread->sweep->world)) calls = series.n;
    double time_us = (double)(perf_clock_ns() - start_ns) / 1000 / calls;
    if (thread->sweep->world->coll->trips > 0) time_us /= thread->sweep->world->coll->trips;
    part->time_first = part->time_sum = part->time_min = part->time_max = time_us;
    part->cpu_us = (double)cpu_ns / 1000 / calls;
    part->calls = calls;
    perf_events_read(thread);
    if (series.graph != NULL) perf_graph_drop(thread, series.graph);
}
