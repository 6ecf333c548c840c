/* cuda_type_bf16.cu: the kernels for bfloat16. */
#include "kernel/cuda_local.h"
#include "kernel/cuda_sched.h"
#include "kernel/cuda_words_half.h"

CCL_LOCAL_KERNEL(bf16, bf16_words, fold_config)
CCL_SCHED_KERNEL(bf16, bf16_words)
