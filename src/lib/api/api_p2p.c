/* Send and receive: like the collectives in api_coll.c, with a peer instead of a root. Called by
 * programs. A failing call is recorded in the open group.
 */
#include "api/api.h"

CCL_API(ncclResult_t, ncclSend,
        (const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
         cudaStream_t stream))
{
    return ccl_api_enqueue(CCL_CALL_SEND, &(struct ccl_op){.in = sendbuff,
                                                           .count_elems = count,
                                                           .type = datatype,
                                                           .root = peer,
                                                           .comm = comm,
                                                           .stream = stream});
}

CCL_API(ncclResult_t, ncclRecv,
        (void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
         cudaStream_t stream))
{
    return ccl_api_enqueue(CCL_CALL_RECV, &(struct ccl_op){.out = recvbuff,
                                                           .count_elems = count,
                                                           .type = datatype,
                                                           .root = peer,
                                                           .comm = comm,
                                                           .stream = stream});
}
