/* plan.c: choosing an algorithm, building its schedule once, binding it to connections. */
#include "core/plan.h"

#include "algo/cost.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/log.h"
#include "base/param.h"

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
        TRY(ccl_clique_conn(clique, &id, proto, link->is_send, &exec->conns[at]));
    }
    *out = exec->conns[at];
    return ncclSuccess;
}

static ncclResult_t bind_conns(struct ccl_exec *exec, struct ccl_plan *plan)
{
    uint32_t nlinks = plan->sched.nlinks;
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
    ccl_free(plan);
}

static ncclResult_t make_plan(struct ccl_exec *exec, const struct ccl_sched_args *args,
                              const struct ccl_pick *pick, struct ccl_plan **out)
{
    ncclResult_t rc;
    struct ccl_plan *plan;
    TRY(CCL_NEW(&plan, 1));
    plan->coll = (enum ccl_coll)args->coll;
    plan->root = args->root;
    plan->algo = pick->algo;
    plan->proto = pick->proto;
    plan->slot_bytes = args->slot_bytes;
    TRY_GOTO(rc, pick->algo->build(args, &plan->sched), fail);
    TRY_GOTO(rc, bind_conns(exec, plan), fail);
    plan->next = exec->plans;
    exec->plans = plan;
    *out = plan;
    return ncclSuccess;
fail:
    free_plan(plan);
    return rc;
}

static ncclResult_t fail_empty(const struct ccl_exec *exec, const struct ccl_op *op)
{
    const char *algo = ccl_param_text(CCL_PARAM_ALGO), *proto = ccl_param_text(CCL_PARAM_PROTO);
    return ccl_err(ncclInvalidUsage,
                   "nccl%s: nothing is left that can do it on %u executors: NCCL_ALGO=%s "
                   "NCCL_PROTO=%s",
                   ccl_coll_name(op->coll), exec->view.nexecs, algo != NULL ? algo : "(unset)",
                   proto != NULL ? proto : "(unset)");
}

ncclResult_t ccl_plan_get(struct ccl_exec *exec, const struct ccl_op *op, uint64_t bytes,
                          struct ccl_plan **out)
{
    struct ccl_clique *clique = exec->clique;
    struct ccl_pick_args asked = {
        .sched = {&exec->view, (enum ccl_sched_coll)op->coll, op->root, clique->slot_bytes},
        .bytes = bytes,
        .across = !ccl_clique_is_whole(clique),
        .choice = &clique->choice,
    };
    struct ccl_pick pick = ccl_cost_pick(&asked);
    if (pick.algo == NULL) return fail_empty(exec, op);
    CCL_INFO(CCL_LOG_TUNING, "%s of %llu bytes: %s %s, %.1f us expected", ccl_coll_name(op->coll),
             (unsigned long long)bytes, pick.algo->name, ccl_proto_name(pick.proto), pick.cost_us);
    struct ccl_plan *plan = exec->plans;
    while (plan != NULL && (plan->coll != op->coll || plan->root != op->root ||
                            plan->algo != pick.algo || plan->proto != pick.proto))
        plan = plan->next;
    asked.sched.slot_bytes = ccl_proto_slot_bytes(pick.proto, clique->slot_bytes);
    if (plan == NULL) return make_plan(exec, &asked.sched, &pick, out);
    *out = plan;
    return ncclSuccess;
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
