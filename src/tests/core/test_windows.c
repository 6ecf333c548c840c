/* Windows of a process's ranks: that nothing is left of them, whatever ends them, and how calls end
 * that not all ranks make. */
#include "core/windows.h"
#include "unit/leftover.h"
#include "unit/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 1000, WARM = 20 };

static void register_one(void *arg, int i)
{
    struct windows *windows = arg;
    const struct kit_rank *rank = &windows->kit->ranks[i];
    ncclWindow_t win;
    CHECK_OK(ncclCommWindowRegister(rank->comm, windows->ranks[i].memory, windows->bytes, &win, 0));
    CHECK(win != NULL);
    CHECK_OK(ncclCommWindowDeregister(rank->comm, win));
}

static void register_from_threads(void *arg, int i)
{
    int rounds = kit_is_slow() ? ROUNDS / 20 : ROUNDS;
    for (int round = 0; round < rounds; round++) register_one(arg, i);
}

/* Descriptors, threads and mappings are compared by the framework at the end of the case, and here
 * in the middle, where the communicator lives. */
static void test_thousand(void)
{
    struct kit kit;
    struct windows windows;
    struct test_snapshot first, last;
    kit_open(&kit, 2, test_devices(2), 1);
    windows_open(&windows, &kit, 1 << 16);
    for (int i = 0; i < WARM; i++) kit_threads(2, register_one, &windows);
    test_lib_settle();
    long pages = kit_resident_pages();
    test_snapshot_take(&first);
    kit_threads(2, register_from_threads, &windows);
    test_lib_settle();
    test_snapshot_take(&last);
    CHECK_EQ(test_snapshot_diff(&first, &last, NULL, NULL), 0);
    long more = kit_resident_pages() - pages;
    if (more > 256) FAIL("%d rounds took %ld pages", ROUNDS, more);
    test_snapshot_free(&first);
    test_snapshot_free(&last);
    windows_close(&windows);
    kit_close(&kit);
}

/* Communicators that end take their windows along; the memory check of the framework sees. */
static void test_ends(void)
{
    for (int aborts = 0; aborts < 2; aborts++)
        for (int round = 0; round < 10; round++) {
            struct kit kit;
            struct windows windows;
            kit_open(&kit, 3, test_devices(2), 1);
            windows_open(&windows, &kit, 4096);
            for (int i = 0; i < 3; i++) {
                ncclComm_t comm = kit.ranks[i].comm;
                CHECK_OK(aborts ? ncclCommAbort(comm) : ncclCommDestroy(comm));
                kit.ranks[i].comm = NULL;
            }
            windows_close(&windows);
            kit_close(&kit);
        }
}

/* Many windows at once, given up in another order. */
static void test_many(void)
{
    enum { NWINDOWS = 100 };
    static ncclWindow_t wins[NWINDOWS][2];
    struct kit kit;
    struct windows windows;
    kit_open(&kit, 2, test_devices(2), 1);
    windows_open(&windows, &kit, NWINDOWS * 64);
    CHECK_OK(ncclGroupStart());
    for (size_t w = 0; w < NWINDOWS; w++)
        for (int i = 0; i < 2; i++)
            CHECK_OK(ncclCommWindowRegister(kit.ranks[i].comm, windows.ranks[i].memory + w * 64, 64,
                                            &wins[w][i], 0));
    CHECK_OK(ncclGroupEnd());
    for (size_t w = 0; w < NWINDOWS; w++)
        for (int i = 0; i < 2; i++) {
            void *pointer;
            size_t at = w * 37 % NWINDOWS;
            CHECK_OK(ncclWinGetUserPtr(kit.ranks[i].comm, wins[at][i], &pointer));
            CHECK_EQ(pointer, windows.ranks[i].memory + at * 64);
            CHECK_OK(ncclCommWindowDeregister(kit.ranks[i].comm, wins[at][i]));
        }
    windows_close(&windows);
    kit_close(&kit);
}

/* ---- not all ranks call ---- */

static void child_missing(void)
{
    struct kit kit;
    struct windows windows;
    ncclWindow_t win = (ncclWindow_t)(void *)&kit;
    kit_open(&kit, 3, 1, 1);
    windows_open(&windows, &kit, 4096);
    CHECK_EQ(ncclCommWindowRegister(kit.ranks[0].comm, windows.ranks[0].memory, 64, &win, 0),
             ncclRemoteError); /* the program is of no known version */
    CHECK_EQ(win, NULL);
    CHECK_HAS(ncclGetLastError(NULL), "ncclCommWindowRegister");
    CHECK_HAS(ncclGetLastError(NULL), "1");
    windows_close(&windows);
    kit_close(&kit);
}

static void test_missing(void)
{
    kit_child("child:missing", (const char *const[]){"CHORUS_INIT_TIMEOUT_MS=500", NULL});
}

struct aborted {
    struct kit kit;
    struct windows windows;
    _Atomic int is_in;
};

static void register_or_abort(void *arg, int i)
{
    struct aborted *aborted = arg;
    struct kit_rank *rank = &aborted->kit.ranks[i];
    if (i == 0) {
        ncclWindow_t win;
        aborted->is_in = 1;
        ncclResult_t rc =
            ncclCommWindowRegister(rank->comm, aborted->windows.ranks[0].memory, 64, &win, 0);
        CHECK(rc != ncclSuccess);
        CHECK_EQ(win, NULL);
        return;
    }
    while (!aborted->is_in) {
    }
    CHECK_OK(ncclCommAbort(rank->comm));
    rank->comm = NULL;
}

/* A rank that will never come aborts: the one that waits for it goes on. */
static void test_abort_while_registering(void)
{
    static struct aborted aborted;
    for (int round = 0; round < 10; round++) {
        aborted.is_in = 0;
        kit_open(&aborted.kit, 2, test_devices(2), 1);
        windows_open(&aborted.windows, &aborted.kit, 4096);
        kit_threads(2, register_or_abort, &aborted);
        CHECK_OK(ncclCommAbort(aborted.kit.ranks[0].comm));
        aborted.kit.ranks[0].comm = NULL;
        windows_close(&aborted.windows);
        kit_close(&aborted.kit);
    }
}

static const struct test_case cases[] = {
    {"windows: a thousand leave nothing", test_thousand, 240},
    {"windows: go with their communicators", test_ends, 120},
    {"windows: a hundred at a time", test_many, 0},
    {"windows: ranks that do not come are named", test_missing, 0},
    {"windows: an abort ends a registration", test_abort_while_registering, 120},
    {"child:missing", child_missing, 0},
};
TEST_LIB_MAIN(cases)
