/* Host memory of the control plane. Every allocation passes a fault point. */
#ifndef CCL_BASE_ALLOC_H
#define CCL_BASE_ALLOC_H

#include "nccl.h"

#include <stddef.h>

/* Zeroed memory for `n` objects of `size_bytes`, cache-line aligned; n == 0 gives one byte.
 * *out is NULL on failure (ncclSystemError, text names the size). Free with ccl_free. */
ncclResult_t ccl_alloc(void **out, size_t n, size_t size_bytes);

/* NULL is fine. */
void ccl_free(void *memory);

/* Typed form: struct x *p; TRY(CCL_NEW(&p, n)); */
#define CCL_NEW(out, n) ccl_alloc((void **)(out), (n), sizeof **(out))

#endif
