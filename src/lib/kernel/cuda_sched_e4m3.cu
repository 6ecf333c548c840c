/* cuda_sched_e4m3.cu: the interpreter of schedules for fp8 e4m3, from sm_90 on. */
#include "kernel/cuda_sched.h"

CCL_SCHED_KERNEL(e4m3, e4m3_words)
