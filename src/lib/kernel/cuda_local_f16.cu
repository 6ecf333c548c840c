/* cuda_local_f16.cu: the kernel of the local path for half floats. */
#include "kernel/cuda_local.h"

CCL_LOCAL_KERNEL(f16, f16_words, fold_config)
