/* cuda_sched_u8.cu: the interpreter of schedules for unsigned bytes. */
#include "kernel/cuda_sched.h"

CCL_SCHED_KERNEL(u8, u8_words)
