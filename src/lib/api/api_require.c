/* What barriers and exchanges of kernels need: arithmetic that fills in a requirement for the list
 * of ncclDevCommRequirements, and the handle that a kernel is given. Called by programs; touches no
 * communicator. A number that makes no sense, or a need that no field can hold, is refused.
 */
#include "api/api.h"
#include "api/device_abi.h"

#include "base/err.h"

#include <limits.h>

enum {
    LSA_WORDS = 3,      /* of every barrier, beside one for each rank of the team */
    LL_SLOT_BYTES = 16, /* holds 8 bytes of an element */
    LL_ELT_BYTES = 8,
    SCRATCH_ALIGN = 128,
    SCRATCH_BUFS = 512,   /* a block has so many buffers at most */
    REQUEST_BYTES = 16,   /* of each of them in an outbox */
    SIGNALS_PER_PEER = 4, /* of an inbox */
    OUTBOX_LEAST_LOG2 = 7,
    MOST_LOG2 = 30
};

static ncclResult_t check_outs(const void *handle, const void *requirement, const char *function)
{
    TRY(ccl_argcheck_pointer(handle, function, "outHandle"));
    return ccl_argcheck_pointer(requirement, function, "outReq");
}

static ncclResult_t check_least(int value, int least, const char *function, const char *argument)
{
    if (value >= least) return ncclSuccess;
    return ccl_err(ncclInvalidArgument, "%s: %s %d is below %d", function, argument, value, least);
}

static ncclResult_t check_log2(int size_log2, const char *function)
{
    if (size_log2 >= 0 && size_log2 <= MOST_LOG2) return ncclSuccess;
    return ccl_err(ncclInvalidArgument, "%s: size_log2 %d is not in [0, %d]", function, size_log2,
                   MOST_LOG2);
}

/* `blocks` times `each` is a number of bytes or signals that a field holds up to `most`. */
static ncclResult_t check_product(int blocks, uint64_t each, uint64_t most, const char *function)
{
    if (blocks == 0 || each <= most / (uint64_t)blocks) return ncclSuccess;
    return ccl_err(ncclInvalidArgument, "%s: %d times %llu is more than a kernel can be given",
                   function, blocks, (unsigned long long)each);
}

/* The largest offset that a handle can stand for: 2^32 units of 128 bytes. */
#define MOST_BYTES ((uint64_t)SCRATCH_ALIGN << 32)

static ncclResult_t need_buffer(ncclDevResourceRequirements_t *requirement, int blocks,
                                uint64_t each_bytes, size_t align, const char *function)
{
    TRY(check_product(blocks, each_bytes, MOST_BYTES, function));
    requirement->bufferSize = (size_t)blocks * each_bytes;
    requirement->bufferAlign = align;
    return ncclSuccess;
}

CCL_API(ncclResult_t, ncclLsaBarrierCreateRequirement,
        (ncclTeam_t team, int nBarriers, ncclLsaBarrierHandle_t *outHandle,
         ncclDevResourceRequirements_t *outReq))
{
    static const char function[] = "ncclLsaBarrierCreateRequirement";
    struct ncclDevResourceRequirements need = {0};
    TRY(check_outs(outHandle, outReq, function));
    TRY(check_least(team.nRanks, 1, function, "team.nRanks"));
    TRY(check_least(nBarriers, 0, function, "nBarriers"));
    uint64_t words = (uint64_t)LSA_WORDS + (uint64_t)team.nRanks;
    TRY(need_buffer(&need, nBarriers, words * sizeof(uint32_t), _Alignof(uint32_t), function));
    outHandle->nBarriers = nBarriers;
    need.outBufferHandle = &outHandle->bufHandle;
    *outReq = need;
    return ncclSuccess;
}

static ncclResult_t count_slots(int max_elts, int max_elt_bytes, int *slots)
{
    static const char function[] = "ncclLLA2ACalcSlots";
    TRY(check_least(max_elts, 0, function, "maxElts"));
    TRY(check_least(max_elt_bytes, 0, function, "maxEltSize"));
    int each = max_elt_bytes / LL_ELT_BYTES + (max_elt_bytes % LL_ELT_BYTES != 0);
    TRY(check_product(max_elts, (uint64_t)each, INT_MAX, function));
    *slots = max_elts * each;
    return ncclSuccess;
}

CCL_API(int, ncclLLA2ACalcSlots, (int maxElts, int maxEltSize))
{
    int slots;
    return count_slots(maxElts, maxEltSize, &slots) == ncclSuccess ? slots : -1;
}

CCL_API(ncclResult_t, ncclLLA2ACreateRequirement,
        (int nBlocks, int nSlots, ncclLLA2AHandle_t *outHandle,
         ncclDevResourceRequirements_t *outReq))
{
    static const char function[] = "ncclLLA2ACreateRequirement";
    struct ncclDevResourceRequirements need = {0};
    TRY(check_outs(outHandle, outReq, function));
    TRY(check_least(nBlocks, 0, function, "nBlocks"));
    TRY(check_least(nSlots, 0, function, "nSlots"));
    /* A slot for the epoch, and two halves that take turns. */
    uint64_t block_bytes = (1 + 2 * (uint64_t)nSlots) * LL_SLOT_BYTES;
    TRY(need_buffer(&need, nBlocks, block_bytes, LL_SLOT_BYTES, function));
    outHandle->nSlots = (uint32_t)nSlots;
    need.outBufferHandle = &outHandle->bufHandle;
    *outReq = need;
    return ncclSuccess;
}

static ncclResult_t need_signals(ncclDevResourceRequirements_t *requirement, int blocks,
                                 uint64_t each, uint32_t *first, const char *function)
{
    TRY(check_product(blocks, each, INT_MAX, function));
    requirement->ginSignalCount = blocks * (int)each;
    requirement->outGinSignalStart = first;
    return ncclSuccess;
}

/* The communicator takes no part in the arithmetic; NULL is allowed. */
CCL_API(ncclResult_t, ncclGinBarrierCreateRequirement,
        (ncclComm_t comm, ncclTeam_t team, int nBarriers, ncclGinBarrierHandle_t *outHandle,
         ncclDevResourceRequirements_t *outReq))
{
    static const char function[] = "ncclGinBarrierCreateRequirement";
    struct ncclDevResourceRequirements need = {0};
    if (comm != NULL) TRY(ccl_comm_check(comm, function));
    TRY(check_outs(outHandle, outReq, function));
    TRY(check_least(team.nRanks, 1, function, "team.nRanks"));
    TRY(check_least(nBarriers, 0, function, "nBarriers"));
    TRY(need_signals(&need, nBarriers, (uint64_t)team.nRanks, &outHandle->signal0, function));
    *outReq = need;
    return ncclSuccess;
}

/* Bytes of a block of buffers, with its state in front of them. */
static uint64_t scratch_bytes(int size_log2)
{
    uint64_t bytes = (uint64_t)1 << size_log2;
    return SCRATCH_ALIGN + (bytes + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
}

CCL_API(ncclResult_t, ncclGinOutboxCreateRequirement,
        (int nBlocks, int size_log2, ncclGinOutboxHandle_t *outHandle,
         ncclDevResourceRequirements_t *outReq))
{
    static const char function[] = "ncclGinOutboxCreateRequirement";
    struct ncclDevResourceRequirements need = {0};
    TRY(check_outs(outHandle, outReq, function));
    TRY(check_least(nBlocks, 0, function, "nBlocks"));
    TRY(check_log2(size_log2, function));
    if (size_log2 < OUTBOX_LEAST_LOG2) size_log2 = OUTBOX_LEAST_LOG2;
    uint64_t block_bytes = scratch_bytes(size_log2) + SCRATCH_BUFS * REQUEST_BYTES;
    TRY(need_buffer(&need, nBlocks, block_bytes, SCRATCH_ALIGN, function));
    outHandle->size_log2 = (uint32_t)size_log2;
    need.outBufferHandle = &outHandle->bufHandle;
    *outReq = need;
    return ncclSuccess;
}

CCL_API(ncclResult_t, ncclGinInboxA2ACreateRequirement,
        (ncclTeam_t peers, int nBlocks, int size_log2, ncclGinInboxA2AHandle_t *outHandle,
         ncclDevResourceRequirements_t *outReq))
{
    static const char function[] = "ncclGinInboxA2ACreateRequirement";
    struct ncclDevResourceRequirements need = {0};
    TRY(check_outs(outHandle, outReq, function));
    TRY(check_least(peers.nRanks, 2, function, "peers.nRanks"));
    TRY(check_least(nBlocks, 0, function, "nBlocks"));
    TRY(check_log2(size_log2, function));
    uint64_t npeers = (uint64_t)peers.nRanks - 1;
    uint64_t nsignals = SIGNALS_PER_PEER * (npeers + SCRATCH_BUFS);
    TRY(need_buffer(&need, nBlocks, scratch_bytes(size_log2), SCRATCH_ALIGN, function));
    TRY(need_signals(&need, nBlocks, nsignals, &outHandle->signals, function));
    outHandle->size_log2 = (uint32_t)size_log2;
    /* What kernels multiply by instead of dividing; 2^32 itself wraps to 0. */
    outHandle->nPeers_rcp32 = (uint32_t)(((uint64_t)1 << 32) / npeers);
    need.outBufferHandle = &outHandle->bufHandle;
    *outReq = need;
    return ncclSuccess;
}
