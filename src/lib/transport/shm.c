/* shm.c: FIFOs between processes of one host. Each process owns one segment that holds the FIFOs
 * in which its executors and ranks RECEIVE, and their boards; the others map it. Everyone computes
 * the same layout, so no addresses are exchanged. Untouched FIFOs take no memory: a memfd is filled
 * page by page. The segment of process 0 also holds what all processes share.
 */
#include "transport/transport.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/shm.h"

struct ccl_transport {
    struct ccl_places places;
    struct ccl_shm *segments; /* [nprocs]; the own one is created, the others are mapped */
};

static int reach(int same_process, int same_host)
{
    return !same_process && same_host;
}

/* FIFOs of a segment: first those of the process's executors, [receiver][sender][channel], then
 * those of its ranks, [receiver][sender]. Receivers count within the process. */
static size_t count_execs(const struct ccl_places *places, uint16_t proc, uint16_t below)
{
    size_t execs = 0;
    for (uint16_t e = 0; e < below; e++) execs += places->proc_of_exec[e] == proc;
    return execs;
}

static size_t fifos_of_execs(const struct ccl_places *places, uint16_t proc)
{
    return count_execs(places, proc, places->nexecs) * places->nexecs * places->nchannels;
}

static size_t fifos_of_ranks(const struct ccl_places *places, uint16_t proc)
{
    size_t ranks = 0;
    for (uint16_t r = 0; r < places->nranks; r++) ranks += places->proc_of[r] == proc;
    return ranks * places->nranks;
}

/* The boards of the process's executors follow the FIFOs. */
static size_t boards_at(const struct ccl_places *places, uint16_t proc)
{
    return (fifos_of_execs(places, proc) + fifos_of_ranks(places, proc)) * places->fifo_bytes;
}

static size_t segment_bytes(const struct ccl_places *places, uint16_t proc)
{
    return boards_at(places, proc) +
           count_execs(places, proc, places->nexecs) * places->board_bytes +
           (proc == 0 ? places->common_bytes : 0);
}

static size_t fifo_index(const struct ccl_places *places, const struct ccl_fifo_id *id,
                         uint16_t proc)
{
    size_t place = 0;
    if (id->of_ranks) {
        for (uint16_t r = 0; r < id->receiver; r++) place += places->proc_of[r] == proc;
        return fifos_of_execs(places, proc) + place * places->nranks + id->sender;
    }
    place = count_execs(places, proc, id->receiver);
    return (place * places->nexecs + id->sender) * places->nchannels + id->channel;
}

static void close_shm(struct ccl_transport *transport)
{
    if (transport == NULL) return;
    for (uint16_t p = 0; transport->segments != NULL && p < transport->places.nprocs; p++)
        ccl_shm_close(&transport->segments[p]);
    ccl_free(transport->segments);
    ccl_free(transport);
}

static ncclResult_t open_shm(const struct ccl_places *places, struct ccl_transport **out)
{
    ncclResult_t rc;
    struct ccl_transport *transport;
    TRY(CCL_NEW(&transport, 1));
    transport->places = *places;
    TRY_GOTO(rc, CCL_NEW(&transport->segments, places->nprocs), fail);
    for (uint16_t p = 0; p < places->nprocs; p++) transport->segments[p] = CCL_SHM_NONE;
    size_t bytes = segment_bytes(places, places->self);
    TRY_GOTO(rc, ccl_shm_create(bytes, &transport->segments[places->self]), fail);
    *out = transport;
    return ncclSuccess;
fail:
    close_shm(transport);
    return rc;
}

static int share(struct ccl_transport *transport)
{
    return transport->segments[transport->places.self].fd;
}

static ncclResult_t attach(struct ccl_transport *transport, int proc, int fd)
{
    size_t bytes = segment_bytes(&transport->places, (uint16_t)proc);
    return ccl_shm_map(fd, bytes, &transport->segments[proc]);
}

static ncclResult_t fifo(struct ccl_transport *transport, const struct ccl_fifo_id *id,
                         void **memory)
{
    const struct ccl_places *places = &transport->places;
    uint16_t proc =
        id->of_ranks ? places->proc_of[id->receiver] : places->proc_of_exec[id->receiver];
    char *base = transport->segments[proc].base;
    *memory = base + fifo_index(places, id, proc) * places->fifo_bytes;
    return ncclSuccess;
}

static void *common(struct ccl_transport *transport)
{
    const struct ccl_shm *segment = &transport->segments[0];
    return (char *)segment->base + segment->size_bytes - transport->places.common_bytes;
}

static void *board(struct ccl_transport *transport, uint16_t exec)
{
    const struct ccl_places *places = &transport->places;
    uint16_t proc = places->proc_of_exec[exec];
    return (char *)transport->segments[proc].base + boards_at(places, proc) +
           count_execs(places, proc, exec) * places->board_bytes;
}

static void show_fifo(struct ccl_transport *transport, const struct ccl_fifo_id *id,
                      ccl_transport_look *look, void *context)
{
    void *memory;
    if (fifo(transport, id, &memory) != ncclSuccess) return;
    look(context, &(struct ccl_transport_memory){id, memory, transport->places.fifo_bytes, 1});
}

static void show(struct ccl_transport *transport, ccl_transport_look *look, void *context)
{
    const struct ccl_places *places = &transport->places;
    const struct ccl_shm *segment = &transport->segments[places->self];
    struct ccl_fifo_id id = {0};
    for (id.receiver = 0; id.receiver < places->nexecs; id.receiver++)
        for (id.sender = 0; id.sender < places->nexecs; id.sender++)
            for (id.channel = 0; id.channel < places->nchannels; id.channel++)
                if (places->proc_of_exec[id.receiver] == places->self)
                    show_fifo(transport, &id, look, context);
    id = (struct ccl_fifo_id){.of_ranks = 1};
    for (id.receiver = 0; id.receiver < places->nranks; id.receiver++)
        for (id.sender = 0; id.sender < places->nranks; id.sender++)
            if (places->proc_of[id.receiver] == places->self)
                show_fifo(transport, &id, look, context);
    size_t at = boards_at(places, places->self);
    look(context, &(struct ccl_transport_memory){NULL, (char *)segment->base + at,
                                                 segment->size_bytes - at, 1});
}

const struct ccl_transport_ops ccl_transport_shm = {
    .name = "shm",
    .reach = reach,
    .open = open_shm,
    .share = share,
    .attach = attach,
    .fifo = fifo,
    .common = common,
    .board = board,
    .show = show,
    .close = close_shm,
};
