/* check.h: the proof of a program before it is used.
 *
 * The program is run on symbols: what a buffer or a slot holds is the set of inputs that went into
 * it. Proved: every output holds every input that it should, exactly once; nothing is read before
 * it is there, or after it was overwritten in place; no cyclic wait with FIFOs of a depth; every
 * message is received; buffers of other executors are touched between meetings only. Called by
 * core when it loads a file, and by tests.
 */
#ifndef CCL_ALGO_CHECK_H
#define CCL_ALGO_CHECK_H

#include "algo/program.h"

/* ncclSuccess when proved for FIFOs of `depth` slots, else ncclInvalidUsage; the text names the
 * program (`name`), executor, step, line (if it came from a file) and what breaks there. */
ncclResult_t ccl_program_check(const struct ccl_program *program, uint16_t depth, const char *name);

#endif
