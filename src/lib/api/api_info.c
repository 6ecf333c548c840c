/* What the library says about itself: version, texts of results, the last error. Called by
 * programs; needs no device and no communicator.
 */
#include "api/api.h"

#include "base/err.h"

#define TEXT_OF(x)   #x
#define NUMBER_OF(x) TEXT_OF(x)
#define VERSION_TEXT NUMBER_OF(NCCL_MAJOR) "." NUMBER_OF(NCCL_MINOR) "." NUMBER_OF(NCCL_PATCH)

#ifndef CHORUS_GIT_HASH
#define CHORUS_GIT_HASH "unknown"
#endif

/* Programs search the file of the library for this text and read both versions from it, so it
 * stays in .rodata whether or not it is printed. cuda0.0: built without CUDA. */
const char ccl_api_banner[] = "NCCL version " VERSION_TEXT NCCL_SUFFIX "+cuda0.0 (Chorus)";

_Static_assert(NCCL_VERSION_CODE == NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH),
               "the two forms of the version differ");

CCL_API(ncclResult_t, ncclGetVersion, (int *version))
{
    TRY(ccl_argcheck_pointer(version, "ncclGetVersion", "version"));
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

CCL_API(const char *, ncclGetErrorString, (ncclResult_t result))
{
    return ccl_err_string(result);
}

CCL_API(const char *, ncclGetLastError, (ncclComm_t comm))
{
    (void)comm; /* The text is the process's, so that it is there when no communicator is. */
    return ccl_err_last();
}

/* Upstream keeps the name for old binaries; there is nothing to reset. */
CCL_API(void, ncclResetDebugInit, (void))
{
}

const char *chorus_git_hash(void)
{
    return CHORUS_GIT_HASH;
}
