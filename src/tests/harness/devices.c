/* Devices of the drivers. The weak references are here and nowhere else: every other file of the
 * harness asks these functions.
 */
#include "harness/devices.h"

#include "harness/usage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct chorus_devices *chorus_devices(void) __attribute__((weak));
extern const char *chorus_git_hash(void) __attribute__((weak));
extern ncclResult_t chorus_comm_status(ncclComm_t, char *, size_t) __attribute__((weak));
extern ncclResult_t chorus_comm_last_choice(ncclComm_t, struct chorus_choice *)
    __attribute__((weak));
extern ncclResult_t chorus_comm_save_schedule(ncclComm_t, const char *) __attribute__((weak));

const struct chorus_devices *perf_devices_find(void)
{
    return chorus_devices != NULL ? chorus_devices() : NULL;
}

const char *perf_library_hash(void)
{
    return chorus_git_hash != NULL ? chorus_git_hash() : "unknown";
}

const struct chorus_devices *perf_devices(void)
{
    const struct chorus_devices *devices = perf_devices_find();
    if (devices != NULL) return devices;
    fprintf(stderr,
            "%s: the loaded libnccl.so.2 has no chorus_devices(): it is another library's; see "
            "--version and LD_LIBRARY_PATH\n",
            perf_program());
    exit(PERF_EXIT_ERROR);
}

int perf_device_count(void)
{
    int ndevices = 0;
    ncclResult_t result = perf_devices()->count(&ndevices);
    if (result == ncclSuccess && ndevices > 0) return ndevices;
    fprintf(stderr, "%s: no devices: %s\n", perf_program(),
            result == ncclSuccess ? "the count is 0" : ncclGetLastError(NULL));
    exit(PERF_EXIT_ERROR);
}

int perf_devices_host_visible(void)
{
    return strcmp(perf_devices()->kind, "host") == 0;
}

static int first_device(void)
{
    const char *text = getenv("NCCL_TESTS_DEVICE");
    if (text == NULL || text[0] == '\0') return 0;
    char *end;
    errno = 0;
    long device = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || device < 0 || device >= 1 << 16)
        perf_usage("NCCL_TESTS_DEVICE: '%s' is no device number", text);
    return (int)device;
}

void perf_devices_check(void)
{
    first_device();
}

int perf_device_of(int local_rank)
{
    int ndevices = perf_device_count();
    int device = first_device() + local_rank;
    if (perf_devices_host_visible()) return device % ndevices;
    return device < ndevices ? device : -1;
}

void perf_devices_list(void)
{
    const struct chorus_devices *devices = perf_devices();
    int ndevices = perf_device_count();
    printf("%d %s device%s\n", ndevices, devices->kind, ndevices == 1 ? "" : "s");
    for (int i = 0; i < ndevices; i++) {
        struct chorus_device_info info;
        if (devices->info(i, &info) != ncclSuccess) {
            printf("%3d  %s\n", i, ncclGetLastError(NULL));
            continue;
        }
        printf("%3d  [%s] %s, %.1f GiB, %.1f GiB free\n", i, info.pci, info.name,
               (double)info.total_bytes / (1 << 30), (double)info.free_bytes / (1 << 30));
    }
}

void perf_comm_status(ncclComm_t comm, char *text, size_t bytes)
{
    text[0] = '\0';
    if (chorus_comm_status == NULL || comm == NULL) return;
    if (chorus_comm_status(comm, text, bytes) != ncclSuccess) text[0] = '\0';
}

void perf_comm_ran(ncclComm_t comm, char *text, size_t bytes)
{
    struct chorus_choice choice;
    text[0] = '\0';
    if (chorus_comm_last_choice == NULL || comm == NULL) return;
    if (chorus_comm_last_choice(comm, &choice) != ncclSuccess) return;
    snprintf(text, bytes, "%s/%s/%d/%s", choice.algorithm, choice.protocol, choice.channels,
             choice.transport);
}

int perf_comm_save_schedule(ncclComm_t comm, const char *path)
{
    if (chorus_comm_save_schedule == NULL || comm == NULL) return 0;
    return chorus_comm_save_schedule(comm, path) == ncclSuccess;
}
