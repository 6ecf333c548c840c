/* lead.c: what the processes of an executor share: making it, mapping it, giving it up. */
#include "core/lead_impl.h"

#include "base/alloc.h"
#include "base/err.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096 };

static size_t align(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

/* ---- who takes part ---- */

/* Fills the processes of an executor in the order of their lowest ranks; returns how many. */
static uint16_t list_procs(const struct ccl_topo *topo, uint16_t e, uint16_t *procs)
{
    uint16_t n = 0;
    for (uint16_t s = topo->first_slot[e]; s < topo->first_slot[e + 1]; s++) {
        uint16_t proc = topo->proc_of[topo->rank_of[s]], q = 0;
        while (q < n && procs[q] != proc) q++;
        if (q == n) procs[n++] = proc;
    }
    return n;
}

struct layout {
    size_t words_bytes, posts_at, ranks_at, bytes;
};

static struct layout lay_out(const struct ccl_topo *topo, uint16_t e, uint16_t nprocs)
{
    size_t nlocal = (size_t)(topo->first_slot[e + 1] - topo->first_slot[e]);
    struct layout lay = {
        .words_bytes = align((nprocs + 1u) * CCL_LEAD_DEPTH * CCL_LEAD_LINE_BYTES, PAGE_BYTES)};
    lay.posts_at = lay.words_bytes;
    lay.ranks_at = align(lay.posts_at + nprocs * CCL_LEAD_DEPTH * sizeof(struct ccl_lead_post),
                         CCL_LEAD_LINE_BYTES);
    lay.bytes =
        align(lay.ranks_at + nlocal * CCL_LEAD_DEPTH * sizeof(struct ccl_lead_rank), PAGE_BYTES);
    return lay;
}

/* Bytes of the segment of process `proc`: the areas of the executors below `end` that it leads. */
static size_t areas_bytes(const struct ccl_topo *topo, uint16_t *procs, uint16_t proc, uint16_t end)
{
    size_t bytes = 0;
    for (uint16_t e = 0; e < end; e++) {
        uint16_t n = list_procs(topo, e, procs);
        if (n > 1 && procs[0] == proc) bytes += lay_out(topo, e, n).bytes;
    }
    return bytes;
}

/* ---- making ---- */

/* All but the shared memory. */
static ncclResult_t make_lead(struct ccl_exec *exec, const uint16_t *procs, uint16_t nprocs)
{
    struct ccl_lead *lead;
    TRY(CCL_NEW(&lead, 1));
    exec->lead = lead;
    lead->exec = exec;
    lead->socket = -1;
    lead->nprocs = nprocs;
    TRY(CCL_NEW(&lead->procs, nprocs));
    memcpy(lead->procs, procs, nprocs * sizeof *procs);
    while (lead->procs[lead->self] != exec->clique->proc) lead->self++;
    lead->is_leader = lead->self == 0;
    TRY(CCL_NEW(&lead->sockets, nprocs));
    for (uint16_t q = 0; q < nprocs; q++) lead->sockets[q] = -1;
    TRY(CCL_NEW(&lead->importers, nprocs));
    TRY(CCL_NEW(&lead->slots, exec->nlocal));
    return CCL_NEW(&lead->pins, (size_t)CCL_LEAD_DEPTH * exec->nlocal * CCL_LEAD_PINS);
}

/* Any process's executors that are in several processes. */
static int any_leads(const struct ccl_topo *topo, uint16_t *procs)
{
    for (uint16_t e = 0; e < topo->nexecs; e++)
        if (list_procs(topo, e, procs) > 1) return 1;
    return 0;
}

static ncclResult_t make_leads(struct ccl_clique *clique, uint16_t *procs)
{
    for (uint16_t i = 0; i < clique->nlocal_execs; i++) {
        uint16_t n = list_procs(clique->topo, clique->execs[i].index, procs);
        if (n > 1) TRY(make_lead(&clique->execs[i], procs, n));
    }
    return ncclSuccess;
}

static ncclResult_t take_segment(struct ccl_clique *clique, int proc, int fd)
{
    const struct ccl_topo *topo = clique->topo;
    uint16_t *procs;
    TRY(CCL_NEW(&procs, topo->nprocs));
    size_t bytes = areas_bytes(topo, procs, (uint16_t)proc, topo->nexecs);
    ncclResult_t rc = ncclSuccess;
    if (bytes > 0) rc = ccl_shm_map(fd, bytes, &clique->lead_segments[proc]);
    ccl_free(procs);
    return rc;
}

static ncclResult_t place_area(struct ccl_lead *lead, uint16_t *procs)
{
    const struct ccl_exec *exec = lead->exec;
    const struct ccl_topo *topo = exec->clique->topo;
    struct layout lay = lay_out(topo, exec->index, lead->nprocs);
    size_t at = areas_bytes(topo, procs, lead->procs[0], exec->index);
    char *base = (char *)exec->clique->lead_segments[lead->procs[0]].base + at;
    lead->words = base;
    lead->posts = (struct ccl_lead_post *)(void *)(base + lay.posts_at);
    lead->ranks = (struct ccl_lead_rank *)(void *)(base + lay.ranks_at);
    return ccl_device()->words_map(base, lay.words_bytes, &lead->registered);
}

/* A member's socket to its leader: one end goes to all processes, of which the leader keeps it. */
static ncclResult_t open_sockets(struct ccl_clique *clique, int ends[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0)
        return ncclSuccess;
    return ccl_err(ncclSystemError, "rank %d: socketpair: %s",
                   clique->topo->first_rank[clique->proc], strerror(errno));
}

static ncclResult_t take_socket(struct ccl_clique *clique, int proc, int fd)
{
    for (uint16_t i = 0; i < clique->nlocal_execs; i++) {
        struct ccl_lead *lead = clique->execs[i].lead;
        if (lead == NULL || !lead->is_leader) continue;
        uint16_t q = 0;
        while (q < lead->nprocs && lead->procs[q] != proc) q++;
        if (q == lead->nprocs) continue;
        lead->sockets[q] = dup(fd);
        if (lead->sockets[q] < 0)
            return ccl_err(ncclSystemError, "dup of a socket: %s", strerror(errno));
        TRY(ccl_device()->foreign->import_open(lead->sockets[q], &lead->importers[q]));
    }
    return ncclSuccess;
}

/* One exporter a process: it has ranks on one GPU that others lead, or sockets would have to be
 * told apart. */
static ncclResult_t keep_socket(struct ccl_clique *clique, int socket)
{
    for (uint16_t i = 0; i < clique->nlocal_execs; i++) {
        struct ccl_lead *lead = clique->execs[i].lead;
        if (lead == NULL || lead->is_leader) continue;
        lead->socket = dup(socket);
        if (lead->socket < 0)
            return ccl_err(ncclSystemError, "dup of a socket: %s", strerror(errno));
        TRY(ccl_device()->foreign->export_open(lead->socket, &lead->exporter));
    }
    return ncclSuccess;
}

static ncclResult_t swap_sockets(struct ccl_clique *clique)
{
    int ends[2];
    TRY(open_sockets(clique, ends));
    ncclResult_t rc = ccl_clique_swap(clique, ends[1], take_socket);
    if (rc == ncclSuccess) rc = keep_socket(clique, ends[0]);
    close(ends[0]);
    close(ends[1]);
    return rc;
}

static ncclResult_t start_thread(struct ccl_lead *lead)
{
    TRY(ccl_device()->base.stream_create(&lead->stream));
    pthread_cond_init(&lead->wake, NULL);
    int error = pthread_create(&lead->thread, NULL, ccl_lead_thread, lead);
    if (error != 0) return ccl_err(ncclSystemError, "pthread_create: %s", strerror(error));
    lead->has_thread = 1;
    return ncclSuccess;
}

static ncclResult_t connect_leads(struct ccl_clique *clique, uint16_t *procs)
{
    const struct ccl_topo *topo = clique->topo;
    TRY(make_leads(clique, procs));
    TRY(CCL_NEW(&clique->lead_segments, topo->nprocs));
    for (uint16_t p = 0; p < topo->nprocs; p++) clique->lead_segments[p] = CCL_SHM_NONE;
    size_t bytes = areas_bytes(topo, procs, clique->proc, topo->nexecs);
    struct ccl_shm *own = &clique->lead_segments[clique->proc];
    TRY(ccl_shm_create(bytes > 0 ? bytes : PAGE_BYTES, own));
    TRY(ccl_clique_swap(clique, own->fd, take_segment));
    ccl_shm_close_fd(own);
    TRY(swap_sockets(clique));
    for (uint16_t i = 0; i < clique->nlocal_execs; i++) {
        struct ccl_lead *lead = clique->execs[i].lead;
        if (lead == NULL) continue;
        TRY(place_area(lead, procs));
        TRY(start_thread(lead));
    }
    return ncclSuccess;
}

ncclResult_t ccl_lead_connect(struct ccl_clique *clique)
{
    uint16_t *procs;
    ncclResult_t rc = ncclSuccess;
    if (ccl_device()->foreign == NULL) return rc;
    TRY(CCL_NEW(&procs, clique->topo->nprocs));
    if (any_leads(clique->topo, procs)) rc = connect_leads(clique, procs);
    ccl_free(procs);
    return rc;
}

/* ---- the end ---- */

/* Far ahead of any number that a stream waits for, compared as CUDA does. */
void ccl_lead_release(struct ccl_exec *exec)
{
    const struct ccl_lead *lead = exec->lead;
    if (lead == NULL || lead->words == NULL) return;
    uint32_t nwords = (lead->nprocs + 1u) * CCL_LEAD_DEPTH;
    for (uint32_t i = 0; i < nwords; i++) {
        uint32_t *word = ccl_lead_word(lead, (uint16_t)(i / CCL_LEAD_DEPTH), i % CCL_LEAD_DEPTH);
        uint32_t far = (uint32_t)__atomic_load_n(&lead->latest, __ATOMIC_RELAXED) + (1u << 30);
        __atomic_store_n(word, far, __ATOMIC_RELEASE);
    }
}

static void stop_thread(struct ccl_lead *lead)
{
    if (!lead->has_thread) return;
    pthread_mutex_lock(&lead->exec->lock);
    lead->ends = 1;
    pthread_cond_signal(&lead->wake);
    pthread_mutex_unlock(&lead->exec->lock);
    pthread_join(lead->thread, NULL);
    pthread_cond_destroy(&lead->wake);
}

void ccl_lead_close(struct ccl_exec *exec)
{
    struct ccl_lead *lead = exec->lead;
    if (lead == NULL) return;
    stop_thread(lead);
    for (uint64_t i = 0; lead->pins != NULL && i < CCL_LEAD_DEPTH; i++) ccl_lead_unpin(lead, i);
    for (uint16_t q = 0; lead->importers != NULL && q < lead->nprocs; q++)
        ccl_device()->foreign->import_close(lead->importers[q]);
    ccl_device()->foreign->export_close(lead->exporter);
    if (lead->registered != NULL) ccl_device()->words_unmap(lead->words);
    if (lead->stream != NULL) ccl_device()->base.stream_destroy(lead->stream);
    for (uint16_t q = 0; lead->sockets != NULL && q < lead->nprocs; q++)
        if (lead->sockets[q] >= 0) close(lead->sockets[q]);
    if (lead->socket >= 0) close(lead->socket);
    ccl_free(lead->sockets);
    ccl_free(lead->importers);
    ccl_free(lead->slots);
    ccl_free(lead->pins);
    ccl_free(lead->procs);
    ccl_free(lead);
    exec->lead = NULL;
}
