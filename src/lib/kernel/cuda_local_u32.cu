/* cuda_local_u32.cu: the kernel of the local path for 32-bit unsigned integers. */
#include "kernel/cuda_local.h"

CCL_LOCAL_KERNEL(u32, u32_words, fold_config)
