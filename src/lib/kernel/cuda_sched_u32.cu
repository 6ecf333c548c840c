/* cuda_sched_u32.cu: the interpreter of schedules for 32-bit unsigned integers. */
#include "kernel/cuda_sched.h"

CCL_SCHED_KERNEL(u32, u32_words)
