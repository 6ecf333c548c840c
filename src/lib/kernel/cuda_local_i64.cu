/* cuda_local_i64.cu: the kernel of the local path for 64-bit signed integers. */
#include "kernel/cuda_local.h"

CCL_LOCAL_KERNEL(i64, i64_words, fold_config)
