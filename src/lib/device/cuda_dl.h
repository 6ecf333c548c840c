/* The functions of the driver (libcuda.so.1) that the runtime does not offer, looked up when the
 * first is used, so that the library loads where there is no driver.
 *
 * Each may be missing, in an older driver: call them through CCL_DRIVER only. Thread-safe.
 */
#ifndef CCL_DEVICE_CUDA_DL_H
#define CCL_DEVICE_CUDA_DL_H

#include "nccl.h"

#include <cuda.h>

/* One a line, sorted. cuda.h defines some names as their newest version, which is looked up. */
#define CCL_DRIVER_FUNCTIONS(X)                                                                    \
    X(cuGetErrorName)                                                                              \
    X(cuGetErrorString)                                                                            \
    X(cuCtxGetCurrent)                                                                             \
    X(cuCtxSetCurrent)                                                                             \
    X(cuDeviceGetUuid)                                                                             \
    X(cuMemAddressFree)                                                                            \
    X(cuMemAddressReserve)                                                                         \
    X(cuMemCreate)                                                                                 \
    X(cuMemExportToShareableHandle)                                                                \
    X(cuMemGetAddressRange)                                                                        \
    X(cuMemImportFromShareableHandle)                                                              \
    X(cuMemMap)                                                                                    \
    X(cuMemRelease)                                                                                \
    X(cuMemRetainAllocationHandle)                                                                 \
    X(cuMemSetAccess)                                                                              \
    X(cuMemUnmap)                                                                                  \
    X(cuPointerGetAttributes)                                                                      \
    X(cuStreamGetCtx)                                                                              \
    X(cuStreamWaitValue32)                                                                         \
    X(cuStreamWriteValue32)

/* Attributes of a pointer's physical memory; older headers do not have them, nor older drivers. */
enum { CCL_POINTER_MAPPING_BYTES = 18, CCL_POINTER_MAPPING_BASE = 19, CCL_POINTER_BLOCK_ID = 20 };

struct ccl_driver {
#define CCL_DRIVER_MEMBER(name) __typeof__(name) *name;
    CCL_DRIVER_FUNCTIONS(CCL_DRIVER_MEMBER)
#undef CCL_DRIVER_MEMBER
};

/* The table; without a driver, or before the version that has it, an entry is NULL. */
const struct ccl_driver *ccl_driver(void);

/* ncclSuccess, or ncclUnhandledCudaError whose text names `what` and the error. */
ncclResult_t ccl_driver_check(CUresult result, const char *what);
/* The error of a function that is missing. */
ncclResult_t ccl_driver_missing(const char *name);

/* CCL_DRIVER(cuMemRelease, handle): the call's result as ncclResult_t. */
#define CCL_DRIVER(name, ...)                                                                      \
    (ccl_driver()->name == NULL ? ccl_driver_missing(#name)                                        \
                                : ccl_driver_check(ccl_driver()->name(__VA_ARGS__), #name))

#endif
