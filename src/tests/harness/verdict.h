/* Exit codes of a driver and which of two findings wins. Used by the world, the run and the
 * ending; a code once given only changes for a worse one.
 */
#ifndef PERF_VERDICT_H
#define PERF_VERDICT_H

#include "harness/report.h"
#include "harness/usage.h"

/* The code that a run with both findings ends with: a signal, then wrong data, usage, error,
 * timeout, slower, cannot compare, fine. */
int perf_verdict_worse(int a, int b);

/* What the footer says for an exit code. */
enum perf_status perf_verdict_status(int code);

#endif
