/* cuda_type_i8.cu: the kernels for signed bytes. */
#include "kernel/cuda_local.h"
#include "kernel/cuda_sched.h"

CCL_LOCAL_KERNEL(i8, i8_words, fold_config)
CCL_SCHED_KERNEL(i8, i8_words)
