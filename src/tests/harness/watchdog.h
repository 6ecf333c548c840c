/* The watchdog: one thread per process that sees signals, asynchronous errors of the library and
 * the lack of progress, and ends the run for each of them.
 */
#ifndef PERF_WATCHDOG_H
#define PERF_WATCHDOG_H

#include "harness/world.h"

/* Starts the thread; signals are already blocked. */
void perf_watch_start(struct perf_world *world);
void perf_watch_stop(void);

/* What the process is at, for messages: "AllReduce, 1024 bytes, float, sum". Copied. */
void perf_watch_row(const char *text);

/* A thread's ranks [0, n) go on to `phase` (constant text); counts as progress. */
void perf_watch_phase(struct perf_rank *ranks, int n, const char *phase);
/* Something got done. */
void perf_watch_tick(void);

/* The watchdog may ask the communicator from now on; NULL: no more. */
void perf_watch_comm(struct perf_rank *rank, ncclComm_t comm);

/* Writes what each rank of this process is at to stderr. */
void perf_watch_describe(void);

#endif
