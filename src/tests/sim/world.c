/* world.c: one simulated operation: schedules of all executors, FIFOs, buffers, and a random
 * scheduler that finds cyclic waits. Values are 64-bit hashes, so a sum shows each input once. */
#include "sim/world.h"

#include "base/alloc.h"
#include "base/doorbell.h"
#include "base/err.h"
#include "kernel/kernel.h"
#include "kernel/size.h"

#include <stdio.h>
#include <string.h>

enum { MAX_CHANNELS = 4, GUARD_ELEMS = 4 };

struct executor {
    struct ccl_view view;
    struct ccl_sched scheds[2]; /* by body */
    struct ccl_work work;
    struct ccl_conn **conns[2];
    uint64_t second;
    struct ccl_meet meets[MAX_CHANNELS];
    struct ccl_cursor cursors[MAX_CHANNELS];
    uint8_t lane_done[MAX_CHANNELS];
    int is_started, lanes_left;
};

struct buffer {
    uint64_t *base, *in, *out; /* base holds guards, then what in and out point into */
    uint64_t elems, in_elems, out_elems;
};

struct world {
    const struct sim_case *sim;
    uint16_t *rank_of, *slot_of, *first_slot;
    struct executor *execs;
    struct buffer *buffers;  /* [nranks] */
    struct ccl_fifo **fifos; /* [nexecs][nexecs][nchannels] */
    uint64_t *flags, *signs;
    struct ccl_slot *published, *tables;
    uintptr_t *bases; /* all 0: there is one process */
    struct ccl_bell *bell;
    uint32_t abort_word, error;
    uint64_t note, random;
};

static char broken[256];

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t next_random(struct world *w)
{
    w->random += 0x9e3779b97f4a7c15u;
    return mix(w->random);
}

static uint64_t input(const struct sim_case *sim, int rank, uint64_t elem)
{
    return mix(sim->seed ^ mix((uint64_t)rank << 40 ^ elem));
}

static uint64_t input_sum(const struct sim_case *sim, uint64_t elem)
{
    uint64_t sum = 0;
    for (int r = 0; r < sim->nranks; r++) sum += input(sim, r, elem);
    return sum;
}

/* ---- what each collective means, independent of the library ---- */

static uint64_t blocks_in(const struct sim_case *sim)
{
    int many = sim->coll == CCL_SCHED_REDUCE_SCATTER || sim->coll == CCL_SCHED_ALL_TO_ALL ||
               sim->coll == CCL_SCHED_SCATTER;
    return many ? (uint64_t)sim->nranks : 1;
}

static uint64_t blocks_out(const struct sim_case *sim)
{
    int many = sim->coll == CCL_SCHED_ALL_GATHER || sim->coll == CCL_SCHED_ALL_TO_ALL ||
               sim->coll == CCL_SCHED_GATHER;
    return many ? (uint64_t)sim->nranks : 1;
}

static int has_out(const struct sim_case *sim, int rank)
{
    int at_root = sim->coll == CCL_SCHED_REDUCE || sim->coll == CCL_SCHED_GATHER;
    return !at_root || rank == sim->root;
}

static int has_in(const struct sim_case *sim, int rank)
{
    int at_root = sim->coll == CCL_SCHED_BROADCAST || sim->coll == CCL_SCHED_SCATTER;
    return !at_root || rank == sim->root;
}

static uint64_t expected(const struct sim_case *sim, int rank, uint64_t elem)
{
    uint64_t block = elem / sim->count, inside = elem % sim->count;
    uint64_t mine = (uint64_t)rank * sim->count;
    switch (sim->coll) {
    case CCL_SCHED_ALL_REDUCE:
    case CCL_SCHED_REDUCE: return input_sum(sim, elem);
    case CCL_SCHED_BROADCAST: return input(sim, sim->root, elem);
    case CCL_SCHED_ALL_GATHER:
    case CCL_SCHED_GATHER: return input(sim, (int)block, inside);
    case CCL_SCHED_REDUCE_SCATTER: return input_sum(sim, mine + elem);
    case CCL_SCHED_ALL_TO_ALL: return input(sim, (int)block, mine + inside);
    default: return input(sim, sim->root, mine + elem);
    }
}

/* ---- making ---- */

static void make_slots(struct world *w)
{
    const struct sim_case *sim = w->sim;
    uint16_t slot = 0;
    for (int e = 0; e < sim->nexecs; e++) {
        w->first_slot[e] = slot;
        for (int r = 0; r < sim->nranks; r++)
            if (sim->exec_of[r] == e) {
                w->rank_of[slot] = (uint16_t)r;
                w->slot_of[r] = slot++;
            }
    }
    w->first_slot[sim->nexecs] = slot;
}

/* In place: one buffer; the smaller side lies where the interface says. */
static ncclResult_t make_buffer(struct world *w, int rank)
{
    const struct sim_case *sim = w->sim;
    struct buffer *b = &w->buffers[rank];
    b->in_elems = has_in(sim, rank) ? blocks_in(sim) * sim->count : 0;
    b->out_elems = has_out(sim, rank) ? blocks_out(sim) * sim->count : 0;
    int shared = sim->in_place && b->in_elems > 0 && b->out_elems > 0;
    uint64_t larger = b->in_elems > b->out_elems ? b->in_elems : b->out_elems;
    b->elems = (shared ? larger : b->in_elems + b->out_elems) + 3 * GUARD_ELEMS;
    TRY(ccl_alloc((void **)&b->base, b->elems, sizeof *b->base));
    for (uint64_t i = 0; i < b->elems; i++) b->base[i] = next_random(w);
    uint64_t *start = b->base + GUARD_ELEMS, mine = (uint64_t)rank * sim->count;
    b->in = start;
    b->out = shared ? start : start + b->in_elems + GUARD_ELEMS;
    if (shared && b->in_elems < b->out_elems) b->in = start + mine;
    if (shared && b->out_elems < b->in_elems) b->out = start + mine;
    return ncclSuccess;
}

static struct ccl_fifo **fifo_at(struct world *w, int from, int to, int channel)
{
    return &w->fifos[(from * w->sim->nexecs + to) * MAX_CHANNELS + channel];
}

static ncclResult_t make_conns(struct world *w, struct executor *x, int body)
{
    const struct sim_case *sim = w->sim;
    const struct ccl_sched *sched = &x->scheds[body];
    uint32_t nlinks = sched->nlinks;
    TRY(ccl_alloc((void **)&x->conns[body], (size_t)nlinks * MAX_CHANNELS, sizeof **x->conns));
    for (int c = 0; c < sim->nchannels; c++)
        for (uint32_t l = 0; l < nlinks; l++) {
            const struct ccl_link *link = &sched->links[l];
            struct ccl_fifo **fifo = link->is_send ? fifo_at(w, x->view.self, link->peer, c)
                                                   : fifo_at(w, link->peer, x->view.self, c);
            size_t stride = sim->slot_bytes, scratch = 0;
            if (sim->proto == CCL_PROTO_LL) {
                stride = CCL_LL_STRIDE(sim->slot_bytes);
                scratch = sim->slot_bytes;
            }
            size_t bytes = CCL_FIFO_RING_AT + sim->depth * stride;
            if (*fifo == NULL) TRY(ccl_alloc((void **)fifo, 1, bytes));
            struct ccl_conn *conn;
            TRY(ccl_alloc((void **)&conn, 1, sizeof *conn + scratch));
            *conn = (struct ccl_conn){.fifo = *fifo,
                                      .ring = (char *)*fifo + CCL_FIFO_RING_AT,
                                      .slot_bytes = sim->slot_bytes,
                                      .depth = sim->depth,
                                      .peer = link->peer,
                                      .scratch = (char *)(conn + 1),
                                      .bell = ccl_bell_self()};
            x->conns[body][(uint32_t)c * nlinks + l] = conn;
        }
    return ncclSuccess;
}

static void make_meets(struct world *w, struct executor *x)
{
    size_t nexecs = (size_t)w->sim->nexecs, nranks = (size_t)w->sim->nranks;
    int outside = w->sim->second != NULL ? w->sim->outside : -1;
    int is_outside = outside >= 0 && w->sim->exec_of[outside] == x->view.self;
    for (size_t c = 0; c < MAX_CHANNELS; c++)
        x->meets[c] = (struct ccl_meet){
            .flags = w->flags + c * nexecs * CCL_MEET_STRIDE,
            .published = w->published + c * 2 * nranks,
            .signs = w->signs + c * 2 * nexecs,
            .table = w->tables + (x->view.self * MAX_CHANNELS + c) * nranks,
            .bases = w->bases,
            .shared_bytes = is_outside ? 0 : UINTPTR_MAX,
            .bells = &w->bell,
            .nbells = 1,
        };
}

static void fill_body(struct world *w, struct executor *x, int b)
{
    const struct sim_case *sim = w->sim;
    const struct ccl_sched *sched = &x->scheds[b];
    struct ccl_body *body = &x->work.body[b];
    *body = (struct ccl_body){
        .steps = sched->steps,
        .conns = x->conns[b],
        .nsteps = (uint16_t)sched->nsteps,
        .npieces = sched->npieces,
        .nlinks = (uint16_t)sched->nlinks,
        .lag = (uint8_t)sched->lag,
        .proto = (uint8_t)sim->proto,
        .packs = sched->pack > 1,
    };
    uint64_t place_bytes = ccl_size_place(sim->slot_bytes, sched->pack);
    ccl_size_body(&x->work, body, sizeof(uint64_t), sched->nlinks > 0 ? place_bytes : 0);
}

static void bind(struct world *w, struct executor *x)
{
    const struct sim_case *sim = w->sim;
    struct ccl_work *work = &x->work;
    work->meets = x->meets;
    work->abort_word = &w->abort_word;
    work->note = &w->note;
    work->error = &w->error;
    work->count_elems = sim->count;
    work->signature = 77;
    work->nchannels = sim->nchannels;
    work->first_local = w->first_slot[x->view.self];
    work->nlocal = ccl_view_count(&x->view, x->view.self);
    work->nslots = (uint16_t)sim->nranks;
    work->nexecs = (uint16_t)sim->nexecs;
    work->self = x->view.self;
    work->type = ncclUint64;
    work->redop = CCL_SUM;
    work->second = &x->second;
    work->nbodies = sim->second != NULL ? 2 : 1;
    for (int b = 0; b < work->nbodies; b++) fill_body(w, x, b);
    for (uint16_t i = 0; i < work->nlocal; i++) {
        const struct buffer *b = &w->buffers[w->rank_of[work->first_local + i]];
        work->local[i].in = b->in_elems > 0 ? b->in : NULL;
        work->local[i].out = b->out_elems > 0 ? b->out : NULL;
    }
    x->lanes_left = sim->nchannels;
}

static ncclResult_t make_executor(struct world *w, uint16_t e)
{
    const struct sim_case *sim = w->sim;
    struct executor *x = &w->execs[e];
    x->view = (struct ccl_view){(uint16_t)sim->nranks,
                                (uint16_t)sim->nexecs,
                                e,
                                w->first_slot,
                                w->rank_of,
                                w->slot_of,
                                sim->mapped};
    struct ccl_sched_args args = {&x->view, sim->coll, sim->root, sim->slot_bytes};
    TRY(sim->algo->build(&args, &x->scheds[0]));
    if (sim->second != NULL) TRY(sim->second->build(&args, &x->scheds[1]));
    for (int b = 0; b < 2; b++) TRY(make_conns(w, x, b));
    make_meets(w, x);
    bind(w, x);
    return ncclSuccess;
}

static ncclResult_t make_world(struct world *w)
{
    size_t nranks = (size_t)w->sim->nranks, nexecs = (size_t)w->sim->nexecs;
    TRY(ccl_alloc((void **)&w->rank_of, nranks, sizeof *w->rank_of));
    TRY(ccl_alloc((void **)&w->slot_of, nranks, sizeof *w->slot_of));
    TRY(ccl_alloc((void **)&w->first_slot, nexecs + 1, sizeof *w->first_slot));
    TRY(ccl_alloc((void **)&w->execs, nexecs, sizeof *w->execs));
    TRY(ccl_alloc((void **)&w->buffers, nranks, sizeof *w->buffers));
    TRY(ccl_alloc((void **)&w->fifos, nexecs * nexecs * MAX_CHANNELS, sizeof *w->fifos));
    TRY(ccl_alloc((void **)&w->flags, nexecs * CCL_MEET_STRIDE * MAX_CHANNELS, 8));
    TRY(ccl_alloc((void **)&w->signs, 2 * nexecs * MAX_CHANNELS, 8));
    TRY(ccl_alloc((void **)&w->published, 2 * nranks * MAX_CHANNELS, sizeof *w->published));
    TRY(ccl_alloc((void **)&w->tables, nexecs * nranks * MAX_CHANNELS, sizeof *w->tables));
    TRY(ccl_alloc((void **)&w->bases, nranks, sizeof *w->bases));
    w->bell = ccl_bell_self();
    make_slots(w);
    for (int r = 0; r < w->sim->nranks; r++) TRY(make_buffer(w, r));
    for (int e = 0; e < w->sim->nexecs; e++) TRY(make_executor(w, (uint16_t)e));
    return ncclSuccess;
}

static void free_world(struct world *w)
{
    size_t nexecs = (size_t)w->sim->nexecs;
    for (size_t e = 0; w->execs != NULL && e < nexecs; e++) {
        struct executor *x = &w->execs[e];
        for (int b = 0; b < 2; b++) {
            size_t nconns = (size_t)x->scheds[b].nlinks * w->sim->nchannels;
            for (size_t i = 0; x->conns[b] != NULL && i < nconns; i++) ccl_free(x->conns[b][i]);
            ccl_free(x->conns[b]);
            ccl_sched_free(&x->scheds[b]);
        }
    }
    for (size_t i = 0; w->fifos != NULL && i < nexecs * nexecs * MAX_CHANNELS; i++)
        ccl_free(w->fifos[i]);
    for (int r = 0; w->buffers != NULL && r < w->sim->nranks; r++) ccl_free(w->buffers[r].base);
    void *arrays[] = {w->rank_of, w->slot_of, w->first_slot, w->execs,  w->buffers, w->fifos,
                      w->flags,   w->signs,   w->published,  w->tables, w->bases};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) ccl_free(arrays[i]);
}

/* ---- running ---- */

/* The owners of this executor's buffers are ready: inputs appear. */
static void start(struct world *w, struct executor *x)
{
    for (uint16_t i = 0; i < x->work.nlocal; i++) {
        int rank = w->rank_of[x->work.first_local + i];
        struct buffer *b = &w->buffers[rank];
        for (uint64_t k = 0; k < b->in_elems; k++) b->in[k] = input(w->sim, rank, k);
    }
    x->is_started = 1;
}

/* The owners are done: results must be there now, and everything is spoiled. */
static const char *finish(struct world *w, struct executor *x)
{
    for (uint16_t i = 0; i < x->work.nlocal; i++) {
        int rank = w->rank_of[x->work.first_local + i];
        struct buffer *b = &w->buffers[rank];
        for (uint64_t k = 0; k < b->out_elems; k++)
            if (b->out[k] != expected(w->sim, rank, k)) {
                snprintf(broken, sizeof broken, "rank %d: element %llu of %llu is wrong", rank,
                         (unsigned long long)k, (unsigned long long)b->out_elems);
                return broken;
            }
        for (uint64_t k = 0; k < b->elems; k++) b->base[k] = 0xdeadull;
    }
    return NULL;
}

/* Resumes one lane; 1 when it moved on or finished. A lane whose cursor and note stay the same is
 * taken as blocked only when a whole pass over all lanes changes nothing. */
static const char *resume(struct world *w, struct executor *x, uint32_t lane, int *moved)
{
    struct ccl_cursor before = x->cursors[lane];
    enum ccl_run run = ccl_kernel_sched(&x->work, lane, &x->cursors[lane]);
    *moved = run == CCL_RUN_DONE || memcmp(&before, &x->cursors[lane], sizeof before) != 0;
    if (w->error) return "executors disagree";
    if (run != CCL_RUN_DONE) return NULL;
    x->lane_done[lane] = 1;
    return --x->lanes_left == 0 ? finish(w, x) : NULL;
}

static uint64_t runs_second(const struct sim_case *sim)
{
    return sim->second != NULL && sim->outside >= 0 && sim->count > 0;
}

static const char *run_world(struct world *w)
{
    int nexecs = w->sim->nexecs, left = nexecs, idle = 0;
    int nlanes = nexecs * w->sim->nchannels;
    while (left > 0) {
        /* After two fruitless passes over everything that runs, someone new must start. */
        struct executor *x = &w->execs[next_random(w) % (uint64_t)nexecs];
        uint32_t lane = (uint32_t)(next_random(w) % w->sim->nchannels);
        int moved = 0;
        if (!x->is_started) {
            if (next_random(w) % 4 != 0 && idle < 8 * nlanes) continue;
            start(w, x);
            moved = 1;
        } else if (!x->lane_done[lane]) {
            int was_left = x->lanes_left;
            const char *text = resume(w, x, lane, &moved);
            if (text != NULL) return text;
            left -= was_left > 0 && x->lanes_left == 0;
        }
        idle = moved ? 0 : idle + 1;
        if (idle > 400 * nlanes + 4000) return "cyclic wait: no executor can go on";
    }
    for (int r = 0; r < w->sim->nranks; r++)
        for (uint64_t k = 0; k < w->buffers[r].elems; k++)
            if (w->buffers[r].base[k] != 0xdeadull) {
                snprintf(broken, sizeof broken, "rank %d: written after it was done", r);
                return broken;
            }
    for (int e = 0; e < nexecs; e++)
        if (w->execs[e].second != runs_second(w->sim)) return "the wrong body ran";
    return NULL;
}

const char *sim_run(const struct sim_case *sim)
{
    struct world w = {.sim = sim, .random = sim->seed};
    const char *text = make_world(&w) == ncclSuccess ? run_world(&w) : "out of memory";
    free_world(&w);
    return text;
}
