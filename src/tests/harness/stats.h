/* Statistics over the iterations of a row: minimum, maximum, percentiles, variation.
 * Pure functions; called by harness/run_time.c.
 */
#ifndef PERF_STATS_H
#define PERF_STATS_H

#include <stddef.h>

struct perf_stats {
    size_t n;
    double min, max, mean, median, p95, p99;
    double stdev;      /* of the sample, 0 for n < 2 */
    double cv_percent; /* stdev over the mean */
};

/* Sorts values[0, n) and computes; all zero when n is 0. p99 is the smallest value that at
 * least 99 % of the values do not exceed, p95 likewise; the median of an even number of values is
 * the mean of the middle two. */
void perf_stats_compute(double *values, size_t n, struct perf_stats *stats);

/* Half the width of the mean's 95 % confidence interval (Student's t) in percent of the mean;
 * infinite below two values. */
double perf_stats_ci_percent(const struct perf_stats *stats);

#endif
