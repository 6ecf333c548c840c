/* cuda_type_i32.cu: the kernels for 32-bit signed integers. */
#include "kernel/cuda_local.h"
#include "kernel/cuda_sched.h"

CCL_LOCAL_KERNEL(i32, i32_words, fold_config)
CCL_SCHED_KERNEL(i32, i32_words)
