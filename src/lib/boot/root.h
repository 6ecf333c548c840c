/* The root of a session: a thread that brings the ranks together. Called by boot.c. */
#ifndef CCL_BOOT_ROOT_H
#define CCL_BOOT_ROOT_H

#include "boot/id.h"

/* Starts the root thread on a listening socket, which it takes over, also on failure. The thread
 * is detached and frees everything itself; see ccl_boot_make_id for when it ends. */
ncclResult_t ccl_root_start(const struct ccl_boot_id *id, int listen_fd);

/* Ends the root of an id in this process, if there is one, unless ranks are in its session. */
void ccl_root_stop(const struct ccl_boot_id *id);

#endif
