/* Reading ncclConfig_t: sizes and versions of older headers, ranges, defaults.
 *
 * Called by api_comm.c. The caller's struct is only read during the call: texts are copied.
 */
#ifndef CCL_API_CONFIG_H
#define CCL_API_CONFIG_H

#include "core/core.h"

/* Fills args->config, comm_name and net_name from `config`, or with the defaults when it is NULL;
 * args->function names the call in error texts. ncclInvalidArgument for a struct that no
 * initializer made or a value out of range; ncclInvalidUsage for blocking = 0. */
ncclResult_t ccl_config_read(const ncclConfig_t *config, struct ccl_init_args *args);

#endif
