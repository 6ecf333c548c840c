/* The same thing thousands of times: nothing that a process has grows between a tenth of the way
 * and the end. A part of the rounds by default; CHORUS_TEST_ENDURANCE=1 asks for all. Figures go to
 * stdout: what there was at a tenth and at the end. */
#define _GNU_SOURCE
#include "core/kit.h"
#include "unit/memory.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 64, NRANKS = 3, FEW = 50, RESIDENT_PAGES = 256, MAPPINGS = 32 };

/* What a process has. */
struct holdings {
    long fds, threads, mappings, pages;
    uint64_t device_bytes;
};

static long count_entries(const char *path)
{
    long n = 0;
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    while (readdir(dir) != NULL) n++;
    closedir(dir);
    return n;
}

/* Without those of a driver, or of a simulated one, which come and go as it likes. */
static long count_threads(void)
{
    long n = 0;
    const struct dirent *entry;
    DIR *dir = opendir("/proc/self/task");
    CHECK(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        if (file == NULL) continue;
        if (fgets(name, sizeof name, file) != NULL) n += strncmp(name, "cuda", 4) != 0;
        fclose(file);
    }
    closedir(dir);
    return n;
}

static long count_lines(const char *path)
{
    long n = 0;
    FILE *file = fopen(path, "re");
    CHECK(file != NULL);
    for (int c = fgetc(file); c != EOF; c = fgetc(file)) n += c == '\n';
    fclose(file);
    return n;
}

/* Taken memory of the GPU; of host devices the resident pages tell. */
static uint64_t device_bytes(void)
{
    size_t left = 0, all = 0;
    if (!test_on_gpu() || test_driver_stand_in != NULL) return 0;
    int (*mem_info)(size_t *, size_t *);
    void *function = test_driver_function("cuMemGetInfo_v2");
    memcpy(&mem_info, &function, sizeof mem_info);
    CHECK_EQ(mem_info(&left, &all), 0);
    return all - left;
}

/* Threads of sessions that are over are given time to leave. */
static struct holdings look(void)
{
    test_lib_settle();
    return (struct holdings){
        .fds = count_entries("/proc/self/fd"),
        .threads = count_threads(),
        .mappings = count_lines("/proc/self/maps"),
        .pages = kit_resident_pages(),
        .device_bytes = device_bytes(),
    };
}

struct course {
    const char *name;
    int all, slice; /* rounds */
    void (*round)(struct kit *kit, int i);
};

static void run(const struct course *course)
{
    int is_all = getenv("CHORUS_TEST_ENDURANCE") != NULL;
    int n = is_all ? course->all : kit_is_slow() ? course->slice / 4 : course->slice;
    struct holdings early = {0}, late;
    struct kit kit;
    int64_t start = kit_now_ms();
    kit_open(&kit, NRANKS, 2, COUNT);
    for (int i = 0; i < n; i++) {
        if (i == n / 10) early = look();
        course->round(&kit, i);
    }
    late = look();
    NOTE("%s, %d rounds in %lld ms: fds %ld %ld, threads %ld %ld, mappings %ld %ld, resident pages "
         "%ld %ld, device bytes %llu %llu",
         course->name, n, (long long)(kit_now_ms() - start), early.fds, late.fds, early.threads,
         late.threads, early.mappings, late.mappings, early.pages, late.pages,
         (unsigned long long)early.device_bytes, (unsigned long long)late.device_bytes);
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    kit_run(&kit, &op);
    kit_close(&kit);
    CHECK_EQ(late.fds, early.fds);
    CHECK_EQ(late.threads, early.threads);
    CHECK_EQ(late.device_bytes, early.device_bytes);
    /* The heap may grow once more, and threads of groups get heaps of their own, a few in all; a
     * leak of a page or a mapping a round is more. */
    CHECK(late.mappings <= early.mappings + MAPPINGS);
    CHECK(late.pages <= early.pages + RESIDENT_PAGES);
}

/* ---- what is done ---- */

static void init_and_destroy(struct kit *kit, int i)
{
    ncclComm_t comms[NRANKS];
    int devices[NRANKS];
    for (int r = 0; r < NRANKS; r++) devices[r] = test_device(r * (i % 3) % kit->ndevices);
    CHECK_OK(ncclCommInitAll(comms, NRANKS, devices));
    for (int r = 0; r < NRANKS; r++)
        CHECK_OK(i % 5 == 0 ? ncclCommAbort(comms[r]) : ncclCommDestroy(comms[r]));
}

static void split_and_destroy(struct kit *kit, int i)
{
    ncclComm_t comms[NRANKS];
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < NRANKS; r++) {
        int color = i % 4 == 0 && r == 1 ? NCCL_SPLIT_NOCOLOR : (r * i) % 2;
        CHECK_OK(ncclCommSplit(kit->ranks[r].comm, color, -r, &comms[r], NULL));
    }
    CHECK_OK(ncclGroupEnd());
    for (int r = 0; r < NRANKS; r++) CHECK_OK(ncclCommDestroy(comms[r]));
}

static void suspend_and_resume(struct kit *kit, int i)
{
    struct kit_op op = kit_simple((enum kit_coll)(i % KIT_NCOLLS), COUNT);
    kit_run(kit, &op);
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < NRANKS; r++)
        CHECK_OK(ncclCommSuspend(kit->ranks[r].comm, NCCL_SUSPEND_MEM));
    CHECK_OK(ncclGroupEnd());
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < NRANKS; r++) CHECK_OK(ncclCommResume(kit->ranks[r].comm));
    CHECK_OK(ncclGroupEnd());
}

static void register_and_deregister(struct kit *kit, int i)
{
    void *handles[NRANKS][3];
    for (int r = 0; r < NRANKS; r++)
        for (int h = 0; h < 3; h++)
            CHECK_OK(ncclCommRegister(kit->ranks[r].comm, kit->ranks[r].in + h * (i % 7),
                                      16 + (size_t)i % 64, &handles[r][h]));
    for (int r = 0; r < NRANKS; r++)
        for (int h = 0; h < 3; h++) CHECK_OK(ncclCommDeregister(kit->ranks[r].comm, handles[r][h]));
}

static void alloc_and_free(struct kit *kit, int i)
{
    void *memory[8];
    (void)kit;
    for (int b = 0; b < 8; b++) CHECK_OK(ncclMemAlloc(&memory[b], (size_t)1 << (6 + (i + b) % 15)));
    for (int b = 0; b < 8; b++) CHECK_OK(ncclMemFree(memory[b]));
}

static const struct course courses[] = {
    {"init and destroy", 10000, 300, init_and_destroy},
    {"split and destroy", 10000, 200, split_and_destroy},
    {"suspend and resume", 1000, 100, suspend_and_resume},
    {"register and deregister", 1000, 1000, register_and_deregister},
    {"alloc and free", 10000, 1000, alloc_and_free},
};

static void test_init_and_destroy(void)
{
    run(&courses[0]);
}

static void test_split_and_destroy(void)
{
    run(&courses[1]);
}

static void test_suspend_and_resume(void)
{
    run(&courses[2]);
}

static void test_register_and_deregister(void)
{
    run(&courses[3]);
}

static void test_alloc_and_free(void)
{
    run(&courses[4]);
}

static const struct test_case cases[] = {
    {"endurance: init and destroy", test_init_and_destroy, 900},
    {"endurance: split and destroy", test_split_and_destroy, 900},
    {"endurance: suspend and resume", test_suspend_and_resume, 900},
    {"endurance: register and deregister", test_register_and_deregister, 0},
    {"endurance: alloc and free", test_alloc_and_free, 0},
};
TEST_LIB_MAIN(cases)
