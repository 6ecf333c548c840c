/* cuda_type_copy.cu: the kernels for operations that only copy, of any type. */
#include "kernel/cuda_local.h"
#include "kernel/cuda_sched.h"

CCL_LOCAL_KERNEL(copy, copy_words, copy_config)
CCL_SCHED_KERNEL(copy, copy_words)
