/* Walks what a receive buffer must hold, run by run.
 *
 * fill.c (contents before the call) and compare.c (after it) walk the same way. In place, what
 * nobody may write is still the rank's own input where the send buffer lies there.
 */
#ifndef PERF_EXPECTED_H
#define PERF_EXPECTED_H

#include "harness/verify.h"

/* Elements [first, first + elems) of the receive buffer come from elements [from, …) of the send
 * buffer of `source`, or of the reduction, or are untouched and hold the rest stream. */
typedef void perf_expected_visit(void *state, const struct perf_run *run);

void perf_expected_walk(const struct perf_pattern *pattern, const struct perf_shape *shape,
                        perf_expected_visit *visit, void *state);

/* The same for what the send buffer holds; in place only what the receive buffer does not cover. */
void perf_expected_walk_send(const struct perf_shape *shape, perf_expected_visit *visit,
                             void *state);

#endif
