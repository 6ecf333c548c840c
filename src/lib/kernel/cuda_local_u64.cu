/* cuda_local_u64.cu: the kernel of the local path for 64-bit unsigned integers. */
#include "kernel/cuda_local.h"

CCL_LOCAL_KERNEL(u64, u64_words, fold_config)
