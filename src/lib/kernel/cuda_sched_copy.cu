/* cuda_sched_copy.cu: the interpreter of schedules for operations that only copy, of any type. */
#include "kernel/cuda_sched.h"

CCL_SCHED_KERNEL(copy, copy_words)
