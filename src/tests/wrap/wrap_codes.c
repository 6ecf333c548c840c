/* A library that answers three misuses otherwise than ours and passes all else on: for the test of
 * the differential program, which opens it by path as it would another libnccl.so.2.
 */
#include "nccl.h"

#include <signal.h>
#include <unistd.h>

#define WRAP __attribute__((visibility("default")))

WRAP ncclResult_t ncclGetVersion(int *version)
{
    if (version == NULL) return ncclSystemError;
    return pncclGetVersion(version);
}

WRAP ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    if (id == NULL) raise(SIGABRT);
    return pncclGetUniqueId(id);
}

WRAP ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    while (comm == NULL) pause();
    return pncclCommAbort(comm);
}
