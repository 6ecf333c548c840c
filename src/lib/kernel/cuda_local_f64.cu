/* cuda_local_f64.cu: the kernel of the local path for doubles. */
#include "kernel/cuda_local.h"

CCL_LOCAL_KERNEL(f64, f64_words, fold_config)
