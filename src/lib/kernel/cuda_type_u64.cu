/* cuda_type_u64.cu: the kernels for 64-bit unsigned integers. */
#include "kernel/cuda_local.h"
#include "kernel/cuda_sched.h"

CCL_LOCAL_KERNEL(u64, u64_words, fold_config)
CCL_SCHED_KERNEL(u64, u64_words)
