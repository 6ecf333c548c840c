/* launch.c: from a complete set to a work: sizes of channels, rounds and pieces, buffers,
 * factors, gates; and what happens when a kernel retires. */
#include "core/launch.h"

#include "algo/cost.h"
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/err.h"
#include "core/agree.h"
#include "core/describe.h"
#include "core/lead.h"
#include "core/plan.h"
#include "kernel/board.h"
#include "kernel/kernel.h"
#include "kernel/size.h"

#include <string.h>

/* Must come out the same on all executors that share connections or meetings: depends on the
 * operation, and on the device only inside a process. */
static uint16_t count_channels(const struct ccl_exec *exec, const struct ccl_plan *plan,
                               uint64_t block_bytes, int device)
{
    int has_links = plan->sched.nlinks > 0;
    uint64_t most = exec->clique->nchannels, piece_bytes = block_bytes / plan->sched.npieces;
    if (ccl_clique_spans(exec->clique))
        return ccl_cost_gpu_channels(piece_bytes, most, plan->proto);
    if (!has_links) {
        most = ccl_device()->lanes(device) / exec->clique->nlocal_execs;
        if (exec->view.nexecs > 1 && most > CCL_NCHANNELS) most = CCL_NCHANNELS;
    }
    if (most > exec->clique->max_channels) most = exec->clique->max_channels;
    return ccl_cost_channels(piece_bytes, most, has_links);
}

/* Mixes what must agree between executors, FNV over the fields. */
static uint64_t sign_shape(const struct ccl_op *op, const struct ccl_plan *plan)
{
    uint64_t fields[] = {op->coll, op->count_elems, op->type, (uint64_t)(uint32_t)op->root,
                         ccl_plan_sign(plan)};
    uint64_t sign = 0xcbf29ce484222325u;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        sign = (sign ^ fields[i]) * 0x100000001b3u ^ sign >> 29;
    return sign;
}

/* Of the bits that a board has for it. */
static uint64_t hash_plan(const struct ccl_plan *plan)
{
    return ccl_plan_sign(plan) << CCL_CALL_RANK_BITS >> CCL_CALL_RANK_BITS | 1;
}

/* The hash with the operator, below the low bits of the number of the operation. */
static uint64_t sign_op(uint64_t shape, const struct ccl_set *set)
{
    uint64_t redop = (uint64_t)ccl_redop_class(set->members[set->last].record.op.redop);
    uint64_t sign = (shape ^ redop) * 0x100000001b3u ^ shape >> 29;
    return (sign & CCL_SIGN_HASH) | set->seq << CCL_SIGN_HASH_BITS;
}

/* ---- recipes: works as far as they depend on the shape of the operation alone ---- */

struct ccl_recipe {
    enum ccl_coll coll;
    ncclDataType_t type;
    int root;
    uint64_t count_elems, bytes, sign;
    uint64_t plan_hash; /* for the board, not 0 */
    struct ccl_plan *plan;
    struct ccl_work work; /* without `local` and what a set brings */
};

uint64_t ccl_launch_bytes(const struct ccl_op *op)
{
    int is_blocked = op->coll >= CCL_ALL_GATHER && op->coll <= CCL_SCATTER;
    uint64_t bytes = op->count_elems * ccl_type_bytes(op->type);
    return is_blocked ? bytes * (uint64_t)op->comm->nranks : bytes;
}

int ccl_launch_streams(const struct ccl_clique *clique, uint64_t bytes)
{
    return bytes > ccl_cpu_cache_bytes() / 2 / clique->topo->nranks;
}

static void fill_body(struct ccl_work *work, const struct ccl_plan *plan, uint64_t elem_bytes)
{
    const struct ccl_sched *sched = &plan->sched;
    struct ccl_body *body = &work->body[work->nbodies++];
    *body = (struct ccl_body){
        .steps = sched->steps,
        .conns = plan->conns,
        .nsteps = (uint16_t)sched->nsteps,
        .npieces = sched->npieces,
        .nlinks = (uint16_t)sched->nlinks,
        .lag = (uint8_t)sched->lag,
        .proto = (uint8_t)plan->proto,
        .packs = sched->pack > 1,
    };
    if (plan->on_device != NULL) {
        body->steps = (const struct ccl_step *)(void *)plan->on_device;
        body->conns = (struct ccl_conn *const *)(void *)(plan->on_device + plan->table_at);
    }
    uint64_t place_bytes = ccl_size_place(plan->slot_bytes, sched->pack);
    ccl_size_body(work, body, elem_bytes, sched->nlinks > 0 ? place_bytes : 0);
}

static void fill_recipe(struct ccl_recipe *recipe, struct ccl_exec *exec, const struct ccl_op *op)
{
    struct ccl_clique *clique = exec->clique;
    const struct ccl_plan *plan = recipe->plan;
    struct ccl_work *work = &recipe->work;
    uint64_t elem_bytes = ccl_type_bytes(op->type);
    work->meets = exec->meets;
    work->abort_word = &clique->words->abort;
    work->note = &exec->words->note;
    work->second = &exec->words->second;
    work->error = &clique->words->error;
    if (exec->view.nexecs > 1) {
        work->turn = &exec->turn.due;
        work->boards = (const struct ccl_board *const *)clique->boards;
    }
    work->count_elems = op->count_elems;
    work->divisor = exec->view.nranks;
    work->first_local = exec->first_slot;
    work->nlocal = exec->nlocal;
    work->nslots = exec->view.nranks;
    work->nexecs = exec->view.nexecs;
    work->self = exec->index;
    work->type = (uint8_t)op->type;
    if (ccl_launch_streams(clique, 2 * recipe->bytes)) work->flags |= CCL_WORK_STREAMS;
    const struct ccl_plan *certain = plan->second != NULL ? plan->second : plan;
    if (op->coll == CCL_BROADCAST || op->coll == CCL_ALL_GATHER) work->flags |= CCL_WORK_COPIES;
    work->nchannels =
        ccl_device()->retires || ccl_clique_spans(clique)
            ? count_channels(exec, certain, work->count_elems * elem_bytes, op->comm->device)
            : exec->clique->max_channels;
    fill_body(work, plan, elem_bytes);
    if (plan->second != NULL) fill_body(work, plan->second, elem_bytes);
}

static int fits(const struct ccl_recipe *recipe, const struct ccl_op *op)
{
    return recipe != NULL && recipe->count_elems == op->count_elems && recipe->coll == op->coll &&
           recipe->type == op->type && recipe->root == op->root;
}

/* The recipe of the operation's shape; those of other shapes make room when they must. */
static ncclResult_t find_recipe(struct ccl_exec *exec, const struct ccl_op *op,
                                const struct ccl_recipe **out)
{
    uint64_t key = (op->count_elems * 8 + op->coll) * 16 + op->type + (uint64_t)(op->root + 1) * 5;
    struct ccl_recipe **slot = &exec->recipes[(key ^ key >> 7 ^ key >> 17) % CCL_NRECIPES];
    if (!fits(*slot, op)) {
        struct ccl_plan *plan;
        uint64_t bytes = ccl_launch_bytes(op);
        TRY(ccl_plan_get(exec, op, bytes, &plan));
        if (*slot == NULL) TRY(CCL_NEW(slot, 1));
        **slot = (struct ccl_recipe){.coll = op->coll,
                                     .type = op->type,
                                     .root = op->root,
                                     .count_elems = op->count_elems,
                                     .bytes = bytes,
                                     .sign = sign_shape(op, plan),
                                     .plan_hash = hash_plan(plan),
                                     .plan = plan};
        fill_recipe(*slot, exec, op);
    }
    *out = *slot;
    return ncclSuccess;
}

void ccl_launch_free(struct ccl_exec *exec)
{
    for (int i = 0; i < CCL_NRECIPES; i++) ccl_free(exec->recipes[i]);
}

/* ---- works ---- */

/* A rank that is not the root may pass anything as the buffer that only the root needs. */
struct ccl_slot ccl_launch_slot(const struct ccl_record *record)
{
    const struct ccl_op *op = &record->op;
    int is_other = op->root >= 0 && op->comm->rank != op->root;
    return (struct ccl_slot){
        .in = is_other && op->coll == CCL_BROADCAST ? NULL : op->in,
        .out = is_other && op->coll == CCL_REDUCE ? NULL : op->out,
        .scalar_at = record->factors.scalar_at,
        .scalar = record->factors.scalar,
    };
}

static void fill_slots(struct ccl_work *work, const struct ccl_set *set)
{
    const struct ccl_exec *exec = set->exec;
    for (uint16_t i = 0; i < work->nlocal; i++) {
        uint16_t member = exec->member_of[i];
        work->local[i] = member == CCL_ELSEWHERE ? *ccl_lead_slot(exec, i)
                                                 : ccl_launch_slot(&set->members[member].record);
    }
}

static void fill_work(struct ccl_work *work, struct ccl_set *set, const struct ccl_recipe *recipe)
{
    const struct ccl_record *record = &set->members[set->last].record;
    memcpy(work, &recipe->work, offsetof(struct ccl_work, local));
    work->gates = set->gates;
    work->arrived = set->told.word != NULL ? set->told.arrived : set->arrived;
    work->done = set->told.word;
    work->done_value = set->told.value;
    work->owner = set;
    if (work->turn != NULL) work->ticket = set->exec->turn.taken++;
    work->signature = sign_op(recipe->sign, set);
    set->call.how |= recipe->plan_hash << CCL_CALL_RANK_BITS;
    board_add_plan(set->exec->board, &set->call);
    work->call = set->call;
    work->ngates = set->ngates;
    work->redop = record->factors.kind;
    work->flags |= record->factors.flags;
    fill_slots(work, set);
}

void ccl_launch_retired(struct ncclComm *comm)
{
    struct ccl_clique *clique = comm->clique;
    if (__atomic_load_n(&clique->words->error, __ATOMIC_RELAXED) != 0)
        ccl_clique_fail(clique, ncclInvalidUsage, 1,
                        "rank %d: ranks called different operations, or the same with different "
                        "count, datatype, operator or root",
                        comm->rank);
    /* Release publishes all effects of the kernel to whoever drains the rank. */
    atomic_fetch_sub_explicit(&comm->flying, 1, memory_order_release);
}

ncclResult_t ccl_launch(struct ncclComm *comm, cudaStream_t stream,
                        const struct ccl_launch_spec *spec)
{
    uint32_t counts = ccl_device()->retires ? 1 : 0;
    atomic_fetch_add_explicit(&comm->flying, counts, memory_order_relaxed);
    ncclResult_t rc = ccl_device()->launch(stream, spec);
    if (rc == ncclSuccess) return ncclSuccess;
    atomic_fetch_sub_explicit(&comm->flying, counts, memory_order_relaxed);
    return ccl_clique_fail(comm->clique, rc, 1, "rank %d: kernel launch failed: %s", comm->rank,
                           ccl_err_last());
}

/* The kernel counts for the set and for every member: none of them is idle before it has retired.
 * Where nothing retires, core/track.h keeps count. */
static void count_kernel(struct ccl_set *set, uint32_t by)
{
    if (!ccl_device()->retires) return;
    atomic_fetch_add_explicit(&set->refs, (int)by, memory_order_relaxed);
    for (uint16_t i = 0; i < set->nmembers; i++)
        if (i != set->last)
            atomic_fetch_add_explicit(&set->members[i].record.op.comm->flying, by,
                                      memory_order_relaxed);
}

/* Says what this executor ran while others ran something else in its place. */
static void report_mismatch(const struct ccl_set *set, const struct ccl_call *call)
{
    struct ccl_exec *exec = set->exec;
    struct ccl_clique *clique = exec->clique;
    uint64_t note = __atomic_load_n(&exec->words->note, __ATOMIC_RELAXED);
    if (__atomic_load_n(&clique->words->error, __ATOMIC_RELAXED) == 0) return;
    ccl_agree_explain(exec, call);
    if (note >> 32 != CCL_WAIT_DISAGREE) return;
    char ranks[256];
    ccl_topo_list_exec(clique->topo, (uint16_t)note, ranks, sizeof ranks);
    const struct ccl_op *op = &set->members[set->last].record.op;
    ccl_clique_fail(clique, ncclInvalidUsage, 1,
                    "collective #%llu differs between ranks: rank %d called nccl%s(count %zu, "
                    "datatype %d, op %d, root %d), ranks %s called something else, or run another "
                    "algorithm (NCCL_ALGO, NCCL_PROTO)",
                    (unsigned long long)set->seq, op->comm->rank, ccl_coll_name(op->coll),
                    op->count_elems, (int)op->type, (int)op->redop, op->root, ranks);
}

/* Releases open the gates and publish the operation's results to the members' streams. */
static void retire_set(void *args)
{
    struct ccl_work *work = args;
    struct ccl_set *set = work->owner;
    report_mismatch(set, &work->call);
    struct ncclComm *last = set->members[set->last].record.op.comm;
    for (uint16_t i = 0; i < work->ngates; i++)
        __atomic_store_n(&set->gates[i].gone, set->gates[i].gone + 1, __ATOMIC_RELEASE);
    if (work->turn != NULL) ccl_turn_pass(work->turn, work->ticket);
    for (uint16_t i = 0; i < set->nmembers; i++)
        if (i != set->last) ccl_launch_retired(set->members[i].record.op.comm);
    ccl_bell_ring(ccl_bell_self());
    /* From here on the set may be used again, and with its last member the clique may go. */
    atomic_fetch_sub_explicit(&set->refs, 1, memory_order_release);
    ccl_launch_retired(last);
}

static void note_choice(struct ccl_set *set, const struct ccl_recipe *recipe, uint64_t ticket)
{
    enum ccl_join_way way = set->nmembers < 2  ? CCL_JOIN_NONE
                            : set->ngates == 0 ? CCL_JOIN_EVENTS
                                               : CCL_JOIN_GATES;
    for (uint16_t i = 0; i < set->nmembers; i++) {
        const struct ccl_op *op = &set->members[i].record.op;
        op->comm->latest = (struct ccl_latest){op->coll, recipe->plan, ticket,
                                               recipe->work.nchannels, (uint8_t)way};
    }
}

ncclResult_t ccl_launch_choose(struct ccl_set *set)
{
    const struct ccl_recipe *recipe;
    TRY(find_recipe(set->exec, &set->members[set->last].record.op, &recipe));
    note_choice(set, recipe, 0);
    return ncclSuccess;
}

/* Kernels on several GPUs: behind each other, and behind the copy of what they read. */
static ncclResult_t launch_far(struct ccl_set *set, const struct ccl_recipe *recipe,
                               const struct ccl_launch_spec *spec, cudaStream_t stream)
{
    struct ccl_chain *chain = &set->exec->chain;
    TRY(ccl_chain_enter(chain, stream, set->capture));
    TRY(ccl_plan_send(recipe->plan, stream, set->capture));
    TRY(ccl_launch(set->members[set->last].record.op.comm, stream, spec));
    return ccl_chain_leave(chain, stream, set->capture);
}

ncclResult_t ccl_launch_set(struct ccl_set *set, cudaStream_t stream)
{
    const struct ccl_op *op = &set->members[set->last].record.op;
    const struct ccl_recipe *recipe;
    TRY(find_recipe(set->exec, op, &recipe));
    struct ccl_work work;
    fill_work(&work, set, recipe);
    note_choice(set, recipe, work.ticket);
    ccl_describe_launch(set, recipe->plan, work.nchannels);
    struct ccl_launch_spec spec = {
        .args = &work,
        .args_bytes = offsetof(struct ccl_work, local) + work.nlocal * sizeof work.local[0],
        .nlanes = work.nchannels,
        .is_small = work.nchannels == 1 && recipe->bytes <= CCL_SMALL_BYTES,
        .host = ccl_kernel_sched,
        .cuda = ccl_cuda_kernel_sched,
        .retire = retire_set,
    };
    if (ccl_clique_spans(set->exec->clique)) return launch_far(set, recipe, &spec, stream);
    count_kernel(set, 1);
    ncclResult_t rc = ccl_launch(op->comm, stream, &spec);
    if (rc != ncclSuccess) count_kernel(set, UINT32_MAX);
    return rc;
}

/* ---- copies ---- */

ncclResult_t ccl_launch_moves(const struct ccl_moves *moves, cudaStream_t stream)
{
    struct ccl_clique *clique = moves->exec->clique;
    const struct ccl_set *set = moves->gates_of;
    struct ccl_step step = {.kind = CCL_MAP,
                            .in = {{CCL_IN, 0, 0, moves->n, 1, 0, 0}},
                            .out = {{CCL_OUT, 0, 0, moves->n, 1, 0, 0}}};
    struct ccl_work work = {
        .body = {{.steps = &step, .nsteps = 1, .npieces = 1}},
        .abort_word = &clique->words->abort,
        .nchannels = clique->max_channels,
        .nbodies = 1,
        .nlocal = moves->n,
        .nslots = moves->n,
        .nexecs = 1,
        .type = ncclInt8,
        .flags = CCL_WORK_LENGTHS,
    };
    if (set != NULL) {
        work.gates = set->gates;
        work.arrived = set->arrived;
        work.ngates = set->ngates;
    }
    for (uint16_t i = 0; i < moves->n; i++) {
        uint64_t bytes = moves->pairs[i].bytes;
        work.local[i] = (struct ccl_slot){
            .in = moves->pairs[i].in, .out = moves->pairs[i].out, .scalar = bytes};
        if (bytes > work.count_elems) work.count_elems = bytes;
    }
    struct ccl_launch_spec spec = {
        .args = &work,
        .args_bytes = sizeof work,
        .nlanes = 1,
        .cuda = ccl_cuda_kernel_sched,
    };
    return ccl_launch(moves->comm, stream, &spec);
}

/* ---- gates ---- */

struct gate_owner {
    struct ccl_gate_args args; /* first: the kernel sees only this part */
    struct ncclComm *comm;
    _Atomic int *refs;
};

static void retire_gate(void *args)
{
    struct gate_owner *owner = args;
    struct ncclComm *comm = owner->comm;
    atomic_fetch_sub_explicit(owner->refs, 1, memory_order_release);
    ccl_launch_retired(comm);
}

ncclResult_t ccl_launch_gate(struct ccl_gate *gate, struct ncclComm *comm, cudaStream_t stream,
                             _Atomic int *refs)
{
    struct gate_owner owner = {
        .args = {gate, &comm->clique->words->abort, ccl_bell_self()},
        .comm = comm,
        .refs = refs,
    };
    struct ccl_launch_spec spec = {
        .args = &owner,
        .args_bytes = sizeof owner,
        .nlanes = 1,
        .is_small = 1,
        .host = ccl_kernel_gate,
        .retire = retire_gate,
    };
    atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
    ncclResult_t rc = ccl_launch(comm, stream, &spec);
    if (rc != ncclSuccess) atomic_fetch_sub_explicit(refs, 1, memory_order_relaxed);
    return rc;
}

ncclResult_t ccl_launch_gates(struct ccl_gates_args *args, struct ncclComm *comm,
                              cudaStream_t stream)
{
    args->abort_word = &comm->clique->words->abort;
    struct ccl_launch_spec spec = {
        .args = args,
        .args_bytes = sizeof *args,
        .nlanes = 1,
        .cuda = ccl_cuda_kernel_gates,
    };
    return ccl_launch(comm, stream, &spec);
}
