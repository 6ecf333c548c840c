/* p2p.c: FIFOs between executors of one process: ordinary memory, made at first use. Both ends
 * ask for the same id and get the same memory. Ranks fetch each other's messages from where they
 * lie, so that their FIFOs need no ring. */
#include "transport/transport.h"

#include "base/alloc.h"
#include "base/err.h"

struct item {
    struct item *next;
    struct ccl_fifo_id id;
    void *memory;
    size_t bytes;
};

struct ccl_transport {
    size_t fifo_bytes, flags_bytes;
    struct item *items;
};

static int reach(int same_process, int same_host)
{
    (void)same_host;
    return same_process;
}

static ncclResult_t open_p2p(const struct ccl_places *places, struct ccl_transport **out)
{
    TRY(CCL_NEW(out, 1));
    (*out)->fifo_bytes = places->fifo_bytes;
    (*out)->flags_bytes = places->flags_bytes;
    return ncclSuccess;
}

static int same_id(const struct ccl_fifo_id *a, const struct ccl_fifo_id *b)
{
    return a->of_ranks == b->of_ranks && a->sender == b->sender && a->receiver == b->receiver &&
           a->channel == b->channel;
}

static ncclResult_t fifo(struct ccl_transport *transport, const struct ccl_fifo_id *id,
                         void **memory)
{
    for (struct item *item = transport->items; item != NULL; item = item->next)
        if (same_id(&item->id, id)) {
            *memory = item->memory;
            return ncclSuccess;
        }
    ncclResult_t rc;
    struct item *item;
    TRY(CCL_NEW(&item, 1));
    size_t bytes = id->of_ranks ? transport->flags_bytes : transport->fifo_bytes;
    TRY_GOTO(rc, ccl_alloc(&item->memory, 1, bytes), fail);
    item->id = *id;
    item->bytes = bytes;
    item->next = transport->items;
    transport->items = item;
    *memory = item->memory;
    return ncclSuccess;
fail:
    ccl_free(item);
    return rc;
}

static void show(struct ccl_transport *transport, ccl_transport_look *look, void *context)
{
    for (struct item *item = transport->items; item != NULL; item = item->next)
        look(context, &(struct ccl_transport_memory){&item->id, item->memory, item->bytes, 0});
}

static void close_p2p(struct ccl_transport *transport)
{
    if (transport == NULL) return;
    while (transport->items != NULL) {
        struct item *item = transport->items;
        transport->items = item->next;
        ccl_free(item->memory);
        ccl_free(item);
    }
    ccl_free(transport);
}

const struct ccl_transport_ops ccl_transport_p2p = {
    .name = "p2p",
    .reach = reach,
    .open = open_p2p,
    .fifo = fifo,
    .show = show,
    .close = close_p2p,
};
