/* cuda_local_f32.cu: the kernel of the local path for floats. */
#include "kernel/cuda_local.h"

CCL_LOCAL_KERNEL(f32, f32_words, fold_config)
