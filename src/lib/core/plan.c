/* plan.c: choosing an algorithm, building its schedule once, binding it to connections. */
#include "core/plan.h"

#include "algo/cost.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/param.h"
#include "core/schedule.h"
#include "core/zones.h"
#include "kernel/size.h"

#include <string.h>

static_assert((int)CCL_ALL_REDUCE == (int)CCL_SCHED_ALL_REDUCE &&
                  (int)CCL_SCATTER == (int)CCL_SCHED_SCATTER,
              "core and algo number the collectives alike");

static ncclResult_t get_conn(struct ccl_exec *exec, const struct ccl_link *link,
                             enum ccl_proto proto, uint16_t channel, struct ccl_conn **out)
{
    struct ccl_clique *clique = exec->clique;
    size_t nexecs = clique->topo->nexecs, nchannels = clique->nchannels;
    if (exec->conns == NULL) TRY(CCL_NEW(&exec->conns, nexecs * 2 * nchannels * CCL_NPROTOS));
    size_t at =
        (((size_t)link->peer * 2 + link->is_send) * nchannels + channel) * CCL_NPROTOS + proto;
    if (exec->conns[at] == NULL) {
        struct ccl_fifo_id id = {
            .sender = link->is_send ? exec->index : link->peer,
            .receiver = link->is_send ? link->peer : exec->index,
            .channel = channel,
        };
        pthread_mutex_lock(&clique->lock);
        ncclResult_t rc = ccl_clique_conn(clique, &id, proto, link->is_send, &exec->conns[at]);
        pthread_mutex_unlock(&clique->lock);
        TRY(rc);
    }
    *out = exec->conns[at];
    return ncclSuccess;
}

static ncclResult_t check_far(const struct ccl_exec *exec, const struct ccl_plan *plan)
{
    const struct ccl_sched *sched = &plan->sched;
    if (ccl_cuda_fits(sched->steps, sched->nsteps, sched->nlinks, exec->view.nranks) &&
        ccl_size_place(plan->slot_bytes, sched->pack) > 0)
        return ncclSuccess;
    return ccl_err(
        ncclInvalidUsage,
        "nccl%s: %s on %u ranks and %u GPUs is more than a kernel takes (%d connections, "
        "%d buffers a step)",
        ccl_coll_name(plan->coll), plan->name, exec->view.nranks, exec->view.nexecs,
        CCL_CUDA_MAX_LINKS, CCL_CUDA_MAX_SIDE);
}

/* Steps and ends for a GPU. A process that does not lead the executor runs none of its kernels. */
static ncclResult_t bind_far(struct ccl_exec *exec, struct ccl_plan *plan)
{
    const struct ccl_sched *sched = &plan->sched;
    size_t nchannels = exec->clique->nchannels, steps_bytes = sched->nsteps * sizeof *sched->steps;
    TRY(check_far(exec, plan));
    if (exec->ends == NULL) return ncclSuccess;
    plan->table_at = (steps_bytes + 15) / 16 * 16;
    plan->bytes = plan->table_at + nchannels * sched->nlinks * sizeof(struct ccl_cuda_conn *);
    TRY(ccl_device()->words_alloc((void **)&plan->original, plan->bytes));
    TRY(ccl_device()->flags_alloc((void **)&plan->on_device, plan->bytes));
    memcpy(plan->original, sched->steps, steps_bytes);
    struct ccl_cuda_conn **table = (void *)(plan->original + plan->table_at);
    for (uint16_t c = 0; c < nchannels; c++)
        for (uint32_t l = 0; l < sched->nlinks; l++)
            *table++ = ccl_zones_end(exec, &sched->links[l], c, plan->proto);
    return ncclSuccess;
}

/* A graph whose operations come first copies at each replay: nothing is known of the order in which
 * graphs run. */
ncclResult_t ccl_plan_send(struct ccl_plan *plan, cudaStream_t stream, uint64_t capture)
{
    if (plan->second != NULL) TRY(ccl_plan_send(plan->second, stream, capture));
    if (plan->is_sent) return ncclSuccess;
    plan->is_sent = capture == 0;
    return ccl_device()->base.copy(plan->on_device, plan->original, plan->bytes, stream);
}

static ncclResult_t bind_conns(struct ccl_exec *exec, struct ccl_plan *plan)
{
    uint32_t nlinks = plan->sched.nlinks;
    if (ccl_clique_spans(exec->clique)) return bind_far(exec, plan);
    if (nlinks == 0) return ncclSuccess;
    uint16_t nchannels = exec->clique->nchannels;
    TRY(CCL_NEW(&plan->conns, (size_t)nchannels * nlinks));
    for (uint16_t c = 0; c < nchannels; c++)
        for (uint32_t l = 0; l < nlinks; l++)
            TRY(get_conn(exec, &plan->sched.links[l], plan->proto, c,
                         &plan->conns[c * nlinks + l]));
    return ncclSuccess;
}

static void free_plan(struct ccl_plan *plan)
{
    ccl_sched_free(&plan->sched);
    ccl_free(plan->conns);
    ccl_device()->flags_free(plan->on_device);
    ccl_device()->words_free(plan->original);
    ccl_free(plan);
}

/* `wanted` says what to make: all but the schedule and what belongs to it. */
static ncclResult_t make_plan(struct ccl_exec *exec, const struct ccl_plan *wanted,
                              struct ccl_plan **out)
{
    ncclResult_t rc;
    struct ccl_plan *plan;
    struct ccl_sched_args args = {&exec->view, (enum ccl_sched_coll)wanted->coll, wanted->root,
                                  wanted->slot_bytes};
    TRY(CCL_NEW(&plan, 1));
    *plan = *wanted;
    if (plan->program != NULL)
        TRY_GOTO(rc, ccl_sched_copy(&plan->program->scheds[exec->index], &plan->sched), fail);
    else
        TRY_GOTO(rc, plan->algo->build(&args, &plan->sched), fail);
    TRY_GOTO(rc, bind_conns(exec, plan), fail);
    plan->next = exec->plans;
    exec->plans = plan;
    *out = plan;
    return ncclSuccess;
fail:
    free_plan(plan);
    return rc;
}

static enum ccl_cost_place place_of(const struct ccl_clique *clique)
{
    if (!ccl_clique_spans(clique))
        return ccl_clique_is_whole(clique) ? CCL_COST_IN_PROCESS : CCL_COST_ACROSS;
    switch (ccl_zones_link(clique)) {
    case CCL_LINK_NONE: return CCL_COST_GPU_HOST;
    case CCL_LINK_ATOMIC: return CCL_COST_GPU_NVLINK;
    default: return CCL_COST_GPU_PEER;
    }
}

static struct ccl_pick_args ask(const struct ccl_exec *exec, enum ccl_coll coll, int root)
{
    const struct ccl_clique *clique = exec->clique;
    return (struct ccl_pick_args){
        .sched = {&exec->view, (enum ccl_sched_coll)coll, root, clique->slot_bytes},
        .place = place_of(clique),
        .choice = &clique->choice,
    };
}

/* ---- estimates ---- */

/* A GPU alone has figures of its own, and nothing to choose by them. */
static struct ccl_pick_args ask_time(const struct ccl_exec *exec, enum ccl_coll coll, int root,
                                     uint64_t bytes)
{
    struct ccl_pick_args asked = ask(exec, coll, root);
    const struct ccl_topo *topo = exec->clique->topo;
    if (topo->nexecs == 1 && topo->peers[0].is_gpu) asked.place = CCL_COST_GPU_ALONE;
    asked.bytes = bytes;
    return asked;
}

double ccl_plan_us(const struct ccl_exec *exec, const struct ccl_plan *plan, uint64_t bytes)
{
    struct ccl_pick_args asked = ask_time(exec, plan->coll, plan->root, bytes);
    return plan->algo != NULL ? ccl_cost_us(&asked, plan->algo, plan->proto) : 0;
}

/* A schedule from a file has no figures: it counts as the best that there is without it. */
double ccl_plan_estimate_us(const struct ccl_exec *exec, const struct ccl_op *op, uint64_t bytes)
{
    struct ccl_choice any;
    struct ccl_pick_args asked = ask_time(exec, op->coll, op->root, bytes);
    struct ccl_pick pick = ccl_cost_pick(&asked);
    if (pick.algo != NULL) return pick.cost_us;
    memset(&any, 0xff, sizeof any);
    asked.choice = &any;
    pick = ccl_cost_pick(&asked);
    return pick.algo != NULL ? pick.cost_us : ccl_cost_messages_us(&asked, 1);
}

double ccl_plan_messages_us(const struct ccl_exec *exec, uint64_t n, uint64_t bytes)
{
    struct ccl_pick_args asked = ask_time(exec, CCL_ALL_REDUCE, -1, bytes);
    return ccl_cost_messages_us(&asked, n);
}

uint32_t ccl_plan_allowed(const struct ccl_exec *exec, enum ccl_coll coll,
                          const struct ccl_algo_ops *algo)
{
    enum { LARGE_BYTES = 1 << 30 };
    struct ccl_pick_args asked = ask_time(exec, coll, 0, LARGE_BYTES);
    uint32_t protos = 0;
    for (int p = 0; p < CCL_NPROTOS; p++)
        if (ccl_cost_us(&asked, algo, (enum ccl_proto)p) > 0) protos |= 1u << p;
    return protos;
}

/* ---- choosing ---- */

/* What supports a collective depends neither on its size nor on its root. */
uint32_t ccl_plan_possible(const struct ccl_exec *exec)
{
    uint32_t possible = 0;
    for (int coll = 0; coll < CCL_NCOLLS; coll++) {
        struct ccl_pick_args asked = ask(exec, (enum ccl_coll)coll, 0);
        if (ccl_cost_pick(&asked).algo != NULL) possible |= 1u << coll;
    }
    for (const struct ccl_program *p = exec->clique->programs; p != NULL; p = p->next)
        possible |= 1u << p->coll;
    return possible;
}

ncclResult_t ccl_plan_fail_empty(const struct ccl_exec *exec, const struct ccl_op *op)
{
    const char *algo = ccl_param_text(CCL_PARAM_ALGO), *proto = ccl_param_text(CCL_PARAM_PROTO);
    return ccl_err(ncclInvalidUsage,
                   "nccl%s: nothing is left that can do it on %u executors: NCCL_ALGO=%s "
                   "NCCL_PROTO=%s",
                   ccl_coll_name(op->coll), exec->view.nexecs, algo != NULL ? algo : "(unset)",
                   proto != NULL ? proto : "(unset)");
}

/* What is to run, without its schedule: from the file, else what the cost model picks. */
static ncclResult_t choose(const struct ccl_exec *exec, const struct ccl_op *op,
                           struct ccl_pick_args *asked, struct ccl_plan *wanted)
{
    *wanted = (struct ccl_plan){.coll = op->coll, .root = op->root};
    wanted->program = ccl_schedule_find(exec->clique, &asked->sched);
    if (wanted->program != NULL && !ccl_cost_has_proto(asked->place, wanted->program->proto))
        return ccl_plan_fail_empty(exec, op);
    if (wanted->program != NULL) {
        wanted->name = wanted->program->algo;
        wanted->proto = wanted->program->proto;
    } else {
        struct ccl_pick pick = ccl_cost_pick(asked);
        if (pick.algo == NULL) return ccl_plan_fail_empty(exec, op);
        wanted->algo = pick.algo;
        wanted->name = pick.algo->name;
        wanted->proto = pick.proto;
    }
    wanted->slot_bytes = ccl_proto_slot_bytes(wanted->proto, exec->clique->slot_bytes);
    return ncclSuccess;
}

static int is_same(const struct ccl_plan *a, const struct ccl_plan *b)
{
    return a->coll == b->coll && a->root == b->root && a->algo == b->algo &&
           a->program == b->program && a->proto == b->proto && a->second == b->second;
}

static ncclResult_t find_plan(struct ccl_exec *exec, const struct ccl_plan *wanted,
                              struct ccl_plan **out)
{
    struct ccl_plan *plan = exec->plans;
    while (plan != NULL && !is_same(plan, wanted)) plan = plan->next;
    if (plan == NULL) return make_plan(exec, wanted, out);
    *out = plan;
    return ncclSuccess;
}

ncclResult_t ccl_plan_get(struct ccl_exec *exec, const struct ccl_op *op, uint64_t bytes,
                          struct ccl_plan **out)
{
    struct ccl_plan wanted, second;
    struct ccl_pick_args asked = ask(exec, op->coll, op->root);
    asked.bytes = bytes;
    TRY(choose(exec, op, &asked, &wanted));
    if (wanted.algo == &ccl_algo_direct && asked.place == CCL_COST_ACROSS) {
        asked.certain = 1;
        TRY(choose(exec, op, &asked, &second));
        TRY(find_plan(exec, &second, &wanted.second));
    }
    return find_plan(exec, &wanted, out);
}

uint64_t ccl_plan_sign(const struct ccl_plan *plan)
{
    uint64_t sign = (uint64_t)plan->proto + 1;
    for (const char *at = plan->name; *at != '\0'; at++) sign = sign * 131 + (uint8_t)*at;
    sign = sign * 2 + (plan->program != NULL);
    return plan->second != NULL ? sign * 8191 + ccl_plan_sign(plan->second) : sign;
}

void ccl_plan_free(struct ccl_exec *exec)
{
    while (exec->plans != NULL) {
        struct ccl_plan *plan = exec->plans;
        exec->plans = plan->next;
        free_plan(plan);
    }
    size_t nconns = (size_t)exec->view.nexecs * 2 * exec->clique->nchannels * CCL_NPROTOS;
    for (size_t i = 0; exec->conns != NULL && i < nconns; i++) ccl_free(exec->conns[i]);
    ccl_free(exec->conns);
    exec->conns = NULL;
}
