/* check_form.c: the part of the proof that looks at each step by itself: numbers in range, ranges
 * inside their spaces, the same meetings everywhere. After it, check.c may index without care.
 */
#include "algo/check_impl.h"

#include "kernel/fold.h"

/* What the proof has memory for; far above what algorithms need. */
enum { MAX_LAG = 32, MAX_PIECES = 1024 };

static uint16_t count_blocks(const struct ccl_program *program, int is_out)
{
    switch (program->coll) {
    case CCL_SCHED_ALL_TO_ALL: return program->nranks;
    case CCL_SCHED_ALL_GATHER:
    case CCL_SCHED_GATHER: return is_out ? program->nranks : 1;
    case CCL_SCHED_REDUCE_SCATTER:
    case CCL_SCHED_SCATTER: return is_out ? 1 : program->nranks;
    default: return 1;
    }
}

uint16_t ccl_check_blocks(const struct ccl_program *program, int rank, int is_out)
{
    int roots_in = program->coll == CCL_SCHED_BROADCAST || program->coll == CCL_SCHED_SCATTER;
    int roots_out = program->coll == CCL_SCHED_REDUCE || program->coll == CCL_SCHED_GATHER;
    if ((is_out ? roots_out : roots_in) && rank != program->root) return 0;
    return count_blocks(program, is_out);
}

static int needs_root(enum ccl_sched_coll coll)
{
    return coll == CCL_SCHED_REDUCE || coll == CCL_SCHED_BROADCAST || coll == CCL_SCHED_GATHER ||
           coll == CCL_SCHED_SCATTER;
}

static ncclResult_t check_link(const struct check *c, const struct place *at, int index,
                               int is_send)
{
    const struct ccl_sched *sched = &c->program->scheds[at->exec];
    if (index < 0 || index >= (int)sched->nlinks)
        return ccl_check_fail(c, at, "there is no link %d", index);
    if (sched->links[index].is_send != is_send)
        return ccl_check_fail(
            c, at, is_send ? "writes to link %d, which receives" : "reads link %d, which sends",
            index);
    return ncclSuccess;
}

static ncclResult_t check_buffer(const struct check *c, const struct place *at, int slot, int block,
                                 int is_out)
{
    const struct ccl_program *program = c->program;
    if (slot < 0 || slot >= program->nranks)
        return ccl_check_fail(c, at, "there is no slot %d", slot);
    int rank = program->rank_of[slot], blocks = ccl_check_blocks(program, rank, is_out);
    if (blocks == 0)
        return ccl_check_fail(c, at, "rank %d has no %s", rank, is_out ? "output" : "input");
    if (block < 0 || block >= blocks)
        return ccl_check_fail(c, at, "the %s of rank %d has no block %d",
                              is_out ? "output" : "input", rank, block);
    if (program->exec_of[rank] != at->exec && !c->meets)
        return ccl_check_fail(c, at, "touches a buffer of rank %d, which is on executor %u", rank,
                              program->exec_of[rank]);
    return ncclSuccess;
}

static ncclResult_t check_range(const struct check *c, const struct place *at,
                                const struct ccl_range *range, int is_target)
{
    if (range->space == CCL_NONE) return ncclSuccess;
    if (range->space == CCL_IN && is_target) return ccl_check_fail(c, at, "writes to an input");
    if (range->space == CCL_CONN && range->count > 1 && range->hop == 0)
        return ccl_check_fail(c, at, "uses link %u twice", range->first);
    for (int j = 0; j < range->count; j++) {
        int index = range->first + j * range->hop, block = range->block + j * range->block_hop;
        if (range->space != CCL_CONN) {
            TRY(check_buffer(c, at, index, block, range->space == CCL_OUT));
            continue;
        }
        TRY(check_link(c, at, index, is_target));
        if (block < 0 || block >= c->pack)
            return ccl_check_fail(c, at, "there is no place %d in a slot of %u", block, c->pack);
    }
    return ncclSuccess;
}

static ncclResult_t check_counts(const struct check *c, const struct place *at)
{
    const struct ccl_step *step = at->step;
    const struct ccl_range *in = step->in, *out = step->out;
    int nsources = in[0].count + in[1].count, ntargets = out[0].count + out[1].count;
    if (nsources == 0) return ccl_check_fail(c, at, "reads nothing");
    if (ntargets == 0) return ccl_check_fail(c, at, "writes nothing");
    if (step->kind == CCL_FOLD && (nsources > CCL_FOLD_MAX || ntargets > CCL_FOLD_MAX))
        return ccl_check_fail(c, at, "more than %d sources or targets", CCL_FOLD_MAX);
    if (step->kind == CCL_MAP) {
        if (in[0].space == CCL_CONN || out[0].space == CCL_CONN)
            return ccl_check_fail(c, at, "a map knows no links");
        if (in[0].count != out[0].count)
            return ccl_check_fail(c, at, "maps %u buffers to %u", in[0].count, out[0].count);
    }
    if (step->flags & CCL_STEP_FILL && out[0].space != CCL_CONN)
        return ccl_check_fail(c, at, "fills no slot");
    return ncclSuccess;
}

static ncclResult_t check_step(const struct check *c, const struct place *at)
{
    const struct ccl_step *step = at->step;
    if (step->kind == CCL_MEET) {
        if (step->flags & ~CCL_STEP_PUBLISH) return ccl_check_fail(c, at, "no flag of a meeting");
        return ncclSuccess;
    }
    if (step->flags & CCL_STEP_PUBLISH) return ccl_check_fail(c, at, "only meetings publish");
    if (step->piece >= c->npieces)
        return ccl_check_fail(c, at, "there is no piece %u of %u", step->piece, c->npieces);
    TRY(check_counts(c, at));
    for (int side = 0; side < 2; side++) {
        TRY(check_range(c, at, &step->in[side], 0));
        TRY(check_range(c, at, &step->out[side], 1));
    }
    return ncclSuccess;
}

static int is_remote(const struct check *c, uint16_t exec, const struct ccl_range *range)
{
    if (range->space != CCL_IN && range->space != CCL_OUT) return 0;
    for (int j = 0; j < range->count; j++)
        if (c->program->exec_of[c->program->rank_of[range->first + j * range->hop]] != exec)
            return 1;
    return 0;
}

/* Other executors' buffers are touched after a meeting that publishes and before the last one. */
static ncclResult_t check_meetings(const struct check *c, uint16_t exec)
{
    const struct ccl_sched *sched = &c->program->scheds[exec];
    int is_published = 0;
    struct place open = {.exec = exec};
    for (uint32_t s = 0; s < sched->nsteps; s++) {
        const struct ccl_step *step = &sched->steps[s];
        if (step->kind == CCL_MEET) {
            is_published |= step->flags & CCL_STEP_PUBLISH;
            open.step = NULL;
            continue;
        }
        int remote = 0;
        for (int side = 0; side < 2; side++)
            remote |= is_remote(c, exec, &step->in[side]) | is_remote(c, exec, &step->out[side]);
        if (!remote) continue;
        open.index = s;
        open.step = step;
        if (!is_published)
            return ccl_check_fail(c, &open, "touches buffers of others before they are published");
    }
    if (open.step == NULL) return ncclSuccess;
    return ccl_check_fail(c, &open, "touches buffers of others with no meeting after it");
}

ncclResult_t ccl_check_form(struct check *c)
{
    const struct ccl_program *program = c->program;
    struct place whole = {0};
    if (needs_root(program->coll) != (program->root >= 0) || program->root >= program->nranks)
        return ccl_check_fail(c, &whole, "%s with root %d of %u ranks",
                              ccl_sched_coll_names[program->coll], program->root, program->nranks);
    if (c->lag > MAX_LAG || c->npieces > MAX_PIECES || c->pack > MAX_PIECES)
        return ccl_check_fail(c, &whole, "lag above %d, or pieces or pack above %d", MAX_LAG,
                              MAX_PIECES);
    if (c->lag > 0 && c->meets)
        return ccl_check_fail(c, &whole, "lag %u in a schedule with meetings", c->lag);
    for (uint16_t e = 0; e < program->nexecs; e++) {
        const struct ccl_sched *sched = &program->scheds[e];
        struct place at = {.exec = e};
        if (c->meets && sched->nlinks > 0)
            return ccl_check_fail(c, &at, "has links in a schedule with meetings");
        for (; at.index < sched->nsteps; at.index++) {
            at.step = &sched->steps[at.index];
            TRY(check_step(c, &at));
        }
        TRY(check_meetings(c, e));
    }
    return ncclSuccess;
}
