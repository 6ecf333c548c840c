/* fold_avx512.c: the fold loops for AVX-512, where the processor has it. The Makefile gives this
 * file its flags; fold.c chooses at run time. Every set gives the same bits. */
#ifdef __AVX512F__
#define CCL_FOLD_TABLE ccl_fold_tiles_avx512
#include "kernel/fold_all.h"
#else
typedef int ccl_fold_avx512_unused; /* other machines: nothing here */
#endif
