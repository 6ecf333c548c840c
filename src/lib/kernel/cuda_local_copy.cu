/* cuda_local_copy.cu: the kernel of the local path for operations that only copy, of any type. */
#include "kernel/cuda_local.h"

CCL_LOCAL_KERNEL(copy, copy_words, copy_config)
