/* cuda_sched_i64.cu: the interpreter of schedules for 64-bit signed integers. */
#include "kernel/cuda_sched.h"

CCL_SCHED_KERNEL(i64, i64_words)
