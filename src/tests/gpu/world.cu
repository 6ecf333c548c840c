/* world.cu: the GPU's part of world.h. */
#include "gpu/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- shapes ---- */

void world_shape_make(struct world_shape *shape, int nexecs, int nchannels, uint64_t *random)
{
    static const uint32_t slot_bytes[CCL_NPROTOS] = {16 << 10, CCL_LL_SLOT_BYTES,
                                                     CCL_LL128_SLOT_BYTES};
    static const uint16_t depth[CCL_NPROTOS] = {4, CCL_LL_DEPTH, CCL_LL128_DEPTH};
    memset(shape, 0, sizeof *shape);
    shape->nexecs = nexecs;
    shape->nchannels = nchannels;
    shape->ngpus = 1;
    memcpy(shape->slot_bytes, slot_bytes, sizeof slot_bytes);
    memcpy(shape->depth, depth, sizeof depth);
    for (int e = 0; e < nexecs; e++)
        for (uint64_t n = 1 + kit_random(random) % 3; n > 0; n--)
            shape->exec_of[shape->nranks++] = (uint8_t)e;
    for (int r = shape->nranks - 1; r > 0; r--) {
        int other = (int)(kit_random(random) % (uint64_t)(r + 1));
        uint8_t exec = shape->exec_of[r];
        shape->exec_of[r] = shape->exec_of[other];
        shape->exec_of[other] = exec;
    }
}

static void make_views(struct world *world)
{
    const struct world_shape *shape = &world->shape;
    uint16_t slot = 0;
    for (int e = 0; e < shape->nexecs; e++) {
        world->first_slot[e] = slot;
        for (int r = 0; r < shape->nranks; r++) {
            if (shape->exec_of[r] != e) continue;
            world->rank_of[slot] = (uint16_t)r;
            world->slot_of[r] = slot++;
        }
    }
    world->first_slot[shape->nexecs] = slot;
    for (int e = 0; e < shape->nexecs; e++) {
        struct ccl_view *view = &world->execs[e].view;
        view->nranks = (uint16_t)shape->nranks;
        view->nexecs = (uint16_t)shape->nexecs;
        view->self = (uint16_t)e;
        view->first_slot = world->first_slot;
        view->rank_of = world->rank_of;
        view->slot_of = world->slot_of;
        view->mapped = CCL_MAPPED_ALL;
    }
}

/* ---- memory of an executor's device ---- */

static char *take(struct world_exec *exec, uint64_t bytes)
{
    char *at = exec->memory + exec->used;
    exec->used += (bytes + 127) / 128 * 128;
    if (exec->used <= exec->bytes) return at;
    printf("not ok - an executor's memory is too small\n");
    exit(1);
}

static void *put(struct world_exec *exec, const void *from, uint64_t bytes)
{
    char *at = take(exec, bytes);
    CK(cudaMemcpy(at, from, bytes, cudaMemcpyHostToDevice));
    return at;
}

/* Schedules of an operation, with room. */
enum { OP_BYTES = 4 << 20 };

static uint64_t count_bytes(const struct world_shape *shape)
{
    uint64_t bytes = OP_BYTES, npairs = (uint64_t)shape->nexecs * (uint64_t)shape->nchannels;
    for (int p = 0; p < CCL_NPROTOS; p++)
        bytes += npairs *
                 (ccl_cuda_fifo_bytes((enum ccl_proto)p, shape->slot_bytes[p], shape->depth[p]) +
                  128 + CCL_CUDA_CREDIT_BYTES + 2 * sizeof(struct ccl_cuda_conn) + 256);
    return bytes;
}

/* ---- connections and meetings ---- */

static void make_conn(struct world *world, enum ccl_proto proto, int from, int to, int channel)
{
    const struct world_shape *shape = &world->shape;
    struct world_exec *sender = &world->execs[from], *receiver = &world->execs[to];
    struct ccl_cuda_conn conn = {};
    uint64_t seq = shape->first_seq;
    char *fifo =
        take(receiver, ccl_cuda_fifo_bytes(proto, shape->slot_bytes[proto], shape->depth[proto]));
    conn.flags = (struct ccl_cuda_flags *)fifo;
    conn.ring = fifo + CCL_CUDA_RING_AT;
    conn.credit = (uint64_t *)take(sender, CCL_CUDA_CREDIT_BYTES);
    conn.seq = conn.credit_seen = seq;
    conn.stride = (uint32_t)ccl_cuda_stride(proto, shape->slot_bytes[proto]);
    conn.depth = shape->depth[proto];
    conn.peer = (uint16_t)to;
    sender->conns[proto][to][1][channel] = (struct ccl_cuda_conn *)put(sender, &conn, sizeof conn);
    conn.peer = (uint16_t)from;
    receiver->conns[proto][from][0][channel] =
        (struct ccl_cuda_conn *)put(receiver, &conn, sizeof conn);
    if (seq == 0) return;
    CK(cudaMemcpy(&conn.flags->ready, &seq, sizeof seq, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(conn.credit, &seq, sizeof seq, cudaMemcpyHostToDevice));
}

static void make_meets(struct world *world, struct world_exec *exec)
{
    const struct world_shape *shape = &world->shape;
    struct ccl_cuda_meet meets[WORLD_CHANNELS] = {};
    uintptr_t bases[WORLD_RANKS] = {};
    for (int c = 0; c < shape->nchannels; c++) {
        char *areas[WORLD_EXECS];
        for (int e = 0; e < shape->nexecs; e++) areas[e] = world->execs[e].areas[c];
        meets[c].areas = (char *const *)put(exec, areas, sizeof areas);
        meets[c].bases = (const uintptr_t *)put(exec, bases, sizeof bases);
        meets[c].shared_bytes = UINTPTR_MAX;
    }
    exec->meets = (struct ccl_cuda_meet *)put(exec, meets, sizeof meets);
}

static void reach_peers(int ngpus)
{
    for (int a = 0; a < ngpus; a++)
        for (int b = 0; b < ngpus; b++) {
            if (a == b) continue;
            CK(cudaSetDevice(a));
            cudaError_t rc = cudaDeviceEnablePeerAccess(b, 0);
            if (rc != cudaErrorPeerAccessAlreadyEnabled) CK(rc);
            cudaGetLastError();
        }
}

void world_open(struct world *world, const struct world_shape *shape)
{
    memset(world, 0, sizeof *world);
    world->shape = *shape;
    make_views(world);
    reach_peers(shape->ngpus);
    CK(cudaHostAlloc((void **)&world->words, sizeof *world->words, cudaHostAllocPortable));
    memset(world->words, 0, sizeof *world->words);
    for (int e = 0; e < shape->nexecs; e++) {
        struct world_exec *exec = &world->execs[e];
        exec->device = e % shape->ngpus;
        exec->bytes = count_bytes(shape);
        CK(cudaSetDevice(exec->device));
        CK(cudaStreamCreateWithFlags(&exec->stream, cudaStreamNonBlocking));
        CK(cudaMalloc((void **)&exec->memory, exec->bytes));
        CK(cudaMemset(exec->memory, 0, exec->bytes));
        for (int c = 0; c < shape->nchannels; c++)
            exec->areas[c] =
                take(exec, ccl_cuda_area_bytes((size_t)shape->nranks, (size_t)shape->nexecs));
    }
    for (int from = 0; from < shape->nexecs; from++)
        for (int to = 0; to < shape->nexecs; to++)
            for (int c = 0; c < shape->nchannels; c++)
                for (int p = 0; p < CCL_NPROTOS; p++)
                    make_conn(world, (enum ccl_proto)p, from, to, c);
    for (int e = 0; e < shape->nexecs; e++) make_meets(world, &world->execs[e]);
    for (int g = 0; g < shape->ngpus; g++) {
        CK(cudaSetDevice(g));
        CK((cudaError_t)ccl_cuda_load());
        CK(cudaDeviceSynchronize());
    }
    CK(cudaSetDevice(0));
}

void world_close(struct world *world)
{
    for (int e = 0; e < world->shape.nexecs; e++) {
        CK(cudaSetDevice(world->execs[e].device));
        CK(cudaStreamDestroy(world->execs[e].stream));
        CK(cudaFree(world->execs[e].memory));
    }
    CK(cudaSetDevice(0));
    CK(cudaFreeHost(world->words));
}

/* ---- operations ---- */

static struct ccl_sched_args args_of(const struct world *world, const struct world_op *op, int exec)
{
    struct ccl_sched_args args = {};
    args.view = &world->execs[exec].view;
    args.coll = op->coll;
    args.root = op->root;
    args.slot_bytes = world->shape.slot_bytes[op->proto];
    return args;
}

int world_supports(const struct world *world, const struct world_op *op)
{
    struct ccl_sched_args args = args_of(world, op, 0);
    return op->algo->supports(&args) && (op->second == NULL || op->second->supports(&args));
}

static int is_copying(enum ccl_sched_coll coll)
{
    return coll == CCL_SCHED_BROADCAST || coll == CCL_SCHED_ALL_GATHER ||
           coll >= CCL_SCHED_ALL_TO_ALL;
}

static void fill_body(const struct world *world, const struct world_op *op,
                      const struct ccl_sched *sched, struct ccl_work *work)
{
    struct ccl_body *body = &work->body[work->nbodies++];
    uint32_t slot_bytes = world->shape.slot_bytes[op->proto];
    body->steps = sched->steps;
    body->nsteps = (uint16_t)sched->nsteps;
    body->npieces = sched->npieces;
    body->nlinks = (uint16_t)sched->nlinks;
    body->lag = (uint8_t)sched->lag;
    body->packs = sched->pack > 1;
    uint64_t place_bytes = ccl_size_place(slot_bytes, sched->pack);
    ccl_size_body(work, body, op->type->bytes, sched->nlinks > 0 ? place_bytes : 0);
}

void world_fill(const struct world *world, const struct world_op *op, int exec,
                struct ccl_work *work)
{
    const struct ccl_view *view = &world->execs[exec].view;
    memset(work, 0, sizeof *work);
    work->count_elems = op->count;
    work->signature = op->signature;
    work->divisor = view->nranks;
    work->nchannels = (uint16_t)world->shape.nchannels;
    work->first_local = view->first_slot[exec];
    work->nlocal = ccl_view_count(view, (uint16_t)exec);
    work->nslots = view->nranks;
    work->nexecs = view->nexecs;
    work->self = (uint16_t)exec;
    work->type = (uint8_t)op->type->type;
    work->redop = (uint8_t)op->redop;
    work->flags = (uint8_t)op->flags;
    for (int b = 0; b < (op->second != NULL ? 2 : 1); b++)
        fill_body(world, op, &op->scheds[exec][b], work);
    for (uint16_t i = 0; i < work->nlocal; i++) work->local[i] = op->slots[work->first_local + i];
}

/* Steps and connections of a body go to the device. */
static void send_body(struct world_exec *exec, const struct world_op *op, struct ccl_body *body,
                      const struct ccl_sched *sched, int nchannels)
{
    uint32_t nlinks = sched->nlinks;
    body->proto = (uint8_t)(nlinks > 0 ? op->proto : CCL_PROTO_SIMPLE);
    body->steps =
        (const struct ccl_step *)put(exec, sched->steps, sched->nsteps * sizeof *sched->steps);
    if (nlinks == 0) return;
    struct ccl_cuda_conn **conns =
        (struct ccl_cuda_conn **)calloc((size_t)nchannels * nlinks, sizeof *conns);
    for (int c = 0; c < nchannels; c++)
        for (uint32_t l = 0; l < nlinks; l++) {
            const struct ccl_link *link = &sched->links[l];
            conns[(uint32_t)c * nlinks + l] = exec->conns[op->proto][link->peer][link->is_send][c];
        }
    body->conns =
        (struct ccl_conn *const *)put(exec, conns, (size_t)nchannels * nlinks * sizeof *conns);
    free(conns);
}

static void shift_slots(struct ccl_work *work, intptr_t shift)
{
    for (int i = 0; i < work->nlocal; i++) {
        struct ccl_slot *slot = &work->local[i];
        if (slot->in) slot->in = (const char *)slot->in + shift;
        if (slot->out) slot->out = (char *)slot->out + shift;
        if (slot->scalar_at) slot->scalar_at = (const char *)slot->scalar_at + shift;
    }
}

static void set_outside(struct world_exec *exec, int is_outside, int nchannels)
{
    uintptr_t shared_bytes = is_outside ? 0 : UINTPTR_MAX;
    if (exec->is_outside == is_outside) return;
    exec->is_outside = is_outside;
    for (int c = 0; c < nchannels; c++)
        CK(cudaMemcpy(&exec->meets[c].shared_bytes, &shared_bytes, sizeof shared_bytes,
                      cudaMemcpyHostToDevice));
}

static void send_work(struct world *world, struct world_op *op, int e, intptr_t shift)
{
    struct world_exec *exec = &world->execs[e];
    struct ccl_work *work = &op->works[e];
    int nchannels = world->shape.nchannels;
    world_fill(world, op, e, work);
    for (int b = 0; b < work->nbodies; b++)
        send_body(exec, op, &work->body[b], &op->scheds[e][b], nchannels);
    work->meets = (struct ccl_meet *)exec->meets;
    work->abort_word = &world->words->abort;
    work->error = &world->words->error;
    work->note = &world->words->note[e];
    work->second = &world->words->second[e];
    if (world->shape.ngpus == 1) work->flags |= CCL_WORK_NEAR;
    if (is_copying(op->coll)) work->flags |= CCL_WORK_COPIES;
    shift_slots(work, shift);
    set_outside(exec, op->outside == e, nchannels);
}

static void build_sched(const struct world *world, struct world_op *op, int e, int body)
{
    struct ccl_sched_args args = args_of(world, op, e);
    struct ccl_sched *sched = &op->scheds[e][body];
    const struct ccl_algo_ops *algo = body == 0 ? op->algo : op->second;
    if (algo->build(&args, sched) == ncclSuccess &&
        ccl_cuda_fits(sched->steps, sched->nsteps, sched->nlinks, args.view->nranks))
        return;
    printf("not ok - no schedule of %s\n", algo->name);
    exit(1);
}

void world_op_make(struct world *world, struct world_op *op, intptr_t shift)
{
    memset(op->scheds, 0, sizeof op->scheds);
    for (int e = 0; e < world->shape.nexecs; e++) {
        op->marks[e] = world->execs[e].used;
        for (int b = 0; b < (op->second != NULL ? 2 : 1); b++) build_sched(world, op, e, b);
        send_work(world, op, e, shift);
    }
}

void world_op_free(struct world *world, struct world_op *op)
{
    for (int e = 0; e < world->shape.nexecs; e++) {
        world->execs[e].used = op->marks[e];
        for (int b = 0; b < 2; b++) ccl_sched_free(&op->scheds[e][b]);
    }
}

void world_launch(struct world *world, const struct world_op *op, int e)
{
    struct ccl_cuda_target target = {};
    target.stream = world->execs[e].stream;
    CK(cudaSetDevice(world->execs[e].device));
    CK((cudaError_t)ccl_cuda_launch_sched(&op->works[e], &target));
    CK(cudaSetDevice(0));
}

static int are_idle(const struct world *world)
{
    for (int e = 0; e < world->shape.nexecs; e++) {
        cudaError_t rc = cudaStreamQuery(world->execs[e].stream);
        if (rc == cudaErrorNotReady) return 0;
        CK(rc);
    }
    return 1;
}

int world_wait(struct world *world, unsigned limit_ms)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    while (!are_idle(world)) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        int64_t ms = (now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000;
        if (ms < (int64_t)limit_ms) continue;
        for (int e = 0; e < world->shape.nexecs; e++)
            printf("# executor %d waits: kind %u, peer %u\n", e,
                   (unsigned)(world->words->note[e] >> 32), (unsigned)world->words->note[e]);
        *(volatile uint32_t *)&world->words->abort = 1;
        for (int e = 0; e < world->shape.nexecs; e++)
            CK(cudaStreamSynchronize(world->execs[e].stream));
        return 0;
    }
    return 1;
}
