/* The loaded library, see library.h. The weak references are here and nowhere else: every other
 * file of the harness asks these functions.
 */
#define _GNU_SOURCE
#include "harness/library.h"

#include "harness/coll.h"
#include "harness/ending.h"
#include "harness/usage.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct chorus_devices *chorus_devices(void) __attribute__((weak));
extern const char *chorus_git_hash(void) __attribute__((weak));
extern ncclResult_t chorus_comm_status(ncclComm_t, char *, size_t) __attribute__((weak));
extern ncclResult_t chorus_comm_last_choice(ncclComm_t, struct chorus_choice *)
    __attribute__((weak));
/* Libraries before 2.27 have no windows. */
extern __typeof__(ncclCommWindowRegister) ncclCommWindowRegister __attribute__((weak));
extern __typeof__(ncclCommWindowDeregister) ncclCommWindowDeregister __attribute__((weak));
extern ncclResult_t chorus_comm_save_schedule(ncclComm_t, const char *) __attribute__((weak));

/* What every driver calls; the collective's own functions come from the driver. */
static const char *const needed[] = {
    "ncclCommDeregister",
    "ncclCommDestroy",
    "ncclCommGetAsyncError",
    "ncclCommInitAll",
    "ncclCommInitRank",
    "ncclCommInitRankConfig",
    "ncclCommRegister",
    "ncclGetErrorString",
    "ncclGetLastError",
    "ncclGetUniqueId",
    "ncclGetVersion",
    "ncclGroupEnd",
    "ncclGroupStart",
    "ncclMemAlloc",
    "ncclMemFree",
    "ncclRecv",
    "ncclRedOpDestroy",
    "ncclSend",
    "ncclRedOpCreatePreMulSum",
};
enum { NNEEDED = sizeof needed / sizeof needed[0] };

const char *perf_library_path(void)
{
    static char path[PATH_MAX];
    /* Not &ncclGetVersion: in the program that is the address of a jump into the library. */
    void *symbol = dlsym(RTLD_DEFAULT, "ncclGetVersion");
    Dl_info info;

    if (!symbol || !dladdr(symbol, &info) || !info.dli_fname) return "unknown";
    return realpath(info.dli_fname, path) ? path : info.dli_fname;
}

/* The library is opened apart from the one in use; nothing of it is called. */
static void check_symbols(const char *path, const struct perf_coll *coll)
{
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (handle == NULL) perf_usage("option --library: '%s' cannot be loaded: %s", path, dlerror());
    for (int i = 0; i <= NNEEDED; i++) {
        const char *name = i < NNEEDED ? needed[i] : coll->function;
        if (dlsym(handle, name) == NULL)
            perf_usage("option --library: '%s' has no %s, which %s calls", path, name,
                       perf_program());
    }
    dlclose(handle);
}

/* Behind what is preloaded already, which may be a wrapper of it. */
static void restart(const char *wanted, char **argv)
{
    char list[2 * PATH_MAX];
    const char *before = getenv("LD_PRELOAD");
    snprintf(list, sizeof list, "%s%s%s", before != NULL ? before : "",
             before != NULL && *before != '\0' ? ":" : "", wanted);
    if (setenv("LD_PRELOAD", list, 1) == 0) execv("/proc/self/exe", argv);
    perf_usage("option --library: the program cannot be started again: %s", strerror(errno));
}

void perf_library_use(const char *path, const struct perf_coll *coll, char **argv)
{
    char wanted[PATH_MAX];
    if (realpath(path, wanted) == NULL)
        perf_usage("option --library: '%s': %s", path, strerror(errno));
    if (strcmp(wanted, perf_library_path()) == 0) return;
    const char *before = getenv("LD_PRELOAD");
    if (before != NULL && strstr(before, wanted) != NULL)
        perf_usage("option --library: '%s' is preloaded, but %s is in use", path,
                   perf_library_path());
    if (strpbrk(wanted, ": \t\n") != NULL)
        perf_usage("option --library: '%s': a path with a blank or a colon cannot be preloaded",
                   wanted);
    check_symbols(wanted, coll);
    restart(wanted, argv);
}

int perf_library_is_ours(void)
{
    return chorus_devices != NULL;
}

const struct chorus_devices *perf_library_devices(void)
{
    return chorus_devices != NULL ? chorus_devices() : NULL;
}

const char *perf_library_device_kind(void)
{
    return chorus_devices != NULL ? chorus_devices()->kind : "";
}

const char *perf_library_hash(void)
{
    return chorus_git_hash != NULL ? chorus_git_hash() : "unknown";
}

void perf_comm_status(ncclComm_t comm, char *text, size_t bytes)
{
    text[0] = '\0';
    if (chorus_comm_status == NULL || comm == NULL) return;
    if (chorus_comm_status(comm, text, bytes) != ncclSuccess) text[0] = '\0';
}

void perf_comm_ran(ncclComm_t comm, struct perf_ran *ran)
{
    struct chorus_choice choice;
    memset(ran, 0, sizeof *ran);
    if (chorus_comm_last_choice == NULL || comm == NULL) return;
    if (chorus_comm_last_choice(comm, &choice) != ncclSuccess) return;
    snprintf(ran->algorithm, sizeof ran->algorithm, "%s", choice.algorithm);
    snprintf(ran->protocol, sizeof ran->protocol, "%s", choice.protocol);
    snprintf(ran->transport, sizeof ran->transport, "%s", choice.transport);
    ran->channels = choice.channels;
    /* A library of before has no such field. */
    if (choice.size >= offsetof(struct chorus_choice, join) + sizeof choice.join)
        snprintf(ran->join, sizeof ran->join, "%s", choice.join);
}

int64_t perf_comm_memory(ncclComm_t comm, ncclCommMemStat_t stat)
{
    uint64_t value = 0;
    /* Looked up, since older libraries lack it. */
    ncclResult_t (*ask)(ncclComm_t, ncclCommMemStat_t, uint64_t *);
    void *found = dlsym(RTLD_DEFAULT, "ncclCommMemStats");
    memcpy(&ask, &found, sizeof ask);
    if (found == NULL || comm == NULL || ask(comm, stat, &value) != ncclSuccess) return -1;
    return (int64_t)value;
}

int perf_comm_save_schedule(ncclComm_t comm, const char *path)
{
    if (chorus_comm_save_schedule == NULL || comm == NULL) return 0;
    return chorus_comm_save_schedule(comm, path) == ncclSuccess;
}

/* ---- windows ---- */

void perf_window_register(ncclComm_t comm, void *buffer, size_t bytes, ncclWindow_t *window)
{
    if (ncclCommWindowRegister == NULL || ncclCommWindowDeregister == NULL)
        perf_end(PERF_EXIT_ERROR, "option -R 2: the library has no ncclCommWindowRegister");
    perf_check(ncclCommWindowRegister(comm, buffer, bytes, window, NCCL_WIN_COLL_SYMMETRIC),
               "ncclCommWindowRegister");
}

void perf_window_deregister(ncclComm_t comm, ncclWindow_t window)
{
    perf_check(ncclCommWindowDeregister(comm, window), "ncclCommWindowDeregister");
}
