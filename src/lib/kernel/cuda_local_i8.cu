/* cuda_local_i8.cu: the kernel of the local path for signed bytes. */
#include "kernel/cuda_local.h"

CCL_LOCAL_KERNEL(i8, i8_words, fold_config)
