/* Clocks of the drivers: wall time and CPU time of this thread. */
#ifndef PERF_TIMING_H
#define PERF_TIMING_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t perf_clock_ns(void);

/* Nanoseconds of processor time that the calling thread has used. */
uint64_t perf_cpu_ns(void);

/* An absolute CLOCK_REALTIME time that is `seconds` from now, for timed waits of pthreads. */
struct timespec perf_clock_until(double seconds);

#endif
