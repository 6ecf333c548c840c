/* copy.h: copying bytes on the host, past the cache where they are too many to stay in it.
 *
 * The C library looks at the bytes of one copy; what counts are the buffers of all ranks, which
 * only core knows (core/launch.h).
 */
#ifndef CCL_KERNEL_COPY_H
#define CCL_KERNEL_COPY_H

#include <stddef.h>

/* Copies; with `streams` to memory, which saves reading the old lines first, and the caller fences
 * once before it tells anybody. No overlap. */
void ccl_copy(void *to, const void *from, size_t bytes, int streams);
void ccl_copy_fence(void);

#endif
