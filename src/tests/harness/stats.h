/* Statistics over the iterations of a row: minimum, maximum, percentiles, variation.
 * Pure functions; called by harness/run_time.c.
 */
#ifndef PERF_STATS_H
#define PERF_STATS_H

#include <stddef.h>

struct perf_stats {
    double min, max, mean, p99;
    double cv_percent; /* standard deviation of the sample over the mean, 0 for n < 2 */
};

/* Sorts values[0, n) and computes; all zero when n is 0. p99 is the smallest value that at
 * least 99 % of the values do not exceed. */
void perf_stats_compute(double *values, size_t n, struct perf_stats *stats);

#endif
