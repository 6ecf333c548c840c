/* clique.c: making and freeing a clique, its connections, and its one failure. */
#include "core/clique.h"

#include "algo/cost.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/log.h"
#include "base/param.h"
#include "core/agree.h"
#include "core/far.h"
#include "core/launch.h"
#include "core/lead.h"
#include "core/messages.h"
#include "core/pairs.h"
#include "core/plan.h"
#include "core/reach.h"
#include "core/rma.h"
#include "core/schedule.h"
#include "core/set.h"
#include "core/zones.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ccl_clique *registry;

/* Release publishes the text; acquire in ccl_clique_error reads it. */
ncclResult_t ccl_clique_fail(struct ccl_clique *clique, ncclResult_t code, int tell,
                             const char *format, ...)
{
    char text[sizeof clique->error_text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);

    pthread_mutex_lock(&registry_lock);
    int is_first = atomic_load_explicit(&clique->error, memory_order_relaxed) == ncclSuccess;
    /* Programs may be of a header without this code (core/jobs.c). */
    if (code == ncclTimeout) code = ncclRemoteError;
    if (is_first) {
        memcpy(clique->error_text, text, sizeof text);
        atomic_store_explicit(&clique->error, (int)code, memory_order_release);
        /* Before another rank can know: it may revoke, and begin a call that clears its word. */
        for (uint16_t r = 0; r < clique->topo->nranks; r++) atomic_store(&clique->halts[r], 1);
    }
    pthread_mutex_unlock(&registry_lock);
    if (!is_first) return ccl_clique_error(clique);

    ccl_err(code, "%s", text);
    /* Release pairs with the kernels' acquire: they end and whoever waits for them goes on. */
    __atomic_store_n(&clique->words->abort, 1, __ATOMIC_RELEASE);
    for (uint16_t e = 0; e < clique->nlocal_execs; e++) ccl_lead_release(&clique->execs[e]);
    ccl_bell_ring(ccl_bell_self());
    if (tell && clique->mesh != NULL) ccl_mesh_tell(clique->mesh, code, text);
    return code;
}

ncclResult_t ccl_clique_error(struct ccl_clique *clique)
{
    if (clique == NULL) return ncclSuccess;
    return (ncclResult_t)atomic_load_explicit(&clique->error, memory_order_acquire);
}

struct ccl_exec *ccl_clique_exec(struct ccl_clique *clique, int rank)
{
    for (uint16_t e = 0; e < clique->nlocal_execs; e++)
        if (clique->execs[e].index == clique->topo->exec_of[rank]) return &clique->execs[e];
    return NULL;
}

/* ---- making ---- */

void ccl_exec_lock(struct ccl_exec *exec)
{
    enum { SPINS = 64, YIELDS = 16 };
    for (int i = 0; i < SPINS + YIELDS; i++) {
        if (pthread_mutex_trylock(&exec->lock) == 0) return;
        if (i >= SPINS) sched_yield();
    }
    pthread_mutex_lock(&exec->lock);
}

/* Which of the executor's ranks this process has. */
static ncclResult_t find_members(struct ccl_exec *exec)
{
    const struct ccl_topo *topo = exec->clique->topo;
    TRY(CCL_NEW(&exec->member_of, exec->nlocal));
    for (uint16_t i = 0; i < exec->nlocal; i++) {
        int is_here = topo->proc_of[topo->rank_of[exec->first_slot + i]] == exec->clique->proc;
        exec->member_of[i] = is_here ? exec->nhere++ : CCL_ELSEWHERE;
    }
    return ncclSuccess;
}

static ncclResult_t make_exec(struct ccl_clique *clique, uint16_t e)
{
    const struct ccl_topo *topo = clique->topo;
    struct ccl_exec *exec = &clique->execs[clique->nlocal_execs];
    exec->clique = clique;
    exec->index = e;
    exec->first_slot = topo->first_slot[e];
    exec->nlocal = (uint16_t)(topo->first_slot[e + 1] - topo->first_slot[e]);
    TRY(find_members(exec));
    if (exec->nhere == 0) {
        ccl_free(exec->member_of);
        return ncclSuccess;
    }
    clique->nlocal_execs++;
    pthread_mutex_init(&exec->lock, NULL);
    TRY(ccl_device()->words_alloc((void **)&exec->words, sizeof *exec->words));
    exec->view = (struct ccl_view){
        .nranks = topo->nranks,
        .nexecs = topo->nexecs,
        .self = e,
        .first_slot = topo->first_slot,
        .rank_of = topo->rank_of,
        .slot_of = topo->slot_of,
        .mapped = ccl_clique_maps_all(clique) ? CCL_MAPPED_ALL : CCL_MAPPED_NONE,
    };
    if (exec->nlocal > CCL_MAX_LOCAL)
        return ccl_err(ncclInvalidUsage, "%u ranks share device %d; at most %d may", exec->nlocal,
                       topo->peers[topo->rank_of[exec->first_slot]].device, CCL_MAX_LOCAL);
    return CCL_NEW(&exec->queues, (size_t)exec->nlocal * exec->nlocal);
}

static ncclResult_t make_execs(struct ccl_clique *clique)
{
    const struct ccl_topo *topo = clique->topo;
    TRY(CCL_NEW(&clique->execs, topo->nexecs));
    for (uint16_t e = 0; e < topo->nexecs; e++) TRY(make_exec(clique, e));
    return ccl_clique_is_whole(clique) ? ccl_reach_meet(clique, NULL) : ncclSuccess;
}

void ccl_clique_set_board(struct ccl_clique *clique, uint16_t e, struct ccl_board *board)
{
    int is_led_here = clique->topo->proc_of_exec[e] == clique->proc;
    clique->boards[e] = board;
    for (uint16_t i = 0; i < clique->nlocal_execs; i++)
        if (clique->execs[i].index == e)
            clique->execs[i].board = is_led_here ? board : &clique->own_boards[e];
}

/* Boards are shared memory where several processes take part (ccl_clique_connect). */
static ncclResult_t make_boards(struct ccl_clique *clique)
{
    uint16_t nexecs = clique->topo->nexecs;
    TRY(CCL_NEW(&clique->boards, nexecs));
    TRY(CCL_NEW(&clique->own_boards, nexecs));
    if (!ccl_clique_is_whole(clique)) return ncclSuccess;
    for (uint16_t e = 0; e < nexecs; e++) ccl_clique_set_board(clique, e, &clique->own_boards[e]);
    return ncclSuccess;
}

/* Where the second ring of a FIFO starts. */
static size_t ll_ring_at(const struct ccl_clique *clique)
{
    return CCL_FIFO_RING_AT + (size_t)clique->depth * clique->slot_bytes;
}

static struct ccl_places places_of(const struct ccl_clique *clique)
{
    const struct ccl_topo *topo = clique->topo;
    return (struct ccl_places){
        .nranks = topo->nranks,
        .nexecs = topo->nexecs,
        .nprocs = topo->nprocs,
        .self = clique->proc,
        .nchannels = clique->nchannels,
        .proc_of_exec = topo->proc_of_exec,
        .proc_of = topo->proc_of,
        .flags_bytes = sizeof(struct ccl_fifo),
        .fifo_bytes = ll_ring_at(clique) + CCL_LL_DEPTH * CCL_LL_STRIDE(CCL_LL_SLOT_BYTES),
        .common_bytes = ccl_reach_bytes(topo),
        .board_bytes = sizeof(struct ccl_board),
    };
}

static void free_clique(struct ccl_clique *clique)
{
    if (clique == NULL) return;
    ccl_mesh_close(clique->mesh);
    ccl_letters_close(&clique->letters);
    ccl_zones_close(clique);
    for (uint16_t e = 0; e < clique->nlocal_execs; e++) {
        ccl_lead_close(&clique->execs[e]);
        ccl_free(clique->execs[e].member_of);
        ccl_sets_free(&clique->execs[e].collectives);
        ccl_messages_free(&clique->execs[e]);
        ccl_pairs_free(&clique->execs[e]);
        ccl_launch_free(&clique->execs[e]);
        ccl_plan_free(&clique->execs[e]);
        ccl_track_free(&clique->execs[e].track);
        ccl_gated_free(&clique->execs[e].gated);
        ccl_far_free(&clique->execs[e]);
        ccl_rma_free(&clique->execs[e]);
        ccl_chain_free(&clique->execs[e].chain);
        ccl_device()->words_free(clique->execs[e].words);
        ccl_free(clique->execs[e].holds);
        pthread_mutex_destroy(&clique->execs[e].lock);
    }
    ccl_reach_close(clique);
    for (int t = 0; t < CCL_NTRANSPORTS; t++) ccl_transports[t]->close(clique->transports[t]);
    for (uint16_t p = 0; clique->bells != NULL && p < clique->topo->nprocs; p++)
        if (p != clique->proc) ccl_bell_unmap(clique->bells[p]);
    ccl_lead_retire(clique->lead_memory);
    ccl_rma_close(clique);
    ccl_device()->words_free(clique->words);
    ccl_free(clique->bells);
    ccl_free(clique->boards);
    ccl_free(clique->own_boards);
    ccl_free(clique->left);
    ccl_free(clique->halts);
    ccl_free(clique->execs);
    ccl_program_free(clique->programs);
    ccl_topo_free(clique->topo);
    pthread_mutex_destroy(&clique->lock);
    ccl_free(clique);
}

/* All ranks must use the same channels: the tightest configuration holds. */
static uint16_t fewest_channels(const struct ccl_peer *peers, int nranks)
{
    int fewest = UINT16_MAX;
    for (int r = 0; r < nranks; r++)
        if (peers[r].max_channels < fewest) fewest = peers[r].max_channels;
    return fewest < 1 ? 1 : (uint16_t)fewest;
}

/* What the rank that asks for most channels gets, as far as all allow it. */
static uint16_t asked_channels(const struct ccl_peer *peers, int nranks, uint16_t allowed)
{
    int asked = 1;
    for (int r = 0; r < nranks; r++)
        if (peers[r].min_channels > asked) asked = peers[r].min_channels;
    return asked < allowed ? (uint16_t)asked : allowed;
}

/* All ranks must refuse the same. */
static int least_capability(const struct ccl_peer *peers, int nranks)
{
    int least = peers[0].capability;
    for (int r = 1; r < nranks; r++)
        if (peers[r].capability < least) least = peers[r].capability;
    return least;
}

uint16_t ccl_clique_channels(const struct ccl_clique *clique, uint16_t usual, uint16_t most)
{
    uint16_t n = (uint16_t)ccl_param_int(CCL_PARAM_CHANNELS);
    if (n == 0) n = usual > clique->min_channels ? usual : clique->min_channels;
    if (n > most) n = most;
    return n < clique->max_channels ? n : clique->max_channels;
}

uint32_t ccl_clique_slot_bytes(void)
{
    int64_t asked = ccl_param_int(CCL_PARAM_SLOT_BYTES), least = 1024, most = 16777216;
    int64_t fifo = ccl_param_int(CCL_PARAM_BUFFSIZE);
    if (fifo > 0) asked = fifo / ccl_param_int(CCL_PARAM_SLOT_DEPTH);
    if (asked < least) asked = least;
    return (uint32_t)((asked < most ? asked : most) / 64 * 64);
}

static ncclResult_t make_clique(const struct ccl_peer *peers, int nranks, int rank,
                                struct ccl_clique **out)
{
    ncclResult_t rc;
    struct ccl_clique *clique;
    TRY(CCL_NEW(&clique, 1));
    pthread_mutex_init(&clique->lock, NULL);
    TRY_GOTO(rc, ccl_device()->words_alloc((void **)&clique->words, sizeof *clique->words), fail);
    TRY_GOTO(rc, ccl_topo_build(peers, nranks, &clique->topo), fail);
    const struct ccl_topo *topo = clique->topo;
    size_t nprocs = topo->nprocs;
    TRY_GOTO(rc, ccl_letters_open(&clique->letters, nprocs, topo->nranks), fail);
    clique->proc = topo->proc_of[rank];
    clique->slot_bytes = ccl_clique_slot_bytes();
    clique->depth = (uint16_t)ccl_param_int(CCL_PARAM_SLOT_DEPTH);
    clique->max_channels = fewest_channels(peers, nranks);
    clique->min_channels = asked_channels(peers, nranks, clique->max_channels);
    clique->capability = least_capability(peers, nranks);
    clique->nchannels =
        ccl_clique_channels(clique, 1, CCL_NCHANNELS); /* GPUs agree on theirs later */
    const char *algo = ccl_param_text(CCL_PARAM_ALGO), *proto = ccl_param_text(CCL_PARAM_PROTO);
    TRY_GOTO(rc, ccl_choice_parse(algo, proto, &clique->choice), fail);
    TRY_GOTO(rc, ccl_schedule_load(clique), fail);
    TRY_GOTO(rc, CCL_NEW(&clique->left, nprocs), fail);
    TRY_GOTO(rc, ccl_alloc((void **)&clique->halts, topo->nranks, sizeof *clique->halts), fail);
    TRY_GOTO(rc, CCL_NEW(&clique->bells, nprocs), fail);
    clique->bells[clique->proc] = ccl_bell_self();
    TRY_GOTO(rc, make_execs(clique), fail);
    TRY_GOTO(rc, make_boards(clique), fail);
    TRY_GOTO(rc, ccl_rma_open(clique), fail);
    clique->possible = ccl_plan_possible(&clique->execs[0]);
    struct ccl_places places = places_of(clique);
    for (int t = 0; t < CCL_NTRANSPORTS; t++)
        if (nprocs > 1 || ccl_transports[t] == &ccl_transport_p2p)
            TRY_GOTO(rc, ccl_transports[t]->open(&places, &clique->transports[t]), fail);
    *out = clique;
    return ncclSuccess;
fail:
    free_clique(clique);
    return rc;
}

/* Locks an executor that has nothing under way. */
static int lock_idle(struct ccl_exec *exec)
{
    if (pthread_mutex_trylock(&exec->lock) != 0) return 0;
    if (ccl_track_is_idle(&exec->track, CCL_TRACK_ALL)) return 1;
    pthread_mutex_unlock(&exec->lock);
    return 0;
}

void ccl_clique_rest(void (*work)(void *), void *argument)
{
    uint32_t nlocked = 0;
    int is_idle = 1;
    pthread_mutex_lock(&registry_lock);
    for (struct ccl_clique *clique = registry; clique != NULL; clique = clique->next)
        for (uint16_t e = 0; is_idle && e < clique->nlocal_execs; e++) {
            is_idle = lock_idle(&clique->execs[e]);
            nlocked += (uint32_t)is_idle;
        }
    if (is_idle) work(argument);
    for (struct ccl_clique *clique = registry; clique != NULL; clique = clique->next)
        for (uint16_t e = 0; nlocked > 0 && e < clique->nlocal_execs; e++, nlocked--)
            pthread_mutex_unlock(&clique->execs[e].lock);
    pthread_mutex_unlock(&registry_lock);
}

ncclResult_t ccl_clique_attach(const uint8_t key[16], const struct ccl_peer *peers, int nranks,
                               int rank, struct ccl_clique **out)
{
    ncclResult_t rc = ncclSuccess;
    pthread_mutex_lock(&registry_lock);
    struct ccl_clique *clique = registry;
    while (clique != NULL && memcmp(clique->key, key, sizeof clique->key) != 0)
        clique = clique->next;
    if (clique == NULL) {
        rc = make_clique(peers, nranks, rank, &clique);
        if (rc == ncclSuccess) {
            memcpy(clique->key, key, sizeof clique->key);
            clique->next = registry;
            registry = clique;
        }
    }
    if (rc == ncclSuccess) clique->refs++;
    pthread_mutex_unlock(&registry_lock);
    *out = clique;
    return rc;
}

void ccl_clique_detach(struct ccl_clique *clique)
{
    if (clique == NULL) return;
    pthread_mutex_lock(&registry_lock);
    int is_last = --clique->refs == 0;
    if (is_last) {
        struct ccl_clique **link = &registry;
        while (*link != clique) link = &(*link)->next;
        *link = clique->next;
    }
    pthread_mutex_unlock(&registry_lock);
    if (is_last) free_clique(clique);
}

/* ---- connections ---- */

/* Inside a process all memory is in reach, and what does not fit the line is fetched. */
static void set_home(const struct ccl_clique *clique, struct ccl_conn *conn, int same_process,
                     uint16_t sender)
{
    struct ccl_peer_arena home = ccl_reach_home(clique, sender);
    conn->home = same_process ? NULL : home.base;
    conn->home_bytes = same_process ? UINTPTR_MAX : home.bytes;
    conn->place_from = same_process ? sizeof conn->fifo->lines[0].data + 1 : CCL_PLACE_FROM_BYTES;
}

ncclResult_t ccl_clique_conn(struct ccl_clique *clique, const struct ccl_fifo_id *id,
                             enum ccl_proto proto, int is_send, struct ccl_conn **out)
{
    const struct ccl_topo *topo = clique->topo;
    uint16_t peer = is_send ? id->receiver : id->sender;
    uint16_t proc = id->of_ranks ? topo->proc_of[peer] : topo->proc_of_exec[peer];
    int same_process = proc == clique->proc, t = 0;
    while (!ccl_transports[t]->reach(same_process, 1)) t++;
    void *memory;
    TRY(ccl_transports[t]->fifo(clique->transports[t], id, &memory));
    struct ccl_conn *conn;
    size_t scratch_bytes = proto == CCL_PROTO_LL ? CCL_LL_SLOT_BYTES : 0;
    TRY(ccl_alloc((void **)&conn, 1, sizeof *conn + scratch_bytes));
    conn->fifo = memory;
    if (proto == CCL_PROTO_LL) {
        conn->ring = (char *)memory + ll_ring_at(clique);
        conn->scratch = (char *)(conn + 1);
        conn->slot_bytes = CCL_LL_SLOT_BYTES;
        conn->depth = CCL_LL_DEPTH;
    } else {
        conn->ring = (char *)memory + CCL_FIFO_RING_AT;
        conn->slot_bytes = clique->slot_bytes;
        conn->depth = clique->depth;
    }
    conn->peer = peer;
    conn->bell = clique->bells[proc];
    if (id->of_ranks) set_home(clique, conn, same_process, is_send ? clique->proc : proc);
    CCL_INFO(same_process ? CCL_LOG_P2P : CCL_LOG_SHM,
             "%s %u to %s %u, channel %u, %s: the %s's end, by %s",
             id->of_ranks ? "rank" : "executor", id->sender, id->of_ranks ? "rank" : "executor",
             id->receiver, id->channel, ccl_proto_name(proto), is_send ? "sender" : "receiver",
             ccl_transports[t]->name);
    *out = conn;
    return ncclSuccess;
}
