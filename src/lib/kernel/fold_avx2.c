/* fold_avx2.c: the fold loops for AVX2, where the processor has it. The Makefile gives this file
 * its flags; fold.c chooses at run time. Every set gives the same bits. */
#ifdef __AVX2__
#define CCL_FOLD_TABLE ccl_fold_tiles_avx2
#include "kernel/fold_all.h"
#else
typedef int ccl_fold_avx2_unused; /* other machines: nothing here */
#endif
