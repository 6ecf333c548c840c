/* chain.c: the events of a chain. */
#include "core/chain.h"

#include "base/err.h"

/* The launch before was eager and on this very stream. The handle of each thread's own stream means
 * many. */
static int is_in_order(const struct ccl_chain *chain, cudaStream_t stream)
{
    return chain->capture == 0 && chain->stream == stream &&
           (uintptr_t)stream != CCL_STREAM_PER_THREAD;
}

ncclResult_t ccl_chain_enter(struct ccl_chain *chain, cudaStream_t stream, uint64_t capture)
{
    const struct ccl_device_ops *device = ccl_device();
    if (chain->latest == NULL) {
        TRY(device->event_make(&chain->latest));
        TRY(device->event_make(&chain->inside));
        chain->stream = stream;
        chain->capture = 0;
    }
    if (capture == 0)
        return is_in_order(chain, stream) ? ncclSuccess
                                          : device->base.stream_wait(stream, chain->latest);
    /* Kernels of one graph are chained by its edges, and with all others by the outside event. */
    if (chain->capture == capture) return device->base.stream_wait(stream, chain->inside);
    return device->stream_wait_outside(stream, chain->latest);
}

ncclResult_t ccl_chain_leave(struct ccl_chain *chain, cudaStream_t stream, uint64_t capture)
{
    const struct ccl_device_ops *device = ccl_device();
    chain->stream = stream;
    chain->capture = capture;
    if (capture == 0) return device->base.event_record(chain->latest, stream);
    TRY(device->base.event_record(chain->inside, stream));
    return device->event_record_outside(chain->latest, stream);
}

void ccl_chain_free(struct ccl_chain *chain)
{
    if (chain->latest != NULL) ccl_device()->base.event_destroy(chain->latest);
    if (chain->inside != NULL) ccl_device()->base.event_destroy(chain->inside);
    *chain = (struct ccl_chain){NULL, NULL, NULL, 0};
}
