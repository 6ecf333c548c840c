/* One verified placement of a row: fresh data with a new seed, one call, every element, the input
 * and the guard bytes of every rank compared bit for bit.
 */
#include "harness/run.h"

#include "harness/trial.h"
#include "harness/watchdog.h"

#include <stdio.h>
#include <string.h>

static void make_trial(struct perf_thread *thread, const struct perf_case *row, int in_place,
                       const struct perf_rank *rank, struct perf_trial *trial)
{
    perf_layout_place(&rank->layouts[in_place], &rank->buffers, 0, &trial->place);
    trial->pattern = thread->sweep->world->coll->pattern;
    trial->scratch = rank->buffers.scratch;
    trial->stream = rank->stream;
    trial->fill = (struct perf_fill){.type = (ncclDataType_t)row->type,
                                     .op = row->op,
                                     .rank = rank->group_rank,
                                     .nranks = rank->group_size,
                                     .seed = thread->seed};
    ptrdiff_t apart = trial->place.send - trial->place.recv;
    trial->shape = (struct perf_shape){.nranks = rank->group_size,
                                       .rank = rank->group_rank,
                                       .root = row->root < 0 ? 0 : row->root,
                                       .pair = row->pair,
                                       .count = rank->counts.count,
                                       .send_elems = rank->counts.send,
                                       .recv_elems = rank->counts.recv,
                                       .type_bytes = row->type_bytes,
                                       .in_place = in_place};
    if (in_place) trial->shape.send_at = apart / (ptrdiff_t)row->type_bytes;
}

static void fill_rank(const struct perf_trial *trial)
{
    if (perf_devices_host_visible())
        perf_trial_fill_host(trial);
    else
        perf_trial_fill_device(trial);
}

static void note_mismatch(struct perf_part *part, int rank, const struct perf_mismatch *mismatch)
{
    if (mismatch->wrong == 0) return;
    part->wrong += mismatch->wrong;
    if (part->bad_rank >= 0 && part->bad_rank <= rank) return;
    part->bad_rank = rank;
    part->mismatch = *mismatch;
}

static void compare_rank(const struct perf_thread *thread, const struct perf_rank *rank,
                         const struct perf_trial *trial)
{
    struct perf_mismatch found[PERF_TRIAL_PARTS];
    if (perf_devices_host_visible())
        perf_trial_compare_host(trial, found);
    else
        perf_trial_compare_device(trial, found);
    for (int i = 0; i < PERF_TRIAL_PARTS; i++)
        note_mismatch(&thread->sweep->parts[thread->index], rank->rank, &found[i]);
}

/* With -G the call is captured, as the timed ones are. */
static void run_once(struct perf_thread *thread, const struct perf_issue *issue)
{
    if (thread->sweep->world->options->graph_launches == 0) {
        perf_issue(thread, issue);
        perf_sync(thread);
        return;
    }
    perf_graph_t graph = perf_graph_capture(thread, issue, 1);
    perf_graph_launch(thread, graph);
    perf_sync(thread);
    perf_graph_drop(thread, graph);
}

void perf_check_case(struct perf_thread *thread, const struct perf_case *row, int in_place)
{
    const struct perf_options *options = thread->sweep->world->options;
    struct perf_issue issue = {row, in_place, 0, 1};
    struct perf_trial trial;
    for (int c = 0; c < options->check; c++) {
        perf_watch_phase(thread->ranks, thread->n, "filling for verification");
        for (int i = 0; i < thread->n; i++) {
            perf_devices()->set(thread->ranks[i].device);
            make_trial(thread, row, in_place, &thread->ranks[i], &trial);
            fill_rank(&trial);
            perf_watch_tick();
        }
        perf_watch_phase(thread->ranks, thread->n, "verified iteration");
        run_once(thread, &issue);
        /* A writer past the end may be another rank: all are done before anyone looks. */
        perf_thread_barrier(thread);
        perf_watch_phase(thread->ranks, thread->n, "verification");
        for (int i = 0; i < thread->n; i++) {
            perf_devices()->set(thread->ranks[i].device);
            make_trial(thread, row, in_place, &thread->ranks[i], &trial);
            compare_rank(thread, &thread->ranks[i], &trial);
            perf_watch_tick();
        }
        thread->seed++;
    }
}

void perf_mismatch_text(const struct perf_case *row, const struct perf_part *part, char *text,
                        size_t bytes)
{
    const struct perf_mismatch *mismatch = &part->mismatch;
    char expected[64], got[64];
    if (mismatch->guard == PERF_GUARD_WRONG) {
        snprintf(text, bytes,
                 "rank %d: a byte outside of the buffer was written, offset %td: expected 0x%02x, "
                 "got 0x%02x",
                 part->bad_rank, (ptrdiff_t)mismatch->first, mismatch->expected[0],
                 mismatch->got[0]);
        return;
    }
    perf_format_value((ncclDataType_t)row->type, mismatch->expected, expected, sizeof expected);
    perf_format_value((ncclDataType_t)row->type, mismatch->got, got, sizeof got);
    snprintf(text, bytes, "rank %d: %s buffer, index %zu: expected %s, got %s", part->bad_rank,
             mismatch->guard == PERF_SEND_CHANGED ? "send" : "receive", mismatch->first, expected,
             got);
}
