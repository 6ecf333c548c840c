/* Ranges of NVTX, which is a header alone: it looks for a profiler at the first call. */
#include "base/range.h"

#ifdef CCL_CUDA
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

void ccl_range_begin(const char *name)
{
    nvtxRangePushA(name);
}

void ccl_range_end(void)
{
    nvtxRangePop();
}
#else
void ccl_range_begin(const char *name)
{
    (void)name;
}

void ccl_range_end(void)
{
}
#endif
#endif
