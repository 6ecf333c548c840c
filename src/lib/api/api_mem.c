/* Memory that every transport can map, registration of buffers, and the memory of communicators;
 * called by programs. The first two are local to the rank and take effect at once, also inside a
 * group.
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

/* ---- the communicator's own memory ---- */

static ncclResult_t check_flags(int flags, const char *function)
{
    if ((flags & ~NCCL_SUSPEND_MEM) == 0) return ncclSuccess;
    return ccl_err(ncclInvalidArgument, "%s: flags 0x%x has bits beside NCCL_SUSPEND_MEM (0x%x)",
                   function, (unsigned)flags, NCCL_SUSPEND_MEM);
}

static ncclResult_t suspend(ncclComm_t comm, int flags)
{
    static const char function[] = "ncclCommSuspend";
    TRY(ccl_argcheck_ready(comm, function));
    TRY(check_flags(flags, function));
    return flags == 0 ? ncclSuccess : ccl_comm_suspend(comm);
}

CCL_API(ncclResult_t, ncclCommSuspend, (ncclComm_t comm, int flags))
{
    return ccl_group_fail(suspend(comm, flags));
}

static ncclResult_t resume(ncclComm_t comm)
{
    TRY(ccl_comm_check(comm, "ncclCommResume"));
    TRY(ccl_comm_resumable(comm, "ncclCommResume"));
    return ccl_comm_resume(comm);
}

CCL_API(ncclResult_t, ncclCommResume, (ncclComm_t comm))
{
    return ccl_group_fail(resume(comm));
}

CCL_API(ncclResult_t, ncclCommMemStats, (ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value))
{
    static const char function[] = "ncclCommMemStats";
    TRY(ccl_comm_check(comm, function));
    TRY(ccl_argcheck_pointer(value, function, "value"));
    TRY(ccl_comm_known(comm, function));
    return ccl_comm_memory(comm, stat, value);
}
