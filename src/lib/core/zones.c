/* zones.c: making, mapping and closing zones, and the ends of connections that point into them. */
#include "core/zones.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/param.h"
#include "core/ledger.h"
#include "core/plan.h"
#include "transport/zone.h"

#include <string.h>
#include <unistd.h>

/* Slots are smaller where there are many FIFOs, so that a zone keeps to this. */
enum { FIFOS_BYTES = 256 << 20, MESSAGES_BYTES = 64 << 20, HOST_PART = 8, LEAST_SLOT = 4096 };
enum { CHANNELS_PAY = 32, CHANNELS_MOST = 64, MESSAGE_DEPTH = 4 };

static_assert((int)CCL_ZONE_PROTOS == (int)CCL_NPROTOS, "a FIFO for each protocol");
static_assert((int)CCL_ZONE_LINE_BYTES == (int)CCL_CUDA_CREDIT_BYTES, "a line of credit");

struct ccl_zones {
    struct ccl_zone_shape shape;
    uint16_t depth[CCL_NPROTOS];
    uint32_t slot_bytes[CCL_NPROTOS], message_slot_bytes;
    enum ccl_zone_link link;
    struct ccl_zone *of_gpu; /* [nexecs] */
    struct ccl_shm *of_host; /* [nexecs] instead */
    void **registered;       /* [nexecs] of these, as devices see them */
    char **bases;            /* [nexecs] of either */
    int *devices;            /* [ndevices] of this process's executors */
    size_t ndevices;
    int failed;                       /* some zone was not made or mapped */
    uint16_t swapped;                 /* the executor whose zone changes hands */
    struct ccl_cuda_conn **rank_ends; /* [nranks] of those of this process, on their device */
};

static size_t whole_lines(size_t bytes)
{
    return (bytes + CCL_ZONE_LINE_BYTES - 1) / CCL_ZONE_LINE_BYTES * CCL_ZONE_LINE_BYTES;
}

static int is_own(const struct ccl_clique *clique, uint16_t exec)
{
    return clique->topo->proc_of_exec[exec] == clique->proc;
}

/* Of the ranks that this process has of it. */
static int device_of(const struct ccl_exec *exec)
{
    uint16_t i = 0;
    while (exec->member_of[i] == CCL_ELSEWHERE) i++;
    return exec->clique->topo->peers[exec->view.rank_of[exec->first_slot + i]].device;
}

/* ---- sizes ---- */

static uint16_t most_ranks(const struct ccl_topo *topo)
{
    int most = 1;
    for (uint16_t e = 0; e < topo->nexecs; e++) {
        int n = topo->first_slot[e + 1] - topo->first_slot[e];
        if (n > most) most = n;
    }
    return (uint16_t)most;
}

static struct ccl_ledger_ask ask_for(const struct ccl_exec *exec)
{
    return (struct ccl_ledger_ask){
        .device = device_of(exec),
        .leads = is_own(exec->clique, exec->index),
        .nranks = exec->nhere,
        .most = most_ranks(exec->clique->topo),
    };
}

static ncclResult_t list_devices(struct ccl_clique *clique, struct ccl_zones *zones)
{
    TRY(CCL_NEW(&zones->devices, clique->nlocal_execs));
    for (uint16_t e = 0; e < clique->nlocal_execs; e++) {
        int device = device_of(&clique->execs[e]);
        size_t i = 0;
        while (i < zones->ndevices && zones->devices[i] != device) i++;
        if (i == zones->ndevices) zones->devices[zones->ndevices++] = device;
    }
    return ncclSuccess;
}

ncclResult_t ccl_zones_begin(struct ccl_clique *clique, uint8_t *nchannels)
{
    const struct ccl_topo *topo = clique->topo;
    TRY(CCL_NEW(&clique->zones, 1));
    struct ccl_zones *zones = clique->zones;
    TRY(CCL_NEW(&zones->of_gpu, topo->nexecs));
    TRY(CCL_NEW(&zones->of_host, topo->nexecs));
    for (uint16_t e = 0; e < topo->nexecs; e++) zones->of_host[e] = CCL_SHM_NONE;
    TRY(CCL_NEW(&zones->registered, topo->nexecs));
    TRY(CCL_NEW(&zones->bases, topo->nexecs));
    TRY(CCL_NEW(&zones->rank_ends, topo->nranks));
    TRY(list_devices(clique, zones));
    uint16_t most = ccl_clique_channels(clique, CHANNELS_PAY, CHANNELS_MOST);
    for (uint16_t e = 0; e < clique->nlocal_execs; e++) {
        struct ccl_exec *exec = &clique->execs[e];
        struct ccl_ledger_ask ask = ask_for(exec);
        uint16_t got = ccl_ledger_take(&ask, most);
        if (got == 0)
            return ccl_err(ncclInvalidUsage,
                           "device %d: the communicators of this process fill it with kernels that "
                           "wait for other GPUs; destroy some",
                           ask.device);
        exec->nctas = ccl_ledger_need(&ask, got);
        if (got < most) most = got;
    }
    *nchannels = (uint8_t)most;
    return ncclSuccess;
}

/* What of `budget` a slot gets, at most `most`. */
static uint32_t slot_bytes(size_t budget, size_t nslots, size_t most)
{
    size_t bytes = budget / nslots / CCL_ZONE_LINE_BYTES * CCL_ZONE_LINE_BYTES;
    if (bytes < LEAST_SLOT) bytes = LEAST_SLOT;
    return (uint32_t)(bytes < most ? bytes : most);
}

/* FIFOs of a zone are smaller in memory of the host, where LL128 has none. */
static void size_fifos(struct ccl_clique *clique, int on_host)
{
    struct ccl_zones *zones = clique->zones;
    struct ccl_zone_shape *shape = &zones->shape;
    size_t part = on_host ? HOST_PART : 1;
    size_t nfifos = (size_t)shape->nexecs * shape->nchannels;
    size_t nmessages = (size_t)most_ranks(clique->topo) * shape->nranks * shape->nlanes;
    size_t asked = ccl_clique_slot_bytes();
    zones->depth[CCL_PROTO_SIMPLE] = clique->depth;
    zones->depth[CCL_PROTO_LL] = CCL_LL_DEPTH;
    zones->depth[CCL_PROTO_LL128] = CCL_LL128_DEPTH;
    zones->slot_bytes[CCL_PROTO_SIMPLE] =
        slot_bytes(FIFOS_BYTES / part, nfifos * clique->depth, asked);
    zones->slot_bytes[CCL_PROTO_LL] = CCL_LL_SLOT_BYTES;
    zones->slot_bytes[CCL_PROTO_LL128] = CCL_LL128_SLOT_BYTES;
    for (int p = 0; p < CCL_NPROTOS; p++)
        shape->fifo_bytes[p] = whole_lines(
            ccl_cuda_fifo_bytes((enum ccl_proto)p, zones->slot_bytes[p], zones->depth[p]));
    if (on_host) shape->fifo_bytes[CCL_PROTO_LL128] = 0;
    zones->message_slot_bytes = slot_bytes(MESSAGES_BYTES / part, nmessages * MESSAGE_DEPTH, asked);
    shape->message_bytes = whole_lines(
        ccl_cuda_fifo_bytes(CCL_PROTO_SIMPLE, zones->message_slot_bytes, MESSAGE_DEPTH));
    clique->slot_bytes = zones->slot_bytes[CCL_PROTO_SIMPLE];
}

ncclResult_t ccl_zones_size(struct ccl_clique *clique, uint8_t nchannels)
{
    const struct ccl_topo *topo = clique->topo;
    clique->nchannels = nchannels;
    clique->zones->shape = (struct ccl_zone_shape){
        .nexecs = topo->nexecs,
        .nranks = topo->nranks,
        .nchannels = nchannels,
        .nlanes = ccl_ledger_lanes(most_ranks(topo), nchannels),
        .exec_of = topo->exec_of,
        .slot_of = topo->slot_of,
        .first_slot = topo->first_slot,
    };
    for (uint16_t e = 0; e < clique->nlocal_execs; e++) {
        struct ccl_exec *exec = &clique->execs[e];
        struct ccl_ledger_ask ask = ask_for(exec);
        uint32_t needed = ccl_ledger_need(&ask, nchannels);
        ccl_ledger_give(ask.device, exec->nctas - needed);
        exec->nctas = needed;
    }
    size_fifos(clique, 0);
    return ncclSuccess;
}

/* ---- memory of GPUs ---- */

/* What the executors' GPUs are called here; -1: this process does not see it. */
static void find_devices(const struct ccl_clique *clique, int *devices)
{
    const struct ccl_topo *topo = clique->topo;
    int n = 0;
    if (ccl_device()->base.count(&n) != ncclSuccess) n = 0;
    for (uint16_t e = 0; e < topo->nexecs; e++) devices[e] = -1;
    for (int d = 0; d < n; d++) {
        char identity[sizeof topo->peers->identity] = {0};
        if (ccl_device()->identity(d, identity) != ncclSuccess) continue;
        for (uint16_t e = 0; e < topo->nexecs; e++) {
            const struct ccl_peer *peer = &topo->peers[topo->rank_of[topo->first_slot[e]]];
            if (strncmp(identity, peer->identity, sizeof identity) == 0) devices[e] = d;
        }
    }
}

static enum ccl_zone_link weakest_link(const struct ccl_zones *zones, const int *others, size_t n)
{
    enum ccl_zone_link weakest = CCL_LINK_ATOMIC;
    for (size_t i = 0; i < n * zones->ndevices; i++) {
        int other = others[i / zones->ndevices], own = zones->devices[i % zones->ndevices];
        enum ccl_zone_link link =
            other < 0 ? CCL_LINK_UNKNOWN : ccl_device()->zones->link(own, other);
        if (link < weakest) weakest = link;
    }
    return weakest;
}

static enum ccl_zone_link find_link(const struct ccl_clique *clique)
{
    size_t nexecs = clique->topo->nexecs;
    int *others;
    if (ccl_device()->zones == NULL || ccl_param_int(CCL_PARAM_P2P_DISABLE)) return CCL_LINK_NONE;
    if (CCL_NEW(&others, nexecs) != ncclSuccess) return CCL_LINK_NONE;
    find_devices(clique, others);
    enum ccl_zone_link weakest = weakest_link(clique->zones, others, nexecs);
    ccl_free(others);
    return weakest;
}

static ncclResult_t make_zone(struct ccl_clique *clique, const struct ccl_exec *exec)
{
    struct ccl_zones *zones = clique->zones;
    size_t bytes = ccl_zone_bytes(&zones->shape, exec->index);
    void *before;
    TRY(ccl_device()->enter(device_of(exec), &before));
    ncclResult_t rc = ccl_device()->zones->make(bytes, &zones->of_gpu[exec->index]);
    ccl_device()->leave(before);
    return rc;
}

static ncclResult_t take_zone(struct ccl_clique *clique, int proc, int fd)
{
    struct ccl_zones *zones = clique->zones;
    uint16_t e = zones->swapped;
    if (clique->topo->proc_of_exec[e] != proc || zones->failed) return ncclSuccess;
    size_t bytes = ccl_zone_bytes(&zones->shape, e);
    zones->failed = ccl_device()->zones->open(fd, bytes, &zones->of_gpu[e]) != ncclSuccess;
    return ncclSuccess;
}

/* Every process gives something; only what the owner of the zone gives counts, and what is no zone
 * cannot be opened. */
static ncclResult_t swap_zone(struct ccl_clique *clique, uint16_t e)
{
    struct ccl_zones *zones = clique->zones;
    int fd = -1, filler = ccl_bell_self_fd();
    if (is_own(clique, e) && !zones->failed)
        zones->failed = ccl_device()->zones->share(&zones->of_gpu[e], &fd) != ncclSuccess;
    zones->swapped = e;
    ncclResult_t rc = ccl_clique_swap(clique, fd >= 0 ? fd : filler, take_zone);
    if (fd >= 0) close(fd);
    return rc;
}

ncclResult_t ccl_zones_connect(struct ccl_clique *clique, uint8_t *link)
{
    struct ccl_zones *zones = clique->zones;
    uint16_t nexecs = clique->topo->nexecs;
    zones->link = find_link(clique);
    zones->failed = zones->link == CCL_LINK_NONE;
    for (uint16_t e = 0; e < clique->nlocal_execs && !zones->failed; e++)
        if (is_own(clique, clique->execs[e].index))
            zones->failed = make_zone(clique, &clique->execs[e]) != ncclSuccess;
    for (uint16_t e = 0; e < nexecs && !ccl_clique_is_whole(clique); e++) TRY(swap_zone(clique, e));
    for (uint16_t e = 0; e < nexecs && !zones->failed; e++)
        zones->failed = ccl_device()->zones->reach(&zones->of_gpu[e], zones->devices,
                                                   zones->ndevices) != ncclSuccess;
    if (zones->failed) zones->link = CCL_LINK_NONE;
    *link = (uint8_t)zones->link;
    return ncclSuccess;
}

static void close_gpu_zones(struct ccl_clique *clique)
{
    struct ccl_zones *zones = clique->zones;
    for (uint16_t e = 0; zones->of_gpu != NULL && e < clique->topo->nexecs; e++)
        if (zones->of_gpu[e].base != NULL) ccl_device()->zones->close(&zones->of_gpu[e]);
}

/* ---- memory of the host ---- */

static ncclResult_t take_host(struct ccl_clique *clique, int proc, int fd)
{
    struct ccl_zones *zones = clique->zones;
    uint16_t e = zones->swapped;
    if (clique->topo->proc_of_exec[e] != proc) return ncclSuccess;
    return ccl_shm_map(fd, ccl_zone_bytes(&zones->shape, e), &zones->of_host[e]);
}

static ncclResult_t open_host(struct ccl_clique *clique, uint16_t e)
{
    struct ccl_zones *zones = clique->zones;
    struct ccl_shm *shm = &zones->of_host[e];
    if (is_own(clique, e)) TRY(ccl_shm_create(ccl_zone_bytes(&zones->shape, e), shm));
    zones->swapped = e;
    if (!ccl_clique_is_whole(clique))
        TRY(ccl_clique_swap(clique, is_own(clique, e) ? shm->fd : ccl_bell_self_fd(), take_host));
    if (is_own(clique, e)) ccl_shm_close_fd(shm);
    size_t page = 4096, bytes = (shm->size_bytes + page - 1) / page * page;
    return ccl_device()->words_map(shm->base, bytes, &zones->registered[e]);
}

static ncclResult_t open_host_zones(struct ccl_clique *clique)
{
    if (ccl_param_int(CCL_PARAM_SHM_DISABLE))
        return ccl_err(ncclInvalidUsage,
                       "no transport is left between GPUs: they do not reach each other's memory, "
                       "or may not (NCCL_P2P_DISABLE=%d), and NCCL_SHM_DISABLE=1 forbids memory of "
                       "the host",
                       (int)ccl_param_int(CCL_PARAM_P2P_DISABLE));
    size_fifos(clique, 1);
    for (uint16_t e = 0; e < clique->topo->nexecs; e++) TRY(open_host(clique, e));
    return ncclSuccess;
}

static void close_host_zones(struct ccl_clique *clique)
{
    struct ccl_zones *zones = clique->zones;
    for (uint16_t e = 0; zones->of_host != NULL && e < clique->topo->nexecs; e++) {
        if (zones->registered != NULL && zones->registered[e] != NULL)
            ccl_device()->words_unmap(zones->of_host[e].base);
        ccl_shm_close(&zones->of_host[e]);
    }
}

/* ---- ends ---- */

static char *address_of(const struct ccl_zones *zones, struct ccl_zone_place place)
{
    return zones->bases[place.exec] + place.at;
}

static struct ccl_cuda_conn make_end(const struct ccl_zones *zones, const struct ccl_fifo_id *id,
                                     enum ccl_proto proto, int is_send)
{
    char *fifo = address_of(zones, ccl_zone_fifo(&zones->shape, id, proto));
    char *credit = address_of(zones, ccl_zone_credit(&zones->shape, id, proto));
    size_t bytes = id->of_ranks ? zones->message_slot_bytes : zones->slot_bytes[proto];
    return (struct ccl_cuda_conn){
        .flags = (struct ccl_cuda_flags *)(void *)fifo,
        .ring = fifo + CCL_CUDA_RING_AT,
        .credit = (uint64_t *)(void *)credit,
        .stride = (uint32_t)ccl_cuda_stride(proto, bytes),
        .depth = id->of_ranks ? MESSAGE_DEPTH : zones->depth[proto],
        .peer = is_send ? id->receiver : id->sender,
    };
}

/* Copies to new memory of the current device. */
static ncclResult_t send_ends(const struct ccl_cuda_conn *ends, size_t n,
                              struct ccl_cuda_conn **out)
{
    const struct chorus_devices *device = &ccl_device()->base;
    cudaStream_t stream;
    TRY(ccl_device()->flags_alloc((void **)out, n * sizeof *ends));
    TRY(device->stream_create(&stream));
    ncclResult_t rc = device->copy(*out, ends, n * sizeof *ends, stream);
    if (rc == ncclSuccess) rc = device->stream_sync(stream);
    ncclResult_t destroy_rc = device->stream_destroy(stream);
    return rc != ncclSuccess ? rc : destroy_rc;
}

/* Of an executor: [peer][is_send][channel][protocol]. */
static size_t end_index(const struct ccl_clique *clique, const struct ccl_link *link,
                        uint16_t channel, enum ccl_proto proto)
{
    size_t of_peer = (size_t)link->peer * 2 + link->is_send;
    return (of_peer * clique->nchannels + channel) * CCL_NPROTOS + proto;
}

static ncclResult_t write_exec_ends(struct ccl_exec *exec)
{
    const struct ccl_clique *clique = exec->clique;
    size_t n = 2u * clique->topo->nexecs * clique->nchannels * CCL_NPROTOS;
    struct ccl_cuda_conn *ends;
    TRY(CCL_NEW(&ends, n));
    for (size_t i = 0; i < n; i++) {
        enum ccl_proto proto = (enum ccl_proto)(i % CCL_NPROTOS);
        size_t of_peer = i / CCL_NPROTOS / clique->nchannels;
        uint16_t peer = (uint16_t)(of_peer / 2), is_send = of_peer % 2;
        struct ccl_fifo_id id = {
            .sender = is_send ? exec->index : peer,
            .receiver = is_send ? peer : exec->index,
            .channel = (uint16_t)(i / CCL_NPROTOS % clique->nchannels),
        };
        ends[i] = make_end(clique->zones, &id, proto, is_send);
    }
    ncclResult_t rc = send_ends(ends, n, &exec->ends);
    ccl_free(ends);
    return rc;
}

/* Of a rank: [peer][is_send][lane]. */
static ncclResult_t write_rank_ends(const struct ccl_clique *clique, uint16_t rank)
{
    const struct ccl_zone_shape *shape = &clique->zones->shape;
    size_t n = 2u * shape->nranks * shape->nlanes;
    struct ccl_cuda_conn *ends;
    TRY(CCL_NEW(&ends, n));
    for (size_t i = 0; i < n; i++) {
        uint16_t peer = (uint16_t)(i / shape->nlanes / 2), is_send = i / shape->nlanes % 2;
        struct ccl_fifo_id id = {
            .of_ranks = 1,
            .sender = is_send ? rank : peer,
            .receiver = is_send ? peer : rank,
            .channel = (uint16_t)(i % shape->nlanes),
        };
        ends[i] = make_end(clique->zones, &id, CCL_PROTO_SIMPLE, is_send);
    }
    ncclResult_t rc = send_ends(ends, n, &clique->zones->rank_ends[rank]);
    ccl_free(ends);
    return rc;
}

/* All ends of an executor and of its ranks that are of this process. */
static ncclResult_t write_ends(struct ccl_exec *exec)
{
    if (is_own(exec->clique, exec->index)) TRY(write_exec_ends(exec));
    for (uint16_t i = 0; i < exec->nlocal; i++)
        if (exec->member_of[i] != CCL_ELSEWHERE)
            TRY(write_rank_ends(exec->clique, exec->view.rank_of[exec->first_slot + i]));
    return ncclSuccess;
}

ncclResult_t ccl_zones_settle(struct ccl_clique *clique, uint8_t link)
{
    struct ccl_zones *zones = clique->zones;
    zones->link = (enum ccl_zone_link)link;
    clique->possible = ccl_plan_possible(&clique->execs[0]);
    if (zones->link == CCL_LINK_NONE) {
        close_gpu_zones(clique);
        TRY(open_host_zones(clique));
    }
    for (uint16_t e = 0; e < clique->topo->nexecs; e++)
        zones->bases[e] = link == CCL_LINK_NONE ? zones->of_host[e].base : zones->of_gpu[e].base;
    for (uint16_t e = 0; e < clique->nlocal_execs; e++) {
        void *before;
        TRY(ccl_device()->enter(device_of(&clique->execs[e]), &before));
        ncclResult_t rc = write_ends(&clique->execs[e]);
        ccl_device()->leave(before);
        TRY(rc);
    }
    return ncclSuccess;
}

void ccl_zones_close(struct ccl_clique *clique)
{
    struct ccl_zones *zones = clique->zones;
    for (uint16_t e = 0; e < clique->nlocal_execs; e++) {
        struct ccl_exec *exec = &clique->execs[e];
        if (exec->nctas > 0) ccl_ledger_give(device_of(exec), exec->nctas);
        ccl_device()->flags_free(exec->ends);
    }
    if (zones == NULL) return;
    for (uint16_t r = 0; zones->rank_ends != NULL && r < clique->topo->nranks; r++)
        ccl_device()->flags_free(zones->rank_ends[r]);
    close_gpu_zones(clique);
    close_host_zones(clique);
    ccl_free(zones->of_gpu);
    ccl_free(zones->of_host);
    ccl_free(zones->registered);
    ccl_free(zones->bases);
    ccl_free(zones->devices);
    ccl_free(zones->rank_ends);
    ccl_free(zones);
}

/* ---- questions ---- */

enum ccl_zone_link ccl_zones_link(const struct ccl_clique *clique)
{
    return clique->zones != NULL ? clique->zones->link : CCL_LINK_ATOMIC;
}

uint64_t ccl_zones_bytes(const struct ccl_exec *exec)
{
    if (!is_own(exec->clique, exec->index)) return 0;
    return ccl_zone_bytes(&exec->clique->zones->shape, exec->index);
}

struct ccl_cuda_conn *ccl_zones_end(const struct ccl_exec *exec, const struct ccl_link *link,
                                    uint16_t channel, enum ccl_proto proto)
{
    if (exec->ends == NULL) return NULL;
    return exec->ends + end_index(exec->clique, link, channel, proto);
}

struct ccl_cuda_conn *ccl_zones_message(const struct ccl_clique *clique, int rank, int peer,
                                        int is_send)
{
    size_t nlanes = clique->zones->shape.nlanes;
    return clique->zones->rank_ends[rank] + (size_t)(2 * peer + is_send) * nlanes;
}

struct ccl_zones_lanes ccl_zones_lanes(const struct ccl_clique *clique)
{
    return (struct ccl_zones_lanes){clique->zones->shape.nlanes, clique->zones->message_slot_bytes};
}
