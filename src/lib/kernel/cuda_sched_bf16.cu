/* cuda_sched_bf16.cu: the interpreter of schedules for bfloat16. */
#include "kernel/cuda_sched.h"

CCL_SCHED_KERNEL(bf16, bf16_words)
