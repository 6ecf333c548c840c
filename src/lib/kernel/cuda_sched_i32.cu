/* cuda_sched_i32.cu: the interpreter of schedules for 32-bit signed integers. */
#include "kernel/cuda_sched.h"

CCL_SCHED_KERNEL(i32, i32_words)
