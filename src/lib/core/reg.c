/* reg.c: reference-counted records of registered ranges, and ncclMemAlloc. */
#include "core/reg.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/log.h"

ncclResult_t ccl_mem_alloc(void **memory, size_t bytes)
{
    ncclResult_t rc = ccl_device()->base.alloc(memory, bytes);
    CCL_INFO(CCL_LOG_ALLOC, "ncclMemAlloc: %zu bytes at %p", bytes,
             rc == ncclSuccess ? *memory : NULL);
    return rc;
}

ncclResult_t ccl_mem_free(void *memory)
{
    CCL_INFO(CCL_LOG_ALLOC, "ncclMemFree: %p", memory);
    return ccl_device()->base.free(memory);
}

ncclResult_t ccl_reg_add(ncclComm_t comm, void *buffer, size_t bytes, void **handle)
{
    ncclResult_t rc = ncclSuccess;
    char *base = buffer;
    pthread_mutex_lock(&comm->own_lock);
    struct ccl_reg *reg = comm->regs;
    while (reg != NULL && (base < reg->base || base + bytes > reg->base + reg->bytes))
        reg = reg->next;
    if (reg == NULL) {
        rc = CCL_NEW(&reg, 1);
        if (rc == ncclSuccess) {
            *reg = (struct ccl_reg){comm->regs, base, bytes, 0};
            comm->regs = reg;
        }
    }
    if (rc == ncclSuccess) reg->refs++;
    *handle = reg;
    CCL_INFO(CCL_LOG_REG, "ncclCommRegister: rank %d: %zu bytes at %p, handle %p", comm->rank,
             bytes, buffer, *handle);
    pthread_mutex_unlock(&comm->own_lock);
    return rc;
}

ncclResult_t ccl_reg_remove(ncclComm_t comm, void *handle)
{
    pthread_mutex_lock(&comm->own_lock);
    struct ccl_reg **link = &comm->regs;
    while (*link != NULL && *link != handle) link = &(*link)->next;
    struct ccl_reg *reg = *link;
    if (reg != NULL && --reg->refs == 0) {
        *link = reg->next;
        ccl_free(reg);
    }
    pthread_mutex_unlock(&comm->own_lock);
    CCL_INFO(CCL_LOG_REG, "ncclCommDeregister: rank %d: handle %p", comm->rank, handle);
    if (reg == NULL)
        return ccl_err(ncclInvalidUsage,
                       "ncclCommDeregister: handle %p is not registered with rank %d", handle,
                       comm->rank);
    return ncclSuccess;
}

void ccl_reg_free(ncclComm_t comm)
{
    while (comm->regs != NULL) {
        struct ccl_reg *reg = comm->regs;
        comm->regs = reg->next;
        ccl_free(reg);
    }
}
