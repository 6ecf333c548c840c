/* copy.h: copying bytes on the host, past the cache where they are too many to stay in it.
 *
 * The C library streams only beyond a share of the last-level cache, far above what several ranks
 * of a machine have to themselves.
 */
#ifndef CCL_KERNEL_COPY_H
#define CCL_KERNEL_COPY_H

#include <stddef.h>

/* An operation that touches this much data, sources and targets, streams its results to memory,
 * which saves reading their old lines first. */
enum { CCL_COPY_STREAM_BYTES = 4 << 20 };

/* Copies; with `streams` the caller fences once, before it tells anybody. No overlap. */
void ccl_copy(void *to, const void *from, size_t bytes, int streams);
void ccl_copy_fence(void);

#endif
