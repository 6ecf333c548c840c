/* cuda_sched_f64.cu: the interpreter of schedules for doubles. */
#include "kernel/cuda_sched.h"

CCL_SCHED_KERNEL(f64, f64_words)
