/* check.c: the run of a program on symbols, and the look at what came out.
 *
 * Executors run in turn, each until it has to wait. A schedule's steps wait for definite messages
 * in a definite order, so whether all come to their end does not depend on the turns. A few rounds
 * more than pipeline and FIFOs are deep stand for any number of them.
 */
#include "algo/check_impl.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <string.h>

ncclResult_t ccl_check_fail(const struct check *c, const struct place *at, const char *format, ...)
{
    char what[200], where[120] = "", line[40] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (at->step != NULL) {
        snprintf(where, sizeof where, "executor %u, step %u", at->exec, at->index);
        if (c->program->lines != NULL && c->program->lines[at->exec] != NULL)
            snprintf(line, sizeof line, " (line %u)", c->program->lines[at->exec][at->index]);
    } else {
        snprintf(where, sizeof where, "executor %u", at->exec);
    }
    return ccl_err(ncclInvalidUsage, "%s: schedule of %s, %s%s: %s", c->name,
                   ccl_sched_coll_names[c->program->coll], where, line, what);
}

static int has_rank(const struct value *value, int rank)
{
    return (int)(value->ranks[rank / 64] >> (rank % 64) & 1u);
}

static struct value make_atom(int rank, int block)
{
    struct value value = {.block = (uint32_t)block + 1};
    value.ranks[rank / 64] = (uint64_t)1 << (rank % 64);
    return value;
}

static int same_content(const struct value *a, const struct value *b)
{
    return a->block == b->block && memcmp(a->ranks, b->ranks, sizeof a->ranks) == 0;
}

static size_t cell(const struct check *c, uint32_t round, int rank, int block, int piece)
{
    size_t buffer = (size_t)round * c->program->nranks + (size_t)rank;
    return (buffer * c->max_blocks + (size_t)block) * c->npieces + (size_t)piece;
}

/* ---- one step ---- */

/* A step at work: its place, its round, what it has put together so far. */
struct work {
    struct place at;
    uint32_t round;
    struct value sum;
    int nsources;
};

static struct queue *link_queue(const struct check *c, const struct work *w, int index)
{
    const struct ccl_link *link = &c->program->scheds[w->at.exec].links[index];
    size_t nexecs = c->program->nexecs, self = w->at.exec;
    return link->is_send ? &c->queues[self * nexecs + link->peer]
                         : &c->queues[link->peer * nexecs + self];
}

static ncclResult_t add_value(struct check *c, struct work *w, const struct value *value)
{
    if (value->block == 0) return ccl_check_fail(c, &w->at, "reads what nobody has written");
    if (w->nsources++ == 0) {
        w->sum = *value;
        return ncclSuccess;
    }
    if (!c->reduces) return ccl_check_fail(c, &w->at, "adds in a collective that only moves data");
    if (value->is_posted || w->sum.is_posted)
        return ccl_check_fail(c, &w->at, "adds to a result that is finished (post)");
    if (w->sum.block != value->block)
        return ccl_check_fail(c, &w->at, "adds inputs of block %u to those of block %u",
                              value->block - 1, w->sum.block - 1);
    for (size_t i = 0; i < sizeof value->ranks / sizeof value->ranks[0]; i++) {
        uint64_t both = w->sum.ranks[i] & value->ranks[i];
        if (both != 0)
            return ccl_check_fail(c, &w->at, "adds the input of rank %zu a second time",
                                  64 * i + (size_t)__builtin_ctzll(both));
        w->sum.ranks[i] |= value->ranks[i];
    }
    return ncclSuccess;
}

/* The output that shares memory with an input in the in-place form; -1 when none does. */
static int alias_block(const struct ccl_program *program, int rank, int block)
{
    if (ccl_check_blocks(program, rank, 1) == 0) return -1;
    switch (program->coll) {
    case CCL_SCHED_ALL_TO_ALL: return -1;
    case CCL_SCHED_ALL_GATHER:
    case CCL_SCHED_GATHER: return rank;
    case CCL_SCHED_REDUCE_SCATTER:
    case CCL_SCHED_SCATTER: return block == rank ? 0 : -1;
    default: return 0;
    }
}

static ncclResult_t read_input(struct check *c, struct work *w, int rank, int block)
{
    struct value atom = make_atom(rank, block);
    int alias = alias_block(c->program, rank, block);
    if (alias >= 0) {
        size_t at = cell(c, w->round, rank, alias, w->at.step->piece);
        if (c->outs[at].block != 0 && !same_content(&c->outs[at], &atom))
            return ccl_check_fail(c, &w->at,
                                  "reads the input of rank %d after step %u of executor %u has "
                                  "overwritten it in place",
                                  rank, c->outs[at].step, c->outs[at].writer);
        uint32_t now = c->runners[w->at.exec].nmeets << 16, me = now | (w->at.exec + 1u);
        uint32_t before = c->readers[at];
        int is_alone = before == me || before < now || before == NO_READER;
        c->readers[at] = is_alone ? me : now | SEVERAL_READERS;
    }
    return add_value(c, w, &atom);
}

static ncclResult_t read_output(struct check *c, struct work *w, int rank, int block)
{
    const struct value *value = &c->outs[cell(c, w->round, rank, block, w->at.step->piece)];
    if (value->block != 0 && value->writer != w->at.exec &&
        value->meeting == c->runners[w->at.exec].nmeets)
        return ccl_check_fail(c, &w->at,
                              "reads what executor %u writes in step %u, with no meeting between",
                              value->writer, value->step);
    return add_value(c, w, value);
}

static ncclResult_t read_message(struct check *c, struct work *w, int index, int place)
{
    struct queue *queue = link_queue(c, w, index);
    const struct message *message = &queue->messages[queue->head];
    if (message->piece != w->at.step->piece || message->round != w->round)
        return ccl_check_fail(c, &w->at,
                              "expects piece %u of round %u, executor %u sends piece %u of round "
                              "%u in step %u",
                              w->at.step->piece, w->round, message->sender, message->piece,
                              message->round, message->step);
    return add_value(c, w, &message->places[place]);
}

static ncclResult_t read_source(struct check *c, struct work *w, const struct ccl_range *range,
                                int j)
{
    int index = range->first + j * range->hop, block = range->block + j * range->block_hop;
    if (range->space == CCL_CONN) return read_message(c, w, index, block);
    int rank = c->program->rank_of[index];
    return range->space == CCL_IN ? read_input(c, w, rank, block) : read_output(c, w, rank, block);
}

static ncclResult_t write_output(struct check *c, struct work *w, int rank, int block)
{
    size_t at = cell(c, w->round, rank, block, w->at.step->piece);
    uint32_t now = c->runners[w->at.exec].nmeets << 16, reader = c->readers[at];
    if (reader > now && reader != (now | (w->at.exec + 1u)))
        return ccl_check_fail(c, &w->at, "overwrites in place an input of rank %d that others read",
                              rank);
    c->outs[at] = w->sum;
    return ncclSuccess;
}

static ncclResult_t write_message(struct check *c, struct work *w, int index, int place)
{
    struct queue *queue = link_queue(c, w, index);
    struct message *last = &queue->messages[(queue->head + queue->count - 1) % c->depth];
    if (queue->count == 0 || !last->is_filling) {
        last = &queue->messages[(queue->head + queue->count) % c->depth];
        queue->count++;
        for (int p = 0; p < c->pack; p++) last->places[p].block = 0;
        last->piece = w->at.step->piece;
        last->round = w->round;
        last->is_filling = 1;
        last->sender = w->at.exec;
    }
    if (last->piece != w->at.step->piece || last->round != w->round)
        return ccl_check_fail(c, &w->at, "adds piece %u to a slot of piece %u", w->at.step->piece,
                              last->piece);
    last->step = w->at.index;
    last->places[place] = w->sum;
    if (!(w->at.step->flags & CCL_STEP_FILL)) last->is_filling = 0;
    return ncclSuccess;
}

static ncclResult_t write_target(struct check *c, struct work *w, const struct ccl_range *range,
                                 int j)
{
    int index = range->first + j * range->hop, block = range->block + j * range->block_hop;
    if (range->space == CCL_CONN) return write_message(c, w, index, block);
    return write_output(c, w, c->program->rank_of[index], block);
}

static ncclResult_t finish_sum(struct check *c, struct work *w)
{
    int posts = w->at.step->flags & CCL_STEP_POST;
    if (posts && w->sum.is_posted && c->reduces)
        return ccl_check_fail(c, &w->at, "finishes (post) a result a second time");
    if (posts) w->sum.is_posted = 1;
    w->sum.writer = w->at.exec;
    w->sum.step = w->at.index;
    w->sum.meeting = c->runners[w->at.exec].nmeets;
    return ncclSuccess;
}

static ncclResult_t run_fold(struct check *c, struct work *w)
{
    const struct ccl_step *step = w->at.step;
    for (int side = 0; side < 2; side++)
        for (int j = 0; j < step->in[side].count; j++) TRY(read_source(c, w, &step->in[side], j));
    TRY(finish_sum(c, w));
    for (int side = 0; side < 2; side++)
        for (int j = 0; j < step->out[side].count; j++)
            TRY(write_target(c, w, &step->out[side], j));
    if (step->in[0].space != CCL_CONN || step->flags & CCL_STEP_KEEP) return ncclSuccess;
    for (int j = 0; j < step->in[0].count; j++) {
        struct queue *queue = link_queue(c, w, step->in[0].first + j * step->in[0].hop);
        queue->head = (queue->head + 1) % c->depth;
        queue->count--;
    }
    return ncclSuccess;
}

static ncclResult_t run_map(struct check *c, struct work *w)
{
    for (int j = 0; j < w->at.step->in[0].count; j++) {
        w->nsources = 0;
        TRY(read_source(c, w, &w->at.step->in[0], j));
        TRY(finish_sum(c, w));
        TRY(write_target(c, w, &w->at.step->out[0], j));
    }
    return ncclSuccess;
}

/* ---- turns ---- */

static int is_blocked(const struct check *c, const struct work *w)
{
    const struct ccl_range *in = &w->at.step->in[0], *out = &w->at.step->out[0];
    for (int j = 0; in->space == CCL_CONN && j < in->count; j++) {
        const struct queue *queue = link_queue(c, w, in->first + j * in->hop);
        if (queue->count == 0 || queue->messages[queue->head].is_filling) return 1;
    }
    for (int j = 0; out->space == CCL_CONN && j < out->count; j++) {
        const struct queue *queue = link_queue(c, w, out->first + j * out->hop);
        const struct message *last = &queue->messages[(queue->head + queue->count - 1) % c->depth];
        if (queue->count == c->depth && !last->is_filling) return 1;
    }
    return 0;
}

/* Comes to a meeting. 1 when all have come. */
static int has_met(const struct check *c, struct runner *runner, int *moved)
{
    if (!runner->has_come) {
        runner->has_come = *moved = 1;
        runner->nmeets++;
    }
    for (uint16_t e = 0; e < c->program->nexecs; e++)
        if (c->runners[e].nmeets < runner->nmeets) return 0;
    runner->has_come = 0;
    return 1;
}

/* Runs one executor until it waits or ends; *moved when it did anything. */
static ncclResult_t run_executor(struct check *c, uint16_t exec, int *moved)
{
    const struct ccl_sched *sched = &c->program->scheds[exec];
    struct runner *runner = &c->runners[exec];
    for (; runner->round < c->nrounds + c->lag; runner->round++, runner->index = 0)
        for (; runner->index < sched->nsteps; runner->index++) {
            const struct ccl_step *step = &sched->steps[runner->index];
            struct work w = {.at = {exec, runner->index, step}, .round = runner->round};
            uint32_t behind = step->flags & CCL_STEP_LATE ? c->lag : 0;
            if (w.round < behind || w.round - behind >= c->nrounds) continue;
            w.round -= behind;
            if (step->kind == CCL_MEET) {
                if (!has_met(c, runner, moved)) return ncclSuccess;
                continue;
            }
            if (is_blocked(c, &w)) return ncclSuccess;
            TRY(step->kind == CCL_FOLD ? run_fold(c, &w) : run_map(c, &w));
            *moved = 1;
        }
    if (!runner->is_done) *moved = 1;
    runner->is_done = 1;
    return ncclSuccess;
}

static ncclResult_t fail_waiting(const struct check *c)
{
    for (uint16_t e = 0; e < c->program->nexecs; e++) {
        const struct runner *runner = &c->runners[e];
        if (runner->is_done) continue;
        const struct ccl_step *step = &c->program->scheds[e].steps[runner->index];
        struct work w = {.at = {e, runner->index, step}};
        if (step->kind == CCL_MEET) return ccl_check_fail(c, &w.at, "waits for ever at a meeting");
        for (int j = 0; step->in[0].space == CCL_CONN && j < step->in[0].count; j++) {
            int index = step->in[0].first + j * step->in[0].hop;
            const struct queue *queue = link_queue(c, &w, index);
            if (queue->count == 0 || queue->messages[queue->head].is_filling)
                return ccl_check_fail(c, &w.at, "waits for ever for executor %u",
                                      c->program->scheds[e].links[index].peer);
        }
        return ccl_check_fail(c, &w.at, "waits for ever for a free slot (depth %u)", c->depth);
    }
    return ncclSuccess;
}

static ncclResult_t run_all(struct check *c)
{
    int moved = 1, ndone = 0;
    while (moved) {
        moved = ndone = 0;
        for (uint16_t e = 0; e < c->program->nexecs; e++) {
            TRY(run_executor(c, e, &moved));
            ndone += c->runners[e].is_done;
        }
    }
    return ndone == c->program->nexecs ? ncclSuccess : fail_waiting(c);
}

/* ---- what came out ---- */

/* What an output block has to hold. */
static struct value expected(const struct ccl_program *program, int rank, int block)
{
    struct value value = {0};
    switch (program->coll) {
    case CCL_SCHED_ALL_GATHER:
    case CCL_SCHED_GATHER: return make_atom(block, 0);
    case CCL_SCHED_ALL_TO_ALL: return make_atom(block, rank);
    case CCL_SCHED_BROADCAST: return make_atom(program->root, 0);
    case CCL_SCHED_SCATTER: return make_atom(program->root, rank);
    default:
        value.block = program->coll == CCL_SCHED_REDUCE_SCATTER ? (uint32_t)rank + 1 : 1;
        for (int r = 0; r < program->nranks; r++) value.ranks[r / 64] |= (uint64_t)1 << (r % 64);
        return value;
    }
}

static ncclResult_t check_output(struct check *c, int rank, int block, int piece)
{
    const struct ccl_program *program = c->program;
    const struct value *got = &c->outs[cell(c, 0, rank, block, piece)];
    struct value wanted = expected(program, rank, block);
    if (got->block == 0) {
        struct place owner = {.exec = program->exec_of[rank]};
        return ccl_check_fail(c, &owner,
                              "nobody writes block %d, piece %d of the output of rank %d", block,
                              piece, rank);
    }
    struct place at = {got->writer, got->step, &program->scheds[got->writer].steps[got->step]};
    if (got->block != wanted.block)
        return ccl_check_fail(c, &at, "gives rank %d inputs of block %u where block %u belongs",
                              rank, got->block - 1, wanted.block - 1);
    for (int r = 0; r < program->nranks; r++) {
        if (has_rank(&wanted, r) && !has_rank(got, r))
            return ccl_check_fail(c, &at, "the output of rank %d lacks the input of rank %d", rank,
                                  r);
        if (has_rank(got, r) && !has_rank(&wanted, r))
            return ccl_check_fail(c, &at, "the output of rank %d holds the input of rank %d", rank,
                                  r);
    }
    if (c->reduces && !got->is_posted)
        return ccl_check_fail(c, &at, "the result of rank %d is never finished (post)", rank);
    return ncclSuccess;
}

static ncclResult_t check_leftovers(const struct check *c)
{
    size_t nexecs = c->program->nexecs;
    for (size_t i = 0; i < nexecs * nexecs; i++) {
        if (c->queues[i].count == 0) continue;
        const struct message *message = &c->queues[i].messages[c->queues[i].head];
        struct place at = {message->sender, message->step,
                           &c->program->scheds[message->sender].steps[message->step]};
        if (message->is_filling) return ccl_check_fail(c, &at, "fills a slot that is never sent");
        return ccl_check_fail(c, &at, "sends executor %zu what it never takes", i % nexecs);
    }
    return ncclSuccess;
}

static ncclResult_t check_result(struct check *c)
{
    TRY(check_leftovers(c));
    for (int rank = 0; rank < c->program->nranks; rank++)
        for (int block = 0; block < ccl_check_blocks(c->program, rank, 1); block++)
            for (int piece = 0; piece < c->npieces; piece++)
                TRY(check_output(c, rank, block, piece));
    return ncclSuccess;
}

/* ---- the whole ---- */

static ncclResult_t make_queues(struct check *c)
{
    size_t nexecs = c->program->nexecs;
    TRY(CCL_NEW(&c->queues, nexecs * nexecs));
    for (size_t e = 0; e < nexecs; e++)
        for (uint32_t l = 0; l < c->program->scheds[e].nlinks; l++) {
            const struct ccl_link *link = &c->program->scheds[e].links[l];
            struct queue *queue = link->is_send ? &c->queues[e * nexecs + link->peer]
                                                : &c->queues[link->peer * nexecs + e];
            if (queue->messages != NULL) continue;
            TRY(CCL_NEW(&queue->messages, c->depth));
            for (uint16_t d = 0; d < c->depth; d++)
                TRY(CCL_NEW(&queue->messages[d].places, c->pack));
        }
    return ncclSuccess;
}

static void free_check(struct check *c)
{
    size_t nexecs = c->program->nexecs;
    for (size_t i = 0; c->queues != NULL && i < nexecs * nexecs; i++) {
        struct queue *queue = &c->queues[i];
        for (uint16_t d = 0; queue->messages != NULL && d < c->depth; d++)
            ccl_free(queue->messages[d].places);
        ccl_free(queue->messages);
    }
    ccl_free(c->queues);
    ccl_free(c->runners);
    ccl_free(c->readers);
    ccl_free(c->outs);
}

static ncclResult_t prove(struct check *c)
{
    size_t ncells = (size_t)c->nrounds * c->program->nranks * c->max_blocks * c->npieces;
    TRY(ccl_check_form(c));
    TRY(CCL_NEW(&c->outs, ncells));
    TRY(CCL_NEW(&c->readers, ncells));
    TRY(CCL_NEW(&c->runners, c->program->nexecs));
    TRY(make_queues(c));
    TRY(run_all(c));
    return check_result(c);
}

/* What ends with few slots ends with more: each executor only waits less. */
enum { ENOUGH_DEPTH = 4 };

ncclResult_t ccl_program_check(const struct ccl_program *program, uint16_t depth, const char *name)
{
    const struct ccl_sched *first = &program->scheds[0];
    struct check c = {
        .program = program,
        .name = name,
        .depth = depth < ENOUGH_DEPTH ? depth : ENOUGH_DEPTH,
        .npieces = first->npieces,
        .pack = first->pack > 1 ? first->pack : 1,
        .lag = first->lag,
        .meets = ccl_program_meets(program),
        .reduces = program->coll == CCL_SCHED_ALL_REDUCE || program->coll == CCL_SCHED_REDUCE ||
                   program->coll == CCL_SCHED_REDUCE_SCATTER,
    };
    c.max_blocks = program->coll >= CCL_SCHED_ALL_GATHER ? program->nranks : 1;
    c.nrounds = c.meets ? 1 : c.lag + c.depth + 2u;
    ncclResult_t rc = prove(&c);
    free_check(&c);
    return rc;
}
