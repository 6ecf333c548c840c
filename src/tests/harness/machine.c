/* The machine record, see machine.h. What cannot be found out is null; nothing here ends a run.
 */
#define _GNU_SOURCE
#include "harness/machine.h"

#include "harness/nvml.h"
#include "harness/record.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { MAX_GPUS = 64, LINE_BYTES = 256 };

/* GPUs that ranks of this host are on, each once. */
static struct {
    int n;
    char uuid[MAX_GPUS][48];
} gpus;

void perf_machine_origin(struct perf_json *json, const struct perf_options *options)
{
    perf_json_open(json, "args", '[');
    for (int i = 0; i < options->argc; i++) perf_json_string(json, NULL, options->argv[i]);
    perf_json_close(json);
    perf_json_open(json, "env", '[');
    for (char **variable = environ; variable && *variable; variable++)
        if (perf_record_has_variable(*variable)) perf_json_string(json, NULL, *variable);
    perf_json_close(json);
}

/* What follows "key : " in a file of lines like /proc/cpuinfo; "" without such a line. */
static void read_line_of(const char *path, const char *key, char *text, size_t text_bytes)
{
    char line[LINE_BYTES];
    FILE *file = fopen(path, "re");

    *text = 0;
    while (file && !*text && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');

        if (strncmp(line, key, strlen(key)) || !colon) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(text, text_bytes, "%s", colon + 1 + strspn(colon + 1, " \t"));
    }
    if (file) fclose(file);
}

void perf_machine_cpu(char *text, size_t text_bytes)
{
    read_line_of("/proc/cpuinfo", "model name", text, text_bytes);
    if (!*text) snprintf(text, text_bytes, "unknown");
}

static int64_t memory_bytes(void)
{
    char text[LINE_BYTES];

    read_line_of("/proc/meminfo", "MemTotal", text, sizeof text);
    return *text ? strtoll(text, NULL, 10) * 1024 : PERF_NO_INT;
}

int perf_machine_cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) ? (int)sysconf(_SC_NPROCESSORS_ONLN)
                                                  : CPU_COUNT(&set);
}

static double load_of_now(void)
{
    double load;

    return getloadavg(&load, 1) == 1 ? load : NAN;
}

static void find_gpus(const struct perf_header *header)
{
    gpus.n = 0;
    for (int i = 0; i < header->nranks; i++) {
        const struct perf_rank_info *info = &header->ranks[i];
        int known = !info->uuid[0] || strcmp(info->host, header->ranks[0].host) != 0;

        for (int g = 0; g < gpus.n; g++) known |= !strcmp(gpus.uuid[g], info->uuid);
        if (!known && gpus.n < MAX_GPUS) memcpy(gpus.uuid[gpus.n++], info->uuid, sizeof info->uuid);
    }
}

static void add_number(struct perf_json *json, const char *key, int64_t number)
{
    if (number == PERF_GPU_UNKNOWN || number == PERF_NO_INT)
        perf_json_string(json, key, NULL);
    else
        perf_json_int(json, key, number);
}

static void add_gpus(struct perf_json *json, const char *key)
{
    char text[LINE_BYTES];

    perf_json_open(json, key, '[');
    for (int g = 0; g < gpus.n; g++) {
        struct perf_gpu_state state;

        perf_gpu_read(gpus.uuid[g], &state);
        perf_gpu_throttle_text(state.throttle, text, sizeof text);
        perf_json_open(json, NULL, '{');
        perf_json_string(json, "uuid", gpus.uuid[g]);
        perf_json_string(json, "driver", state.driver[0] ? state.driver : NULL);
        add_number(json, "sm_mhz", state.sm_mhz);
        add_number(json, "memory_mhz", state.memory_mhz);
        add_number(json, "max_sm_mhz", state.max_sm_mhz);
        add_number(json, "max_memory_mhz", state.max_memory_mhz);
        add_number(json, "temperature_c", state.temperature_c);
        add_number(json, "throttle_reasons", state.throttle);
        perf_json_string(json, "throttled", *text ? text : NULL);
        add_number(json, "processes", state.processes);
        add_number(json, "mps_processes", state.mps_processes);
        add_number(json, "nvlinks", state.links);
        perf_json_close(json);
    }
    perf_json_close(json);
}

static int is_mps_asked(void)
{
    const char *pipe_folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char path[LINE_BYTES];

    snprintf(path, sizeof path, "%s/control", pipe_folder ? pipe_folder : "/tmp/nvidia-mps");
    return access(path, F_OK) == 0;
}

void perf_machine_add(struct perf_json *json, const struct perf_header *header)
{
    struct utsname system;
    char text[LINE_BYTES];

    find_gpus(header);
    perf_json_open(json, "machine", '{');
    perf_machine_cpu(text, sizeof text);
    perf_json_string(json, "cpu", text);
    perf_json_int(json, "cores", sysconf(_SC_NPROCESSORS_ONLN));
    perf_json_int(json, "usable_cores", perf_machine_cores());
    add_number(json, "memory_bytes", memory_bytes());
    perf_json_string(json, "kernel", uname(&system) ? NULL : system.release);
    perf_json_string(json, "architecture", uname(&system) ? NULL : system.machine);
    perf_json_real(json, "load", load_of_now());
    perf_json_bool(json, "mps", gpus.n > 0 && is_mps_asked());
    add_gpus(json, "gpus");
    perf_json_close(json);
}

void perf_machine_end(struct perf_json *json)
{
    perf_json_real(json, "load_at_end", load_of_now());
    add_gpus(json, "gpus_at_end");
}

/* Processes of this run on a GPU, as far as rank 0's process knows. */
static int own_processes(const struct perf_header *header, const char *uuid)
{
    int n = 0;

    for (int i = 0; i < header->nranks; i++) {
        const struct perf_rank_info *info = &header->ranks[i];
        int counted = strcmp(info->uuid, uuid) != 0;

        for (int j = 0; j < i && !counted; j++)
            counted = header->ranks[j].pid == info->pid && !strcmp(header->ranks[j].uuid, uuid);
        n += !counted;
    }
    return n;
}

void perf_machine_trouble(const struct perf_header *header, char *text, size_t text_bytes)
{
    char reasons[LINE_BYTES];

    *text = 0;
    find_gpus(header);
    for (int g = 0; g < gpus.n && !*text; g++) {
        struct perf_gpu_state state;
        int others, own = own_processes(header, gpus.uuid[g]);

        perf_gpu_read(gpus.uuid[g], &state);
        perf_gpu_throttle_text(state.throttle, reasons, sizeof reasons);
        others = (state.mps_processes > 0 ? state.mps_processes : state.processes) - own;
        if (*reasons)
            snprintf(text, text_bytes, "%s is throttled: %s", gpus.uuid[g], reasons);
        else if (others > 0)
            snprintf(text, text_bytes, "%s is shared with %d other process%s", gpus.uuid[g], others,
                     others == 1 ? "" : "es");
    }
}
