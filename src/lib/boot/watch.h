/* The watcher: one thread per process that polls the descriptors of all meshes and calls back.
 * It exists only while something is watched. Called by mesh.c. */
#ifndef CCL_BOOT_WATCH_H
#define CCL_BOOT_WATCH_H

#include "nccl.h"

/* One watched descriptor, embedded in its owner; the owner keeps it and `fd` until the removal. */
struct ccl_watch {
    int fd;
    /* Called on the watcher thread when fd is readable or broken. Returns 0 to be left alone from
     * now on. It must not wait. */
    int (*ready)(void *context);
    void *context;

    struct ccl_watch *next; /* the rest is the watcher's */
    int listed, armed;
};

/* Watches `n` descriptors from now on. ncclSystemError when the thread cannot be started; nothing
 * is watched then. */
ncclResult_t ccl_watch_add(struct ccl_watch *watches, int n);

/* Ends the watch: when it returns, no callback of them runs or will. Entries that were never added
 * are fine. Not from a callback. */
void ccl_watch_remove(struct ccl_watch *watches, int n);

#endif
