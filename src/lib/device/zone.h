/* zone.h: memory of a GPU that kernels of other GPUs write, in this process and, by a descriptor,
 * in others. NULL in the device's table: it has none. Made and mapped by core/zones.c.
 *
 * A zone that its owner has closed stays until the last process that has opened it has closed it.
 * Closing waits for no kernel. No call leaves a mark in a capture of the thread.
 */
#ifndef CCL_DEVICE_ZONE_H
#define CCL_DEVICE_ZONE_H

#include "nccl.h"

#include <stddef.h>
#include <stdint.h>

struct ccl_zone {
    char *base;      /* where it lies for all GPUs of the process; NULL: closed */
    size_t bytes;    /* of whole chunks */
    uint64_t handle; /* of the driver */
};

/* How a GPU reaches the memory of another. ATOMIC: stores arrive as they were made, up to a line of
 * 128 bytes. UNKNOWN: one of them is not visible to this process. */
enum ccl_zone_link {
    CCL_LINK_NONE,
    CCL_LINK_UNKNOWN,
    CCL_LINK_PEER,
    CCL_LINK_ATOMIC,
};

struct ccl_zone_ops {
    /* Zeroed memory of the current device, which reaches it. */
    ncclResult_t (*make)(size_t bytes, struct ccl_zone *out);
    /* A descriptor for other processes, which the caller closes. */
    ncclResult_t (*share)(const struct ccl_zone *zone, int *fd);
    /* Another process's zone, of the same size; reached by no device so far. */
    ncclResult_t (*open)(int fd, size_t bytes, struct ccl_zone *out);
    /* Lets devices of this process reach it, beside those that do. */
    ncclResult_t (*reach)(const struct ccl_zone *zone, const int *devices, size_t n);
    /* Closed zones are fine. */
    void (*close)(struct ccl_zone *zone);
    enum ccl_zone_link (*link)(int device, int other);
};

#endif
