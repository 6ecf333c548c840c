/* Devices of the drivers: only through the chorus_devices() table, which is declared weak so that
 * a driver starts (and says what is missing) with a libnccl of somebody else.
 */
#ifndef PERF_DEVICES_H
#define PERF_DEVICES_H

#include "chorus.h"

/* The table; ends the process with exit code 3 when the loaded library has none. */
const struct chorus_devices *perf_devices(void);

/* The table, NULL when the loaded library has none. */
const struct chorus_devices *perf_devices_find(void);

/* The git hash of the loaded library; "unknown" when it is somebody else's. */
const char *perf_library_hash(void);

/* How many devices there are; ends the process with exit code 3 when there are none. */
int perf_device_count(void);

/* Whether pointers into device memory are good for the CPU. */
int perf_devices_host_visible(void);

/* The device of the rank with this number on its host: NCCL_TESTS_DEVICE + local, modulo the count
 * on host devices. A bad value of the variable exits 2; -1 when there is no such device. */
int perf_device_of(int local_rank);

/* Reads NCCL_TESTS_DEVICE; a bad value exits 2. Touches no device. */
void perf_devices_check(void);

/* --devices: lists them on stdout. */
void perf_devices_list(void);

/* What a rank is doing, from chorus_comm_status; "" when the library cannot tell. */
void perf_comm_status(ncclComm_t comm, char *text, size_t bytes);

/* What the latest collective of `comm` ran, "" when the library does not tell. */
void perf_comm_ran(ncclComm_t comm, char *text, size_t bytes);

/* Writes its schedule to a file. 0 when it has none or the file cannot be written; the reason is
 * the library's last error. */
int perf_comm_save_schedule(ncclComm_t comm, const char *path);

#endif
