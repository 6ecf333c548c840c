/* program.c: making, copying and comparing programs. */
#include "algo/program.h"

#include "base/alloc.h"
#include "base/err.h"

#include <string.h>

const char *const ccl_sched_coll_names[CCL_SCHED_NCOLLS] = {
    [CCL_SCHED_ALL_REDUCE] = "AllReduce",
    [CCL_SCHED_REDUCE] = "Reduce",
    [CCL_SCHED_BROADCAST] = "Broadcast",
    [CCL_SCHED_ALL_GATHER] = "AllGather",
    [CCL_SCHED_REDUCE_SCATTER] = "ReduceScatter",
    [CCL_SCHED_ALL_TO_ALL] = "AlltoAll",
    [CCL_SCHED_GATHER] = "Gather",
    [CCL_SCHED_SCATTER] = "Scatter",
};

/* Ranks sorted by executor, as topo/topo.c does it. */
static void sort_slots(struct ccl_program *program)
{
    uint16_t slot = 0;
    for (uint16_t e = 0; e < program->nexecs; e++) {
        program->first_slot[e] = slot;
        for (uint16_t r = 0; r < program->nranks; r++)
            if (program->exec_of[r] == e) program->rank_of[slot++] = r;
    }
    program->first_slot[program->nexecs] = slot;
}

ncclResult_t ccl_program_new(const uint16_t *exec_of, int nranks, struct ccl_program **out)
{
    ncclResult_t rc;
    struct ccl_program *program;
    TRY(CCL_NEW(&program, 1));
    program->nranks = (uint16_t)nranks;
    program->root = -1;
    for (int r = 0; r < nranks; r++)
        if (exec_of[r] >= program->nexecs) program->nexecs = (uint16_t)(exec_of[r] + 1);
    TRY_GOTO(rc, CCL_NEW(&program->exec_of, program->nranks), fail);
    TRY_GOTO(rc, CCL_NEW(&program->rank_of, program->nranks), fail);
    TRY_GOTO(rc, CCL_NEW(&program->first_slot, program->nexecs + 1u), fail);
    TRY_GOTO(rc, CCL_NEW(&program->scheds, program->nexecs), fail);
    memcpy(program->exec_of, exec_of, program->nranks * sizeof *exec_of);
    sort_slots(program);
    *out = program;
    return ncclSuccess;
fail:
    ccl_program_free(program);
    return rc;
}

void ccl_program_free(struct ccl_program *program)
{
    while (program != NULL) {
        struct ccl_program *next = program->next;
        for (uint16_t e = 0; program->scheds != NULL && e < program->nexecs; e++)
            ccl_sched_free(&program->scheds[e]);
        for (uint16_t e = 0; program->lines != NULL && e < program->nexecs; e++)
            ccl_free(program->lines[e]);
        ccl_free(program->lines);
        ccl_free(program->scheds);
        ccl_free(program->first_slot);
        ccl_free(program->rank_of);
        ccl_free(program->exec_of);
        ccl_free(program);
        program = next;
    }
}

ncclResult_t ccl_program_build(const struct ccl_algo_ops *algo, const struct ccl_sched_args *args,
                               struct ccl_program **out)
{
    ncclResult_t rc;
    struct ccl_program *program;
    struct ccl_view view = *args->view;
    struct ccl_sched_args each = *args;
    uint16_t *exec_of;
    each.view = &view;
    TRY(CCL_NEW(&exec_of, view.nranks));
    for (uint16_t r = 0; r < view.nranks; r++) exec_of[r] = ccl_view_exec_of(&view, r);
    rc = ccl_program_new(exec_of, view.nranks, &program);
    ccl_free(exec_of);
    TRY(rc);
    program->coll = args->coll;
    program->root = args->root;
    snprintf(program->algo, sizeof program->algo, "%s", algo->name);
    for (view.self = 0; view.self < view.nexecs; view.self++)
        TRY_GOTO(rc, algo->build(&each, &program->scheds[view.self]), fail);
    *out = program;
    return ncclSuccess;
fail:
    ccl_program_free(program);
    return rc;
}

int ccl_program_meets(const struct ccl_program *program)
{
    for (uint16_t e = 0; e < program->nexecs; e++)
        if (program->scheds[e].meets) return 1;
    return 0;
}

int ccl_program_fits(const struct ccl_program *program, const struct ccl_sched_args *args)
{
    const struct ccl_view *view = args->view;
    if (program->coll != args->coll || program->root != args->root) return 0;
    if (program->nranks != view->nranks || program->nexecs != view->nexecs) return 0;
    if (ccl_program_meets(program) && view->mapped != CCL_MAPPED_ALL) return 0;
    return memcmp(program->rank_of, view->rank_of, view->nranks * sizeof *view->rank_of) == 0 &&
           memcmp(program->first_slot, view->first_slot,
                  (view->nexecs + 1u) * sizeof *view->first_slot) == 0;
}

ncclResult_t ccl_sched_copy(const struct ccl_sched *from, struct ccl_sched *to)
{
    *to = (struct ccl_sched){.npieces = from->npieces, .pack = from->pack, .lag = from->lag};
    for (uint32_t i = 0; i < from->nsteps; i++) {
        struct ccl_step *step = ccl_sched_add(to, (enum ccl_kind)from->steps[i].kind);
        if (step == NULL) return ncclSystemError;
        *step = from->steps[i];
    }
    for (uint32_t i = 0; i < from->nlinks; i++)
        if (ccl_sched_link(to, from->links[i].peer, from->links[i].is_send) < 0)
            return ncclSystemError;
    return ncclSuccess;
}
