/* Order and groups: long chains of calls without waiting, several streams of a rank, several
 * communicators in one order or another, nested, empty and failing groups. */
#include "core/kit.h"
#include "unit/memory.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, LENGTH = 24, CALLS = 10000 };

/* ---- a chain: every call works in place on what the one before left ---- */

/* The state of all ranks, as the calls should leave it. Integers wrap. */
struct model {
    uint64_t state[RANKS][LENGTH];
};

static uint64_t combine(uint64_t a, uint64_t b, ncclRedOp_t op)
{
    switch (op) {
    case ncclSum: return a + b;
    case ncclProd: return a * b;
    case ncclMax: return a > b ? a : b;
    default: return a < b ? a : b;
    }
}

static void apply(struct model *model, const struct kit_op *op)
{
    for (size_t i = 0; i < op->count; i++) {
        uint64_t result = model->state[0][i];
        if (op->coll == KIT_BROADCAST) result = model->state[op->root][i];
        for (int r = 1; r < RANKS && op->coll != KIT_BROADCAST; r++)
            result = combine(result, model->state[r][i], op->redop);
        for (int r = 0; r < RANKS; r++)
            if (op->coll != KIT_REDUCE || r == op->root) model->state[r][i] = result;
    }
}

/* All-gather and reduce-scatter by blocks of `count`. */
static void apply_blocks(struct model *model, const struct kit_op *op)
{
    struct model before = *model;
    for (int r = 0; r < RANKS; r++)
        for (int b = 0; b < RANKS; b++)
            for (size_t i = 0; i < op->count; i++) {
                size_t at = (size_t)b * op->count + i;
                if (op->coll == KIT_ALL_GATHER) model->state[r][at] = before.state[b][at];
                if (op->coll != KIT_REDUCE_SCATTER || b != r) continue;
                uint64_t result = before.state[0][at];
                for (int s = 1; s < RANKS; s++)
                    result = combine(result, before.state[s][at], op->redop);
                model->state[r][at] = result;
            }
}

static ncclResult_t call_in_place(struct kit_rank *rank, const struct kit_op *op)
{
    uint64_t *base = (uint64_t *)(void *)rank->out;
    uint64_t *own = base + (size_t)rank->rank * op->count;
    switch (op->coll) {
    case KIT_ALL_REDUCE:
        return ncclAllReduce(base, base, op->count, ncclUint64, op->redop, rank->comm,
                             rank->stream);
    case KIT_REDUCE:
        return ncclReduce(base, base, op->count, ncclUint64, op->redop, op->root, rank->comm,
                          rank->stream);
    case KIT_BROADCAST:
        return ncclBroadcast(base, base, op->count, ncclUint64, op->root, rank->comm, rank->stream);
    case KIT_ALL_GATHER:
        return ncclAllGather(own, base, op->count, ncclUint64, rank->comm, rank->stream);
    default:
        return ncclReduceScatter(base, own, op->count, ncclUint64, op->redop, rank->comm,
                                 rank->stream);
    }
}

static struct kit_op pick_op(uint32_t *state)
{
    uint32_t pick = kit_random(state);
    int is_blocked = pick % 5 >= KIT_ALL_GATHER;
    return (struct kit_op){
        .coll = (enum kit_coll)(pick % 5),
        .count = 1 + (pick >> 4) % (is_blocked ? LENGTH / RANKS : LENGTH),
        .type = ncclUint64,
        .redop = (ncclRedOp_t)((pick >> 12) % 4),
        .root = (int)((pick >> 16) % RANKS),
    };
}

struct chain {
    struct kit kit;
    struct model model;
    uint32_t seed;
    int ncalls;
};

static void start_chain(struct chain *chain)
{
    uint32_t state = chain->seed;
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < LENGTH; i++)
            chain->model.state[r][i] = (uint64_t)kit_random(&state) << 32 | kit_random(&state);
    for (int r = 0; r < RANKS; r++)
        memcpy(chain->kit.ranks[r].out, chain->model.state[r], sizeof chain->model.state[r]);
}

/* The calls of one rank, or of all in a group each. */
static void issue_chain(struct chain *chain, int first, int last)
{
    uint32_t state = chain->seed ^ 0x5555;
    for (int c = 0; c < chain->ncalls; c++) {
        struct kit_op op = pick_op(&state);
        if (last - first > 1) CHECK_OK(ncclGroupStart());
        for (int r = first; r < last; r++) CHECK_OK(call_in_place(&chain->kit.ranks[r], &op));
        if (last - first > 1) CHECK_OK(ncclGroupEnd());
    }
}

static void check_chain(struct chain *chain)
{
    uint32_t state = chain->seed ^ 0x5555;
    for (int c = 0; c < chain->ncalls; c++) {
        struct kit_op op = pick_op(&state);
        if (op.coll >= KIT_ALL_GATHER)
            apply_blocks(&chain->model, &op);
        else
            apply(&chain->model, &op);
    }
    for (int r = 0; r < RANKS; r++) {
        struct kit_rank *rank = &chain->kit.ranks[r];
        kit_sync(rank);
        uint64_t *got = (uint64_t *)(void *)rank->out;
        for (int i = 0; i < LENGTH; i++)
            if (got[i] != chain->model.state[r][i])
                FAIL("seed %u: rank %d element %d is %#llx, not %#llx", chain->seed, r, i,
                     (unsigned long long)got[i], (unsigned long long)chain->model.state[r][i]);
    }
}

static void issue_rank(void *arg, int i)
{
    issue_chain(arg, i, i + 1);
}

static void run_chain(int ndevices, int ncalls, int threads)
{
    struct chain *chain = calloc(1, sizeof *chain);
    CHECK(chain != NULL);
    chain->seed = 1234;
    chain->ncalls = ncalls;
    kit_open(&chain->kit, RANKS, ndevices, LENGTH);
    start_chain(chain);
    if (threads)
        kit_threads(RANKS, issue_rank, chain);
    else
        issue_chain(chain, 0, RANKS);
    check_chain(chain);
    kit_close(&chain->kit);
    free(chain);
}

static void test_chain(void)
{
    run_chain(1, CALLS, 0);
    run_chain(2, CALLS, 0);
}

static void test_chain_threads(void)
{
    run_chain(1, CALLS, 1);
    run_chain(2, CALLS, 1);
}

static void child_chain(void)
{
    run_chain(4, 2000, 0);
    run_chain(4, 2000, 1);
}

static void test_chain_connected(void)
{
    kit_child("child:chain", (const char *const[]){"NCCL_ALGO=oneshot", NULL});
    kit_child("child:chain", (const char *const[]){"NCCL_ALGO=ring", "CHORUS_HOST_QUEUES=1", NULL});
}

/* ---- several streams of a rank: the communicator keeps the order of its connected kernels;
 * where the streams are not joined by the caller, operations must not share data ---- */

enum { SLOTS = 16 };

struct spread {
    struct kit kits[SLOTS]; /* buffers of one operation each, all on one set of communicators */
    struct kit_op ops[SLOTS];
};

static void issue_spread(void *arg, int i)
{
    struct spread *spread = arg;
    for (int s = 0; s < SLOTS; s++) CHECK_OK(kit_call(&spread->kits[s].ranks[i], &spread->ops[s]));
}

static void run_spread(int ndevices)
{
    struct spread *spread = calloc(1, sizeof *spread);
    /* Forced algorithms over connections know the first five. */
    uint32_t state = 99, ncolls = getenv("NCCL_ALGO") != NULL ? 5 : KIT_NCOLLS;
    CHECK(spread != NULL);
    for (int s = 0; s < SLOTS; s++) {
        struct kit_op *op = &spread->ops[s];
        *op = kit_simple((enum kit_coll)(kit_random(&state) % ncolls), LENGTH);
        op->root = (int)(kit_random(&state) % RANKS);
        op->seed = kit_random(&state);
        spread->kits[s].nranks = RANKS;
        for (int r = 0; r < RANKS; r++) {
            CHECK_OK(chorus_devices()->set(test_device(r % ndevices)));
            kit_rank_open(&spread->kits[s].ranks[r], RANKS, r, LENGTH);
        }
    }
    ncclComm_t comms[RANKS];
    int devices[RANKS];
    for (int r = 0; r < RANKS; r++) devices[r] = test_device(r % ndevices);
    CHECK_OK(chorus_devices()->set(0));
    CHECK_OK(ncclCommInitAll(comms, RANKS, devices));
    for (int round = 0; round < 20; round++) {
        for (int s = 0; s < SLOTS; s++)
            for (int r = 0; r < RANKS; r++) {
                spread->kits[s].ranks[r].comm = comms[r];
                kit_prepare(&spread->kits[s].ranks[r], &spread->ops[s]);
            }
        kit_threads(RANKS, issue_spread, spread);
        for (int s = 0; s < SLOTS; s++)
            for (int r = 0; r < RANKS; r++) kit_check(&spread->kits[s].ranks[r], &spread->ops[s]);
    }
    for (int r = 0; r < RANKS; r++) CHECK_OK(ncclCommDestroy(comms[r]));
    for (int s = 0; s < SLOTS; s++)
        for (int r = 0; r < RANKS; r++) {
            spread->kits[s].ranks[r].comm = NULL;
            kit_rank_close(&spread->kits[s].ranks[r]);
        }
    free(spread);
}

static void child_spread(void)
{
    if (getenv("NCCL_ALGO") == NULL) run_spread(1);
    run_spread(2);
    run_spread(3);
}

static void test_spread(void)
{
    kit_child("child:spread", NULL);
    kit_child("child:spread", (const char *const[]){"NCCL_ALGO=oneshot", NULL});
    kit_child("child:spread", (const char *const[]){"CHORUS_HOST_QUEUES=8", NULL});
}

/* ---- two communicators in opposite order ---- */

struct two {
    struct kit a, b;
    struct kit_op op;
    _Atomic int called;
};

static void call_opposite(void *arg, int i)
{
    struct two *two = arg;
    struct kit_rank *first = i == 0 ? &two->a.ranks[0] : &two->b.ranks[1];
    struct kit_rank *second = i == 0 ? &two->b.ranks[0] : &two->a.ranks[1];
    CHECK_OK(kit_call(first, &two->op));
    /* Both have made their first call before either makes its second. */
    atomic_fetch_add(&two->called, 1);
    while (atomic_load(&two->called) < 2) sched_yield();
    CHECK_OK(kit_call(second, &two->op));
    kit_check(first, &two->op);
    kit_check(second, &two->op);
}

static void run_opposite(void)
{
    for (int ndevices = 1; ndevices <= 2; ndevices++) {
        struct two two = {.op = kit_simple(KIT_ALL_REDUCE, LENGTH)};
        kit_open(&two.a, 2, ndevices, LENGTH);
        kit_open(&two.b, 2, ndevices, LENGTH);
        for (int round = 0; round < 10; round++) {
            for (int r = 0; r < 2; r++) {
                kit_prepare(&two.a.ranks[r], &two.op);
                kit_prepare(&two.b.ranks[r], &two.op);
            }
            atomic_store(&two.called, 0);
            kit_threads(2, call_opposite, &two);
        }
        kit_close(&two.a);
        kit_close(&two.b);
    }
}

static void child_opposite(void)
{
    run_opposite();
}

static void test_opposite(void)
{
    kit_child("child:opposite", (const char *const[]){"CHORUS_HOST_QUEUES=0", NULL});
    kit_child("child:opposite", (const char *const[]){"CHORUS_HOST_QUEUES=1", NULL});
    kit_child("child:opposite", (const char *const[]){"CHORUS_HOST_QUEUES=8", NULL});
}

/* ---- groups ---- */

/* Several communicators, collectives and messages in one group, called rank by rank. */
static void test_group_of_communicators(void)
{
    struct kit kits[3];
    struct kit_op ops[3];
    for (int k = 0; k < 3; k++) {
        kit_open(&kits[k], 3, 1 + k, LENGTH);
        ops[k] = kit_simple((enum kit_coll)(k * 2), LENGTH);
        ops[k].seed = (uint32_t)k;
    }
    for (int round = 0; round < 10; round++) {
        for (int k = 0; k < 3; k++)
            for (int r = 0; r < 3; r++) kit_prepare(&kits[k].ranks[r], &ops[k]);
        CHECK_OK(ncclGroupStart());
        for (int r = 0; r < 3; r++)
            for (int k = 0; k < 3; k++) CHECK_OK(kit_call(&kits[k].ranks[r], &ops[k]));
        CHECK_OK(ncclGroupEnd());
        for (int k = 0; k < 3; k++)
            for (int r = 0; r < 3; r++) kit_check(&kits[k].ranks[r], &ops[k]);
    }
    for (int k = 0; k < 3; k++) kit_close(&kits[k]);
}

static void test_nested_and_empty(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_GATHER, LENGTH);
    kit_open(&kit, 3, 2, LENGTH);
    CHECK_OK(ncclGroupStart());
    CHECK_OK(ncclGroupEnd());
    for (int r = 0; r < 3; r++) kit_prepare(&kit.ranks[r], &op);
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < 3; r++) {
        CHECK_OK(ncclGroupStart());
        CHECK_OK(ncclGroupStart());
        CHECK_OK(ncclGroupEnd());
        CHECK_OK(kit_call(&kit.ranks[r], &op));
        CHECK_OK(ncclGroupEnd());
    }
    CHECK_OK(ncclGroupEnd());
    for (int r = 0; r < 3; r++) kit_check(&kit.ranks[r], &op);
    CHECK_EQ(ncclGroupEnd(), ncclInvalidUsage);
    kit_run(&kit, &op);
    kit_close(&kit);
}

static void test_failing_group(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_BROADCAST, LENGTH), wrong = op;
    wrong.root = 7;
    kit_open(&kit, 3, 1, LENGTH);
    for (int round = 0; round < 3; round++) {
        CHECK_OK(ncclGroupStart());
        CHECK_OK(kit_call(&kit.ranks[0], &op));
        CHECK_OK(kit_call(&kit.ranks[1], &op));
        CHECK_EQ(kit_call(&kit.ranks[2], &wrong), ncclInvalidArgument);
        CHECK_EQ(ncclGroupEnd(), ncclInvalidArgument);
        kit_run(&kit, &op);
    }
    kit_close(&kit);
}

/* A collective and a message of one rank in one group, and several collectives in one. */
static void test_mixed_group(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, 8);
    kit_open(&kit, 3, 2, LENGTH);
    int32_t *sent = test_memory_alloc(2 * sizeof(int32_t[3])), *received = sent + 3;
    for (int r = 0; r < 3; r++) {
        kit_prepare(&kit.ranks[r], &op);
        sent[r] = 5 + r;
        received[r] = 0;
    }
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < 3; r++) {
        struct kit_rank *rank = &kit.ranks[r];
        CHECK_OK(kit_call(rank, &op));
        CHECK_OK(ncclSend(&sent[r], 1, ncclInt32, (r + 1) % 3, rank->comm, rank->stream));
        CHECK_OK(kit_call(rank, &op));
        CHECK_OK(ncclRecv(&received[r], 1, ncclInt32, (r + 2) % 3, rank->comm, rank->stream));
    }
    CHECK_OK(ncclGroupEnd());
    for (int r = 0; r < 3; r++) {
        kit_check(&kit.ranks[r], &op);
        CHECK_EQ(received[r], sent[(r + 2) % 3]);
    }
    test_memory_free(sent);
    kit_close(&kit);
}

static const struct test_case cases[] = {
    {"10,000 calls in groups", test_chain, 120},
    {"10,000 calls from threads", test_chain_threads, 120},
    {"2,000 calls over connections", test_chain_connected, 0},
    {"16 streams per rank", test_spread, 0},
    {"two communicators in opposite order", test_opposite, 0},
    {"group of several communicators", test_group_of_communicators, 0},
    {"nested and empty groups", test_nested_and_empty, 0},
    {"failing group", test_failing_group, 0},
    {"collectives and messages in a group", test_mixed_group, 0},
    {"child:chain", child_chain, 0},
    {"child:spread", child_spread, 0},
    {"child:opposite", child_opposite, 0},
};
TEST_LIB_MAIN(cases)
