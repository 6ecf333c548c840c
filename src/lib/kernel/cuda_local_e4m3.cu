/* cuda_local_e4m3.cu: the kernel of the local path for fp8 e4m3, from sm_90 on. */
#include "kernel/cuda_local.h"

CCL_LOCAL_KERNEL(e4m3, e4m3_words, fold_config)
