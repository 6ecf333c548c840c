/* Statistics of iterations and the order of exit codes: pure functions against known results. */
#include "harness/stats.h"
#include "harness/verdict.h"
#include "unit/test.h"

#include <math.h>
#include <stddef.h>

static void test_nothing(void)
{
    struct perf_stats stats;
    perf_stats_compute(NULL, 0, &stats);
    CHECK_NEAR(stats.min, 0, 0);
    CHECK_NEAR(stats.p99, 0, 0);
    CHECK_NEAR(stats.cv_percent, 0, 0);
}

static void test_one(void)
{
    double values[] = {3.5};
    struct perf_stats stats;
    perf_stats_compute(values, 1, &stats);
    CHECK_NEAR(stats.min, 3.5, 0);
    CHECK_NEAR(stats.max, 3.5, 0);
    CHECK_NEAR(stats.p99, 3.5, 0);
    CHECK_NEAR(stats.mean, 3.5, 0);
    CHECK_NEAR(stats.cv_percent, 0, 0);
}

static void test_unsorted(void)
{
    double values[] = {5, 1, 4, 2, 3};
    struct perf_stats stats;
    perf_stats_compute(values, 5, &stats);
    CHECK_NEAR(stats.min, 1, 0);
    CHECK_NEAR(stats.max, 5, 0);
    CHECK_NEAR(stats.mean, 3, 1e-12);
    /* The sample's variance is 10 / 4. */
    CHECK_NEAR(stats.cv_percent, 100 * 1.5811388300841898 / 3, 1e-9);
}

/* With 100 values the 99th is the percentile, with 101 the 100th: never more than 1 % above. */
static void test_percentile(void)
{
    for (size_t n = 1; n <= 1000; n++) {
        double values[1000];
        struct perf_stats stats;
        for (size_t i = 0; i < n; i++) values[i] = (double)(n - i);
        perf_stats_compute(values, n, &stats);
        size_t at_most = (size_t)stats.p99;
        CHECK(at_most * 100 >= n * 99);
        CHECK((at_most - 1) * 100 < n * 99);
    }
}

static void test_median(void)
{
    double even[] = {4, 1, 3, 2}, odd[] = {9, 1, 5}, same[] = {2, 2, 2, 2};
    struct perf_stats stats;
    perf_stats_compute(even, 4, &stats);
    CHECK_NEAR(stats.median, 2.5, 0);
    CHECK_EQ(stats.n, 4);
    /* t of 3 degrees of freedom, 3.182, times the deviation of the mean. */
    CHECK_NEAR(perf_stats_ci_percent(&stats), 100 * 3.182 * 1.2909944 / 2 / 2.5, 1e-3);
    perf_stats_compute(odd, 3, &stats);
    CHECK_NEAR(stats.median, 5, 0);
    perf_stats_compute(same, 4, &stats);
    CHECK_NEAR(perf_stats_ci_percent(&stats), 0, 0);
    perf_stats_compute(same, 1, &stats);
    CHECK(isinf(perf_stats_ci_percent(&stats)));
}

static void test_gravity(void)
{
    static const int order[] = {PERF_EXIT_SIGNAL + 2, PERF_EXIT_WRONG,   PERF_EXIT_USAGE,
                                PERF_EXIT_ERROR,      PERF_EXIT_TIMEOUT, PERF_EXIT_SLOW,
                                PERF_EXIT_COMPARE,    PERF_EXIT_OK};
    for (size_t i = 0; i < TEST_COUNT(order); i++)
        for (size_t j = i; j < TEST_COUNT(order); j++) {
            CHECK_EQ(perf_verdict_worse(order[i], order[j]), order[i]);
            CHECK_EQ(perf_verdict_worse(order[j], order[i]), order[i]);
        }
}

static void test_status(void)
{
    CHECK_EQ(perf_verdict_status(PERF_EXIT_OK), PERF_PASSED);
    CHECK_EQ(perf_verdict_status(PERF_EXIT_WRONG), PERF_FAILED);
    CHECK_EQ(perf_verdict_status(PERF_EXIT_SLOW), PERF_FAILED);
    CHECK_EQ(perf_verdict_status(PERF_EXIT_TIMEOUT), PERF_TIMEOUT);
    CHECK_EQ(perf_verdict_status(PERF_EXIT_ERROR), PERF_ERROR);
    CHECK_EQ(perf_verdict_status(PERF_EXIT_SIGNAL + 15), PERF_INTERRUPTED);
    CHECK_EQ(perf_verdict_status(77), PERF_ERROR);
}

static const struct test_case cases[] = {
    {"stats: nothing", test_nothing, 0},
    {"stats: one value", test_one, 0},
    {"stats: unsorted values", test_unsorted, 0},
    {"stats: percentile for every n to 1000", test_percentile, 0},
    {"stats: median and interval", test_median, 0},
    {"verdict: the graver code wins, in any order", test_gravity, 0},
    {"verdict: status of every code", test_status, 0},
};
TEST_MAIN(cases)
