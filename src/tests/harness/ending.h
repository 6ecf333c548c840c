/* How a run ends, from whatever thread: one message on stderr, the other processes told, the
 * footer and the JSON record completed, one exit code. The first cause wins.
 */
#ifndef PERF_ENDING_H
#define PERF_ENDING_H

#include "harness/report.h"
#include "harness/verdict.h"

#include "nccl.h"

struct perf_world;

/* From here on perf_end tells the other processes of `world`. */
void perf_ending_start(struct perf_world *world);

/* Ends the run here and everywhere with `code`. text: why, NULL or "": quietly. Data found wrong
 * before turns any code but a signal's into 1. Threads that come second wait for the end. */
_Noreturn void perf_end(int code, const char *text);

/* The same for the link between the processes: nobody need be told. told: another process has
 * said why on the stderr that all share. */
void perf_end_linked(int code, const char *text, int told);

/* Ends the run with code 3 naming `what` and the library's text unless result is ncclSuccess. */
void perf_check(ncclResult_t result, const char *what);

/* The reports belong to one thread at a time; row and footer are only written between these. */
void perf_report_lock(void);
void perf_report_unlock(void);

/* What the footer will say; changed under the lock. Only rank 0's process writes reports. */
struct perf_footer *perf_ending_footer(void);
/* Data have been found wrong somewhere: every later end says so. */
void perf_ending_wrong(void);
/* From now on (no more) an ending writes the footer; in rank 0's process, under the lock or before
 * the watchdog's time. */
void perf_ending_reports_on(void);
void perf_ending_reports_off(void);

#endif
