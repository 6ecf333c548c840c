/* fold_base.c: the fold loops for the baseline of the machine, whatever it is. The Makefile gives
 * this file its flags; fold.c chooses at run time. Every set gives the same bits. */
#define CCL_FOLD_TABLE ccl_fold_tiles_base
#include "kernel/fold_all.h"
