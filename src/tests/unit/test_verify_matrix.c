/* The matrix of alltoallv_perf: generated ones, files, and values that are refused. */
#define _GNU_SOURCE
#include "harness/alltoallv_matrix.h"
#include "harness/options.h"
#include "unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILE_NAME "NCCL_TESTS_ALLTOALLV_MATRIX_FILE"
#define SCALE     "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE"
#define SPREAD    "NCCL_TESTS_ALLTOALLV_SPREAD"
#define SUMMARY   "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY"

static const struct perf_options equal_sizes = {.min_bytes = 1024, .max_bytes = 1024};

static void clear_environment(void)
{
    unsetenv(FILE_NAME);
    unsetenv(SCALE);
    unsetenv(SPREAD);
    unsetenv(SUMMARY);
}

/* Prepares with a matrix in a file that exists only in memory. */
static int prepare_file(const char *contents, int nranks, const struct perf_options *options)
{
    char path[64];
    int fd = memfd_create("matrix", 0);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, contents, strlen(contents)), (long long)strlen(contents));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    setenv(FILE_NAME, path, 1);
    int code = perf_matrix_prepare(options, nranks);
    close(fd);
    return code;
}

static void test_generated(void)
{
    static const char *const spreads[] = {"0", "0.25", "1"};
    clear_environment();
    for (size_t i = 0; i < TEST_COUNT(spreads); i++) {
        setenv(SPREAD, spreads[i], 1);
        CHECK_EQ(perf_matrix_prepare(&equal_sizes, 8), 0);
        for (int nranks = 1; nranks <= 8; nranks++) {
            struct perf_matrix_row row = {.count = 1000, .type_bytes = 4, .nranks = nranks};
            size_t send, recv;
            perf_matrix_largest(&row, &send, &recv);
            CHECK(send <= row.count * (size_t)nranks);
            CHECK(send + 4 * (size_t)nranks >= row.count * (size_t)nranks);
            for (int rank = 0; rank < nranks; rank++) {
                CHECK_EQ(perf_matrix_elems(&row, rank, 0) % 4, 0);
                CHECK_EQ(perf_matrix_send_before(&row, rank, nranks), send);
                CHECK_EQ(perf_matrix_recv_before(&row, rank, nranks), recv);
            }
        }
    }
    clear_environment();
    perf_matrix_drop();
}

static void test_spread(void)
{
    struct perf_matrix_row row = {.count = 1200, .type_bytes = 4, .nranks = 4};
    clear_environment();
    CHECK_EQ(perf_matrix_prepare(&equal_sizes, 4), 0);
    CHECK_EQ(perf_matrix_elems(&row, 1, 1), 0);
    CHECK_EQ(perf_matrix_elems(&row, 1, 2), 800);
    CHECK_EQ(perf_matrix_elems(&row, 1, 0), 2400);
    setenv(SPREAD, "0", 1);
    CHECK_EQ(perf_matrix_prepare(&equal_sizes, 4), 0);
    for (int to = 0; to < 4; to++) CHECK_EQ(perf_matrix_elems(&row, 3, to), 1200);
    CHECK_EQ(perf_matrix_is_file(), 0);
    clear_environment();
    perf_matrix_drop();
}

static void test_file(void)
{
    struct perf_matrix_row row = {.count = 0, .type_bytes = 4, .nranks = 2};
    struct perf_options exact = equal_sizes;
    size_t send, recv;
    clear_environment();
    CHECK_EQ(prepare_file("100 200 150\n\n50 100\t75\n300 150 200", 2, &equal_sizes), 0);
    CHECK_EQ(perf_matrix_is_file(), 1);
    CHECK_EQ(perf_matrix_elems(&row, 0, 1), 192 / 4); /* aligned down to 16 bytes */
    perf_matrix_largest(&row, &send, &recv);
    CHECK_EQ(send, 96 / 4 + 192 / 4);
    CHECK_EQ(recv, 192 / 4 + 96 / 4);
    exact.exact = 1;
    setenv(SCALE, "2", 1);
    setenv(SUMMARY, "1", 1);
    CHECK_EQ(prepare_file("100 200 150\n50 100 75\n300 150 200\n", 3, &exact), 0);
    CHECK_EQ(perf_matrix_elems(&row, 1, 2), 150 / 4);
    CHECK_EQ(perf_matrix_wants_summary(), 1);
    clear_environment();
    perf_matrix_drop();
}

static void test_refused(void)
{
    static const struct {
        const char *contents;
        int nranks;
    } files[] = {
        {"", 1},
        {"1 2\n3\n", 2},
        {"1 2\n3 4\n", 3},
        {"1 x\n3 4\n", 2},
        {"1 2\n3 -4\n", 2},
        {"1 2 3\n4 5 6\n", 2},
        {"1 1e30\n1 1", 2},
        {"1 2,\n3 4\n", 2},
    };
    static const char *const values[][2] = {
        {SPREAD, "1.5"}, {SPREAD, "-0.1"}, {SPREAD, "half"}, {SPREAD, ""},   {SPREAD, "nan"},
        {SCALE, "-1"},   {SCALE, "2x"},    {SUMMARY, "yes"}, {SUMMARY, "2"}, {FILE_NAME, "/none"},
    };
    struct perf_options sweep = {.min_bytes = 8, .max_bytes = 1024};
    clear_environment();
    for (size_t i = 0; i < TEST_COUNT(files); i++)
        if (prepare_file(files[i].contents, files[i].nranks, &equal_sizes) != 2)
            FAIL("file %zu is accepted", i);
    CHECK_EQ(prepare_file("1 2\n3 4\n", 2, &sweep), 2);
    for (size_t i = 0; i < TEST_COUNT(values); i++) {
        clear_environment();
        setenv(values[i][0], values[i][1], 1);
        if (perf_matrix_prepare(&equal_sizes, 2) != 2)
            FAIL("%s=%s is accepted", values[i][0], values[i][1]);
    }
    clear_environment();
    perf_matrix_drop();
}

static const struct test_case cases[] = {
    {"generated matrices are balanced", test_generated, 0},
    {"spread", test_spread, 0},
    {"matrix from a file", test_file, 0},
    {"bad values are refused", test_refused, 0},
};
TEST_MAIN(cases)
