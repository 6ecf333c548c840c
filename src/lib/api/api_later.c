/* Names of the interface whose function this library does not have: programs that are linked
 * against them load and run, and a call is refused with ncclInvalidUsage and a text naming it.
 * Called by programs. Invariant: one row per function; out-pointers are set to NULL or zero.
 */
#include "api/api.h"

#include "base/err.h"

/* The rows state complete prototypes and use few of the parameters. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

static ncclResult_t refuse(const char *function)
{
    return ccl_group_fail(ccl_err(ncclInvalidUsage, "%s: not supported by this library", function));
}

#define NO_OUT ((void)0)
#define OUT(pointer)                                                                               \
    if ((pointer) != NULL) *(pointer) = 0

#define LATER(name, parameters, clear)                                                             \
    CCL_API(ncclResult_t, name, parameters)                                                        \
    {                                                                                              \
        clear;                                                                                     \
        return refuse(#name);                                                                      \
    }

/* For functions that return something other than a code. */
#define LATER_VALUE(type, name, parameters, value)                                                 \
    CCL_API(type, name, parameters)                                                                \
    {                                                                                              \
        (void)refuse(#name);                                                                       \
        return value;                                                                              \
    }

/* Parameters. */
LATER(ncclParamBind, (ncclParamHandle_t * out, const char *key), OUT(out))
LATER(ncclParamGetI8, (ncclParamHandle_t h, int8_t *out), OUT(out))
LATER(ncclParamGetI16, (ncclParamHandle_t h, int16_t *out), OUT(out))
LATER(ncclParamGetI32, (ncclParamHandle_t h, int32_t *out), OUT(out))
LATER(ncclParamGetI64, (ncclParamHandle_t h, int64_t *out), OUT(out))
LATER(ncclParamGetU8, (ncclParamHandle_t h, uint8_t *out), OUT(out))
LATER(ncclParamGetU16, (ncclParamHandle_t h, uint16_t *out), OUT(out))
LATER(ncclParamGetU32, (ncclParamHandle_t h, uint32_t *out), OUT(out))
LATER(ncclParamGetU64, (ncclParamHandle_t h, uint64_t *out), OUT(out))
LATER(ncclParamGetStr, (ncclParamHandle_t h, const char **out), OUT(out))
LATER(ncclParamGet, (ncclParamHandle_t h, void *out, int maxLen, int *len), OUT(len))
LATER(ncclParamGetParameter, (const char *key, const char **value, int *valueLen), OUT(value);
      OUT(valueLen))
LATER(ncclParamGetAllParameterKeys, (const char ***table, int *tableLen), OUT(table); OUT(tableLen))
LATER_VALUE(void, ncclParamDumpAll, (void), )
