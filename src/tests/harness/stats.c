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
    stats->n = n;
    stats->mean = sum / (double)n;
    for (size_t i = 0; i < n; i++) squares += (values[i] - stats->mean) * (values[i] - stats->mean);
    stats->min = values[0];
    stats->max = values[n - 1];
    stats->median = (values[(n - 1) / 2] + values[n / 2]) / 2;
    stats->p95 = values[(n * 95 + 99) / 100 - 1];
    stats->p99 = values[(n * 99 + 99) / 100 - 1];
    if (n > 1) stats->stdev = sqrt(squares / (double)(n - 1));
    if (stats->mean > 0) stats->cv_percent = 100 * stats->stdev / stats->mean;
}

double perf_stats_ci_percent(const struct perf_stats *stats)
{
    /* Of 1, 2, ... degrees of freedom; beyond, little is lost with the last. */
    static const double quantiles[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                       2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                                       2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                                       2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
    size_t most = sizeof quantiles / sizeof quantiles[0];
    size_t freedom = stats->n - 1;

    if (stats->n < 2) return INFINITY;
    return quantiles[(freedom < most ? freedom : most) - 1] * stats->cv_percent /
           sqrt((double)stats->n);
}
