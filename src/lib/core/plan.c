/* plan.c: choosing an algorithm, building its schedule once, binding it to connections. */
#include "core/plan.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/log.h"
#include "base/param.h"

static_assert((int)CCL_ALL_REDUCE == (int)CCL_SCHED_ALL_REDUCE &&
                  (int)CCL_SCATTER == (int)CCL_SCHED_SCATTER,
              "core and algo number the collectives alike");

static ncclResult_t get_conn(struct ccl_exec *exec, const struct ccl_link *link, uint16_t channel,
                             struct ccl_conn **out)
{
    struct ccl_clique *clique = exec->clique;
    size_t nexecs = clique->topo->nexecs, nchannels = clique->nchannels;
    if (exec->conns == NULL) TRY(CCL_NEW(&exec->conns, nexecs * 2 * nchannels));
    size_t at = ((size_t)link->peer * 2 + link->is_send) * nchannels + channel;
    if (exec->conns[at] == NULL) {
        struct ccl_fifo_id id = {
            .sender = link->is_send ? exec->index : link->peer,
            .receiver = link->is_send ? link->peer : exec->index,
            .channel = channel,
        };
        TRY(ccl_clique_conn(clique, &id, link->is_send, &exec->conns[at]));
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
            TRY(get_conn(exec, &plan->sched.links[l], c, &plan->conns[c * nlinks + l]));
    return ncclSuccess;
}

static void free_plan(struct ccl_plan *plan)
{
    ccl_sched_free(&plan->sched);
    ccl_free(plan->conns);
    ccl_free(plan);
}

static ncclResult_t make_plan(struct ccl_exec *exec, const struct ccl_sched_args *args,
                              const struct ccl_algo_ops *algo, struct ccl_plan **out)
{
    ncclResult_t rc;
    struct ccl_plan *plan;
    TRY(CCL_NEW(&plan, 1));
    plan->coll = (enum ccl_coll)args->coll;
    plan->root = args->root;
    plan->algo = algo;
    TRY_GOTO(rc, algo->build(args, &plan->sched), fail);
    TRY_GOTO(rc, bind_conns(exec, plan), fail);
    plan->next = exec->plans;
    exec->plans = plan;
    *out = plan;
    return ncclSuccess;
fail:
    free_plan(plan);
    return rc;
}

ncclResult_t ccl_plan_get(struct ccl_exec *exec, const struct ccl_op *op, uint64_t bytes,
                          struct ccl_plan **out)
{
    struct ccl_sched_args args = {&exec->view, (enum ccl_sched_coll)op->coll, op->root,
                                  exec->clique->slot_bytes};
    const char *forced = ccl_param_text(CCL_PARAM_CHORUS_ALGO);
    const struct ccl_algo_ops *algo = ccl_algo_choose(&args, bytes, forced);
    if (algo == NULL)
        return ccl_err(ncclInvalidUsage, "nccl%s: CHORUS_ALGO=%s cannot do it for %u executors",
                       ccl_coll_name(op->coll), forced, exec->view.nexecs);
    CCL_INFO(CCL_LOG_TUNING, "%s of %llu bytes: %s", ccl_coll_name(op->coll),
             (unsigned long long)bytes, algo->name);
    struct ccl_plan *plan = exec->plans;
    while (plan != NULL && (plan->coll != op->coll || plan->root != op->root || plan->algo != algo))
        plan = plan->next;
    if (plan == NULL) return make_plan(exec, &args, algo, out);
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
    size_t nconns = (size_t)exec->view.nexecs * 2 * exec->clique->nchannels;
    for (size_t i = 0; exec->conns != NULL && i < nconns; i++) ccl_free(exec->conns[i]);
    ccl_free(exec->conns);
    exec->conns = NULL;
}
