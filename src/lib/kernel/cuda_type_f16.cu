/* cuda_type_f16.cu: the kernels for half floats. */
#include "kernel/cuda_local.h"
#include "kernel/cuda_sched.h"
#include "kernel/cuda_words_half.h"

CCL_LOCAL_KERNEL(f16, f16_words, fold_config)
CCL_SCHED_KERNEL(f16, f16_words)
