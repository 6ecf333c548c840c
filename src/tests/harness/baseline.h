/* --baseline: records of earlier runs against which this one is judged, placement by placement.
 * Medians over cycles (-N) and runs are compared, small sizes by time and large ones by bandwidth;
 * how far the baseline's own runs lie apart says which tolerance it supports. Called by run.c and
 * main.c in the process of rank 0, by one thread at a time.
 */
#ifndef PERF_BASELINE_H
#define PERF_BASELINE_H

#include "harness/report.h"

enum {
    PERF_LARGE_BYTES = 64 << 10, /* from here on bandwidth counts */
    PERF_GATE_RUNS = 3           /* a series in which something is slower runs as often */
};

/* Reads the record: JSON or JSON lines. 0, or exit code 2 or 6 and why. */
int perf_baseline_load(const struct perf_options *options, char *why, size_t why_bytes);

/* Whether this run and the baseline's are the same in all that decides on times. 0, or exit code 6
 * and the first difference; --baseline_anyway lets all pass. */
int perf_baseline_check(const struct perf_header *header, char *why, size_t why_bytes);

void perf_baseline_add(const struct perf_row *row);

/* Judges what has been added, after a series; the gate lives until the next judgement. NULL without
 * a baseline. */
const struct perf_gate *perf_baseline_judge(void);

/* The exit code of a gate: 0, 5, or 6 when there is trouble or nothing could be compared. */
int perf_gate_code(const struct perf_gate *gate);

void perf_baseline_drop(void);

const char *perf_change_name(enum perf_change change);

#endif
