/* Memory of every kind that a program may pass to the library, for test_staging. A call of CUDA
 * that fails ends the case.
 */
#ifndef GPU_STAGING_MEMORY_H
#define GPU_STAGING_MEMORY_H

#include <stddef.h>

/* Only the first two can be mapped by other processes. */
enum staging_kind {
    STAGING_MALLOC,
    STAGING_CHUNKS,
    STAGING_PRIVATE, /* chunks without a handle type */
    STAGING_POOL,
    STAGING_MANAGED,
    STAGING_PINNED,
    STAGING_REGISTERED,
    STAGING_NKINDS,
};

struct staging_memory {
    enum staging_kind kind;
    size_t bytes;
    char *base;
};

struct staging_memory staging_make(enum staging_kind kind, size_t bytes);
void staging_free(struct staging_memory *memory);

#endif
