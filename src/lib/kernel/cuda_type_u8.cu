/* cuda_type_u8.cu: the kernels for unsigned bytes. */
#include "kernel/cuda_local.h"
#include "kernel/cuda_sched.h"

CCL_LOCAL_KERNEL(u8, u8_words, fold_config)
CCL_SCHED_KERNEL(u8, u8_words)
