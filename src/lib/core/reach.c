/* reach.c: the layout of the memory in which executors meet, and who reaches whose arena. */
#include "core/reach.h"

#include "base/alloc.h"
#include "base/err.h"

/* The parts of the memory, in this order; each starts at a line of its own. */
enum { LINE_BYTES = 64 };

struct layout {
    size_t flags_bytes, published_bytes, signs_bytes; /* of a channel */
    size_t published_at, signs_at, reaches_at, signals_at, bytes;
};

static size_t lines(size_t bytes)
{
    return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

static struct layout lay_out(const struct ccl_topo *topo)
{
    struct layout lay = {
        .flags_bytes = topo->nexecs * CCL_MEET_STRIDE * sizeof(uint64_t),
        .published_bytes = lines(2 * topo->nranks * sizeof(struct ccl_slot)),
        .signs_bytes = lines(2 * topo->nexecs * sizeof(uint64_t)),
    };
    lay.published_at = CCL_NCHANNELS * lay.flags_bytes;
    lay.signs_at = lay.published_at + CCL_NCHANNELS * lay.published_bytes;
    lay.reaches_at = lay.signs_at + CCL_NCHANNELS * lay.signs_bytes;
    lay.signals_at = lay.reaches_at + lines(topo->nprocs * sizeof(uint64_t));
    lay.bytes = lay.signals_at;
    if (!topo->peers[0].is_gpu)
        lay.bytes += lines((size_t)topo->nranks * topo->nranks * sizeof(uint32_t));
    return lay;
}

size_t ccl_reach_bytes(const struct ccl_topo *topo)
{
    return lay_out(topo).bytes;
}

ncclResult_t ccl_reach_meet(struct ccl_clique *clique, void *memory)
{
    const struct ccl_topo *topo = clique->topo;
    size_t nranks = topo->nranks, ntables = (size_t)clique->nlocal_execs * CCL_NCHANNELS;
    struct layout lay = lay_out(topo);
    if (memory == NULL) {
        TRY(ccl_alloc(&clique->own_meeting, 1, lay.bytes));
        memory = clique->own_meeting;
    }
    char *base = memory;
    TRY(CCL_NEW(&clique->tables, ntables * nranks));
    TRY(CCL_NEW(&clique->bases, nranks));
    TRY(CCL_NEW(&clique->arenas, topo->nprocs));
    clique->reaches = (uint64_t *)(void *)(base + lay.reaches_at);
    if (!topo->peers[0].is_gpu) clique->signals = (uint32_t *)(void *)(base + lay.signals_at);
    for (size_t t = 0; t < ntables; t++) {
        size_t c = t % CCL_NCHANNELS;
        clique->execs[t / CCL_NCHANNELS].meets[c] = (struct ccl_meet){
            .flags = (uint64_t *)(void *)(base + c * lay.flags_bytes),
            .published =
                (struct ccl_slot *)(void *)(base + lay.published_at + c * lay.published_bytes),
            .signs = (uint64_t *)(void *)(base + lay.signs_at + c * lay.signs_bytes),
            .table = clique->tables + t * nranks,
            .bases = clique->bases,
            .shared_bytes = UINTPTR_MAX,
            .bells = clique->bells,
            .nbells = topo->nprocs,
        };
    }
    return ncclSuccess;
}

int ccl_reach_has_arenas(const struct ccl_clique *clique)
{
    const struct ccl_topo *topo = clique->topo;
    for (uint16_t p = 0; p < topo->nprocs; p++)
        if (!topo->peers[topo->first_rank[p]].has_arena) return 0;
    return 1;
}

ncclResult_t ccl_reach_take(struct ccl_clique *clique, int proc, int fd)
{
    if (ccl_arena_map(fd, &clique->arenas[proc]) != ncclSuccess) clique->arenas[proc] = NULL;
    return ncclSuccess;
}

/* Release pairs with the acquire in all_reach; the initialisation orders them as well. */
void ccl_reach_tell(struct ccl_clique *clique)
{
    uint64_t reaches = 1;
    for (uint16_t p = 0; p < clique->topo->nprocs; p++)
        if (p != clique->proc && clique->arenas[p] == NULL) reaches = 0;
    __atomic_store_n(&clique->reaches[clique->proc], reaches, __ATOMIC_RELEASE);
}

static struct ccl_peer_arena own_arena(void)
{
    struct ccl_arena own;
    ccl_device()->arena(&own);
    return (struct ccl_peer_arena){own.base, own.bytes};
}

/* Where place 0 of each slot's process lies in this process. */
static void find_bases(struct ccl_clique *clique)
{
    const struct ccl_topo *topo = clique->topo;
    struct ccl_peer_arena own = own_arena();
    for (uint16_t s = 0; s < topo->nranks; s++) {
        uint16_t p = topo->proc_of[topo->rank_of[s]];
        const void *base = p == clique->proc ? own.base : clique->arenas[p]->base;
        clique->bases[s] = (uintptr_t)base;
    }
    for (uint16_t e = 0; e < clique->nlocal_execs; e++)
        for (size_t c = 0; c < CCL_NCHANNELS; c++)
            clique->execs[e].meets[c].shared_bytes = own.bytes;
}

static int all_reach(const struct ccl_clique *clique)
{
    for (uint16_t p = 0; p < clique->topo->nprocs; p++)
        if (!__atomic_load_n(&clique->reaches[p], __ATOMIC_ACQUIRE)) return 0;
    return 1;
}

void ccl_reach_settle(struct ccl_clique *clique)
{
    if (ccl_clique_is_whole(clique)) return;
    pthread_mutex_lock(&clique->lock);
    if (!clique->shares && all_reach(clique)) {
        find_bases(clique);
        for (uint16_t e = 0; e < clique->nlocal_execs; e++)
            clique->execs[e].view.mapped = CCL_MAPPED_SHARED;
        clique->shares = 1;
    }
    pthread_mutex_unlock(&clique->lock);
}

struct ccl_peer_arena ccl_reach_home(const struct ccl_clique *clique, uint16_t proc)
{
    if (!clique->shares) return (struct ccl_peer_arena){NULL, 0};
    return proc == clique->proc ? own_arena() : *clique->arenas[proc];
}

void ccl_reach_close(struct ccl_clique *clique)
{
    for (uint16_t p = 0; clique->arenas != NULL && p < clique->topo->nprocs; p++)
        ccl_arena_unmap(clique->arenas[p]);
    ccl_free(clique->arenas);
    ccl_free(clique->bases);
    ccl_free(clique->tables);
    ccl_free(clique->own_meeting);
}
