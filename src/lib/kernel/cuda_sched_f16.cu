/* cuda_sched_f16.cu: the interpreter of schedules for half floats. */
#include "kernel/cuda_sched.h"

CCL_SCHED_KERNEL(f16, f16_words)
