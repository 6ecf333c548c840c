/* Ranks as threads: each opens a session, takes part in its all-gathers, checks every byte that
 * comes, and closes. Used by test_boot*.c. */
#include "unit/boot_ranks.h"

#include "base/err.h"
#include "unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void test_ranks_fill(struct test_rank *ranks, int n, const ncclUniqueId *id, int rounds)
{
    memset(ranks, 0, (size_t)n * sizeof ranks[0]);
    for (int i = 0; i < n; i++) {
        ranks[i].args = (struct ccl_boot_args){.id = *id, .nranks = n, .rank = i};
        ranks[i].rounds = rounds;
        ranks[i].each_bytes = 24;
    }
}

static uint8_t expected_byte(int rank, int round, size_t at)
{
    return (uint8_t)(rank * 31 + round * 7 + (int)at);
}

static ncclResult_t gather(struct test_rank *rank, struct ccl_boot *boot, int round)
{
    size_t each = rank->each_bytes, n = (size_t)rank->args.nranks;
    uint8_t *mine = malloc(each + 1), *all = malloc(each * n + 1);
    for (size_t i = 0; i < each; i++) mine[i] = expected_byte(rank->args.rank, round, i);
    ncclResult_t rc = ccl_boot_allgather(boot, mine, all, each);
    int wrong = 0;
    for (size_t i = 0; i < each * n && rc == ncclSuccess; i++)
        wrong += all[i] != expected_byte((int)(i / each), round, i % each);
    free(mine);
    free(all);
    CHECK_EQ(wrong, 0);
    return rc;
}

static void *run_rank(void *argument)
{
    struct test_rank *rank = argument;
    struct ccl_boot *boot = NULL;
    rank->result = ccl_boot_open(&rank->args, &boot);
    if (rank->result == ncclSuccess) ccl_boot_secret(boot, rank->secret);
    for (int round = 0; round < rank->rounds && rank->result == ncclSuccess; round++)
        rank->result = gather(rank, boot, round);
    if (rank->result != ncclSuccess) snprintf(rank->text, sizeof rank->text, "%s", ccl_err_last());
    ccl_boot_close(boot);
    return NULL;
}

void test_ranks_start(struct test_rank *ranks, int n)
{
    for (int i = 0; i < n; i++)
        CHECK_EQ(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
}

void test_ranks_join(struct test_rank *ranks, int n)
{
    for (int i = 0; i < n; i++) CHECK_EQ(pthread_join(ranks[i].thread, NULL), 0);
}

void test_ranks_run(struct test_rank *ranks, int n)
{
    test_ranks_start(ranks, n);
    test_ranks_join(ranks, n);
}
