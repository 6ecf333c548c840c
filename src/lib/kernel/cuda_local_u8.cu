/* cuda_local_u8.cu: the kernel of the local path for unsigned bytes. */
#include "kernel/cuda_local.h"

CCL_LOCAL_KERNEL(u8, u8_words, fold_config)
