/* Marks: events between the iterations of a row, so that the watchdog sees work complete while the
 * thread that enqueued it waits for the whole row. A row that is short beside -T gets none.
 */
#ifndef PERF_MARKS_H
#define PERF_MARKS_H

#include "harness/devices.h"

struct perf_marks;

/* What is about to be enqueued. */
struct perf_marks_plan {
    int iterations;
    double iteration_s; /* how long one takes; negative: not known */
    double timeout_s;   /* -T, 0: off */
};

/* Marks of one thread on a stream of `device`; ends the run when memory is out. */
struct perf_marks *perf_marks_open(int device, cudaStream_t stream);
void perf_marks_close(struct perf_marks *marks);

/* Plans the marks of a series of iterations and makes the events that it needs. Before the clock
 * starts; the marks before it must be done or of no interest. */
void perf_marks_plan(struct perf_marks *marks, const struct perf_marks_plan *plan);

/* After each iteration: records an event where the plan has one. */
void perf_marks_pass(struct perf_marks *marks, int iteration);

/* The watchdog's: how many marks of all threads have been reached since the last call. Never
 * blocks on a device. */
int perf_marks_look(void);

#endif
