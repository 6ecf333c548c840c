/* The loaded libnccl.so.2: whose it is, what only ours offers, and --library, which runs the
 * driver on another one.
 */
#ifndef PERF_LIBRARY_H
#define PERF_LIBRARY_H

#include "harness/report.h"

#include "chorus.h"

struct perf_coll;

/* Makes `path` the library of this process: restarts the program with it preloaded, unless it is
 * the one already. A path that is no library, or has not all that the driver calls, exits 2.
 * Before the first call into the library. */
void perf_library_use(const char *path, const struct perf_coll *coll, char **argv);

/* Path of the loaded library; "unknown" when it cannot be found out. */
const char *perf_library_path(void);

/* 1: it offers chorus.h. */
int perf_library_is_ours(void);

/* Its devices, NULL when it is another library. From the first call on its variables are read. */
const struct chorus_devices *perf_library_devices(void);
/* "host", "cuda"; "" when it is another library. */
const char *perf_library_device_kind(void);

/* The git hash of the loaded library; "unknown" when it is somebody else's. */
const char *perf_library_hash(void);

/* What a rank is doing, from chorus_comm_status; "" when the library cannot tell. */
void perf_comm_status(ncclComm_t comm, char *text, size_t bytes);

/* What the latest collective of `comm` ran; all empty when the library does not tell. */
void perf_comm_ran(ncclComm_t comm, struct perf_ran *ran);

/* A figure of ncclCommMemStats, -1 when the library does not tell. */
int64_t perf_comm_memory(ncclComm_t comm, ncclCommMemStat_t stat);

/* Writes its schedule to a file. 0 when it has none or the file cannot be written; the reason is
 * the library's last error. */
int perf_comm_save_schedule(ncclComm_t comm, const char *path);

/* Registers a symmetric window, in a group: the window is there after its end. Errors end the run,
 * also when the library knows no windows. */
void perf_window_register(ncclComm_t comm, void *buffer, size_t bytes, ncclWindow_t *window);
void perf_window_deregister(ncclComm_t comm, ncclWindow_t window);

#endif
