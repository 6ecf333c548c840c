/* How the api layer defines what it exports; included by every api_*.c and by nothing else.
 *
 * Invariant: each function of nccl.h is one body with two dynamic symbols, the strong pncclX and
 * the weak alias ncclX, so that a preloaded ncclX takes effect and can call pncclX.
 */
#ifndef CCL_API_API_H
#define CCL_API_API_H

#include "api/argcheck.h"
#include "chorus.h"
#include "nccl.h"

#define CCL_EXPORT __attribute__((visibility("default")))

/* CCL_API(type, ncclX, (parameters)) { body } */
#define CCL_API(type, name, parameters)                                                            \
    CCL_EXPORT __typeof__(name) name __attribute__((weak, alias("p" #name)));                      \
    CCL_EXPORT type p##name parameters

/* Checks one operation, hands it to core, and records a failure in the open group. */
ncclResult_t ccl_api_enqueue(enum ccl_call call, struct ccl_op *op);

/* The calling thread's. */
ncclResult_t ccl_api_current_device(int *device);

/* "NCCL version 2.30.7+…", printed once by the first rank 0 that initialises. */
extern const char ccl_api_banner[];

#endif
