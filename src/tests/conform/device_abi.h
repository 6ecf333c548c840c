/* Structs of the device headers of versions 2.29 and 2.30, written down apart from the library's
 * own: nccl.h has only their names. Included by the tests of the device interface.
 */
#ifndef CONFORM_DEVICE_ABI_H
#define CONFORM_DEVICE_ABI_H

#include "nccl.h"

struct ncclDevResourceRequirements {
    struct ncclDevResourceRequirements *next;
    size_t bufferSize, bufferAlign;
    uint32_t *outBufferHandle;
    int ginSignalCount, ginCounterCount;
    uint32_t *outGinSignalStart, *outGinCounterStart;
};

/* What a program fills in; the rest of the 96 bytes is left zero. */
struct ncclDevCommRequirements {
    size_t size;
    unsigned magic, version;
    void *lists[2];
    char more[64];
};
_Static_assert(sizeof(struct ncclDevCommRequirements) == 96, "ncclDevCommRequirements");

struct ncclDevComm {
    unsigned magic, version;
    char before[32];
    void *resource_window;
    char more[192];
};
_Static_assert(sizeof(struct ncclDevComm) == 240, "ncclDevComm");

struct ncclLsaBarrierHandle {
    uint32_t buffer;
    int nbarriers;
};
struct ncclLLA2AHandle {
    uint32_t buffer, nslots;
};
struct ncclGinBarrierHandle {
    uint32_t signal, unused;
};
struct ncclGinOutboxHandle {
    uint32_t buffer, size_log2;
};
struct ncclGinInboxA2AHandle {
    uint32_t buffer, signals, size_log2, reciprocal;
};

#endif
