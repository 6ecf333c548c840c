/* Walks what a receive buffer must hold; see expected.h.
 *
 * Invariant: the visited runs are in order and cover [0, recv_elems) once, or the process ends:
 * a gap would be an element that nobody checks.
 */
#include "harness/expected.h"

#include <stdio.h>
#include <stdlib.h>

/* Cuts an untouched run where the rank's own send buffer overlaps it, in place. */
static void visit_untouched(const struct perf_shape *shape, struct perf_run run,
                            perf_expected_visit *visit, void *state)
{
    ptrdiff_t start = (ptrdiff_t)run.first, end = start + (ptrdiff_t)run.elems;
    ptrdiff_t from = shape->send_at, to = from + (ptrdiff_t)shape->send_elems;
    if (!shape->in_place || from > end) from = end;
    if (from < start) from = start;
    if (to > end) to = end;
    if (to < from) to = from;
    struct perf_run parts[3] = {
        {.first = run.first, .elems = (size_t)(from - start), .source = PERF_UNTOUCHED},
        {.first = (size_t)from, .elems = (size_t)(to - from), .source = shape->rank},
        {.first = (size_t)to, .elems = (size_t)(end - to), .source = PERF_UNTOUCHED},
    };
    parts[0].from = parts[0].first;
    parts[1].from = (size_t)(from - shape->send_at);
    parts[2].from = parts[2].first;
    for (int i = 0; i < 3; i++)
        if (parts[i].elems > 0) visit(state, &parts[i]);
}

void perf_expected_walk(const struct perf_pattern *pattern, const struct perf_shape *shape,
                        perf_expected_visit *visit, void *state)
{
    int most = 2 * shape->nranks + 2;
    struct perf_run *runs = malloc((size_t)most * sizeof(*runs));
    int nruns = runs ? pattern->runs(shape, runs, most) : 0;
    size_t next = 0;
    for (int i = 0; i < nruns; i++) {
        if (runs[i].first != next) break;
        next += runs[i].elems;
        if (runs[i].elems == 0) continue;
        if (runs[i].source == PERF_UNTOUCHED)
            visit_untouched(shape, runs[i], visit, state);
        else
            visit(state, &runs[i]);
    }
    free(runs);
    if (next == shape->recv_elems) return;
    fprintf(stderr, "verification: rank %d: only %zu of %zu elements can be checked\n", shape->rank,
            next, shape->recv_elems);
    exit(3);
}

void perf_expected_walk_send(const struct perf_shape *shape, perf_expected_visit *visit,
                             void *state)
{
    /* In place the receive buffer covers elements [start, end) of the send buffer. */
    ptrdiff_t elems = (ptrdiff_t)shape->send_elems, start = elems, end = elems;
    if (shape->in_place) {
        start = -shape->send_at;
        end = start + (ptrdiff_t)shape->recv_elems;
        if (start < 0) start = 0;
        if (start > elems) start = elems;
        if (end > elems) end = elems;
        if (end < start) end = start;
    }
    struct perf_run before = {.first = 0, .elems = (size_t)start, .source = shape->rank, .from = 0};
    struct perf_run after = {.first = (size_t)end,
                             .elems = (size_t)(elems - end),
                             .source = shape->rank,
                             .from = (size_t)end};
    visit(state, &before);
    visit(state, &after);
}
