/* The state of a GPU beyond what CUDA tells: clocks, throttling, temperature, who else is on it.
 * Asked through libnvidia-ml, which is loaded for each question and left again. Called by
 * machine.c in the process of rank 0.
 */
#ifndef PERF_NVML_H
#define PERF_NVML_H

#include <stdint.h>

enum { PERF_GPU_UNKNOWN = -1 };

struct perf_gpu_state {
    char driver[80];
    int sm_mhz, memory_mhz, max_sm_mhz, max_memory_mhz; /* PERF_GPU_UNKNOWN, as all numbers */
    int temperature_c;
    int64_t throttle;             /* reasons, a bit each */
    int processes, mps_processes; /* with work on this GPU, ours too */
    int links;                    /* NVLinks that are up */
};

/* All unknown when the library or the GPU is not there. */
void perf_gpu_read(const char *uuid, struct perf_gpu_state *state);

/* Words for throttle reasons that slow a run down, in the order of their bits: "" without any. */
void perf_gpu_throttle_text(int64_t reasons, char *text, int text_bytes);

#endif
