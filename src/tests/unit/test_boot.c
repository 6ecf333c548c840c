/* Sessions of the bootstrap: sizes, rounds, ids, and every way in which ranks can disagree, be
 * missing or die, each with the text that names them. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/err.h"
#include "boot/id.h"
#include "unit/boot_ranks.h"
#include "unit/test.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct test_rank ranks[MAX_TEST_RANKS];

static void check_all(int n, ncclResult_t result, const char *part)
{
    for (int i = 0; i < n; i++) {
        CHECK_EQ(ranks[i].result, result);
        CHECK_HAS(ranks[i].text, part);
    }
}

static void run_size(int n)
{
    ncclUniqueId id;
    CHECK_OK(ccl_boot_make_id(&id));
    test_ranks_fill(ranks, n, &id, 3);
    test_ranks_run(ranks, n);
    check_all(n, ncclSuccess, "");
    for (int i = 1; i < n; i++) CHECK_MEM(ranks[i].secret, ranks[0].secret, 16);
}

static void test_one(void)
{
    run_size(1);
}

static void test_two(void)
{
    run_size(2);
}

static void test_eight(void)
{
    run_size(8);
    uint64_t start_ns = ccl_clock_ns();
    for (int i = 0; i < 20; i++) run_size(8);
    NOTE("8 ranks, 3 rounds: %.2f ms", (double)(ccl_clock_ns() - start_ns) / 20e6);
}

static void test_33(void)
{
    run_size(33);
}

static void test_large_rounds(void)
{
    static const size_t sizes[] = {0, 1, 2048, 2049, 65536};
    for (size_t s = 0; s < TEST_COUNT(sizes); s++) {
        ncclUniqueId id;
        CHECK_OK(ccl_boot_make_id(&id));
        test_ranks_fill(ranks, 5, &id, 4);
        for (int i = 0; i < 5; i++) ranks[i].each_bytes = sizes[s];
        test_ranks_run(ranks, 5);
        check_all(5, ncclSuccess, "");
    }
}

static void test_parallel_ids(void)
{
    enum { SESSIONS = 7, EACH = 4 };
    for (int s = 0; s < SESSIONS; s++) {
        ncclUniqueId id;
        CHECK_OK(ccl_boot_make_id(&id));
        test_ranks_fill(ranks + s * EACH, EACH, &id, 2);
    }
    test_ranks_run(ranks, SESSIONS * EACH);
    check_all(SESSIONS * EACH, ncclSuccess, "");
}

static void test_unused_id(void)
{
    ncclUniqueId id, other;
    CHECK_OK(ccl_boot_make_id(&id));
    CHECK_OK(ccl_boot_make_id(&other));
    CHECK(memcmp(&id, &other, sizeof id) != 0);
    ccl_boot_quiesce();
}

static void test_used_id(void)
{
    ncclUniqueId id;
    CHECK_OK(ccl_boot_make_id(&id));
    test_ranks_fill(ranks, 2, &id, 1);
    test_ranks_run(ranks, 2);
    check_all(2, ncclSuccess, "");
    ccl_boot_quiesce();
    test_ranks_fill(ranks, 2, &id, 1);
    test_ranks_run(ranks, 2);
    check_all(2, ncclRemoteError, "an id serves one communicator");
}

static void test_bad_ids(void)
{
    struct ccl_boot *boot;
    struct ccl_boot_args args = {.nranks = 1, .rank = 0};
    CHECK_EQ(ccl_boot_open(&args, &boot), ncclInvalidArgument);
    CHECK_HAS(ccl_err_last(), "not made by ncclGetUniqueId");
    CHECK_OK(ccl_boot_make_id(&args.id));
    for (unsigned bit = 0; bit < 8 * sizeof args.id; bit++) {
        struct ccl_boot_id id;
        args.id.internal[bit / 8] = (char)(args.id.internal[bit / 8] ^ (1 << bit % 8));
        CHECK_EQ(ccl_boot_id_unpack(&args.id, &id), ncclInvalidArgument);
        args.id.internal[bit / 8] = (char)(args.id.internal[bit / 8] ^ (1 << bit % 8));
    }
    args.rank = 1;
    CHECK_EQ(ccl_boot_open(&args, &boot), ncclInvalidArgument);
    CHECK_HAS(ccl_err_last(), "rank 1");
    args.nranks = 0;
    CHECK_EQ(ccl_boot_open(&args, &boot), ncclInvalidArgument);
    CHECK_HAS(ccl_err_last(), "nranks 0");
}

static void test_duplicate(void)
{
    ncclUniqueId id;
    CHECK_OK(ccl_boot_make_id(&id));
    test_ranks_fill(ranks, 3, &id, 1);
    ranks[2].args.rank = 1;
    test_ranks_run(ranks, 3);
    check_all(3, ncclInvalidUsage, "rank 1 was claimed twice");
}

static void test_second_session(void)
{
    /* A rank too many, after all have joined, is refused and disturbs nobody. */
    ncclUniqueId id;
    struct ccl_boot *first = NULL, *second = NULL;
    CHECK_OK(ccl_boot_make_id(&id));
    struct ccl_boot_args args = {.id = id, .nranks = 1, .rank = 0};
    CHECK_OK(ccl_boot_open(&args, &first));
    CHECK_EQ(ccl_boot_open(&args, &second), ncclInvalidUsage);
    CHECK_HAS(ccl_err_last(), "rank 0 was claimed twice");
    char mine = 5, all = 0;
    CHECK_OK(ccl_boot_allgather(first, &mine, &all, 1));
    CHECK_EQ(all, 5);
    CHECK_OK(ccl_boot_health(first));
    ccl_boot_close(first);
}

static void test_wrong_nranks(void)
{
    ncclUniqueId id;
    CHECK_OK(ccl_boot_make_id(&id));
    test_ranks_fill(ranks, 3, &id, 1);
    ranks[2].args.nranks = 4;
    test_ranks_run(ranks, 3);
    check_all(3, ncclInvalidUsage, "disagree on the number of ranks");
    CHECK_HAS(ranks[0].text, "says 3");
    CHECK_HAS(ranks[0].text, "says 4");
}

static void test_other_build(void)
{
    ncclUniqueId id;
    CHECK_OK(ccl_boot_make_id(&id));
    test_ranks_fill(ranks, 2, &id, 1);
    ranks[1].args.build = 1;
    test_ranks_run(ranks, 2);
    check_all(2, ncclInvalidUsage, "different builds");
}

static void test_unequal_gather(void)
{
    ncclUniqueId id;
    CHECK_OK(ccl_boot_make_id(&id));
    test_ranks_fill(ranks, 3, &id, 1);
    ranks[1].each_bytes = 25;
    test_ranks_run(ranks, 3);
    check_all(3, ncclInvalidUsage, "25");
    CHECK_HAS(ranks[0].text, "24");
}

static void test_early_leave(void)
{
    ncclUniqueId id;
    CHECK_OK(ccl_boot_make_id(&id));
    test_ranks_fill(ranks, 3, &id, 2);
    ranks[1].rounds = 1;
    test_ranks_run(ranks, 3);
    CHECK_EQ(ranks[1].result, ncclSuccess);
    CHECK_EQ(ranks[0].result, ncclRemoteError);
    CHECK_HAS(ranks[0].text, "rank 1 of 3 left");
    CHECK_EQ(ranks[2].result, ncclRemoteError);
}

static void test_abort(void)
{
    ncclUniqueId id;
    static _Atomic uint32_t word;
    atomic_store(&word, 0);
    CHECK_OK(ccl_boot_make_id(&id));
    test_ranks_fill(ranks, 3, &id, 1);
    for (int i = 0; i < 2; i++) ranks[i].args.abort_word = &word;
    test_ranks_start(ranks, 2);
    atomic_store(&word, 1);
    test_ranks_join(ranks, 2);
    /* Whoever looks first is aborted; the other may hear of its end instead. */
    int aborted = 0;
    for (int i = 0; i < 2; i++) aborted += ranks[i].result == ncclInternalError;
    CHECK(aborted >= 1);
}

/* ---- cases in a process of their own, for their environment ---- */

static void child_missing(void)
{
    ncclUniqueId id;
    CHECK_OK(ccl_boot_make_id(&id));
    test_ranks_fill(ranks, 8, &id, 1);
    ranks[3].args.rank = 6;
    test_ranks_run(ranks, 3);
    check_all(3, ncclTimeout, "ranks 3,4,5,6,7 of 8 have not joined within 600 ms");

    CHECK_OK(ccl_boot_make_id(&id));
    test_ranks_fill(ranks, 3, &id, 1);
    test_ranks_run(ranks, 2);
    check_all(2, ncclTimeout, "rank 2 of 3 has not joined within 600 ms");
}

static void child_missing_round(void)
{
    ncclUniqueId id;
    CHECK_OK(ccl_boot_make_id(&id));
    test_ranks_fill(ranks, 3, &id, 1);
    test_ranks_start(ranks, 2);
    struct ccl_boot *boot = NULL;
    CHECK_OK(ccl_boot_open(&ranks[2].args, &boot));
    test_ranks_join(ranks, 2);
    check_all(2, ncclTimeout, "rank 2 of 3 has not reached all-gather 0");
    /* Rank 2 is told last. */
    struct ccl_sock_wait wait = {.deadline_ns = ccl_clock_deadline_ns(10000)};
    CHECK_EQ(ccl_sock_poll(ccl_boot_fd(boot), POLLIN, &wait), 0);
    CHECK_EQ(ccl_boot_health(boot), ncclTimeout);
    ccl_boot_close(boot);
}

static void child_unused_expires(void)
{
    ncclUniqueId id;
    CHECK_OK(ccl_boot_make_id(&id));
    /* Only its own deadline ends it here; the case fails on a leftover thread otherwise. */
    uint64_t end_ns = ccl_clock_deadline_ns(10000);
    struct ccl_boot_args args = {.id = id, .nranks = 1};
    struct ccl_boot_id parts;
    CHECK_OK(ccl_boot_id_unpack(&id, &parts));
    for (;;) {
        int fd;
        struct ccl_sock_wait wait = {.deadline_ns = end_ns};
        int code = ccl_sock_connect(&parts.root, &wait, &fd);
        if (code != 0) break;
        char byte;
        ccl_sock_recv_all(fd, &byte, 1, &wait);
        while (ccl_sock_recv_all(fd, &byte, 1, &wait) == 0)
            ;
        close(fd);
        CHECK(ccl_clock_ns() < end_ns);
    }
    struct ccl_boot *boot;
    CHECK_EQ(ccl_boot_open(&args, &boot), ncclRemoteError);
    CHECK_HAS(ccl_err_last(), "nobody came within 300 ms");
}

static void child_fixed(void)
{
    ncclUniqueId id, again;
    for (int session = 0; session < 5; session++) {
        CHECK_OK(ccl_boot_make_id(&id));
        CHECK_OK(ccl_boot_make_id(&again));
        CHECK_MEM(&id, &again, sizeof id);
        test_ranks_fill(ranks, 4, &id, 2);
        /* Rank 0, which starts the root, comes last. */
        struct test_rank first = ranks[0];
        ranks[0] = ranks[3];
        ranks[3] = first;
        test_ranks_run(ranks, 4);
        check_all(4, ncclSuccess, "");
    }
}

static void child_bad_fixed(void)
{
    ncclUniqueId id;
    CHECK_EQ(ccl_boot_make_id(&id), ncclInvalidUsage);
    CHECK_HAS(ccl_err_last(), "NCCL_COMM_ID=");
}

static void child_bad_interface(void)
{
    ncclUniqueId id;
    CHECK_EQ(ccl_boot_make_id(&id), ncclInvalidUsage);
    CHECK_HAS(ccl_err_last(), "nosuch0");
}

static void child_loopback(void)
{
    ncclUniqueId id;
    struct ccl_boot_id parts;
    char text[CCL_SOCK_TEXT_BYTES];
    CHECK_OK(ccl_boot_make_id(&id));
    CHECK_OK(ccl_boot_id_unpack(&id, &parts));
    CHECK_HAS(ccl_sock_text(&parts.root, text), "127.0.0.1:");
    test_ranks_fill(ranks, 2, &id, 1);
    test_ranks_run(ranks, 2);
    check_all(2, ncclSuccess, "");
}

static void run_child(const char *name, const char *a, const char *b)
{
    const char *env[] = {a, b, NULL};
    static struct test_output output;
    test_exec_case(name, env, &output);
    if (output.code != 0) FAIL("exit code %d: %s%s", output.code, output.out, output.err);
}

static void test_missing(void)
{
    run_child("child:missing", "CHORUS_INIT_TIMEOUT_MS=600", NULL);
}

static void test_missing_round(void)
{
    run_child("child:missing round", "CHORUS_INIT_TIMEOUT_MS=1500", NULL);
}

static void test_unused_expires(void)
{
    run_child("child:unused expires", "CHORUS_INIT_TIMEOUT_MS=300", NULL);
}

static void test_fixed(void)
{
    char text[64];
    snprintf(text, sizeof text, "NCCL_COMM_ID=127.0.0.1:%d", 20000 + (int)getpid() % 10000);
    run_child("child:fixed", text, NULL);
}

static void test_bad_fixed(void)
{
    run_child("child:bad fixed", "NCCL_COMM_ID=127.0.0.1", NULL);
    run_child("child:bad fixed", "NCCL_COMM_ID=127.0.0.1:0", NULL);
    run_child("child:bad fixed", "NCCL_COMM_ID=127.0.0.1:99999", NULL);
    run_child("child:bad fixed", "NCCL_COMM_ID=:80", NULL);
}

static void test_interfaces(void)
{
    run_child("child:bad interface", "NCCL_SOCKET_IFNAME=nosuch0", NULL);
    run_child("child:loopback", "NCCL_SOCKET_IFNAME=lo", "NCCL_SOCKET_FAMILY=AF_INET");
    run_child("child:loopback", "NCCL_SOCKET_IFNAME==lo", "NCCL_SOCKET_FAMILY=AF_INET");
}

/* ---- a rank that is killed ---- */

static void test_killed(void)
{
    ncclUniqueId id;
    int ready[2];
    char byte, text[32];
    CHECK_OK(ccl_boot_make_id(&id));
    CHECK_EQ(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct ccl_boot_args args = {.id = id, .nranks = 3, .rank = 1};
        struct ccl_boot *boot;
        if (ccl_boot_open(&args, &boot) != ncclSuccess) _exit(1);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        pause();
        _exit(0);
    }
    test_ranks_fill(ranks, 3, &id, 1);
    ranks[1] = ranks[2];
    test_ranks_start(ranks, 2);
    CHECK_EQ(read(ready[0], &byte, 1), 1);
    kill(child, SIGKILL);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    test_ranks_join(ranks, 2);
    check_all(2, ncclRemoteError, "rank 1 (host ");
    check_all(2, ncclRemoteError, "ended during initialisation");
    snprintf(text, sizeof text, "pid %d)", (int)child);
    CHECK_HAS(ranks[0].text, text);
    close(ready[0]);
    close(ready[1]);
}

static const struct test_case cases[] = {
    {"1 rank", test_one, 0},
    {"2 ranks", test_two, 0},
    {"8 ranks", test_eight, 0},
    {"33 ranks", test_33, 0},
    {"rounds of all sizes", test_large_rounds, 0},
    {"7 ids at a time", test_parallel_ids, 0},
    {"an id that is not used", test_unused_id, 0},
    {"an id that was used", test_used_id, 0},
    {"damaged ids and bad ranks", test_bad_ids, 0},
    {"a rank claimed twice", test_duplicate, 0},
    {"a rank too many", test_second_session, 0},
    {"different numbers of ranks", test_wrong_nranks, 0},
    {"different builds", test_other_build, 0},
    {"unequal all-gathers", test_unequal_gather, 0},
    {"a rank leaves before a round", test_early_leave, 0},
    {"abort", test_abort, 0},
    {"missing ranks are named", test_missing, 0},
    {"a rank missing in a round is named", test_missing_round, 0},
    {"an unused id expires", test_unused_expires, 0},
    {"a fixed root, five sessions", test_fixed, 0},
    {"bad fixed roots", test_bad_fixed, 0},
    {"interfaces", test_interfaces, 0},
    {"a killed rank is named", test_killed, 0},
    {"child:missing", child_missing, 0},
    {"child:missing round", child_missing_round, 0},
    {"child:unused expires", child_unused_expires, 0},
    {"child:fixed", child_fixed, 0},
    {"child:bad fixed", child_bad_fixed, 0},
    {"child:bad interface", child_bad_interface, 0},
    {"child:loopback", child_loopback, 0},
};

TEST_LIB_MAIN(cases)
