/* Parameters: every NCCL_* and CHORUS_* variable that the library reads, one row each in
 * param_table.h. The process's environment goes before the file that NCCL_CONF_FILE names, or
 * ~/.nccl.conf, and that before /etc/nccl.conf (base/conf.h). Values are parsed and range-checked
 * at first read and then cached.
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
 * default. Thread-safe, no lock after the first read. Not for the log itself, which may only read
 * texts. */
int64_t ccl_param_int(enum ccl_param param);

/* A text parameter; NULL when neither set nor defaulted. The pointer lives for ever. */
const char *ccl_param_text(enum ccl_param param);

/* ---- a parameter of either kind, for those who show it ---- */

const char *ccl_param_name(enum ccl_param param);
int ccl_param_is_int(enum ccl_param param);
/* The value in use as text, "" for an unset text. Lives for ever. */
const char *ccl_param_shown(enum ccl_param param);
/* "environment", "default", or the path of a file with its line, which is 0 for the others. */
const char *ccl_param_origin(enum ccl_param param, int *line);
/* The parameter of this name; CCL_PARAM_COUNT: there is none. */
enum ccl_param ccl_param_find(const char *name);

#endif
