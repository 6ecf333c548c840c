/* cuda_sched_u64.cu: the interpreter of schedules for 64-bit unsigned integers. */
#include "kernel/cuda_sched.h"

CCL_SCHED_KERNEL(u64, u64_words)
