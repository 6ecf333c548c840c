/* cuda_type_e5m2.cu: the kernels for fp8 e5m2, from sm_90 on. */
#include "kernel/cuda_local.h"
#include "kernel/cuda_sched.h"
#include "kernel/cuda_words_half.h"

CCL_LOCAL_KERNEL(e5m2, e5m2_words, fold_config)
CCL_SCHED_KERNEL(e5m2, e5m2_words)
