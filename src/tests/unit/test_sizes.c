/* Sizes: what is one and what is not, and the series from -b to -e. */
#include "harness/options.h"
#include "harness/sizes.h"
#include "unit/test.h"

#include <inttypes.h>
#include <string.h>

static void test_good(void)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"0", 0},
        {"8", 8},
        {"8B", 8},
        {"8b", 8},
        {"1k", 1024},
        {"1K", 1024},
        {"64kb", 65536},
        {"64KB", 65536},
        {"64KiB", 65536},
        {"64kib", 65536},
        {"1M", 1u << 20},
        {"1.5M", 3u << 19},
        {"1.5m", 3u << 19},
        {".5k", 512},
        {"5.k", 5120},
        {"0.3k", 307},
        {"2G", UINT64_C(2) << 30},
        {"2GiB", UINT64_C(2) << 30},
        {"0.25g", UINT64_C(1) << 28},
        {"3t", UINT64_C(3) << 40},
        {"3TB", UINT64_C(3) << 40},
        {"0000012", 12},
        {"1.00000000000000000000000001k", 1024},
        {"9223372036854775807", INT64_MAX},
    };

    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const char *error;
        uint64_t bytes;

        if (!perf_size_parse(cases[i].text, &bytes, &error)) FAIL("%s %s", cases[i].text, error);
        if (bytes != cases[i].bytes) FAIL("%s is %" PRIu64, cases[i].text, bytes);
    }
}

static void test_bad(void)
{
    static const char *const cases[] = {"",
                                        "k",
                                        ".",
                                        ".k",
                                        "-1",
                                        "+1",
                                        " 1",
                                        "1 ",
                                        "1 k",
                                        "1kk",
                                        "1ki",
                                        "1x",
                                        "0x10",
                                        "1e3",
                                        "1.2.3",
                                        "1,5k",
                                        "kib",
                                        "inf",
                                        "nan",
                                        "1bb",
                                        "1bk",
                                        "1mi",
                                        "1p",
                                        "1KiBx",
                                        "M1",
                                        "8BB",
                                        "1i",
                                        "9223372036854775808",
                                        "18446744073709551616",
                                        "8388608T",
                                        "99999999999999999999999k"};

    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const char *error = NULL;
        uint64_t bytes = 1;

        if (perf_size_parse(cases[i], &bytes, &error)) FAIL("'%s' is no size", cases[i]);
        CHECK(error != NULL);
        CHECK_EQ(bytes, 0);
    }
}

static void test_format(void)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0"},       {1023, "1023"},           {1024, "1K"},
                 {1536, "1.5K"}, {33554432, "32M"},        {UINT64_C(5) << 30, "5G"},
                 {1025, "1.0K"}, {UINT64_C(9) << 40, "9T"}};
    char text[32];

    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        perf_size_format(cases[i].bytes, text, sizeof text);
        CHECK_STR(text, cases[i].text);
    }
}

/* Compares a whole series with a list that -1 ends. */
static void check_series(const struct perf_options *options, const int64_t *expected)
{
    struct perf_sizes sizes;
    uint64_t size = 0;

    perf_sizes_start(&sizes, options);
    for (; *expected >= 0; expected++) {
        CHECK(perf_sizes_next(&sizes, &size));
        CHECK_EQ(size, *expected);
    }
    CHECK_EQ(perf_sizes_next(&sizes, &size), 0);
    CHECK_EQ(perf_sizes_next(&sizes, &size), 0);
}

static void test_step(void)
{
    struct perf_options options = {.min_bytes = 4, .max_bytes = 12, .step_bytes = 4};

    check_series(&options, (const int64_t[]){4, 8, 12, -1});
    options.max_bytes = 15;
    check_series(&options, (const int64_t[]){4, 8, 12, -1});
    options.min_bytes = 0;
    check_series(&options, (const int64_t[]){0, 4, 8, 12, -1});
    options.max_bytes = 0;
    check_series(&options, (const int64_t[]){0, -1});
}

static void test_factor(void)
{
    struct perf_options options = {
        .min_bytes = 8, .max_bytes = 64, .step_bytes = 1, .step_factor = 2};

    check_series(&options, (const int64_t[]){8, 16, 32, 64, -1});
    options.step_factor = 1.5;
    check_series(&options, (const int64_t[]){8, 12, 18, 27, 40, 60, -1});
    options.min_bytes = 1;
    options.max_bytes = 4;
    options.step_factor = 1.01;
    check_series(&options, (const int64_t[]){1, 2, 3, 4, -1});
}

static void test_zero_with_factor(void)
{
    struct perf_options options = {.min_bytes = 0, .max_bytes = 32, .step_factor = 2};

    check_series(&options, (const int64_t[]){0, 8, 16, 32, -1});
    options.max_bytes = 0;
    check_series(&options, (const int64_t[]){0, -1});
}

static void test_end_of_numbers(void)
{
    struct perf_options options = {
        .min_bytes = INT64_MAX - 1, .max_bytes = INT64_MAX, .step_factor = 1000};

    check_series(&options, (const int64_t[]){INT64_MAX - 1, -1});
    options.step_factor = 0;
    options.step_bytes = INT64_MAX;
    check_series(&options, (const int64_t[]){INT64_MAX - 1, -1});
    options.step_bytes = 1;
    check_series(&options, (const int64_t[]){INT64_MAX - 1, INT64_MAX, -1});
}

static const struct test_case cases[] = {
    {"sizes that are", test_good, 0},
    {"sizes that are none", test_bad, 0},
    {"format", test_format, 0},
    {"series by step", test_step, 0},
    {"series by factor", test_factor, 0},
    {"size 0 once", test_zero_with_factor, 0},
    {"series at the end of numbers", test_end_of_numbers, 0},
};

TEST_MAIN(cases)
