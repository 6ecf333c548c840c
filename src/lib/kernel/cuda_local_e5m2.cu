/* cuda_local_e5m2.cu: the kernel of the local path for fp8 e5m2, from sm_90 on. */
#include "kernel/cuda_local.h"

CCL_LOCAL_KERNEL(e5m2, e5m2_words, fold_config)
