/* cuda_local_i32.cu: the kernel of the local path for 32-bit signed integers. */
#include "kernel/cuda_local.h"

CCL_LOCAL_KERNEL(i32, i32_words, fold_config)
