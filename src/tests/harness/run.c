/* The sweep: every type, operator, root and size, out of place and in place, on all threads of
 * all processes in step. Thread 0 of each process combines what the threads found
 * (run_combine.c); rank 0's process writes the rows.
 */
#include "harness/run.h"

#include "harness/baseline.h"
#include "harness/devices.h"
#include "harness/ending.h"
#include "harness/library.h"
#include "harness/pairs.h"
#include "harness/sizes.h"
#include "harness/types.h"
#include "harness/usage.h"
#include "harness/watchdog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SEED = 1, MIN_PART_BYTES = 16 };

void perf_thread_barrier(struct perf_thread *thread)
{
    struct perf_world *world = thread->sweep->world;
    perf_watch_phase(thread->ranks, thread->n, "waiting for the others");
    pthread_barrier_wait(&world->barrier);
    if (world->link == NULL) return;
    if (thread->index == 0) perf_world_barrier(world);
    pthread_barrier_wait(&world->barrier);
}

/* ---- rows ---- */
static void make_counts(const struct perf_world *world, const struct perf_case *row, int nranks,
                        struct perf_counts *counts)
{
    struct perf_size size = {row->elems, row->type_bytes, nranks, world->options->exact};
    world->coll->counts(&size, counts);
    /* A row that asks for something gets something: the smallest that the collective has. */
    if (counts->count > 0 || row->requested_bytes == 0) return;
    size.elems = (size_t)nranks * (world->options->exact ? 1 : MIN_PART_BYTES / row->type_bytes);
    world->coll->counts(&size, counts);
}

static void make_layouts(const struct perf_world *world, const struct perf_case *row,
                         struct perf_rank *rank)
{
    struct perf_counts *counts = &rank->counts;
    make_counts(world, row, rank->group_size, counts);
    for (int in_place = 0; in_place < 2; in_place++) {
        struct perf_layout *layout = &rank->layouts[in_place];
        size_t r = (size_t)rank->group_rank * row->type_bytes;
        layout->send_bytes = counts->send * row->type_bytes;
        layout->recv_bytes = counts->recv * row->type_bytes;
        layout->send_offset = r * counts->in_place_send_offset;
        layout->recv_offset = r * counts->in_place_recv_offset;
        layout->shift_bytes = (size_t)world->options->unaligned * row->type_bytes;
        layout->in_place = in_place;
        perf_layout_slots(layout, &rank->buffers);
    }
}

void perf_row_need(const struct perf_world *world, const struct perf_case *row, size_t *send,
                   size_t *recv)
{
    size_t shift_bytes = (size_t)world->options->unaligned * row->type_bytes;
    int sizes[2] = {world->largest_group, world->smallest_group};
    *send = *recv = 0;
    for (int i = 0; i < 2; i++) {
        struct perf_counts counts;
        make_counts(world, row, sizes[i], &counts);
        size_t s = perf_buffer_need(counts.send * row->type_bytes, shift_bytes);
        size_t r = perf_buffer_need(counts.recv * row->type_bytes, shift_bytes);
        if (s > *send) *send = s;
        if (r > *recv) *recv = r;
    }
}

void perf_start_case(struct perf_case *row, uint64_t size_bytes)
{
    row->type_bytes = perf_numbers[row->type].bytes;
    row->requested_bytes = size_bytes;
    row->elems = size_bytes / row->type_bytes;
}

static void describe_case(const struct perf_world *world, const struct perf_case *row)
{
    char text[256];
    snprintf(text, sizeof text, "%s, %zu bytes, %s, op %s, root %d", world->coll->title,
             row->requested_bytes, perf_type_name(row->type), perf_op_name(row->op), row->root);
    perf_watch_row(text);
}

static void add_to_average(struct perf_sweep *sweep, const struct perf_measure *measure)
{
    struct perf_footer *footer = perf_ending_footer();
    if (!measure->run) return;
    sweep->busbw_sum += measure->busbw;
    sweep->busbw_n++;
    footer->avg_busbw = sweep->busbw_sum / sweep->busbw_n;
    footer->avg_valid = perf_report_has_busbw(sweep->world->ranks[0].group_size);
    if (measure->wrong <= 0) return;
    footer->out_of_bounds += measure->wrong;
    perf_ending_wrong();
}

/* Thread 0 of every process; only rank 0's writes. */
static void report_row(struct perf_sweep *sweep, const struct perf_row *row, char notes[2][320])
{
    struct perf_world *world = sweep->world;
    struct perf_footer *footer = perf_ending_footer();
    perf_report_lock();
    add_to_average(sweep, &row->out_of_place);
    add_to_average(sweep, &row->in_place);
    footer->nrows++;
    footer->nskipped += row->skipped;
    if (world->proc == 0) {
        perf_report_row(row);
        perf_baseline_add(row);
        for (int i = 0; i < 2; i++)
            if (notes[i][0] != '\0') perf_report_note(notes[i]);
        if (world->coll->summarize != NULL && !row->skipped) {
            struct perf_summary summary = {
                .counts = &world->ranks[0].counts,
                .type_bytes = perf_numbers[row->type].bytes,
                .nranks = world->ranks[0].group_size,
                .time_us = row->out_of_place.time_us,
                .note = perf_report_summary,
            };
            world->coll->summarize(&summary);
        }
    }
    perf_report_unlock();
}

/* --schedule: the text form of what ran. */
static void save_schedule(const struct perf_world *world, const struct perf_row *record)
{
    const char *path = world->options->schedule_file;
    if (path == NULL || record->skipped || world->proc != 0) return;
    if (strcmp(path, "-") == 0 || perf_comm_save_schedule(world->ranks[0].comm, path)) return;
    fprintf(stderr, "%s: --schedule: %s\n", perf_program(), ncclGetLastError(NULL));
}

/* Groups of several sizes move different amounts in the same time. */
static void sum_groups(const struct perf_world *world, const struct perf_case *row,
                       struct perf_measure *measure)
{
    for (int g = 0; g < world->ngroups && measure->time_us > 0; g++) {
        int n = world->group_sizes[g];
        struct perf_counts counts;
        make_counts(world, row, n, &counts);
        size_t size_bytes = world->coll->size_bytes(&counts, row->type_bytes, n);
        double algbw = (double)size_bytes / measure->time_us / 1000;
        measure->sum_algbw += algbw;
        if (perf_report_has_busbw(n)) measure->sum_busbw += algbw * world->coll->bus_factor(n);
    }
}

static void run_case(struct perf_thread *thread, const struct perf_case *row)
{
    struct perf_sweep *sweep = thread->sweep;
    struct perf_world *world = sweep->world;
    size_t send, recv;
    char notes[2][320] = {"", ""};
    struct perf_row record = {.requested_bytes = row->requested_bytes,
                              .type = row->type,
                              .op = row->op,
                              .root = row->root,
                              .from = -1,
                              .to = -1,
                              .cycle = row->cycle};
    if (thread->index == 0) describe_case(world, row);
    for (int i = 0; i < thread->n; i++) make_layouts(world, row, &thread->ranks[i]);
    record.count = thread->ranks[0].counts.count;
    record.size_bytes = world->coll->size_bytes(&thread->ranks[0].counts, row->type_bytes,
                                                thread->ranks[0].group_size);
    perf_row_need(world, row, &send, &recv);
    record.skipped = send > sweep->send_bytes || recv > sweep->recv_bytes;
    int placements = (world->coll->flags & PERF_IN_PLACE) != 0 ? 2 : 1;
    for (int in_place = 0; in_place < placements && !record.skipped; in_place++) {
        struct perf_batches batches = {0};
        perf_time_batches(thread, row, in_place, &batches);
        perf_check_case(thread, row, in_place);
        perf_combine(thread);
        if (thread->index != 0) continue;
        struct perf_measure *measure = in_place ? &record.in_place : &record.out_of_place;
        perf_measure_make(sweep, &record, &batches, measure);
        sum_groups(world, row, measure);
        perf_iterations_gather(sweep, in_place, measure);
        if (sweep->total.bad_rank < 0) continue;
        size_t used = (size_t)snprintf(notes[in_place], sizeof notes[in_place],
                                       "%s: ", in_place ? "in place" : "out of place");
        perf_mismatch_text(row, &sweep->total, notes[in_place] + used,
                           sizeof notes[in_place] - used);
    }
    if (thread->index != 0) return;
    if (sweep->pairs != NULL) {
        record.from = row->pair.first;
        record.to = row->pair.second;
        sweep->pairs[record.from * world->nranks + record.to] = record.out_of_place.busbw;
    }
    save_schedule(world, &record);
    report_row(sweep, &record, notes);
}

int perf_is_busy(const struct perf_thread *thread, const struct perf_case *row)
{
    int peer, is_paired = (thread->sweep->world->coll->flags & PERF_PAIRED) != 0;
    for (int i = 0; i < thread->n; i++) {
        const struct perf_rank *rank = &thread->ranks[i];
        if (!is_paired ||
            perf_pair_role(&row->pair, rank->group_rank, rank->group_size, &peer) != PERF_ROLE_NONE)
            return 1;
    }
    return 0;
}

/* --pairs: a row for each, then the table of all. */
static void run_pairs(struct perf_thread *thread, struct perf_case *row)
{
    struct perf_sweep *sweep = thread->sweep;
    struct perf_world *world = sweep->world;
    row->pair = (struct perf_pair){0, 0};
    while (perf_pair_next(&row->pair, world->coll, world->nranks)) run_case(thread, row);
    row->pair = (struct perf_pair){0, 0};
    if (thread->index != 0 || world->proc != 0) return;
    perf_report_lock();
    perf_pairs_table(sweep->pairs, world->nranks, perf_report_summary);
    perf_report_unlock();
    memset(sweep->pairs, 0, (size_t)world->nranks * (size_t)world->nranks * sizeof(double));
}

static void run_sizes(struct perf_thread *thread, struct perf_case *row)
{
    struct perf_sizes sizes;
    uint64_t size_bytes;
    perf_sizes_start(&sizes, thread->sweep->world->options);
    while (perf_sizes_next(&sizes, &size_bytes)) {
        perf_start_case(row, size_bytes);
        if (thread->sweep->pairs != NULL)
            run_pairs(thread, row);
        else
            run_case(thread, row);
    }
}

struct perf_span perf_choose(int applies, int choice, int n)
{
    if (!applies) return (struct perf_span){-1, -1};
    if (choice == PERF_ALL) return (struct perf_span){0, n - 1};
    return (struct perf_span){choice, choice};
}

static void run_cycle(struct perf_thread *thread, int cycle)
{
    const struct perf_world *world = thread->sweep->world;
    const struct perf_options *o = world->options;
    struct perf_span types = perf_choose(1, o->type, PERF_NTYPES);
    struct perf_span ops = perf_choose((world->coll->flags & PERF_HAS_OP) != 0, o->op, PERF_NOPS);
    struct perf_span roots =
        perf_choose((world->coll->flags & PERF_HAS_ROOT) != 0, o->root, world->smallest_group);
    struct perf_case row = {.cycle = cycle};
    for (row.type = types.first; row.type <= types.last; row.type++)
        for (row.op = ops.first; row.op <= ops.last; row.op++)
            for (row.root = roots.first; row.root <= roots.last; row.root++)
                run_sizes(thread, &row);
}

/* --baseline: a row that looks slower may have met other work of the machine, so the series runs
 * again; slower is what is so each time. Rank 0's process decides. */
static int runs_again(struct perf_thread *thread)
{
    struct perf_sweep *sweep = thread->sweep;
    struct perf_world *world = sweep->world;
    pthread_barrier_wait(&world->barrier);
    if (thread->index == 0) {
        int again = 0, *all = calloc((size_t)world->nprocs, sizeof *all);
        if (all == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
        perf_report_lock();
        const struct perf_gate *gate = world->proc == 0 ? perf_baseline_judge() : NULL;
        perf_ending_footer()->gate = gate;
        perf_report_unlock();
        if (gate != NULL)
            again = perf_gate_code(gate) == PERF_EXIT_SLOW && gate->nruns < PERF_GATE_RUNS;
        perf_world_allgather(world, &again, all, sizeof again);
        sweep->runs_again = all[0];
        free(all);
    }
    pthread_barrier_wait(&world->barrier);
    return sweep->runs_again;
}

static void *run_thread(void *argument)
{
    struct perf_thread *thread = argument;
    const struct perf_options *options = thread->sweep->world->options;
    int cycle = 0;
    do {
        for (int end = cycle + options->run_cycles; options->run_cycles == 0 || cycle < end;
             cycle++)
            run_cycle(thread, cycle);
    } while (runs_again(thread));
    return NULL;
}

/* ---- all threads ---- */
static void run_threads(struct perf_sweep *sweep)
{
    struct perf_world *world = sweep->world;
    size_t n = (size_t)world->options->threads;
    int gpus = world->options->gpus;
    struct perf_thread *threads = calloc(n, sizeof *threads);
    pthread_t *handles = calloc(n, sizeof *handles);
    sweep->parts = calloc(n, sizeof *sweep->parts);
    if (threads == NULL || handles == NULL || sweep->parts == NULL)
        perf_end(PERF_EXIT_ERROR, "out of memory");
    sweep->threads = threads;
    perf_iterations_open(sweep);
    for (size_t t = 0; t < n; t++) {
        threads[t] =
            (struct perf_thread){.sweep = sweep, .index = (int)t, .n = gpus, .seed = FIRST_SEED};
        threads[t].ranks = &world->ranks[t * (size_t)gpus];
        perf_events_open(&threads[t]);
        threads[t].marks = perf_marks_open(threads[t].ranks[0].device, threads[t].ranks[0].stream);
    }
    for (size_t t = 1; t < n; t++)
        if (pthread_create(&handles[t], NULL, run_thread, &threads[t]) != 0)
            perf_end(PERF_EXIT_ERROR, "cannot start all threads of -t");
    run_thread(&threads[0]);
    for (size_t t = 1; t < n; t++) pthread_join(handles[t], NULL);
    for (size_t t = 0; t < n; t++) {
        perf_events_close(&threads[t]);
        perf_marks_close(threads[t].marks);
    }
    perf_iterations_close(sweep);
    sweep->threads = NULL;
    free(sweep->parts);
    free(handles);
    free(threads);
}

/* Every process counts the same rows; only rank 0's process knows the times that count. */
static int decide(struct perf_world *world)
{
    const struct perf_footer *footer = perf_ending_footer();
    int code = PERF_EXIT_OK;
    if (footer->min_busbw_wanted > 0 && footer->avg_valid &&
        footer->avg_busbw < 0.9 * footer->min_busbw_wanted)
        code = PERF_EXIT_SLOW;
    code = perf_verdict_worse(code, perf_gate_code(footer->gate));
    if (perf_report_is_empty(footer)) code = PERF_EXIT_ERROR;
    if (footer->out_of_bounds > 0) code = PERF_EXIT_WRONG;
    int *all = calloc((size_t)world->nprocs, sizeof *all);
    if (all == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    perf_world_allgather(world, &code, all, sizeof code);
    code = all[0];
    for (int p = 0; p < world->nprocs; p++)
        if (all[p] == PERF_EXIT_WRONG) code = PERF_EXIT_WRONG;
    free(all);
    return code;
}

/* A run of which nothing fitted has measured and verified nothing. */
static void say_all_skipped(const struct perf_world *world)
{
    static const char text[] = "no row fits in memory: nothing was run, nothing was verified";
    struct perf_footer *footer = perf_ending_footer();
    if (!perf_report_is_empty(footer)) return;
    footer->error = text;
    if (world->proc == 0) fprintf(stderr, "%s: %s\n", perf_program(), text);
}

int perf_run(struct perf_sweep *sweep)
{
    struct perf_world *world = sweep->world;
    perf_sweep_alloc(sweep);
    if (world->options->pairs) {
        sweep->pairs = calloc((size_t)world->nranks * (size_t)world->nranks, sizeof(double));
        if (sweep->pairs == NULL) perf_end(PERF_EXIT_ERROR, "out of memory for --pairs");
    }
    run_threads(sweep);
    free(sweep->pairs);
    perf_sweep_memory(sweep);
    perf_sweep_free(sweep);
    say_all_skipped(world);
    return decide(world);
}
