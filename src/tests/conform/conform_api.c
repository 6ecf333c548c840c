/* The conformance test of the interface: gathers the cases of the files of this folder and runs
 * them as one program, linked with libnccl.so.2 as a program of a user is.
 */
#include "conform/table.h"
#include "conform/world.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { PREPARE_LIMIT_MS = 10000 };

static const struct case_list *const lists[] = {
    &info_cases,       &export_cases,       &config_cases,   &group_cases,    &life_cases,
    &memory_cases,     &param_cases,        &device_cases,   &require_cases,  &later_cases,
    &wrong_life_cases, &wrong_family_cases, &wrong_op_cases, &disagree_cases, &wrong_device_cases,
    &simulate_cases,   &table_cases,
};

static nlink_t count_threads(void)
{
    struct stat tasks;
    return stat("/proc/self/task", &tasks) == 0 ? tasks.st_nlink : 0;
}

/* What the library keeps for the life of the process is made here, before the first search for
 * leftovers. A failure is found by the cases; the child of "last error starts empty" makes none. */
static void prepare(void)
{
    ncclComm_t comms[NRANKS];
    test_lib_prepare();
    nlink_t nthreads = count_threads();
    if (ncclCommInitAll(comms, NRANKS, NULL) != ncclSuccess) return;
    for (int i = 0; i < NRANKS; i++) (void)ncclCommDestroy(comms[i]);
    test_lib_settle();
    /* The bootstrap's thread ends by itself, after its descriptors. */
    for (int i = 0; i < PREPARE_LIMIT_MS && count_threads() > nthreads; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

int main(int argc, char **argv)
{
    static struct test_case cases[1024];
    size_t ncases = 0;
    for (size_t i = 0; i < TEST_COUNT(lists); i++) {
        if (ncases + lists[i]->ncases > TEST_COUNT(cases)) abort();
        memcpy(cases + ncases, lists[i]->cases, lists[i]->ncases * sizeof cases[0]);
        ncases += lists[i]->ncases;
    }
    test_settle = test_lib_settle;
    test_prepare = prepare;
    test_ended = table_count;
    table_open(cases, ncases);
    int code = test_main(argc, argv, cases, ncases);
    table_print();
    return code;
}
