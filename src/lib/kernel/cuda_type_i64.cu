/* cuda_type_i64.cu: the kernels for 64-bit signed integers. */
#include "kernel/cuda_local.h"
#include "kernel/cuda_sched.h"

CCL_LOCAL_KERNEL(i64, i64_words, fold_config)
CCL_SCHED_KERNEL(i64, i64_words)
