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

/* Makes room for one more item in an array of `used` items with room for *room: doubles it when it
 * is full. The array stays as it was on failure. */
ncclResult_t ccl_grow(void **array, size_t used, size_t *room, size_t item_bytes);

/* Typed form: struct x *p; TRY(CCL_NEW(&p, n)); */
#define CCL_NEW(out, n) ccl_alloc((void **)(out), (n), sizeof **(out))

#endif
