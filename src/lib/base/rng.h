/* Random bytes for secrets and nonces, from the kernel. */
#ifndef CCL_BASE_RNG_H
#define CCL_BASE_RNG_H

#include "nccl.h"

#include <stddef.h>

/* Fills `size_bytes` with bytes fit for keys. Blocks only in the first moments of a machine's
 * life. ncclSystemError when the kernel refuses. Thread-safe. */
ncclResult_t ccl_rng_fill(void *out, size_t size_bytes);

#endif
