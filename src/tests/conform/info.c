/* What needs no communicator: version, banner, texts of results, the last error. */
#define _GNU_SOURCE
#include "conform/world.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void version_is_the_header_s(void)
{
    int version = 0;
    CHECK_OK(ncclGetVersion(&version));
    CHECK_EQ(version, NCCL_VERSION_CODE);
    CHECK_EQ(version, 23007);
    CHECK_EQ(NCCL_VERSION(2, 30, 7), 23007);
    CHECK_EQ(NCCL_VERSION(2, 8, 4), 2804);
    CHECK_EQ(NCCL_MAJOR * 10000 + NCCL_MINOR * 100 + NCCL_PATCH, version);
}

/* Programs read the version from the file without loading it. */
static void banner_is_in_the_file(void)
{
    static const char banner[] = "NCCL version 2.30.7+cuda";
    Dl_info info;
    CHECK(dladdr(dlsym(RTLD_DEFAULT, "pncclGetVersion"), &info) != 0);
    FILE *file = fopen(info.dli_fname, "rb");
    CHECK(file != NULL);
    CHECK_EQ(fseek(file, 0, SEEK_END), 0);
    size_t bytes = (size_t)ftell(file);
    char *content = malloc(bytes);
    rewind(file);
    CHECK_EQ(fread(content, 1, bytes, file), bytes);
    CHECK(memmem(content, bytes, banner, sizeof banner - 1) != NULL);
    free(content);
    CHECK_EQ(fclose(file), 0);
}

static void every_result_has_its_text(void)
{
    for (int i = 0; i < ncclNumResults; i++) {
        CHECK(strlen(ncclGetErrorString((ncclResult_t)i)) > 0);
        for (int j = 0; j < i; j++)
            CHECK(strcmp(ncclGetErrorString((ncclResult_t)i),
                         ncclGetErrorString((ncclResult_t)j)) != 0);
    }
    CHECK_HAS(ncclGetErrorString(ncclUnhandledCudaError), "unhandled cuda error");
    CHECK_HAS(ncclGetErrorString(ncclSystemError), "unhandled system error");
    CHECK_HAS(ncclGetErrorString(ncclInvalidUsage), "NCCL_DEBUG=WARN");
}

static void unknown_results_share_one_text(void)
{
    const char *unknown = ncclGetErrorString(ncclNumResults);
    CHECK(unknown != NULL);
    CHECK_STR(ncclGetErrorString((ncclResult_t)-1), unknown);
    CHECK_STR(ncclGetErrorString((ncclResult_t)1000000), unknown);
}

static void child_last_error_is_empty(void)
{
    CHECK_STR(ncclGetLastError(NULL), "");
}

/* In a process of its own, because nothing clears the text. */
static void last_error_starts_empty(void)
{
    static struct test_output output;
    test_exec_case("child:last error is empty", NULL, &output);
    NOTE("%s", output.err);
    CHECK_EQ(output.code, 0);
}

static void *fail_elsewhere(void *unused)
{
    (void)unused;
    CHECK_EQ(ncclCommInitAll(NULL, 1, NULL), ncclInvalidArgument);
    return NULL;
}

static void last_error_is_the_process_s(void)
{
    pthread_t thread;
    CHECK_EQ(ncclGetVersion(NULL), ncclInvalidArgument);
    CHECK_HAS(ncclGetLastError(NULL), "ncclGetVersion");
    CHECK_EQ(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_HAS(ncclGetLastError(NULL), "ncclCommInitAll: comms is NULL");
}

static void last_error_stays_after_success(void)
{
    int version;
    CHECK_EQ(ncclGetVersion(NULL), ncclInvalidArgument);
    CHECK_OK(ncclGetVersion(&version));
    CHECK_STR(ncclGetLastError(NULL), "ncclGetVersion: version is NULL");
    CHECK_STR(ncclGetLastError((ncclComm_t)(void *)&version), "ncclGetVersion: version is NULL");
}

static void reset_debug_does_nothing(void)
{
    ncclResetDebugInit();
    CHECK_EQ(ncclGetVersion(NULL), ncclInvalidArgument);
}

static void reset_debug_keeps_the_last_error(void)
{
    CHECK_EQ(ncclGetVersion(NULL), ncclInvalidArgument);
    ncclResetDebugInit();
    CHECK_STR(ncclGetLastError(NULL), "ncclGetVersion: version is NULL");
}

static void child_ids_differ(void)
{
    ncclUniqueId ids[4];
    static const ncclUniqueId zero;
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        CHECK_OK(ncclGetUniqueId(&ids[i]));
        CHECK(memcmp(&ids[i], &zero, sizeof zero) != 0);
        for (size_t j = 0; j < i; j++) CHECK(memcmp(&ids[i], &ids[j], sizeof zero) != 0);
    }
}

/* In a process of its own: what listens for the ranks of an id stays as long as nobody comes. */
static void ids_differ(void)
{
    static struct test_output output;
    test_exec_case("child:ids differ", NULL, &output);
    NOTE("%s", output.err);
    CHECK_EQ(output.code, 0);
}

static void git_hash_is_a_word(void)
{
    const char *hash = chorus_git_hash();
    CHECK(strlen(hash) > 0);
    CHECK(strpbrk(hash, " \n") == NULL);
}

static const struct test_case cases[] = {
    {"info: ncclGetVersion is the header's", version_is_the_header_s, 0},
    {"info: banner is in the file", banner_is_in_the_file, 0},
    {"info: ncclGetErrorString of every result", every_result_has_its_text, 0},
    {"info: ncclGetErrorString of unknown results", unknown_results_share_one_text, 0},
    {"child:last error is empty", child_last_error_is_empty, 0},
    {"info: ncclGetLastError starts empty", last_error_starts_empty, 0},
    {"info: ncclGetLastError is the process's", last_error_is_the_process_s, 0},
    {"info: ncclGetLastError stays after success", last_error_stays_after_success, 0},
    {"info: ncclResetDebugInit does nothing", reset_debug_does_nothing, 0},
    {"info: ncclResetDebugInit keeps the last error", reset_debug_keeps_the_last_error, 0},
    {"child:ids differ", child_ids_differ, 0},
    {"info: ncclGetUniqueId gives another each time", ids_differ, 0},
    {"info: git hash is a word", git_hash_is_a_word, 0},
};
const struct case_list info_cases = {cases, TEST_COUNT(cases)};
