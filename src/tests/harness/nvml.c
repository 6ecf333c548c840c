/* The state of a GPU, see nvml.h. The calls are those of NVML's public interface; a call that the
 * installed library lacks or refuses leaves its number unknown.
 */
#include "harness/nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { NVML_SUCCESS = 0, NVML_INSUFFICIENT_SIZE = 7, MAX_LINKS = 18 };
enum { CLOCK_SM = 1, CLOCK_MEMORY = 2, SENSOR_GPU = 0 };

typedef void *nvml_device_t;

/* What is looked up, each NULL when missing. */
struct nvml {
    void *handle;
    int (*init)(void);
    int (*shutdown)(void);
    int (*driver_version)(char *, unsigned);
    int (*by_uuid)(const char *, nvml_device_t *);
    int (*clock)(nvml_device_t, int, unsigned *);
    int (*max_clock)(nvml_device_t, int, unsigned *);
    int (*throttle)(nvml_device_t, unsigned long long *);
    int (*temperature)(nvml_device_t, int, unsigned *);
    int (*processes)(nvml_device_t, unsigned *, void *);
    int (*mps_processes)(nvml_device_t, unsigned *, void *);
    int (*link_state)(nvml_device_t, unsigned, int *);
};

static const struct {
    const char *symbol;
    size_t offset;
} functions[] = {
    {"nvmlInit_v2", offsetof(struct nvml, init)},
    {"nvmlShutdown", offsetof(struct nvml, shutdown)},
    {"nvmlSystemGetDriverVersion", offsetof(struct nvml, driver_version)},
    {"nvmlDeviceGetHandleByUUID", offsetof(struct nvml, by_uuid)},
    {"nvmlDeviceGetClockInfo", offsetof(struct nvml, clock)},
    {"nvmlDeviceGetMaxClockInfo", offsetof(struct nvml, max_clock)},
    {"nvmlDeviceGetCurrentClocksThrottleReasons", offsetof(struct nvml, throttle)},
    {"nvmlDeviceGetTemperature", offsetof(struct nvml, temperature)},
    {"nvmlDeviceGetComputeRunningProcesses_v3", offsetof(struct nvml, processes)},
    {"nvmlDeviceGetMPSComputeRunningProcesses_v3", offsetof(struct nvml, mps_processes)},
    {"nvmlDeviceGetNvLinkState", offsetof(struct nvml, link_state)},
};
enum { NFUNCTIONS = sizeof functions / sizeof functions[0] };

/* 0 when NVML can be used. */
static int open_nvml(struct nvml *nvml)
{
    memset(nvml, 0, sizeof *nvml);
    nvml->handle = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (nvml->handle == NULL) return -1;
    for (int i = 0; i < NFUNCTIONS; i++) {
        void *found = dlsym(nvml->handle, functions[i].symbol);

        memcpy((char *)nvml + functions[i].offset, &found, sizeof found);
    }
    if (nvml->init != NULL && nvml->shutdown != NULL && nvml->by_uuid != NULL &&
        nvml->init() == NVML_SUCCESS)
        return 0;
    dlclose(nvml->handle);
    return -1;
}

static int read_clock(int (*call)(nvml_device_t, int, unsigned *), nvml_device_t device, int what)
{
    unsigned number;

    if (call == NULL || call(device, what, &number) != NVML_SUCCESS) return PERF_GPU_UNKNOWN;
    return (int)number;
}

/* Only the number is asked for: without room for the list the call says how many there are. */
static int count_processes(int (*call)(nvml_device_t, unsigned *, void *), nvml_device_t device)
{
    unsigned number = 0;
    int result;

    if (call == NULL) return PERF_GPU_UNKNOWN;
    result = call(device, &number, NULL);
    if (result != NVML_SUCCESS && result != NVML_INSUFFICIENT_SIZE) return PERF_GPU_UNKNOWN;
    return (int)number;
}

static int count_links(const struct nvml *nvml, nvml_device_t device)
{
    int up = 0;

    if (nvml->link_state == NULL) return PERF_GPU_UNKNOWN;
    for (unsigned link = 0; link < MAX_LINKS; link++) {
        int active = 0;

        up += nvml->link_state(device, link, &active) == NVML_SUCCESS && active == 1;
    }
    return up;
}

static void read_device(const struct nvml *nvml, nvml_device_t device, struct perf_gpu_state *state)
{
    unsigned long long reasons;

    state->sm_mhz = read_clock(nvml->clock, device, CLOCK_SM);
    state->memory_mhz = read_clock(nvml->clock, device, CLOCK_MEMORY);
    state->max_sm_mhz = read_clock(nvml->max_clock, device, CLOCK_SM);
    state->max_memory_mhz = read_clock(nvml->max_clock, device, CLOCK_MEMORY);
    state->temperature_c = read_clock(nvml->temperature, device, SENSOR_GPU);
    if (nvml->throttle != NULL && nvml->throttle(device, &reasons) == NVML_SUCCESS)
        state->throttle = (int64_t)reasons;
    state->processes = count_processes(nvml->processes, device);
    state->mps_processes = count_processes(nvml->mps_processes, device);
    state->links = count_links(nvml, device);
}

void perf_gpu_read(const char *uuid, struct perf_gpu_state *state)
{
    struct nvml nvml;
    nvml_device_t device;

    *state = (struct perf_gpu_state){
        .driver = "",
        .sm_mhz = PERF_GPU_UNKNOWN,
        .memory_mhz = PERF_GPU_UNKNOWN,
        .max_sm_mhz = PERF_GPU_UNKNOWN,
        .max_memory_mhz = PERF_GPU_UNKNOWN,
        .temperature_c = PERF_GPU_UNKNOWN,
        .throttle = PERF_GPU_UNKNOWN,
        .processes = PERF_GPU_UNKNOWN,
        .mps_processes = PERF_GPU_UNKNOWN,
        .links = PERF_GPU_UNKNOWN,
    };
    if (open_nvml(&nvml) != 0) return;
    if (nvml.driver_version == NULL ||
        nvml.driver_version(state->driver, sizeof state->driver) != NVML_SUCCESS)
        state->driver[0] = '\0';
    if (nvml.by_uuid(uuid, &device) == NVML_SUCCESS) read_device(&nvml, device, state);
    nvml.shutdown();
    dlclose(nvml.handle);
}

void perf_gpu_throttle_text(int64_t reasons, char *text, int text_bytes)
{
    /* Idle clocks, and clocks or power that somebody set on purpose, are no fault. */
    static const struct {
        int64_t bit;
        const char *word;
    } faults[] = {
        {0x08, "hardware slowdown"},
        {0x20, "software thermal slowdown"},
        {0x40, "hardware thermal slowdown"},
        {0x80, "power brake"},
    };

    *text = 0;
    if (reasons == PERF_GPU_UNKNOWN) return;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        if (reasons & faults[i].bit) {
            size_t used = strlen(text);

            snprintf(text + used, (size_t)text_bytes - used, "%s%s", used ? ", " : "",
                     faults[i].word);
        }
}
