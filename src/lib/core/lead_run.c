/* lead_run.c: one collective of an executor whose ranks are in several processes: what a member
 * tells, and what the leader does with it. */
#include "core/lead_impl.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "core/agree.h"
#include "core/launch.h"
#include "core/park.h"

#include <sched.h>
#include <time.h>

enum { SPIN_US = 5, YIELD_US = 1000, NAP_NS = 50000 };

/* ---- waiting on the host ---- */

/* Acquire pairs with the kernel's release: the operation of that number is over. */
static int is_over(const struct ccl_lead *lead, uint64_t number)
{
    uint32_t done = __atomic_load_n(ccl_lead_word(lead, lead->nprocs, number), __ATOMIC_ACQUIRE);
    return (int32_t)(done - (uint32_t)number) >= 0;
}

/* Acquire pairs with the process's post. */
static int has_posted(const struct ccl_lead *lead, uint16_t q, uint64_t number)
{
    return __atomic_load_n(&ccl_lead_post(lead, q, number)->number, __ATOMIC_ACQUIRE) == number;
}

int ccl_lead_all_posted(const struct ccl_lead *lead, uint64_t number)
{
    for (uint16_t q = 1; q < lead->nprocs; q++)
        if (!has_posted(lead, q, number)) return 0;
    return 1;
}

/* The operation that used the same place is over: numbers run ahead by DEPTH at most. */
static int has_room(const struct ccl_lead *lead, uint64_t number)
{
    return number <= CCL_LEAD_DEPTH || is_over(lead, number - CCL_LEAD_DEPTH);
}

static int has_no_jobs(const struct ccl_lead *lead, uint64_t number)
{
    (void)number;
    return lead->jobs == NULL;
}

/* 0: the communicator failed, or the time is over. The lock is held meanwhile, so that what the
 * thread would do for those that are late is done here. */
static int wait_until(struct ccl_lead *lead, uint64_t number,
                      int (*ready)(const struct ccl_lead *, uint64_t), uint64_t timeout_us)
{
    uint64_t start_ns = ccl_clock_ns();
    while (!ready(lead, number)) {
        uint64_t past_us = (ccl_clock_ns() - start_ns) / 1000;
        if (past_us >= timeout_us || ccl_lead_has_failed(lead)) return 0;
        (void)ccl_lead_work(lead);
        if (past_us >= YIELD_US)
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        else if (past_us >= SPIN_US)
            sched_yield();
    }
    return 1;
}

static ncclResult_t wait_for(struct ccl_lead *lead, uint64_t number,
                             int (*ready)(const struct ccl_lead *, uint64_t))
{
    if (wait_until(lead, number, ready, UINT64_MAX)) return ncclSuccess;
    return ccl_clique_error(lead->exec->clique);
}

/* ---- a member ---- */

/* Blocks of count elements that a rank's buffers hold. */
static uint64_t blocks_of(const struct ccl_op *op, int is_out)
{
    uint64_t n = (uint64_t)op->comm->nranks;
    int is_root = op->comm->rank == op->root;
    switch (op->coll) {
    case CCL_ALL_GATHER: return is_out ? n : 1;
    case CCL_REDUCE_SCATTER: return is_out ? 1 : n;
    case CCL_ALL_TO_ALL: return n;
    case CCL_GATHER: return !is_out ? 1 : is_root ? n : 0;
    case CCL_SCATTER: return is_out ? 1 : is_root ? n : 0;
    default: return 1;
    }
}

static uint64_t bytes_of(const struct ccl_op *op, int is_out)
{
    return blocks_of(op, is_out) * op->count_elems * ccl_type_bytes(op->type);
}

static struct ccl_sock_wait patience(const struct ccl_lead *lead)
{
    enum { LIMIT_MS = 30000 };
    return (struct ccl_sock_wait){
        .deadline_ns = ccl_clock_deadline_ns(LIMIT_MS),
        .abort_word = (const _Atomic uint32_t *)(const void *)&lead->exec->clique->words->abort,
    };
}

static int has_failed(void *lead)
{
    return ccl_lead_has_failed(lead);
}

/* A process that has failed closes its ends, and the mesh tells why; here that may come later. The
 * first error is what all calls return. */
static ncclResult_t find_reason(struct ccl_lead *lead, ncclResult_t rc)
{
    enum { REASON_US = 1000000 };
    if (rc == ncclRemoteError) ccl_device()->help_until(has_failed, lead, REASON_US);
    return rc != ncclSuccess && has_failed(lead) ? ccl_clique_error(lead->exec->clique) : rc;
}

ncclResult_t ccl_lead_export(struct ccl_lead *lead, uint16_t q, const void *buffer, uint64_t bytes,
                             struct ccl_foreign_ref *ref)
{
    struct ccl_sock_wait wait = patience(lead);
    ncclResult_t rc = find_reason(
        lead, ccl_device()->foreign->export_buffer(lead->exporters[q], buffer, bytes, &wait, ref));
    CCL_INFO(CCL_LOG_REG, "executor %u: buffer %p of %llu bytes, for the process of rank %d: %s",
             lead->exec->index, buffer, (unsigned long long)bytes,
             lead->exec->clique->topo->first_rank[lead->procs[q]],
             rc != ncclSuccess ? "not shared"
             : ref->span != 0  ? "mapped there"
                               : "copied");
    return rc;
}

/* How the leader finds a buffer, or its copy. */
static ncclResult_t refer(struct ccl_lead *lead, const struct ccl_op *op, struct ccl_lead_copy copy)
{
    TRY(ccl_lead_export(lead, 0, copy.user, copy.bytes, copy.ref));
    return copy.ref->span != 0 ? ncclSuccess : ccl_lead_stage_add(lead, op, copy);
}

static ncclResult_t describe(struct ccl_lead *lead, const struct ccl_record *record,
                             struct ccl_lead_rank *rank)
{
    struct ccl_slot slot = ccl_launch_slot(record);
    const struct ccl_op *op = &record->op;
    uint64_t in_bytes = bytes_of(op, 0), out_bytes = bytes_of(op, 1);
    *rank = (struct ccl_lead_rank){
        .scalar = slot.scalar,
        .has_in = slot.in != NULL && in_bytes > 0,
        .has_out = slot.out != NULL && out_bytes > 0,
        .has_scalar_at = slot.scalar_at != NULL,
    };
    struct ccl_lead_copy in = {&rank->in, (void *)(uintptr_t)slot.in, in_bytes, .goes_in = 1};
    struct ccl_lead_copy out = {&rank->out, slot.out, out_bytes, .comes_out = 1};
    struct ccl_lead_copy scalar = {&rank->scalar_at, (void *)(uintptr_t)slot.scalar_at,
                                   ccl_type_bytes(op->type), .goes_in = 1};
    /* The root of a broadcast in place is not written to. */
    if (op->coll == CCL_BROADCAST && slot.in == slot.out) out.comes_out = 0;
    if (rank->has_in) TRY(refer(lead, op, in));
    if (rank->has_out) TRY(refer(lead, op, out));
    return rank->has_scalar_at ? refer(lead, op, scalar) : ncclSuccess;
}

static struct ccl_lead_rank *ranks_at(const struct ccl_lead *lead, uint64_t number)
{
    return &lead->ranks[(number % CCL_LEAD_DEPTH) * lead->exec->nlocal];
}

/* The words of a captured collective. */
static uint32_t *graph_word(const struct ccl_lead *lead, int is_done, uint16_t q)
{
    size_t row = (size_t)is_done * lead->nprocs + q;
    return &lead->graph_words[row * CCL_LEAD_GRAPHS + lead->ngraphs];
}

static ncclResult_t check_room_for_graph(const struct ccl_lead *lead, const struct ccl_op *op)
{
    if (lead->ngraphs < CCL_LEAD_GRAPHS) return ncclSuccess;
    return ccl_err(ncclInvalidUsage,
                   "nccl%s: rank %d: %d collectives were captured with this communicator, whose "
                   "ranks share a GPU from several processes; more cannot be",
                   ccl_coll_name(op->coll), op->comm->rank, CCL_LEAD_GRAPHS);
}

static ncclResult_t capture_member(struct ccl_lead *lead, cudaStream_t stream, uint64_t number)
{
    TRY(ccl_device()->word_write(stream, graph_word(lead, 0, lead->self), 1));
    TRY(ccl_device()->word_take(stream, graph_word(lead, 1, lead->self)));
    lead->ngraphs++;
    /* Release publishes the call and the ranks to the leader. */
    __atomic_store_n(&ccl_lead_post(lead, lead->self, number)->number, number, __ATOMIC_RELEASE);
    return ncclSuccess;
}

/* The stream says when the buffers are ready, and waits until they are free again. */
static ncclResult_t tell_leader(struct ccl_lead *lead, const struct ccl_set *set,
                                cudaStream_t stream, uint64_t number)
{
    struct ccl_lead_post *post = ccl_lead_post(lead, lead->self, number);
    post->call = set->call;
    post->is_captured = set->capture != 0;
    if (set->capture != 0) return capture_member(lead, stream, number);
    TRY(ccl_device()->word_write(stream, ccl_lead_word(lead, lead->self, number),
                                 (uint32_t)number));
    /* Release publishes the call and the ranks to the leader. */
    __atomic_store_n(&post->number, number, __ATOMIC_RELEASE);
    struct ccl_await done = {ccl_lead_word(lead, lead->nprocs, number), (uint32_t)number,
                             CCL_AWAIT_OTHERS};
    return ccl_await(set->members[set->last].record.op.comm, stream, &done);
}

static ncclResult_t run_member(struct ccl_lead *lead, struct ccl_set *set, cudaStream_t stream,
                               uint64_t number)
{
    struct ccl_exec *exec = lead->exec;
    ccl_lead_stage_begin(lead, set->capture != 0);
    for (uint16_t i = 0; i < exec->nlocal; i++)
        if (exec->member_of[i] != CCL_ELSEWHERE)
            TRY(describe(lead, &set->members[exec->member_of[i]].record,
                         &ranks_at(lead, number)[i]));
    TRY(ccl_launch_choose(set));
    TRY(ccl_lead_stage_in(lead, stream));
    TRY(ccl_lead_stage_out(lead, stream, tell_leader(lead, set, stream, number)));
    return ccl_lead_let_go(set, stream);
}

/* ---- the leader ---- */

const struct ccl_slot *ccl_lead_slot(const struct ccl_exec *exec, uint16_t local)
{
    return &exec->lead->slots[local];
}

void ccl_lead_unpin(struct ccl_lead *lead, uint64_t number)
{
    size_t n = (size_t)lead->exec->nlocal * CCL_LEAD_PINS;
    struct ccl_region **pins = &lead->pins[(number % CCL_LEAD_DEPTH) * n];
    for (size_t i = 0; i < n; i++) {
        if (pins[i] != NULL) ccl_device()->foreign->import_unpin(pins[i]);
        pins[i] = NULL;
    }
}

ncclResult_t ccl_lead_find(struct ccl_lead *lead, uint16_t q, const struct ccl_foreign_ref *ref,
                           uint64_t bytes, struct ccl_imported *found)
{
    struct ccl_sock_wait wait = patience(lead);
    return find_reason(
        lead, ccl_device()->foreign->import_buffer(lead->importers[q], ref, bytes, &wait, found));
}

/* Calls are equal by now: what the leader's own rank calls tells the sizes of all. */
static ncclResult_t import_rank(struct ccl_lead *lead, const struct ccl_op *own, uint16_t local,
                                uint64_t number)
{
    const struct ccl_topo *topo = lead->exec->clique->topo;
    uint16_t r = topo->rank_of[lead->exec->first_slot + local], q = 0;
    const struct ccl_lead_rank *rank = &ranks_at(lead, number)[local];
    struct ncclComm of = {.nranks = own->comm->nranks, .rank = r};
    struct ccl_op op = *own;
    op.comm = &of;
    while (lead->procs[q] != topo->proc_of[r]) q++;
    struct ccl_imported in = {0}, out = {0}, scalar = {0};
    size_t at = ((number % CCL_LEAD_DEPTH) * lead->exec->nlocal + local) * CCL_LEAD_PINS;
    if (rank->has_in) TRY(ccl_lead_find(lead, q, &rank->in, bytes_of(&op, 0), &in));
    lead->pins[at] = in.region;
    if (rank->has_out) TRY(ccl_lead_find(lead, q, &rank->out, bytes_of(&op, 1), &out));
    lead->pins[at + 1] = out.region;
    if (rank->has_scalar_at)
        TRY(ccl_lead_find(lead, q, &rank->scalar_at, ccl_type_bytes(op.type), &scalar));
    lead->pins[at + 2] = scalar.region;
    lead->slots[local] = (struct ccl_slot){
        .in = in.address, .out = out.address, .scalar_at = scalar.address, .scalar = rank->scalar};
    return ncclSuccess;
}

static ncclResult_t compare_posts(struct ccl_lead *lead, const struct ccl_set *set, uint64_t number)
{
    for (uint16_t q = 1; q < lead->nprocs; q++) {
        const struct ccl_lead_post *post = ccl_lead_post(lead, q, number);
        TRY(ccl_agree_calls(lead->exec->clique, &set->call, &post->call));
        if (post->is_captured == (set->capture != 0)) continue;
        return ccl_clique_fail(lead->exec->clique, ncclInvalidUsage, 1,
                               "collective #%llu: the streams of process %d capture a graph, those "
                               "of process %d do not",
                               (unsigned long long)(number - 1),
                               lead->procs[post->is_captured ? q : 0],
                               lead->procs[post->is_captured ? 0 : q]);
    }
    return ncclSuccess;
}

ncclResult_t ccl_lead_keep(struct ccl_lead *lead, struct ccl_region **pin)
{
    if (*pin == NULL) return ncclSuccess;
    TRY(ccl_grow((void **)&lead->kept, lead->nkept, &lead->kept_room, sizeof *lead->kept));
    lead->kept[lead->nkept++] = *pin;
    *pin = NULL;
    return ncclSuccess;
}

static ncclResult_t import_ranks(struct ccl_lead *lead, const struct ccl_set *set, uint64_t number)
{
    struct ccl_exec *exec = lead->exec;
    const struct ccl_op *op = &set->members[set->last].record.op;
    ccl_lead_unpin(lead, number);
    for (uint16_t i = 0; i < exec->nlocal; i++)
        if (exec->member_of[i] == CCL_ELSEWHERE) TRY(import_rank(lead, op, i, number));
    return ncclSuccess;
}

/* Into a graph: words go from 0 to 1 and back in each replay. The others have captured theirs, or
 * are waited for: nothing else could be put into the graph. */
static ncclResult_t capture_leader(struct ccl_lead *lead, struct ccl_set *set, cudaStream_t stream,
                                   uint64_t number)
{
    size_t npins = (size_t)lead->exec->nlocal * CCL_LEAD_PINS;
    TRY(wait_for(lead, number, ccl_lead_all_posted));
    TRY(compare_posts(lead, set, number));
    TRY(import_ranks(lead, set, number));
    for (size_t i = 0; i < npins; i++)
        TRY(ccl_lead_keep(lead, &lead->pins[(number % CCL_LEAD_DEPTH) * npins + i]));
    for (uint16_t q = 1; q < lead->nprocs; q++)
        TRY(ccl_device()->word_take(stream, graph_word(lead, 0, q)));
    TRY(ccl_launch_set(set, stream));
    for (uint16_t q = 1; q < lead->nprocs; q++)
        TRY(ccl_device()->word_write(stream, graph_word(lead, 1, q), 1));
    lead->ngraphs++;
    /* Release: its place among the eager ones is free. */
    __atomic_store_n(ccl_lead_word(lead, lead->nprocs, number), (uint32_t)number, __ATOMIC_RELEASE);
    return ncclSuccess;
}

/* The kernel itself says that it is done: a write of its stream would come a microsecond later. */
ncclResult_t ccl_lead_run(struct ccl_lead *lead, struct ccl_set *set, cudaStream_t stream,
                          uint64_t number)
{
    struct ncclComm *comm = set->members[set->last].record.op.comm;
    TRY(compare_posts(lead, set, number));
    TRY(import_ranks(lead, set, number));
    for (uint16_t q = 1; q < lead->nprocs; q++) {
        struct ccl_await ready = {ccl_lead_word(lead, q, number), (uint32_t)number,
                                  CCL_AWAIT_OTHERS};
        TRY(ccl_await(comm, stream, &ready));
    }
    set->told = (struct ccl_told){
        .word = ccl_lead_word(lead, lead->nprocs, number),
        .value = (uint32_t)number,
        .arrived = &lead->arrived[number % CCL_LEAD_DEPTH * CCL_LEAD_LINE_BYTES / sizeof(uint32_t)],
    };
    TRY(ccl_launch_set(set, stream));
    return ccl_lead_let_go(set, stream);
}

ncclResult_t ccl_lead_launch(struct ccl_set *set, cudaStream_t stream)
{
    struct ccl_lead *lead = set->exec->lead;
    const struct ccl_op *op = &set->members[set->last].record.op;
    uint64_t number = set->seq + 1;
    if (set->capture != 0) TRY(check_room_for_graph(lead, op));
    TRY(wait_for(lead, number, has_room));
    __atomic_store_n(&lead->names[number % CCL_LEAD_DEPTH], ccl_coll_name(op->coll),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&lead->latest, number, __ATOMIC_RELAXED);
    if (!lead->is_leader) return run_member(lead, set, stream, number);
    __atomic_store_n(&ccl_lead_post(lead, 0, number)->number, number, __ATOMIC_RELEASE);
    if (set->capture != 0) return capture_leader(lead, set, stream, number);
    /* What is late keeps its order; with few queues nothing is put behind it. */
    if (ccl_await_is_tight(op->comm->device)) TRY(wait_for(lead, number, has_no_jobs));
    if (lead->jobs == NULL && wait_until(lead, number, ccl_lead_all_posted, ccl_park_us(op)))
        return ccl_lead_run(lead, set, stream, number);
    return ccl_lead_later(lead, set, stream, number);
}

/* ---- the status ---- */

const char *ccl_lead_waiting(const struct ccl_exec *exec, uint64_t *seq, uint8_t *missing)
{
    const struct ccl_lead *lead = exec->lead;
    const struct ccl_topo *topo = exec->clique->topo;
    uint64_t last = __atomic_load_n(&lead->latest, __ATOMIC_RELAXED);
    uint64_t number = last > CCL_LEAD_DEPTH ? last - CCL_LEAD_DEPTH + 1 : 1;
    while (number <= last && is_over(lead, number)) number++;
    if (number > last) return NULL;
    *seq = number - 1;
    for (uint16_t q = 0; q < lead->nprocs; q++)
        for (uint16_t r = 0; r < topo->nranks; r++)
            if (topo->proc_of[r] == lead->procs[q]) missing[r] = !has_posted(lead, q, number);
    return __atomic_load_n(&lead->names[number % CCL_LEAD_DEPTH], __ATOMIC_RELAXED);
}
