/* Parameters: every NCCL_* and CHORUS_* variable that the library reads, one row each in
 * param_table.h. Values are parsed and range-checked at first read and then cached.
 */
#ifndef CCL_BASE_PARAM_H
#define CCL_BASE_PARAM_H

#include <stdint.h>

enum ccl_param {
#define CCL_PARAM_INT(id, env, fallback, low, high, help) CCL_PARAM_##id,
#define CCL_PARAM_TEXT(id, env, fallback, help)           CCL_PARAM_##id,
#include "base/param_table.h"
#undef CCL_PARAM_INT
#undef CCL_PARAM_TEXT
    CCL_PARAM_COUNT
};

/* An integer parameter. An unparsable or out-of-range value logs one warning and gives the
 * default. Thread-safe, no lock after the first read. */
int64_t ccl_param_int(enum ccl_param param);

/* A text parameter; NULL when neither set nor defaulted. The pointer lives for ever. */
const char *ccl_param_text(enum ccl_param param);

#endif
