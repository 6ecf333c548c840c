/* cuda_local_bf16.cu: the kernel of the local path for bfloat16. */
#include "kernel/cuda_local.h"

CCL_LOCAL_KERNEL(bf16, bf16_words, fold_config)
