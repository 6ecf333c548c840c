/* One-sided operations between processes: what is written and in which order, memory that others
 * do not reach, processes that die, leave or abort while others wait for their signals. */
#define _GNU_SOURCE
#include "core/procs.h"
#include "core/windows.h"
#include "unit/memory.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20, GUARD = 64 };

static int env_number(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 1 : atoi(text);
}

static int nranks_of(const struct kit *kit)
{
    return kit->ranks[0].nranks;
}

/* Every rank puts so far ahead, and hears from as far behind. */
static void shift(struct windows *windows, int by, const struct windows_put *like)
{
    struct kit *kit = windows->kit;
    int n = nranks_of(kit);
    for (int i = 0; i < kit->nranks; i++) {
        uint32_t seed = (uint32_t)(like->bytes * 64 + (size_t)kit->ranks[i].rank);
        windows_fill(windows, i, like->from, like->bytes, seed);
        windows_set(windows, i, like->to - GUARD, like->bytes + 2 * (size_t)GUARD, 0x5a);
    }
    /* All targets are ready before anybody writes. */
    struct kit_op barrier = kit_simple(KIT_ALL_REDUCE, 1);
    kit_run(kit, &barrier);
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < kit->nranks; i++) {
        struct windows_put put = *like;
        put.peer = (kit->ranks[i].rank + by) % n;
        CHECK_OK(windows_put(windows, i, &put));
        CHECK_OK(windows_wait(windows, i, (kit->ranks[i].rank + n - by) % n, 1));
    }
    CHECK_OK(ncclGroupEnd());
    for (int i = 0; i < kit->nranks; i++) {
        size_t from = (size_t)((kit->ranks[i].rank + n - by) % n);
        windows_expect_byte(windows, i, like->to - GUARD, GUARD, 0x5a);
        windows_expect(windows, i, like->to, like->bytes, (uint32_t)(like->bytes * 64 + from));
        windows_expect_byte(windows, i, like->to + like->bytes, GUARD, 0x5a);
    }
}

static void child_sizes(void)
{
    static const size_t sizes[] = {0,    1,     63,     64,      65,          1000,
                                   4097, 65536, 131073, MIB + 1, 3 * MIB + 7, 8 * MIB};
    struct kit kit;
    struct windows windows;
    proc_mark();
    proc_open(&kit, env_number("CORE_LOCAL"), 1000);
    windows_open(&windows, &kit, 2 * (8 * (size_t)MIB + 256));
    for (size_t s = 0; s < TEST_COUNT(sizes); s++) {
        struct windows_put put = {s % 16, windows.bytes / 2 + GUARD + s * 5 % 16, sizes[s], 0};
        shift(&windows, 1 + (int)s % (nranks_of(&kit) - 1), &put);
    }
    windows_close(&windows);
    kit_close(&kit);
    proc_check_mark();
}

static void run_all(int n, const char *name, const char *const env[])
{
    struct procs procs;
    procs_start(&procs, n, name, env);
    procs_end(&procs, -1);
}

static void test_sizes(void)
{
    run_all(2, "child:sizes", NULL);
    run_all(3, "child:sizes", (const char *const[]){"CORE_LOCAL=2", NULL});
}

/* A ball between two ranks of other processes, each answer a put that overwrites the latest. */
static void child_ball(void)
{
    enum { THROWS = 500, BYTES = 3000 };
    struct kit kit;
    struct windows windows;
    proc_open(&kit, 1, 1);
    windows_open(&windows, &kit, 2 * (size_t)BYTES);
    int me = proc_index();
    struct windows_put put = {0, BYTES, BYTES, 1 - me};
    for (uint32_t round = 0; round < THROWS; round++) {
        if (me == 0) {
            windows_fill(&windows, 0, 0, BYTES, round);
            CHECK_OK(windows_put(&windows, 0, &put));
        }
        CHECK_OK(windows_wait(&windows, 0, 1 - me, 1));
        windows_expect(&windows, 0, BYTES, BYTES, round + (uint32_t)(me == 0 ? THROWS : 0));
        if (me == 1) {
            windows_fill(&windows, 0, 0, BYTES, round + THROWS);
            CHECK_OK(windows_put(&windows, 0, &put));
        }
    }
    windows_close(&windows);
    kit_close(&kit);
}

static void test_ball(void)
{
    run_all(2, "child:ball", NULL);
}

/* All signals of a process wait for one that takes them later, in numbers of its own. */
static void child_ahead(void)
{
    enum { NSIGNALS = 600 };
    struct kit kit;
    struct windows windows;
    proc_open(&kit, 1, 1);
    windows_open(&windows, &kit, 4096);
    int n = proc_count();
    if (proc_index() == 0) {
        ncclWaitSignalDesc_t descs[PROCS_MAX];
        proc_hear('s');
        for (int round = 0; round < 2; round++) {
            for (int p = 1; p < n; p++)
                descs[p - 1] = (ncclWaitSignalDesc_t){NSIGNALS / 2, p, 0, 0};
            CHECK_OK(ncclWaitSignal(n - 1, descs, kit.ranks[0].comm, kit.ranks[0].stream));
        }
    } else {
        for (int i = 0; i < NSIGNALS; i++) CHECK_OK(windows_signal(&windows, 0, 0));
    }
    kit_sync(&kit.ranks[0]);
    proc_say('r');
    windows_close(&windows);
    kit_close(&kit);
}

static void test_ahead(void)
{
    struct procs procs;
    procs_start(&procs, 3, "child:ahead", NULL);
    for (int i = 1; i < 3; i++) procs_hear(&procs, i, 'r');
    procs_say(&procs, 0, 's');
    procs_hear(&procs, 0, 'r');
    procs_end(&procs, -1);
}

/* ---- registration ---- */

/* Memory of the program that others cannot map: all ranks learn whose it is. */
static void child_foreign(void)
{
    struct kit kit;
    struct windows windows;
    char *memory = malloc(4096), whose[80];
    ncclWindow_t win = (ncclWindow_t)(void *)memory;
    proc_mark();
    proc_open(&kit, 1, 1);
    windows_open(&windows, &kit, 4096);
    void *buffer = proc_index() == 1 ? memory : windows.ranks[0].memory;
    CHECK_EQ(ncclCommWindowRegister(kit.ranks[0].comm, buffer, 4096, &win, 0), ncclInvalidArgument);
    CHECK_EQ(win, NULL);
    CHECK_HAS(ncclGetLastError(NULL), "ncclCommWindowRegister: rank 1: buffer 0x");
    snprintf(whose, sizeof whose, "%p", buffer);
    if (proc_index() == 1) CHECK_HAS(ncclGetLastError(NULL), whose);
    struct windows_put put = {0, 2048, 1000, (proc_index() + 1) % proc_count()};
    CHECK_OK(windows_put(&windows, 0, &put));
    CHECK_OK(windows_wait(&windows, 0, (proc_index() + proc_count() - 1) % proc_count(), 1));
    kit_sync(&kit.ranks[0]);
    windows_close(&windows);
    kit_close(&kit);
    free(memory);
    proc_check_mark();
}

static void test_foreign(void)
{
    run_all(3, "child:foreign", NULL);
}

/* What others may map does not grow with windows that come and go, each in fresh memory. */
static void child_cycles(void)
{
    struct kit kit;
    proc_mark();
    proc_open(&kit, 1, 1000);
    for (int round = 0; round < (kit_is_slow() ? 20 : 200); round++) {
        struct windows windows;
        windows_open(&windows, &kit, 65536 + (size_t)round % 7 * 4096);
        struct windows_put put = {0, 32768, 1000, 0};
        shift(&windows, 1, &put);
        windows_close(&windows);
    }
    kit_close(&kit);
    proc_check_mark();
}

static void test_cycles(void)
{
    run_all(2, "child:cycles", NULL);
}

/* ---- ends ---- */

/* The last process dies, leaves or aborts while the others wait for its signal. */
static void child_end(void)
{
    struct kit kit;
    struct windows windows;
    const char *way = getenv("CORE_WAY");
    int last = proc_count() - 1;
    char who[40];
    proc_open(&kit, 1, 1);
    windows_open(&windows, &kit, 4096);
    struct kit_rank *rank = &kit.ranks[0];
    snprintf(who, sizeof who, "waits for a signal of ranks %d", last);
    if (proc_index() != last) {
        CHECK_OK(windows_wait(&windows, 0, last, 1));
        kit_await_status(rank->comm, who);
    }
    proc_say('r');
    proc_hear('g');
    if (proc_index() != last) {
        snprintf(who, sizeof who, "rank %d on host", last);
        kit_await_error(rank, ncclRemoteError, who);
        kit_sync(rank);
    }
    if (proc_index() == last && strcmp(way, "exit") == 0) _Exit(0);
    CHECK_OK(ncclCommAbort(rank->comm));
    rank->comm = NULL;
    windows_close(&windows);
    kit_close(&kit);
}

static void run_end(const char *way, int kills)
{
    char env[40];
    struct procs procs;
    snprintf(env, sizeof env, "CORE_WAY=%s", way);
    procs_start(&procs, 3, "child:end", (const char *const[]){env, NULL});
    for (int i = 0; i < 3; i++) procs_hear(&procs, i, 'r');
    if (kills) procs_signal(&procs, 2, SIGKILL);
    for (int i = 0; i < 3 - kills; i++) procs_say(&procs, i, 'g');
    procs_end(&procs, kills ? 2 : -1);
}

static void test_kill(void)
{
    run_end("kill", 1);
}

static void test_exit(void)
{
    run_end("exit", 0);
}

static void test_abort(void)
{
    run_end("abort", 0);
}

static const struct test_case cases[] = {
    {"rma across: sizes to 8 MiB, at any place", test_sizes, 120},
    {"rma across: a ball between two", test_ball, 120},
    {"rma across: signals far ahead", test_ahead, 0},
    {"rma across: memory that others do not reach", test_foreign, 0},
    {"rma across: windows come and go", test_cycles, 120},
    {"rma across: a process is killed", test_kill, 0},
    {"rma across: a process exits", test_exit, 0},
    {"rma across: a process aborts", test_abort, 0},
    {"child:sizes", child_sizes, 0},
    {"child:ball", child_ball, 0},
    {"child:ahead", child_ahead, 0},
    {"child:foreign", child_foreign, 0},
    {"child:cycles", child_cycles, 0},
    {"child:end", child_end, 0},
};
TEST_LIB_MAIN(cases)
