/* chain.h: kernels that run one after the other in the order of their launches, whatever streams
 * they are on: those that share connections on a GPU.
 *
 * Called around each launch, with the lock held that orders the launches and the device current.
 * Events do it, since a GPU starts kernels in no other order. In a graph the event is an outside
 * one: replays and eager launches are chained as they come.
 */
#ifndef CCL_CORE_CHAIN_H
#define CCL_CORE_CHAIN_H

#include "device/device.h"

struct ccl_chain {
    chorus_event_t latest; /* behind the latest kernel that ran, in a graph or not */
    chorus_event_t inside; /* behind the latest one of the capture `capture` */
    cudaStream_t stream;   /* of the latest launch, if that was eager */
    uint64_t capture;      /* that the latest launch went to; 0: eager */
};

/* Where a kernel is launched: its stream, and the capture that this is part of, or 0. */
ncclResult_t ccl_chain_enter(struct ccl_chain *chain, cudaStream_t stream, uint64_t capture);
ncclResult_t ccl_chain_leave(struct ccl_chain *chain, cudaStream_t stream, uint64_t capture);
void ccl_chain_free(struct ccl_chain *chain);

#endif
