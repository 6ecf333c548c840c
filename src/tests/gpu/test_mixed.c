/* Which ranks may form a communicator: GPUs and host devices never mix, one GPU is shared only when
 * that was asked for, and processes that know a GPU by different names share it. */
#include "core/procs.h"
#include "gpu/driver.h"
#include "unit/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 100 };

/* ---- a rank on a host device, one on a GPU ---- */

static ncclResult_t init_rank(ncclComm_t *comm)
{
    CHECK_OK(chorus_devices()->set(0));
    return ncclCommInitRank(comm, proc_count(), proc_id(), proc_index());
}

static void child_mixed(void)
{
    ncclComm_t comm;
    CHECK_EQ(init_rank(&comm), ncclInvalidUsage);
    CHECK_HAS(ncclGetLastError(NULL), "GPU");
    CHECK_HAS(ncclGetLastError(NULL), "host device");
    proc_say('e');
}

static void test_mixed(void)
{
    struct procs procs;
    setenv("GPU_KINDS", "host cuda", 1);
    procs_start(&procs, 2, "child:mixed", NULL);
    unsetenv("GPU_KINDS");
    for (int p = 0; p < 2; p++) procs_hear(&procs, p, 'e');
    procs_end(&procs, -1);
}

/* ---- ranks that share a GPU ---- */

static void child_refused(void)
{
    ncclComm_t comms[2];
    CHECK_EQ(ncclCommInitAll(comms, 2, (const int[]){0, 0}), ncclInvalidUsage);
    CHECK_HAS(ncclGetLastError(NULL), "ranks 0 and 1");
    CHECK_HAS(ncclGetLastError(NULL), "NCCL_MULTI_RANK_GPU_ENABLE=1");
    CHECK_OK(ncclCommInitAll(comms, 1, NULL));
    CHECK_OK(ncclCommDestroy(comms[0]));
}

static void test_refused(void)
{
    static const char *const settings[] = {"NCCL_MULTI_RANK_GPU_ENABLE=0", "GPU_COLD=1", NULL};
    kit_child("child:refused", settings);
}

static void child_refused_process(void)
{
    ncclComm_t comm;
    CHECK_EQ(init_rank(&comm), ncclInvalidUsage);
    CHECK_HAS(ncclGetLastError(NULL), "NCCL_MULTI_RANK_GPU_ENABLE=1");
    proc_say('e');
}

static void test_refused_processes(void)
{
    struct procs procs;
    procs_start(&procs, 2, "child:refused-process",
                (const char *const[]){"NCCL_MULTI_RANK_GPU_ENABLE=0", NULL});
    for (int p = 0; p < 2; p++) procs_hear(&procs, p, 'e');
    procs_end(&procs, -1);
}

/* ---- one GPU, two names ---- */

static void child_names(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    kit_far = 1;
    proc_open(&kit, 1, COUNT);
    for (int i = 0; i < kit.nranks; i++) kit_prepare(&kit.ranks[i], &op);
    CHECK_OK(kit_call(&kit.ranks[0], &op));
    kit_check(&kit.ranks[0], &op);
    kit_close(&kit);
    proc_say('d');
}

static void test_names(void)
{
    int (*get_uuid)(unsigned char *, int);
    unsigned char uuid[16];
    char name[64];
    struct procs procs;
    *(void **)&get_uuid = test_driver_function("cuDeviceGetUuid_v2");
    CHECK_EQ(get_uuid(uuid, 0), 0);
    int used = snprintf(name, sizeof name, "GPU");
    for (int i = 0; i < 16; i++)
        used += snprintf(name + used, sizeof name - (size_t)used, "%s%02x",
                         i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    NOTE("%s", name);
    setenv("GPU_NAME", name, 1);
    procs_start(&procs, 2, "child:names", NULL);
    unsetenv("GPU_NAME");
    for (int p = 0; p < 2; p++) procs_hear(&procs, p, 'd');
    procs_end(&procs, -1);
}

/* What differs between the processes of a case, which is set before anything reads it. */
static void set_names(void)
{
    const char *kinds = getenv("GPU_KINDS"), *name = getenv("GPU_NAME");
    const char *index = getenv("CORE_INDEX");
    int is_first = index != NULL && atoi(index) == 0;
    if (kinds != NULL) setenv("CHORUS_DEVICE", is_first ? "host" : "cuda", 1);
    if (name != NULL) setenv("CUDA_VISIBLE_DEVICES", is_first ? "0" : name, 1);
}

static const struct test_case cases[] = {
    {"host devices and GPUs do not mix", test_mixed, 120},
    {"ranks of a process that share a GPU are refused", test_refused, 0},
    {"processes that share a GPU are refused", test_refused_processes, 120},
    {"processes know a GPU by its number and by its UUID", test_names, 120},
    {"child:mixed", child_mixed, 0},
    {"child:refused", child_refused, 0},
    {"child:refused-process", child_refused_process, 0},
    {"child:names", child_names, 0},
};

int main(int argc, char **argv)
{
    set_names();
    test_settle = test_lib_settle;
    test_prepare = gpu_prepare;
    return test_main(argc, argv, cases, TEST_COUNT(cases));
}
