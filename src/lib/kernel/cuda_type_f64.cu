/* cuda_type_f64.cu: the kernels for doubles. */
#include "kernel/cuda_local.h"
#include "kernel/cuda_sched.h"

CCL_LOCAL_KERNEL(f64, f64_words, fold_config)
CCL_SCHED_KERNEL(f64, f64_words)
