/* Shared segments: made, mapped twice, refused when too small or not sealed, nothing left. */
#define _GNU_SOURCE
#include "base/err.h"
#include "base/shm.h"
#include "unit/test.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_two_mappings(void)
{
    static const size_t sizes[] = {1, 4096, 4097, 1 << 20};
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        struct ccl_shm made, seen;
        CHECK_OK(ccl_shm_create(sizes[i], &made));
        CHECK_OK(ccl_shm_map(made.fd, sizes[i], &seen));
        CHECK(made.base != seen.base);
        CHECK_EQ(seen.fd, -1);
        char *a = made.base;
        const char *b = seen.base;
        CHECK_EQ(b[sizes[i] - 1], 0);
        a[sizes[i] - 1] = 7;
        CHECK_EQ(b[sizes[i] - 1], 7);
        ccl_shm_close_fd(&made);
        CHECK_EQ(made.fd, -1);
        a[0] = 9;
        CHECK_EQ(b[0], 9);
        ccl_shm_close(&made);
        CHECK_EQ(b[0], 9);
        ccl_shm_close(&seen);
        ccl_shm_close(&seen);
        CHECK(seen.base == NULL);
    }
}

static void test_other_process(void)
{
    struct ccl_shm made;
    CHECK_OK(ccl_shm_create(8192, &made));
    pid_t child = fork();
    if (child == 0) {
        struct ccl_shm seen;
        if (ccl_shm_map(made.fd, 8192, &seen) != ncclSuccess) _exit(1);
        memset(seen.base, 3, 8192);
        _exit(0);
    }
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_EQ(((char *)made.base)[8191], 3);
    ccl_shm_close(&made);
}

static void test_refused(void)
{
    struct ccl_shm made, seen;
    CHECK_OK(ccl_shm_create(4096, &made));
    CHECK_EQ(ccl_shm_map(made.fd, 4097, &seen), ncclRemoteError);
    CHECK_HAS(ccl_err_last(), "4097");
    CHECK(seen.base == NULL);
    CHECK_EQ(ccl_shm_map(-1, 4096, &seen), ncclSystemError);
    /* Nobody can shrink it under the mapping. */
    CHECK(ftruncate(made.fd, 0) != 0);
    ccl_shm_close(&made);

    int fd = memfd_create("unsealed", MFD_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQ(ftruncate(fd, 4096), 0);
    CHECK_EQ(ccl_shm_map(fd, 4096, &seen), ncclRemoteError);
    CHECK_HAS(ccl_err_last(), "sealed");
    close(fd);
}

static void test_too_large(void)
{
    struct ccl_shm made;
    CHECK_EQ(ccl_shm_create((size_t)1 << 62, &made), ncclSystemError);
    CHECK_HAS(ccl_err_last(), "4611686018427387904");
    CHECK_EQ(made.fd, -1);
}

static const struct test_case cases[] = {
    {"two mappings", test_two_mappings, 0},
    {"another process", test_other_process, 0},
    {"refused segments", test_refused, 0},
    {"too large", test_too_large, 0},
};

TEST_MAIN(cases)
