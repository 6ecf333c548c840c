/* cuda_sched_e5m2.cu: the interpreter of schedules for fp8 e5m2, from sm_90 on. */
#include "kernel/cuda_sched.h"

CCL_SCHED_KERNEL(e5m2, e5m2_words)
