/* Layouts of the device headers that programs of versions 2.29 and 2.30 are compiled with, as far
 * as host functions read and write them. Included by api_device.c and api_require.c.
 *
 * Invariant: names and offsets are upstream's; a field that nobody here uses has none.
 */
#ifndef CCL_API_DEVICE_ABI_H
#define CCL_API_DEVICE_ABI_H

#include "nccl.h"

#include <stddef.h>

/* The start of every struct that carries a version. */
struct ccl_abi_header {
    size_t size;
    unsigned magic, version;
};

struct ncclDevResourceRequirements {
    struct ncclDevResourceRequirements *next;
    size_t bufferSize, bufferAlign;
    uint32_t *outBufferHandle;
    int ginSignalCount, ginCounterCount;
    uint32_t *outGinSignalStart, *outGinCounterStart;
};
_Static_assert(sizeof(struct ncclDevResourceRequirements) == 56, "ncclDevResourceRequirements");

struct ncclLsaBarrierHandle {
    uint32_t bufHandle;
    int nBarriers;
};
struct ncclLLA2AHandle {
    uint32_t bufHandle, nSlots;
};
struct ncclGinBarrierHandle {
    uint32_t signal0, unused;
};
struct ncclGinOutboxHandle {
    uint32_t bufHandle, size_log2;
};
struct ncclGinInboxA2AHandle {
    uint32_t bufHandle, signals, size_log2, nPeers_rcp32;
};

/* A device communicator starts with magic and version since 2.30, with its rank before. */
struct ccl_abi_dev_comm {
    unsigned magic, version;
    int rank, nranks;
    uint32_t nranks_rcp32;
    int lsa_rank, lsa_size;
    uint32_t lsa_size_rcp32;
    void *window_table, *resource_window;
};
struct ccl_abi_dev_comm_22902 {
    int rank, nranks;
    uint32_t nranks_rcp32;
    int lsa_rank, lsa_size;
    uint32_t lsa_size_rcp32;
    void *window_table, *resource_window;
};
_Static_assert(offsetof(struct ccl_abi_dev_comm, resource_window) == 40, "ncclDevComm 2.30");
_Static_assert(offsetof(struct ccl_abi_dev_comm_22902, resource_window) == 32, "ncclDevComm 2.29");

#endif
