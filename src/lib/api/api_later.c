/* Names of the interface whose function this library does not have: programs that are linked
 * against them load and run, and a call is refused with ncclInvalidUsage and a text naming it.
 * Called by programs. Invariant: one row per function; out-pointers are set to NULL or zero.
 */
#include "api/api.h"

#include "base/err.h"

/* The rows state complete prototypes and use few of the parameters. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

static ncclResult_t refuse(const char *function)
{
    return ccl_group_fail(ccl_err(ncclInvalidUsage, "%s: not supported by this library", function));
}

#define NO_OUT ((void)0)
#define OUT(pointer)                                                                               \
    if ((pointer) != NULL) *(pointer) = 0

#define LATER(name, parameters, clear)                                                             \
    CCL_API(ncclResult_t, name, parameters)                                                        \
    {                                                                                              \
        clear;                                                                                     \
        return refuse(#name);                                                                      \
    }

/* Windows. */
LATER(ncclCommWindowRegister,
      (ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags), OUT(win))
LATER(ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win), NO_OUT)
LATER(ncclWinGetUserPtr, (ncclComm_t comm, ncclWindow_t win, void **outUserPtr), OUT(outUserPtr))

/* One-sided operations. */
LATER(ncclPutSignal,
      (const void *localbuff, size_t count, ncclDataType_t datatype, int peer, ncclWindow_t peerWin,
       size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
       cudaStream_t stream),
      NO_OUT)
LATER(ncclSignal,
      (int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream),
      NO_OUT)
LATER(ncclWaitSignal,
      (int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm, cudaStream_t stream), NO_OUT)
