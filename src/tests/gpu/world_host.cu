/* world_host.cu: an operation of world.h on the host: the interpreter of host devices, lane by lane
 * until all are done. Connections are new for each operation.
 */
#include "gpu/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" struct ccl_bell *ccl_bell_self(void);

enum { HOST_DEPTH = 4 };

struct host_run {
    const struct world *world;
    const struct world_op *op;
    struct ccl_work works[WORLD_EXECS];
    struct ccl_fifo *fifos[WORLD_EXECS][WORLD_EXECS][WORLD_CHANNELS];
    struct ccl_conn *ends[WORLD_EXECS][2]; /* [nchannels][nlinks] by body */
    struct ccl_conn **conns[WORLD_EXECS][2];
    struct ccl_meet meets[WORLD_EXECS][WORLD_CHANNELS];
    struct ccl_slot published[WORLD_CHANNELS][2][WORLD_RANKS];
    struct ccl_slot tables[WORLD_EXECS][WORLD_CHANNELS][WORLD_RANKS];
    uint64_t flags[WORLD_CHANNELS][WORLD_EXECS * CCL_MEET_STRIDE];
    uint64_t signs[WORLD_CHANNELS][2][WORLD_EXECS];
    uintptr_t bases[WORLD_RANKS];
    struct ccl_cursor cursors[WORLD_EXECS][WORLD_CHANNELS];
    int done[WORLD_EXECS][WORLD_CHANNELS];
    uint32_t abort_word, error;
    uint64_t note, second;
};

static struct ccl_fifo *fifo_of(struct host_run *run, int from, int to, int channel)
{
    struct ccl_fifo **fifo = &run->fifos[from][to][channel];
    size_t bytes = CCL_FIFO_RING_AT + HOST_DEPTH * run->world->shape.slot_bytes[run->op->proto];
    if (*fifo == NULL) *fifo = (struct ccl_fifo *)aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (*fifo != NULL) return *fifo;
    printf("not ok - no memory for the host\n");
    exit(1);
}

static void make_conns(struct host_run *run, int e, int b)
{
    const struct ccl_sched *sched = &run->op->scheds[e][b];
    int nchannels = run->world->shape.nchannels;
    size_t n = (size_t)nchannels * sched->nlinks;
    if (n == 0) return;
    run->ends[e][b] = (struct ccl_conn *)calloc(n, sizeof *run->ends[e][b]);
    run->conns[e][b] = (struct ccl_conn **)calloc(n, sizeof *run->conns[e][b]);
    for (int c = 0; c < nchannels; c++)
        for (uint32_t l = 0; l < sched->nlinks; l++) {
            const struct ccl_link *link = &sched->links[l];
            struct ccl_conn *conn = &run->ends[e][b][(uint32_t)c * sched->nlinks + l];
            conn->fifo =
                link->is_send ? fifo_of(run, e, link->peer, c) : fifo_of(run, link->peer, e, c);
            conn->ring = (char *)conn->fifo + CCL_FIFO_RING_AT;
            conn->slot_bytes = run->world->shape.slot_bytes[run->op->proto];
            conn->depth = HOST_DEPTH;
            conn->peer = link->peer;
            conn->bell = ccl_bell_self();
            run->conns[e][b][(uint32_t)c * sched->nlinks + l] = conn;
        }
    run->works[e].body[b].conns = run->conns[e][b];
}

static void make_meets(struct host_run *run, int e)
{
    for (int c = 0; c < run->world->shape.nchannels; c++) {
        struct ccl_meet *meet = &run->meets[e][c];
        meet->flags = run->flags[c];
        meet->published = run->published[c][0];
        meet->signs = run->signs[c][0];
        meet->table = run->tables[e][c];
        meet->bases = run->bases;
        meet->shared_bytes = run->op->outside == e ? 0 : UINTPTR_MAX;
    }
    run->works[e].meets = run->meets[e];
}

static void make_work(struct host_run *run, int e)
{
    struct ccl_work *work = &run->works[e];
    world_fill(run->world, run->op, e, work);
    for (int b = 0; b < work->nbodies; b++) make_conns(run, e, b);
    make_meets(run, e);
    work->abort_word = &run->abort_word;
    work->error = &run->error;
    work->note = &run->note;
    work->second = &run->second;
}

/* One pass over all lanes; how many are left. */
static int resume_all(struct host_run *run)
{
    int left = 0;
    for (int e = 0; e < run->world->shape.nexecs; e++)
        for (int c = 0; c < run->world->shape.nchannels; c++) {
            if (run->done[e][c]) continue;
            enum ccl_run state = ccl_kernel_sched(&run->works[e], (uint32_t)c, &run->cursors[e][c]);
            run->done[e][c] = state == CCL_RUN_DONE;
            left += state != CCL_RUN_DONE;
        }
    return left;
}

void world_run_host(const struct world *world, const struct world_op *op)
{
    struct host_run *run = (struct host_run *)calloc(1, sizeof *run);
    int passes = 0;
    run->world = world;
    run->op = op;
    for (int e = 0; e < world->shape.nexecs; e++) make_work(run, e);
    for (int a = 0; a < world->shape.nexecs; a++)
        for (int b = 0; b < world->shape.nexecs; b++)
            for (int c = 0; c < world->shape.nchannels; c++)
                if (run->fifos[a][b][c]) memset(run->fifos[a][b][c], 0, CCL_FIFO_RING_AT);
    while (resume_all(run) > 0 && passes < 10000000) passes++;
    if (passes == 10000000 || run->error != 0) {
        printf("not ok - the interpreter of the host does not end\n");
        exit(1);
    }
    for (int a = 0; a < world->shape.nexecs; a++)
        for (int b = 0; b < world->shape.nexecs; b++)
            for (int c = 0; c < world->shape.nchannels; c++) free(run->fifos[a][b][c]);
    for (int e = 0; e < world->shape.nexecs; e++)
        for (int b = 0; b < 2; b++) {
            free(run->ends[e][b]);
            free(run->conns[e][b]);
        }
    free(run);
}
