/* cuda_sched_i8.cu: the interpreter of schedules for signed bytes. */
#include "kernel/cuda_sched.h"

CCL_SCHED_KERNEL(i8, i8_words)
