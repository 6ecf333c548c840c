/* lead.c: what the processes of an executor share: making it, mapping it, giving it up. */
#include "core/lead_impl.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/log.h"

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

/* Words come first, in whole pages. */
struct layout {
    size_t sent_at, graphs_at, graph_letters_at, signals_at, words_bytes, posts_at, ranks_at,
        letters_at, bytes;
};

static struct layout lay_out(const struct ccl_topo *topo, uint16_t e, uint16_t nprocs)
{
    size_t nlocal = (size_t)(topo->first_slot[e + 1] - topo->first_slot[e]);
    size_t nletters = nlocal * nlocal * CCL_MAIL_DEPTH;
    size_t nlines = (size_t)ccl_lead_nrows(nprocs) * CCL_LEAD_DEPTH;
    struct layout lay = {.sent_at = nlines * CCL_LEAD_LINE_BYTES};
    lay.graphs_at = lay.sent_at + 2 * nletters * sizeof(uint32_t);
    lay.graph_letters_at = lay.graphs_at + 2u * nprocs * CCL_LEAD_GRAPHS * sizeof(uint32_t);
    lay.signals_at =
        lay.graph_letters_at + 2 * nlocal * nlocal * CCL_LEAD_GRAPH_MAILS * sizeof(uint32_t);
    lay.words_bytes = align(lay.signals_at + nlocal * nlocal * sizeof(uint32_t), PAGE_BYTES);
    lay.posts_at = lay.words_bytes;
    lay.ranks_at = align(lay.posts_at + nprocs * CCL_LEAD_DEPTH * sizeof(struct ccl_lead_post),
                         CCL_LEAD_LINE_BYTES);
    lay.letters_at = align(lay.ranks_at + nlocal * CCL_LEAD_DEPTH * sizeof(struct ccl_lead_rank),
                           CCL_LEAD_LINE_BYTES);
    lay.bytes = align(lay.letters_at + nletters * sizeof(struct ccl_mail_post), PAGE_BYTES);
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
    lead->nprocs = nprocs;
    TRY(CCL_NEW(&lead->procs, nprocs));
    memcpy(lead->procs, procs, nprocs * sizeof *procs);
    while (lead->procs[lead->self] != exec->clique->proc) lead->self++;
    lead->is_leader = lead->self == 0;
    TRY(CCL_NEW(&lead->sockets, nprocs));
    for (uint16_t q = 0; q < nprocs; q++) lead->sockets[q] = -1;
    TRY(CCL_NEW(&lead->importers, nprocs));
    TRY(CCL_NEW(&lead->exporters, nprocs));
    TRY(CCL_NEW(&lead->slots, exec->nlocal));
    TRY(CCL_NEW(&lead->copies, (size_t)exec->nhere * CCL_LEAD_PINS));
    size_t npairs = (size_t)exec->nlocal * exec->nlocal;
    TRY(CCL_NEW(&lead->counts, npairs));
    TRY(CCL_NEW(&lead->graph_counts, npairs));
    TRY(CCL_NEW(&lead->mail_pins, npairs * CCL_MAIL_DEPTH));
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
    if (bytes > 0) rc = ccl_shm_map(fd, bytes, &clique->lead_memory->segments[proc]);
    ccl_free(procs);
    return rc;
}

static ncclResult_t place_area(struct ccl_lead *lead, uint16_t *procs)
{
    const struct ccl_exec *exec = lead->exec;
    const struct ccl_topo *topo = exec->clique->topo;
    struct layout lay = lay_out(topo, exec->index, lead->nprocs);
    size_t at = areas_bytes(topo, procs, lead->procs[0], exec->index);
    struct ccl_lead_memory *memory = exec->clique->lead_memory;
    char *base = (char *)memory->segments[lead->procs[0]].base + at;
    void *mapped;
    lead->words = base;
    lead->words_bytes = lay.words_bytes;
    lead->posts = (struct ccl_lead_post *)(void *)(base + lay.posts_at);
    lead->ranks = (struct ccl_lead_rank *)(void *)(base + lay.ranks_at);
    lead->sent = (uint32_t *)(void *)(base + lay.sent_at);
    lead->taken = lead->sent + (size_t)exec->nlocal * exec->nlocal * CCL_MAIL_DEPTH;
    lead->graph_words = (uint32_t *)(void *)(base + lay.graphs_at);
    lead->graph_letters = (uint32_t *)(void *)(base + lay.graph_letters_at);
    lead->letters = (struct ccl_mail_post *)(void *)(base + lay.letters_at);
    /* All ranks are on this GPU: it alone writes the counts of signals. */
    if (topo->nexecs == 1) exec->clique->signals = (uint32_t *)(void *)(base + lay.signals_at);
    TRY(ccl_device()->words_map(base, lay.words_bytes, &mapped));
    memory->words[memory->nwords++] = base;
    return ncclSuccess;
}

/* A pair of sockets for each process with a higher number; *given keeps the ends that go there. */
static ncclResult_t open_sockets(struct ccl_lead *lead, int *given)
{
    for (uint16_t q = 0; q < lead->nprocs; q++) {
        int ends[2];
        if (lead->procs[q] <= lead->exec->clique->proc) continue;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
            return ccl_err(ncclSystemError, "socketpair: %s", strerror(errno));
        lead->sockets[q] = ends[0];
        given[lead->procs[q]] = ends[1];
    }
    return ncclSuccess;
}

/* Each process tells the others of its buffers over one end and hears of theirs. */
static ncclResult_t use_sockets(struct ccl_lead *lead, int *taken)
{
    const struct ccl_foreign_ops *foreign = ccl_device()->foreign;
    for (uint16_t q = 0; q < lead->nprocs; q++) {
        uint16_t proc = lead->procs[q];
        if (proc == lead->exec->clique->proc) continue;
        if (proc < lead->exec->clique->proc) {
            lead->sockets[q] = taken[proc];
            taken[proc] = -1;
        }
        TRY(foreign->export_open(lead->sockets[q], &lead->exporters[q]));
        TRY(foreign->import_open(lead->sockets[q], &lead->importers[q]));
    }
    return ncclSuccess;
}

/* All processes swap, one without a part gives what it has. NULL: this one has none. */
static ncclResult_t swap_sockets(struct ccl_clique *clique, struct ccl_lead *lead, int *given,
                                 int *taken)
{
    uint16_t nprocs = clique->topo->nprocs;
    int filler = ccl_bell_self_fd();
    ncclResult_t rc = ncclSuccess;
    for (uint16_t p = 0; p < nprocs; p++) given[p] = filler;
    if (lead != NULL) rc = open_sockets(lead, given);
    if (rc == ncclSuccess) rc = ccl_mesh_swap_fds(clique->mesh, given, taken);
    if (rc == ncclSuccess && lead != NULL) rc = use_sockets(lead, taken);
    for (uint16_t p = 0; p < nprocs; p++) {
        if (given[p] != filler) close(given[p]);
        if (taken[p] >= 0) close(taken[p]);
    }
    return rc;
}

static struct ccl_lead *find_lead(struct ccl_clique *clique, uint16_t e)
{
    for (uint16_t i = 0; i < clique->nlocal_execs; i++)
        if (clique->execs[i].index == e) return clique->execs[i].lead;
    return NULL;
}

static ncclResult_t swap_all_sockets(struct ccl_clique *clique, uint16_t *procs)
{
    int *given, *taken;
    uint16_t nprocs = clique->topo->nprocs;
    TRY(CCL_NEW(&given, 2 * (size_t)nprocs));
    taken = given + nprocs;
    ncclResult_t rc = ncclSuccess;
    for (uint16_t e = 0; rc == ncclSuccess && e < clique->topo->nexecs; e++) {
        if (list_procs(clique->topo, e, procs) < 2) continue;
        for (uint16_t p = 0; p < nprocs; p++) taken[p] = -1;
        rc = swap_sockets(clique, find_lead(clique, e), given, taken);
    }
    ccl_free(given);
    return rc;
}

static ncclResult_t start_thread(struct ccl_lead *lead)
{
    TRY(ccl_device()->flags_alloc((void **)&lead->arrived, CCL_LEAD_DEPTH * CCL_LEAD_LINE_BYTES));
    TRY(ccl_device()->base.stream_create(&lead->stream));
    pthread_cond_init(&lead->wake, NULL);
    int error = pthread_create(&lead->thread, NULL, ccl_lead_thread, lead);
    if (error != 0) return ccl_err(ncclSystemError, "pthread_create: %s", strerror(error));
    lead->has_thread = 1;
    CCL_INFO(CCL_LOG_PROXY,
             "executor %u: a thread launches what the processes of ranks are late for",
             lead->exec->index);
    return ncclSuccess;
}

static ncclResult_t make_memory(struct ccl_clique *clique)
{
    struct ccl_lead_memory *memory;
    TRY(CCL_NEW(&memory, 1));
    clique->lead_memory = memory;
    TRY(CCL_NEW(&memory->words, clique->nlocal_execs));
    TRY(CCL_NEW(&memory->segments, clique->topo->nprocs));
    memory->nsegments = clique->topo->nprocs;
    for (uint16_t p = 0; p < memory->nsegments; p++) memory->segments[p] = CCL_SHM_NONE;
    return ncclSuccess;
}

static ncclResult_t connect_leads(struct ccl_clique *clique, uint16_t *procs)
{
    const struct ccl_topo *topo = clique->topo;
    TRY(make_leads(clique, procs));
    TRY(make_memory(clique));
    size_t bytes = areas_bytes(topo, procs, clique->proc, topo->nexecs);
    struct ccl_shm *own = &clique->lead_memory->segments[clique->proc];
    TRY(ccl_shm_create(bytes > 0 ? bytes : PAGE_BYTES, own));
    TRY(ccl_clique_swap(clique, own->fd, take_segment));
    ccl_shm_close_fd(own);
    TRY(swap_all_sockets(clique, procs));
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
    uint32_t nwords = (uint32_t)ccl_lead_nrows(lead->nprocs) * CCL_LEAD_DEPTH;
    uint32_t far = (uint32_t)__atomic_load_n(&lead->latest, __ATOMIC_RELAXED) + (1u << 30);
    for (uint32_t i = 0; i < nwords; i++) {
        uint32_t *word = ccl_lead_word(lead, (uint16_t)(i / CCL_LEAD_DEPTH), i % CCL_LEAD_DEPTH);
        __atomic_store_n(word, far, __ATOMIC_RELEASE);
    }
    size_t npairs = (size_t)exec->nlocal * exec->nlocal;
    for (size_t i = 0; i < 2 * npairs * CCL_MAIL_DEPTH; i++) {
        uint64_t *counted = &lead->counts[i / CCL_MAIL_DEPTH % npairs];
        uint64_t count = __atomic_load_n(counted, __ATOMIC_RELAXED);
        __atomic_store_n(&lead->sent[i], (uint32_t)count + (1u << 30), __ATOMIC_RELEASE);
    }
    /* A graph takes its words back: the thread comes here again and again. */
    for (size_t i = 0; i < 2u * lead->nprocs * CCL_LEAD_GRAPHS; i++)
        __atomic_store_n(&lead->graph_words[i], 1, __ATOMIC_RELEASE);
    for (size_t i = 0; i < 2 * npairs * CCL_LEAD_GRAPH_MAILS; i++)
        __atomic_store_n(&lead->graph_letters[i], 1, __ATOMIC_RELEASE);
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
    size_t nletters = (size_t)exec->nlocal * exec->nlocal * CCL_MAIL_DEPTH;
    for (size_t i = 0; lead->mail_pins != NULL && i < nletters; i++)
        ccl_device()->foreign->import_unpin(lead->mail_pins[i]);
    for (uint16_t q = 0; lead->exporters != NULL && q < lead->nprocs; q++) {
        ccl_device()->foreign->import_close(lead->importers[q]);
        ccl_device()->foreign->export_close(lead->exporters[q]);
    }
    if (lead->words != NULL) ccl_await_forget(lead->words, lead->words_bytes);
    ccl_device()->flags_free(lead->arrived);
    if (lead->stream != NULL) ccl_device()->base.stream_destroy(lead->stream);
    for (uint16_t q = 0; lead->sockets != NULL && q < lead->nprocs; q++)
        if (lead->sockets[q] >= 0) close(lead->sockets[q]);
    ccl_free(lead->sockets);
    ccl_free(lead->importers);
    ccl_free(lead->exporters);
    for (size_t i = 0; i < lead->nkept; i++) ccl_device()->foreign->import_unpin(lead->kept[i]);
    ccl_free(lead->kept);
    ccl_lead_stage_close(lead);
    ccl_free(lead->counts);
    ccl_free(lead->graph_counts);
    ccl_mail_close(lead);
    ccl_free(lead->mail_pins);
    ccl_free(lead->slots);
    ccl_free(lead->pins);
    ccl_free(lead->procs);
    ccl_free(lead);
    exec->lead = NULL;
}

static pthread_mutex_t retired_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ccl_lead_memory *retired;

static void free_memory(struct ccl_lead_memory *memory)
{
    for (uint16_t i = 0; i < memory->nwords; i++) ccl_device()->words_unmap(memory->words[i]);
    for (uint16_t p = 0; p < memory->nsegments; p++) ccl_shm_close(&memory->segments[p]);
    ccl_free(memory->segments);
    ccl_free(memory->words);
    ccl_free(memory);
}

void ccl_lead_clean(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&retired_lock);
    struct ccl_lead_memory *list = retired;
    retired = NULL;
    pthread_mutex_unlock(&retired_lock);
    while (list != NULL) {
        struct ccl_lead_memory *memory = list;
        list = memory->next;
        free_memory(memory);
    }
    ccl_device()->foreign->import_collect(NULL);
}

/* The device may wait for all its streams before it lets go of words, as of mappings: see tidy. */
void ccl_lead_retire(struct ccl_lead_memory *memory)
{
    if (memory == NULL) return;
    pthread_mutex_lock(&retired_lock);
    memory->next = retired;
    retired = memory;
    pthread_mutex_unlock(&retired_lock);
    ccl_clique_rest(ccl_lead_clean, NULL);
}
