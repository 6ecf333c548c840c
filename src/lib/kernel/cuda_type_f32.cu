/* cuda_type_f32.cu: the kernels for floats. */
#include "kernel/cuda_local.h"
#include "kernel/cuda_sched.h"

CCL_LOCAL_KERNEL(f32, f32_words, fold_config)
CCL_SCHED_KERNEL(f32, f32_words)
