/* Statistics over the iterations of a row. The percentile is a value that occurred (nearest
 * rank), never an interpolation, so that it can be found again in the raw times.
 */
#include "harness/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void perf_stats_compute(double *values, size_t n, struct perf_stats *stats)
{
    memset(stats, 0, sizeof *stats);
    if (n == 0) return;
    qsort(values, n, sizeof *values, compare_doubles);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) sum += values[i];
    stats->mean = sum / (double)n;
    for (size_t i = 0; i < n; i++) squares += (values[i] - stats->mean) * (values[i] - stats->mean);
    stats->min = values[0];
    stats->max = values[n - 1];
    stats->p99 = values[(n * 99 + 99) / 100 - 1];
    if (n > 1 && stats->mean > 0)
        stats->cv_percent = 100 * sqrt(squares / (double)(n - 1)) / stats->mean;
}
