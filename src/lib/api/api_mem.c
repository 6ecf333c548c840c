/* Memory that every transport can map, and registration of buffers; called by programs. Both are
 * local to the rank and take effect at once, also inside a group.
 */
#include "api/api.h"

#include "base/err.h"
#include "base/param.h"

CCL_API(ncclResult_t, ncclMemAlloc, (void **ptr, size_t size))
{
    TRY(ccl_argcheck_pointer(ptr, "ncclMemAlloc", "ptr"));
    *ptr = NULL;
    return ccl_mem_alloc(ptr, size);
}

CCL_API(ncclResult_t, ncclMemFree, (void *ptr))
{
    if (ptr == NULL) return ncclSuccess;
    return ccl_mem_free(ptr);
}

static ncclResult_t add_buffer(ncclComm_t comm, void *buff, size_t size, void **handle)
{
    static const char function[] = "ncclCommRegister";
    TRY(ccl_argcheck_ready(comm, function));
    TRY(ccl_argcheck_pointer(handle, function, "handle"));
    *handle = NULL;
    TRY(ccl_argcheck_pointer(buff, function, "buff"));
    if (size == 0) return ccl_err(ncclInvalidArgument, "%s: size is 0", function);
    if (!ccl_param_int(CCL_PARAM_LOCAL_REGISTER)) return ncclSuccess;
    return ccl_reg_add(comm, buff, size, handle);
}

CCL_API(ncclResult_t, ncclCommRegister,
        (const ncclComm_t comm, void *buff, size_t size, void **handle))
{
    ncclResult_t rc;
    TRY_GOTO(rc, add_buffer(comm, buff, size, handle), fail);
    return ncclSuccess;
fail:
    return ccl_group_fail(rc);
}

CCL_API(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void *handle))
{
    ncclResult_t rc;
    TRY_GOTO(rc, ccl_comm_check(comm, "ncclCommDeregister"), fail);
    if (handle == NULL) return ncclSuccess;
    TRY_GOTO(rc, ccl_reg_remove(comm, handle), fail);
    return ncclSuccess;
fail:
    return ccl_group_fail(rc);
}
