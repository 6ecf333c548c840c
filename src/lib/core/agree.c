/* agree.c: what executors call, on boards that all can read, and the texts that name two calls
 * that differ. A board is written under its executor's lock; how it is read says kernel/board.h. */
#include "core/agree.h"

#include "base/err.h"
#include "core/comm.h"
#include "core/redop.h"
#include "kernel/board.h"

#include <string.h>

/* The second word of ccl_call.what. */
struct kind {
    int32_t root;
    uint8_t coll, type, redop, spare;
};
static_assert(sizeof(struct kind) == sizeof(uint64_t), "a kind fills a word");

static struct ccl_call describe(const struct ccl_op *op, uint64_t seq)
{
    struct ccl_call call = {.number = seq + 1, .what = {op->count_elems}};
    struct kind kind = {
        .root = op->root,
        .coll = (uint8_t)op->coll,
        .type = (uint8_t)op->type,
        .redop = (uint8_t)ccl_redop_class(op->redop),
    };
    memcpy(&call.what[1], &kind, sizeof kind);
    call.how = (uint64_t)op->comm->rank;
    return call;
}

static unsigned rank_of(const struct ccl_call *call)
{
    return (unsigned)(call->how & ((1u << CCL_CALL_RANK_BITS) - 1));
}

static int is_same(const struct ccl_call *a, const struct ccl_call *b)
{
    return a->what[0] == b->what[0] && a->what[1] == b->what[1];
}

static ncclResult_t fail(struct ccl_clique *clique, const struct ccl_call *a,
                         const struct ccl_call *b)
{
    struct kind ka, kb;
    memcpy(&ka, &a->what[1], sizeof ka);
    memcpy(&kb, &b->what[1], sizeof kb);
    return ccl_clique_fail(
        clique, ncclInvalidUsage, 1,
        "collective #%llu differs between ranks: rank %u called nccl%s(count %llu, datatype %d, "
        "op %d, root %d), rank %u called nccl%s(count %llu, datatype %d, op %d, root %d)",
        (unsigned long long)(a->number - 1), rank_of(a), ccl_coll_name((enum ccl_coll)ka.coll),
        (unsigned long long)a->what[0], ka.type, ka.redop, ka.root, rank_of(b),
        ccl_coll_name((enum ccl_coll)kb.coll), (unsigned long long)b->what[0], kb.type, kb.redop,
        kb.root);
}

ncclResult_t ccl_agree(struct ccl_exec *exec, const struct ccl_op *op, uint64_t seq,
                       struct ccl_call *call)
{
    struct ccl_call other;
    *call = describe(op, seq);
    uint64_t there = exec->board->calls[call->number % CCL_NCALLS].number;
    if (there < call->number) board_write(exec->board, call);
    if (there != call->number || !board_read(exec->board, there, &other)) return ncclSuccess;
    return is_same(&other, call) ? ncclSuccess : fail(exec->clique, &other, call);
}

ncclResult_t ccl_agree_pair(struct ccl_clique *clique, const struct ccl_op *a,
                            const struct ccl_op *b, uint64_t seq)
{
    struct ccl_call left = describe(a, seq), right = describe(b, seq);
    return is_same(&left, &right) ? ncclSuccess : fail(clique, &left, &right);
}

ncclResult_t ccl_agree_calls(struct ccl_clique *clique, const struct ccl_call *a,
                             const struct ccl_call *b)
{
    return is_same(a, b) ? ncclSuccess : fail(clique, a, b);
}

/* The call of another executor by that number, if it is not the same. */
static int find_other(const struct ccl_exec *exec, const struct ccl_call *call,
                      struct ccl_call *other)
{
    for (uint16_t e = 0; e < exec->view.nexecs; e++)
        if (board_read(exec->clique->boards[e], call->number, other) && !is_same(call, other))
            return 1;
    return 0;
}

/* The first of the calls on the own board that another executor made differently; 0: none. */
static int find_first(const struct ccl_exec *exec, struct ccl_call *first, struct ccl_call *theirs)
{
    struct ccl_call mine, other;
    first->number = 0;
    for (int i = 0; i < CCL_NCALLS; i++) {
        uint64_t number = __atomic_load_n(&exec->board->calls[i].number, __ATOMIC_RELAXED);
        if (!board_read(exec->board, number, &mine)) continue;
        if (first->number != 0 && first->number <= number) continue;
        if (!find_other(exec, &mine, &other)) continue;
        *first = mine;
        *theirs = other;
    }
    return first->number != 0;
}

void ccl_agree_explain(struct ccl_exec *exec, const struct ccl_call *call)
{
    struct ccl_clique *clique = exec->clique;
    if (__atomic_load_n(&clique->words->error, __ATOMIC_RELAXED) == 0) return;
    struct ccl_call first, theirs;
    /* Twice: the other may have made an earlier call while the first look was past that. */
    int is_found = find_first(exec, &first, &theirs) && find_first(exec, &first, &theirs);
    /* The board may have moved on since the kernel was launched. */
    if (!is_found && call->number != 0 && find_other(exec, call, &theirs)) {
        first = *call;
        is_found = 1;
    }
    if (is_found) fail(clique, &first, &theirs);
}

/* What kernels said of it: of collectives, and of messages. */
static ncclResult_t fail_by_notes(struct ccl_clique *clique)
{
    for (uint16_t e = 0; e < clique->nlocal_execs; e++) {
        uint64_t note = __atomic_load_n(&clique->execs[e].words->note, __ATOMIC_RELAXED);
        char ranks[256];
        if (note >> 32 != CCL_WAIT_DISAGREE) continue;
        ccl_topo_list_exec(clique->topo, (uint16_t)note, ranks, sizeof ranks);
        return ccl_clique_fail(clique, ncclInvalidUsage, 1,
                               "a collective differs between ranks: ranks %s called something "
                               "else, or run another algorithm (NCCL_ALGO, NCCL_PROTO)",
                               ranks);
    }
    for (uint16_t e = 0; e < clique->nlocal_execs; e++) {
        const uint64_t *words = clique->execs[e].words->mismatch;
        uint64_t seen[CCL_CUDA_MISMATCH];
        for (int i = 0; i < CCL_CUDA_MISMATCH; i++)
            seen[i] = __atomic_load_n(&words[i], __ATOMIC_RELAXED);
        if (seen[CCL_MISMATCH_SENT] == seen[CCL_MISMATCH_WANTED]) continue;
        return ccl_clique_fail(
            clique, ncclInvalidUsage, 1, "rank %u sends %llu bytes to rank %u, which receives %llu",
            (unsigned)seen[CCL_MISMATCH_FROM], (unsigned long long)seen[CCL_MISMATCH_SENT],
            (unsigned)seen[CCL_MISMATCH_TO], (unsigned long long)seen[CCL_MISMATCH_WANTED]);
    }
    return ccl_clique_fail(clique, ncclInvalidUsage, 1,
                           "a rank sends another number of bytes than is received");
}

void ccl_agree_look(const struct ncclComm *comm)
{
    struct ccl_clique *clique = comm->clique;
    const struct ccl_call none = {0};
    if (__atomic_load_n(&clique->words->error, __ATOMIC_RELAXED) == 0) return;
    if (ccl_device()->retires || ccl_clique_error(clique) != ncclSuccess) return;
    for (uint16_t e = 0; e < clique->nlocal_execs; e++) ccl_agree_explain(&clique->execs[e], &none);
    if (ccl_clique_error(clique) == ncclSuccess) fail_by_notes(clique);
}

/* The number that stands where call `number` would: less before it is made, more when others have
 * taken its place. */
static uint64_t number_at(const struct ccl_board *board, uint64_t number)
{
    return __atomic_load_n(&board->calls[number % CCL_NCALLS].number, __ATOMIC_RELAXED);
}

void ccl_agree_audit(struct ccl_exec *exec)
{
    struct ccl_clique *clique = exec->clique;
    struct ccl_call call, other;
    if (exec->view.nexecs == 1) return;
    uint64_t number = atomic_load_explicit(&exec->audited, memory_order_relaxed) + 1;
    uint64_t there = number_at(exec->board, number);
    if (there > number) number = there; /* whole rounds of the board went by */
    for (int is_waiting = 0; !is_waiting && board_read(exec->board, number, &call); number++) {
        /* First who is missing: what comes after that look is compared the next time. */
        for (uint16_t e = 0; e < exec->view.nexecs; e++)
            is_waiting |= number_at(clique->boards[e], number) < number;
        if (find_other(exec, &call, &other)) {
            fail(clique, &call, &other);
            return;
        }
        if (!is_waiting) atomic_store_explicit(&exec->audited, number, memory_order_relaxed);
    }
}
