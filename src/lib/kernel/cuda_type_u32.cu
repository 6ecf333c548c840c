/* cuda_type_u32.cu: the kernels for 32-bit unsigned integers. */
#include "kernel/cuda_local.h"
#include "kernel/cuda_sched.h"

CCL_LOCAL_KERNEL(u32, u32_words, fold_config)
CCL_SCHED_KERNEL(u32, u32_words)
