/* cuda_type_e4m3.cu: the kernels for fp8 e4m3, from sm_90 on. */
#include "kernel/cuda_local.h"
#include "kernel/cuda_sched.h"
#include "kernel/cuda_words_half.h"

CCL_LOCAL_KERNEL(e4m3, e4m3_words, fold_config)
CCL_SCHED_KERNEL(e4m3, e4m3_words)
