/* Ranges for profilers (NVTX): what the calling thread is in. They nest, and cost a branch where no
 * profiler is attached. Only builds with CUDA have them, whose toolkit brings the header. */
#ifndef CCL_BASE_RANGE_H
#define CCL_BASE_RANGE_H

#ifdef CCL_CUDA
/* `name` need not outlive the call. */
void ccl_range_begin(const char *name);
void ccl_range_end(void);
#else
#define ccl_range_begin(name) ((void)(name))
#define ccl_range_end()       ((void)0)
#endif

#endif
