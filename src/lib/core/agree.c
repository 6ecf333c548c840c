/* agree.c: boards of calls and their comparison. A call is written by its process alone, under the
 * lock of the clique, and read by anyone at any time: its number is taken away first and given
 * last, and a reader that finds the same number before and after has read one call. */
#include "core/agree.h"

#include "base/err.h"
#include "core/redop.h"

#include <string.h>

/* What a rank called; fields that need not agree come last. */
struct call {
    uint64_t number; /* sequence number plus 1; 0: none */
    uint64_t count_elems;
    int32_t root;
    uint8_t coll, type, redop, spare;
    uint64_t rank;
};
static_assert(sizeof(struct call) == CCL_CALL_WORDS * sizeof(uint64_t), "a call fills its words");

static struct call describe(const struct ccl_op *op, uint64_t seq)
{
    return (struct call){
        .number = seq + 1,
        .count_elems = op->count_elems,
        .root = op->root,
        .coll = (uint8_t)op->coll,
        .type = (uint8_t)op->type,
        .redop = (uint8_t)ccl_redop_class(op->redop),
        .rank = (uint64_t)op->comm->rank,
    };
}

static int is_same(const struct call *a, const struct call *b)
{
    return memcmp(a, b, offsetof(struct call, rank)) == 0;
}

/* Each release publishes that the number was taken away before. The last one is sequentially
 * consistent, as is the first load of read_call: of two neighbours that write and then read, at
 * least one finds the other's call. */
static void write_call(struct ccl_board *board, const struct call *call)
{
    uint64_t *to = board->calls[(call->number - 1) % CCL_NCALLS], words[CCL_CALL_WORDS];
    memcpy(words, call, sizeof words);
    __atomic_store_n(&to[0], 0, __ATOMIC_RELAXED);
    for (int w = 1; w < CCL_CALL_WORDS; w++) __atomic_store_n(&to[w], words[w], __ATOMIC_RELEASE);
    __atomic_store_n(&to[0], words[0], __ATOMIC_SEQ_CST);
}

/* False when the board has not, or no longer, the call of that number. Acquires pair with the
 * releases of write_call. */
static int read_call(const struct ccl_board *board, uint64_t number, struct call *call)
{
    const uint64_t *from = board->calls[(number - 1) % CCL_NCALLS];
    uint64_t words[CCL_CALL_WORDS];
    words[0] = __atomic_load_n(&from[0], __ATOMIC_SEQ_CST);
    if (words[0] != number) return 0;
    for (int w = 1; w < CCL_CALL_WORDS; w++) words[w] = __atomic_load_n(&from[w], __ATOMIC_ACQUIRE);
    memcpy(call, words, sizeof *call);
    return __atomic_load_n(&from[0], __ATOMIC_RELAXED) == number;
}

static ncclResult_t fail(struct ccl_clique *clique, const struct call *a, const struct call *b)
{
    return ccl_clique_fail(
        clique, ncclInvalidUsage, 1,
        "collective #%llu differs between ranks: rank %llu called nccl%s(count %llu, datatype %d, "
        "op %d, root %d), rank %llu called nccl%s(count %llu, datatype %d, op %d, root %d)",
        (unsigned long long)(a->number - 1), (unsigned long long)a->rank,
        ccl_coll_name((enum ccl_coll)a->coll), (unsigned long long)a->count_elems, a->type,
        a->redop, a->root, (unsigned long long)b->rank, ccl_coll_name((enum ccl_coll)b->coll),
        (unsigned long long)b->count_elems, b->type, b->redop, b->root);
}

/* The board of the process `step` places after the own one. */
static const struct ccl_board *board_beside(const struct ccl_clique *clique, int step)
{
    int nprocs = clique->topo->nprocs;
    return clique->boards[(clique->proc + nprocs + step) % nprocs];
}

/* A call is kept until both neighbours have called theirs of that number: when the own ranks run
 * far ahead, what neighbours have yet to compare is more use than what comes later. */
static int may_replace(const struct ccl_clique *clique, uint64_t number)
{
    if (number == 0 || ccl_clique_is_whole(clique)) return 1;
    for (int step = -1; step <= 1; step += 2)
        if (__atomic_load_n(&board_beside(clique, step)->latest, __ATOMIC_RELAXED) < number)
            return 0;
    return 1;
}

ncclResult_t ccl_agree(struct ccl_clique *clique, const struct ccl_op *op, uint64_t seq)
{
    struct call call = describe(op, seq), other;
    struct ccl_board *own = clique->boards[clique->proc];
    uint64_t there = __atomic_load_n(&own->calls[seq % CCL_NCALLS][0], __ATOMIC_RELAXED);
    if (there == call.number) {
        if (!read_call(own, call.number, &other) || is_same(&other, &call)) return ncclSuccess;
        return fail(clique, &other, &call);
    }
    if (own->latest < call.number) __atomic_store_n(&own->latest, call.number, __ATOMIC_RELAXED);
    if (there > call.number || !may_replace(clique, there)) return ncclSuccess;
    write_call(own, &call);
    if (ccl_clique_is_whole(clique)) return ncclSuccess;
    for (int step = -1; step <= 1; step += 2)
        if (read_call(board_beside(clique, step), call.number, &other) && !is_same(&other, &call))
            return fail(clique, &other, &call);
    return ncclSuccess;
}

ncclResult_t ccl_agree_pair(struct ccl_clique *clique, const struct ccl_op *a,
                            const struct ccl_op *b, uint64_t seq)
{
    struct call left = describe(a, seq), right = describe(b, seq);
    return is_same(&left, &right) ? ncclSuccess : fail(clique, &left, &right);
}

void ccl_agree_explain(struct ccl_clique *clique)
{
    if (__atomic_load_n(&clique->kernel_error, __ATOMIC_RELAXED) == 0) return;
    const struct ccl_board *own = clique->boards[clique->proc];
    struct call mine = {0}, theirs = {0}, call, other;
    for (int i = 0; i < CCL_NCALLS; i++) {
        uint64_t number = __atomic_load_n(&own->calls[i][0], __ATOMIC_RELAXED);
        if (number == 0 || !read_call(own, number, &call)) continue;
        if (mine.number != 0 && mine.number <= number) continue;
        for (uint16_t p = 0; p < clique->topo->nprocs; p++) {
            if (!read_call(clique->boards[p], number, &other) || is_same(&call, &other)) continue;
            mine = call;
            theirs = other;
        }
    }
    if (mine.number != 0) fail(clique, &mine, &theirs);
}
