/* cuda_sched_f32.cu: the interpreter of schedules for floats. */
#include "kernel/cuda_sched.h"

CCL_SCHED_KERNEL(f32, f32_words)
