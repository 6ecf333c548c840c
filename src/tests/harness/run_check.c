/* One verified placement of a row: fresh data with a new seed, one call, every element, the input
 * and the guard bytes of every rank compared bit for bit.
 */
#include "harness/run.h"

#include "harness/watchdog.h"

#include <stdio.h>
#include <string.h>

/* A rank's data of one verified iteration. */
struct check {
    struct perf_fill fill;
    struct perf_shape shape;
    struct perf_place place;
};

static void make_check(struct perf_thread *thread, const struct perf_case *row, int in_place,
                       const struct perf_rank *rank, struct check *check)
{
    perf_layout_place(&rank->layouts[in_place], &rank->buffers, 0, &check->place);
    check->fill = (struct perf_fill){.type = (ncclDataType_t)row->type,
                                     .op = row->op,
                                     .rank = rank->group_rank,
                                     .nranks = rank->group_size,
                                     .seed = thread->seed};
    ptrdiff_t apart = check->place.send - check->place.recv;
    check->shape = (struct perf_shape){.nranks = rank->group_size,
                                       .rank = rank->group_rank,
                                       .root = row->root < 0 ? 0 : row->root,
                                       .count = rank->counts.count,
                                       .send_elems = rank->counts.send,
                                       .recv_elems = rank->counts.recv,
                                       .type_bytes = row->type_bytes,
                                       .in_place = in_place};
    if (in_place) check->shape.send_at = apart / (ptrdiff_t)row->type_bytes;
}

/* The CPU's view of an area with its guards. */
static char *open_area(struct perf_view *view, char *area, size_t bytes, int load)
{
    perf_view_open(view, area - PERF_GUARD_BYTES, bytes + (size_t)2 * PERF_GUARD_BYTES, load);
    return view->host + PERF_GUARD_BYTES;
}

static void fill_guards(char *data, size_t bytes)
{
    perf_guard_fill(data - PERF_GUARD_BYTES);
    perf_guard_fill(data + bytes);
}

static void fill_rank(const struct perf_thread *thread, const struct check *check)
{
    const struct perf_pattern *pattern = thread->sweep->world->coll->pattern;
    const struct perf_place *place = &check->place;
    struct perf_view recv_view, send_view;
    char *recv_area = open_area(&recv_view, place->recv_area, place->recv_area_bytes, 0);
    char *send_area = recv_area;
    if (!check->shape.in_place)
        send_area = open_area(&send_view, place->send_area, place->send_area_bytes, 0);
    perf_fill_recv(&check->fill, pattern, &check->shape,
                   recv_area + (place->recv - place->recv_area));
    perf_fill(&check->fill, 0, check->shape.send_elems,
              send_area + (place->send - place->send_area));
    fill_guards(recv_area, place->recv_area_bytes);
    if (!check->shape.in_place) {
        fill_guards(send_area, place->send_area_bytes);
        perf_view_close(&send_view, 1);
    }
    perf_view_close(&recv_view, 1);
}

static void note_mismatch(struct perf_part *part, int rank, const struct perf_mismatch *mismatch)
{
    if (mismatch->wrong == 0) return;
    part->wrong += mismatch->wrong;
    if (part->bad_rank >= 0 && part->bad_rank <= rank) return;
    part->bad_rank = rank;
    part->mismatch = *mismatch;
}

/* Guard bytes before and behind an area; `first` is a byte offset from the area's start, so that
 * bytes before it wrap to large numbers and are told from those behind by that. */
static void check_guards(struct perf_part *part, int rank, const char *data, size_t bytes)
{
    for (int behind = 0; behind < 2; behind++) {
        const char *guard = behind ? data + bytes : data - PERF_GUARD_BYTES;
        int bad = perf_guard_bad(guard);
        if (bad < 0) continue;
        uint8_t intact[PERF_GUARD_BYTES];
        perf_guard_fill(intact);
        struct perf_mismatch mismatch = {.wrong = 1, .guard = PERF_GUARD_WRONG};
        mismatch.first = behind ? bytes + (size_t)bad : (size_t)bad - PERF_GUARD_BYTES;
        mismatch.expected[0] = intact[bad];
        mismatch.got[0] = (uint8_t)guard[bad];
        note_mismatch(part, rank, &mismatch);
    }
}

static void compare_rank(const struct perf_thread *thread, const struct perf_rank *rank,
                         const struct check *check)
{
    const struct perf_pattern *pattern = thread->sweep->world->coll->pattern;
    struct perf_part *part = &thread->sweep->parts[thread->index];
    const struct perf_place *place = &check->place;
    struct perf_mismatch mismatch;
    struct perf_view recv_view, send_view;
    char *recv_area = open_area(&recv_view, place->recv_area, place->recv_area_bytes, 1);
    char *send_area = recv_area;
    if (!check->shape.in_place)
        send_area = open_area(&send_view, place->send_area, place->send_area_bytes, 1);
    perf_compare(&check->fill, pattern, &check->shape, recv_area + (place->recv - place->recv_area),
                 &mismatch);
    note_mismatch(part, rank->rank, &mismatch);
    perf_compare_send(&check->fill, &check->shape, send_area + (place->send - place->send_area),
                      &mismatch);
    note_mismatch(part, rank->rank, &mismatch);
    check_guards(part, rank->rank, recv_area, place->recv_area_bytes);
    if (!check->shape.in_place) {
        check_guards(part, rank->rank, send_area, place->send_area_bytes);
        perf_view_close(&send_view, 0);
    }
    perf_view_close(&recv_view, 0);
}

void perf_check_case(struct perf_thread *thread, const struct perf_case *row, int in_place)
{
    const struct perf_options *options = thread->sweep->world->options;
    struct perf_issue issue = {row, in_place, 0, 1};
    struct check check;
    for (int c = 0; c < options->check; c++) {
        perf_watch_phase(thread->ranks, thread->n, "filling for verification");
        for (int i = 0; i < thread->n; i++) {
            perf_devices()->set(thread->ranks[i].device);
            make_check(thread, row, in_place, &thread->ranks[i], &check);
            fill_rank(thread, &check);
            perf_watch_tick();
        }
        perf_watch_phase(thread->ranks, thread->n, "verified iteration");
        perf_issue(thread, &issue);
        perf_sync(thread);
        /* A writer past the end may be another rank: all are done before anyone looks. */
        perf_thread_barrier(thread);
        perf_watch_phase(thread->ranks, thread->n, "verification");
        for (int i = 0; i < thread->n; i++) {
            perf_devices()->set(thread->ranks[i].device);
            make_check(thread, row, in_place, &thread->ranks[i], &check);
            compare_rank(thread, &thread->ranks[i], &check);
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
