/* Ranks as threads for the tests of the bootstrap. */
#ifndef TEST_UNIT_BOOT_RANKS_H
#define TEST_UNIT_BOOT_RANKS_H

#include "boot/boot.h"

#include <pthread.h>

enum { MAX_TEST_RANKS = 64 };

struct test_rank {
    struct ccl_boot_args args;
    int rounds; /* all-gathers to do */
    size_t each_bytes;
    pthread_t thread;
    ncclResult_t result; /* of the first call that failed */
    char text[1024];     /* its last-error text (of the process) */
    uint8_t secret[16];
};

/* Fills n ranks of one id: rank i of n, `rounds` all-gathers of 24 bytes. */
void test_ranks_fill(struct test_rank *ranks, int n, const ncclUniqueId *id, int rounds);

/* Opens, gathers, checks what came, closes, on a thread a rank, and waits for them. */
void test_ranks_run(struct test_rank *ranks, int n);
void test_ranks_start(struct test_rank *ranks, int n);
void test_ranks_join(struct test_rank *ranks, int n);

#endif
