/* Names of environment variables: the parameters of param_table.h and those of other libraries'
 * users that param_known.h accepts without effect. Called by param.c; pure.
 */
#ifndef CCL_BASE_PARAM_NAMES_H
#define CCL_BASE_PARAM_NAMES_H

/* Variables with these beginnings are meant for the library. */
int ccl_param_is_ours(const char *name);

/* Why a variable is accepted without effect; NULL when it is not one of those. */
const char *ccl_param_no_effect(const char *name);

/* The name that an unknown one was probably meant to be: at most 2 letters differ (1 in short
 * names), or the other prefix. NULL for a known name, and when none is near. */
const char *ccl_param_nearest(const char *name);

#endif
