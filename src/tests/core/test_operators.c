/* Every operator in every reducing collective: with a single rank and any count, by every
 * algorithm, on values that anybody can check, with a NaN at each rank in turn; and the same bits
 * again when a call is repeated or its buffers lie elsewhere. */
#include "core/numbers.h"
#include "core/procs.h"
#include "unit/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Built-in operators, then PreMulSum with the scalar on the host and on the device. */
enum { OP_HOST_SCALAR = ncclNumOps, OP_DEVICE_SCALAR, NOPS };

/* The collectives that reduce. */
static const enum kit_coll colls[] = {KIT_ALL_REDUCE, KIT_REDUCE, KIT_REDUCE_SCATTER};

/* One call on all ranks: `count` elements of the result from rank->in to rank->out. */
struct trial {
    struct kit *kit;
    enum kit_coll coll;
    ncclDataType_t type;
    int op, root, in_place;
    size_t count, in_shift, out_shift;
    uint64_t scalars[KIT_MAX_RANKS]; /* of the local ranks */
};

/* Where a rank's scalar lies for its device, before the input of rank->in. */
static char *scalar_of(const struct kit_rank *rank)
{
    return rank->in;
}

static char *in_of(const struct trial *t, const struct kit_rank *rank)
{
    return (t->in_place ? rank->out : rank->in) + 64 + t->in_shift * number_bytes(t->type);
}

static char *out_of(const struct trial *t, const struct kit_rank *rank)
{
    size_t bytes = number_bytes(t->type);
    size_t own = t->coll == KIT_REDUCE_SCATTER ? (size_t)rank->rank * t->count * bytes : 0;
    return t->in_place ? in_of(t, rank) + own : rank->out + 64 + t->out_shift * bytes;
}

/* Elements of the input. */
static size_t in_count(const struct trial *t)
{
    size_t n = (size_t)t->kit->ranks[0].nranks;
    return t->coll == KIT_REDUCE_SCATTER ? n * t->count : t->count;
}

static void put(char *to, size_t index, ncclDataType_t type, uint64_t bits)
{
    memcpy(to + index * number_bytes(type), &bits, number_bytes(type));
}

static uint64_t get(const char *from, size_t index, ncclDataType_t type)
{
    uint64_t bits = 0;
    memcpy(&bits, from + index * number_bytes(type), number_bytes(type));
    return bits;
}

static ncclRedOp_t make_handle(struct trial *t, int r)
{
    struct kit_rank *rank = &t->kit->ranks[r];
    ncclRedOp_t handle = (ncclRedOp_t)t->op;
    int on_host = t->op == OP_HOST_SCALAR;
    uint64_t scalar = t->scalars[r];
    if (t->op < ncclNumOps) return handle;
    void *at = on_host ? (void *)&scalar : kit_given(rank, scalar_of(rank));
    CHECK_OK(ncclRedOpCreatePreMulSum(
        &handle, at, t->type, on_host ? ncclScalarHostImmediate : ncclScalarDevice, rank->comm));
    return handle;
}

static ncclResult_t call(struct trial *t, struct kit_rank *rank, ncclRedOp_t op)
{
    const void *in = kit_given(rank, in_of(t, rank));
    void *out = kit_given(rank, out_of(t, rank));
    if (t->coll == KIT_ALL_REDUCE)
        return ncclAllReduce(in, out, t->count, t->type, op, rank->comm, rank->stream);
    if (t->coll == KIT_REDUCE)
        return ncclReduce(in, out, t->count, t->type, op, t->root, rank->comm, rank->stream);
    return ncclReduceScatter(in, out, t->count, t->type, op, rank->comm, rank->stream);
}

/* Bytes of both buffers that a call uses, with what lies around them. */
static size_t used_bytes(const struct trial *t)
{
    return 64 + (16 + in_count(t)) * number_bytes(t->type) + 8;
}

/* 0 when the forced algorithm does not exist for the collective. */
static int run(struct trial *t)
{
    ncclRedOp_t handles[KIT_MAX_RANKS];
    struct kit *kit = t->kit;
    ncclResult_t rc = ncclSuccess;
    for (int r = 0; r < kit->nranks; r++) {
        memcpy(scalar_of(&kit->ranks[r]), &t->scalars[r], sizeof t->scalars[r]);
        kit_push(&kit->ranks[r], used_bytes(t));
        handles[r] = make_handle(t, r);
    }
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < kit->nranks && rc == ncclSuccess; r++)
        rc = call(t, &kit->ranks[r], handles[r]);
    ncclResult_t ended = ncclGroupEnd();
    if (rc != ncclSuccess) CHECK_HAS(ncclGetLastError(NULL), "nothing is left");
    if (rc == ncclSuccess) CHECK_OK(ended);
    for (int r = 0; r < kit->nranks; r++) {
        kit_sync(&kit->ranks[r]);
        kit_pull(&kit->ranks[r], used_bytes(t));
        if (t->op >= ncclNumOps) CHECK_OK(ncclRedOpDestroy(handles[r], kit->ranks[r].comm));
    }
    return rc == ncclSuccess;
}

static int has_result(const struct trial *t, const struct kit_rank *rank)
{
    return t->coll != KIT_REDUCE || rank->rank == t->root;
}

static void check_element(const struct trial *t, const struct kit_rank *rank, size_t i,
                          uint64_t wanted)
{
    uint64_t got = get(out_of(t, rank), i, t->type);
    if (got != wanted)
        FAIL(
            "%s type %d op %d count %zu, root %d, in place %d: rank %d has %#llx at %zu, not %#llx",
            kit_name(t->coll), (int)t->type, t->op, t->count, t->root, t->in_place, rank->rank,
            (unsigned long long)got, i, (unsigned long long)wanted);
}

/* ---- a single rank ---- */

/* The result is the input, or the input times the scalar; nothing else is written. */
static void check_single(struct trial *t)
{
    struct kit_rank *rank = &t->kit->ranks[0];
    size_t bytes = t->count * number_bytes(t->type);
    uint64_t seven = number_of(7, t->type), two = number_of(2, t->type);
    t->scalars[0] = number_of(3, t->type);
    memset(rank->out, 0x5a, 64 + bytes + 8);
    for (size_t i = 0; i < t->count; i++) put(in_of(t, rank), i, t->type, i % 3 ? seven : two);
    CHECK(run(t));
    if (t->op >= ncclNumOps) {
        seven = number_combine(seven, t->scalars[0], t->type, ncclProd);
        two = number_combine(two, t->scalars[0], t->type, ncclProd);
    }
    for (size_t i = 0; i < t->count; i++) check_element(t, rank, i, i % 3 ? seven : two);
    CHECK_EQ((unsigned char)out_of(t, rank)[-1], 0x5a);
    CHECK_EQ((unsigned char)out_of(t, rank)[bytes], 0x5a);
}

enum { SINGLE_MOST = 70000, SINGLE_ALL = 5000 };

static void test_single(void)
{
    static const int ops[] = {ncclAvg, OP_HOST_SCALAR, OP_DEVICE_SCALAR};
    static const ncclDataType_t types[] = {ncclBfloat16, ncclFloat32, ncclInt8};
    struct kit kit;
    struct trial t = {.kit = &kit};
    kit_open(&kit, 1, 1, SINGLE_MOST);
    size_t far = kit_is_slow() ? 997 : 37;
    for (t.count = 1; t.count <= SINGLE_ALL; t.count += t.count < 600 ? 1 : far)
        for (size_t i = 0; i < 3; i++) {
            t.type = types[i];
            t.op = ops[t.count % 3];
            t.coll = colls[t.count / 3 % 3];
            check_single(&t);
        }
    for (size_t c = 0; c < TEST_COUNT(colls); c++)
        for (int type = 0; type < ncclNumTypes; type++)
            for (t.op = 0; t.op < NOPS; t.op++)
                for (t.in_place = 0; t.in_place < 2; t.in_place++)
                    for (int power = 1; power <= (kit_is_slow() ? 6 : 16); power += 5)
                        for (int more = -1; more <= 1; more++) {
                            t.coll = colls[c];
                            t.type = (ncclDataType_t)type;
                            t.count = ((size_t)1 << power) + (size_t)more;
                            check_single(&t);
                        }
    kit_close(&kit);
}

/* ---- every operator, type, collective and algorithm, where no order of the sum matters ---- */

/* Values whose sums, products and quarters every type holds exactly; unsigned types wrap. */
static double value_at(ncclDataType_t type, int op, int rank, size_t i)
{
    static const double wide[] = {1, -2, 3, 4, -1, 2, -4, 1}, narrow[] = {1, -1, 1, 1, -1};
    int is_byte = type == ncclFloat8e4m3 || type == ncclFloat8e5m2;
    if (is_byte || op == ncclProd) return narrow[(i * 3 + (size_t)rank) % 5];
    return wide[(i + 3 * (size_t)rank) % 8];
}

static uint64_t input_at(const struct trial *t, int rank, size_t i)
{
    return number_of(value_at(t->type, t->op, rank, i), t->type);
}

static uint64_t expected(const struct trial *t, size_t i)
{
    int n = t->kit->ranks[0].nranks;
    ncclRedOp_t op = t->op < ncclAvg ? (ncclRedOp_t)t->op : ncclSum;
    uint64_t result = 0;
    for (int r = 0; r < n; r++) {
        uint64_t value = input_at(t, r, i);
        if (t->op >= ncclNumOps)
            value = number_combine(value, number_of(r % 2 + 1, t->type), t->type, ncclProd);
        if (t->op == ncclAvg && !number_is_integer(t->type))
            value = number_combine(value, number_inverse(n, t->type), t->type, ncclProd);
        result = r == 0 ? value : number_combine(result, value, t->type, op);
    }
    if (t->op == ncclAvg && number_is_integer(t->type)) result = number_divide(result, n, t->type);
    return result;
}

static void fill(struct trial *t)
{
    for (int r = 0; r < t->kit->nranks; r++) {
        struct kit_rank *rank = &t->kit->ranks[r];
        t->scalars[r] = number_of(rank->rank % 2 + 1, t->type);
        for (size_t i = 0; i < in_count(t); i++)
            put(in_of(t, rank), i, t->type, input_at(t, rank->rank, i));
    }
}

static void check_all(const struct trial *t)
{
    for (int r = 0; r < t->kit->nranks; r++) {
        const struct kit_rank *rank = &t->kit->ranks[r];
        size_t first = t->coll == KIT_REDUCE_SCATTER ? (size_t)rank->rank * t->count : 0;
        for (size_t i = 0; i < t->count && has_result(t, rank); i++)
            check_element(t, rank, i, expected(t, first + i));
    }
}

enum { EVERY_COUNT = 301 };

static void open_here(struct kit *kit, size_t count)
{
    if (getenv("CORE_PROCS") != NULL)
        proc_open(kit, 1, count);
    else
        kit_open(kit, atoi(getenv("CORE_RANKS")), atoi(getenv("CORE_DEVICES")), count);
}

static void child_every(void)
{
    struct kit kit;
    struct trial t = {.kit = &kit, .count = EVERY_COUNT};
    int ran = 0;
    open_here(&kit, EVERY_COUNT + 16);
    for (size_t c = 0; c < TEST_COUNT(colls); c++)
        for (int type = 0; type < ncclNumTypes; type++)
            for (t.op = 0; t.op < NOPS; t.op++) {
                t.coll = colls[c];
                t.type = (ncclDataType_t)type;
                t.root = (type + t.op) % kit.ranks[0].nranks;
                t.in_place = t.op % 2;
                fill(&t);
                if (!run(&t)) continue;
                check_all(&t);
                ran++;
            }
    CHECK(ran >= ncclNumTypes * NOPS);
    kit_close(&kit);
}

#define FOUR_EACH "CORE_RANKS=4", "CORE_DEVICES=4"

/* The child on one device and on several, by each algorithm, and between processes. */
static void each_choice(const char *child)
{
    static const char *const choices[][3] = {
        {"NCCL_ALGO=", "CORE_RANKS=4", "CORE_DEVICES=1"},
        {"NCCL_ALGO=direct", "CORE_RANKS=4", "CORE_DEVICES=3"},
        {"NCCL_ALGO=oneshot", FOUR_EACH},
        {"NCCL_ALGO=oneshot", "CORE_RANKS=2", "CORE_DEVICES=2"},
        {"NCCL_ALGO=twoshot", FOUR_EACH},
        {"NCCL_ALGO=ring", FOUR_EACH},
        {"NCCL_ALGO=tree", FOUR_EACH},
        {"NCCL_ALGO=logstep", FOUR_EACH},
    };
    static const char *const protos[] = {"NCCL_PROTO=LL", "NCCL_PROTO=Simple"};
    for (size_t i = 0; i < TEST_COUNT(choices); i++)
        for (int p = 0; p < 2; p++) {
            if (i < 2 && p == 0) continue;        /* no connections, no protocol */
            if (i > 0 && test_on_gpu()) continue; /* nor a choice on one GPU */
            kit_child(child, (const char *const[]){choices[i][0], choices[i][1], choices[i][2],
                                                   protos[p], "CHORUS_SLOT_BYTES=1024", NULL});
        }
    struct procs procs;
    procs_start(&procs, 4, child, (const char *const[]){"CORE_PROCS=1", NULL});
    procs_end(&procs, -1);
}

static void test_every(void)
{
    each_choice("child:every");
}

/* ---- results that anybody can check ---- */

static const struct known {
    ncclDataType_t type;
    int op;
    double scalar, a, b, result;
} knowns[] = {
    {ncclBfloat16, OP_HOST_SCALAR, 0.5, 1, 2, 1.5},
    {ncclBfloat16, OP_DEVICE_SCALAR, 0.5, 1, 2, 1.5},
    {ncclBfloat16, OP_HOST_SCALAR, 0.25, 1, 3, 1},
    {ncclBfloat16, OP_DEVICE_SCALAR, 3, 1, 3, 12},
    {ncclFloat16, OP_DEVICE_SCALAR, 0.25, 1, 3, 1},
    {ncclFloat8e4m3, OP_HOST_SCALAR, 0.5, 1, 2, 1.5},
    {ncclFloat64, OP_DEVICE_SCALAR, 0.125, 8, 8, 2},
    {ncclInt64, OP_HOST_SCALAR, 3, 1, -3, -6},
    {ncclInt32, ncclAvg, 0, 2, 4, 3},
    {ncclInt32, ncclAvg, 0, -2, -3, -2},
    {ncclInt8, ncclSum, 0, 120, 100, -36},
    {ncclInt8, ncclAvg, 0, 120, 100, -18},
    {ncclUint8, ncclAvg, 0, 200, 100, 22},
    {ncclInt8, ncclProd, 0, 64, 4, 0},
    {ncclFloat8e4m3, ncclSum, 0, 448, 448, 448},
    {ncclFloat16, ncclAvg, 0, 1, 2, 1.5},
    {ncclUint64, ncclMin, 0, 3, 7, 3},
    {ncclInt8, ncclMax, 0, -1, 1, 1},
};

static void child_known(void)
{
    struct kit kit;
    kit_open(&kit, 2, atoi(getenv("CORE_DEVICES")), 8);
    for (size_t i = 0; i < TEST_COUNT(knowns); i++)
        for (size_t c = 0; c < TEST_COUNT(colls); c++) {
            const struct known *known = &knowns[i];
            struct trial t = {
                .kit = &kit, .coll = colls[c], .type = known->type, .op = known->op, .count = 3};
            for (int r = 0; r < 2; r++) {
                t.scalars[r] = number_of(known->scalar, known->type);
                for (size_t e = 0; e < in_count(&t); e++)
                    put(in_of(&t, &kit.ranks[r]), e, t.type,
                        number_of(r == 0 ? known->a : known->b, t.type));
            }
            if (!run(&t)) continue;
            for (int r = 0; r < 2; r++)
                for (size_t e = 0; e < t.count && has_result(&t, &kit.ranks[r]); e++)
                    check_element(&t, &kit.ranks[r], e, number_of(known->result, t.type));
        }
    kit_close(&kit);
}

static void test_known(void)
{
    kit_child("child:known", (const char *const[]){"CORE_DEVICES=1", NULL});
    kit_child("child:known", (const char *const[]){"CORE_DEVICES=2", NULL});
    kit_child("child:known", (const char *const[]){"CORE_DEVICES=2", "NCCL_ALGO=ring", NULL});
    kit_child("child:known", (const char *const[]){"CORE_DEVICES=2", "NCCL_ALGO=oneshot", NULL});
}

/* ---- a NaN at each rank in turn ---- */

/* What the rank `at` places behind the one with the NaN holds. */
static double nan_value(int at, size_t i)
{
    static const double numbers[] = {1, 3, 4};
    return at == 0 ? (double)NAN : numbers[((size_t)at + i) % 3];
}

static uint64_t nan_result(const struct trial *t, size_t i)
{
    double best = nan_value(1, i);
    for (int at = 2; at < t->kit->ranks[0].nranks; at++) {
        double value = nan_value(at, i);
        if (t->op == ncclMax ? value > best : value < best) best = value;
    }
    return number_of(best, t->type);
}

static void run_nan(struct trial *t, int place)
{
    struct kit *kit = t->kit;
    int nranks = kit->ranks[0].nranks;
    t->root = place;
    for (int r = 0; r < kit->nranks; r++)
        for (size_t i = 0; i < in_count(t); i++) {
            double value = nan_value((kit->ranks[r].rank - place + nranks) % nranks, i);
            put(in_of(t, &kit->ranks[r]), i, t->type, number_of(value, t->type));
        }
    if (!run(t)) return;
    for (int r = 0; r < kit->nranks; r++) {
        const struct kit_rank *rank = &kit->ranks[r];
        size_t first = t->coll == KIT_REDUCE_SCATTER ? (size_t)rank->rank * t->count : 0;
        for (size_t i = 0; i < t->count && has_result(t, rank); i++)
            check_element(t, rank, i, nan_result(t, first + i));
    }
}

/* One rank holds a NaN, the others 1, 3 and 4 in any order: the numbers win on every rank. */
static void child_nan(void)
{
    struct kit kit;
    struct trial t = {.kit = &kit, .count = 40};
    open_here(&kit, 64);
    for (size_t c = 0; c < TEST_COUNT(colls); c++)
        for (int type = ncclFloat16; type < ncclNumTypes; type++)
            for (int place = 0; place < kit.ranks[0].nranks; place++)
                for (t.op = ncclMax; t.op <= ncclMin; t.op++) {
                    t.coll = colls[c];
                    t.type = (ncclDataType_t)type;
                    run_nan(&t, place);
                }
    kit_close(&kit);
}

static void test_nan(void)
{
    each_choice("child:nan");
}

/* ---- the same bits again, and from elsewhere in memory ---- */

enum { AGAIN_COUNT = 1500, AGAIN_ROUNDS = 100 };

/* Values of all magnitudes, so that another order of a sum shows. */
static void fill_random(struct trial *t)
{
    for (int r = 0; r < t->kit->nranks; r++) {
        uint32_t state = 1000u + (uint32_t)t->kit->ranks[r].rank;
        for (size_t i = 0; i < in_count(t); i++)
            put(in_of(t, &t->kit->ranks[r]), i, t->type, number_pick(&state, t->type));
    }
}

static void child_again(void)
{
    static char first[4][AGAIN_COUNT * 8];
    struct kit kit;
    struct trial t = {.kit = &kit, .count = AGAIN_COUNT};
    open_here(&kit, AGAIN_COUNT + 32);
    for (size_t c = 0; c < TEST_COUNT(colls); c++)
        for (int type = ncclFloat16; type < ncclNumTypes; type++)
            for (int round = 0; round < (kit_is_slow() ? 2 : AGAIN_ROUNDS / 10); round++) {
                t.coll = colls[c];
                t.type = (ncclDataType_t)type;
                t.op = type % 2 ? ncclSum : ncclAvg;
                t.in_shift = (size_t)(round * 3 % 16);
                t.out_shift = (size_t)(round * 7 % 16);
                fill_random(&t);
                for (int again = 0; again < 10; again++) {
                    if (!run(&t)) break;
                    for (int r = 0; r < kit.nranks; r++) {
                        const struct kit_rank *rank = &kit.ranks[r];
                        size_t bytes = t.count * number_bytes(t.type);
                        if (!has_result(&t, rank)) continue;
                        if (round == 0 && again == 0) memcpy(first[r], out_of(&t, rank), bytes);
                        CHECK_MEM(out_of(&t, rank), first[r], bytes);
                        if (t.coll == KIT_ALL_REDUCE) CHECK_MEM(first[r], first[0], bytes);
                    }
                }
            }
    kit_close(&kit);
}

static void test_again(void)
{
    each_choice("child:again");
}

static const struct test_case cases[] = {
    {"a single rank", test_single, 120},
    {"every operator, type, collective and algorithm", test_every, 120},
    {"results that anybody can check", test_known, 0},
    {"a NaN at each rank in turn", test_nan, 120},
    {"the same bits again, and from elsewhere in memory", test_again, 120},
    {"child:every", child_every, 0},
    {"child:known", child_known, 0},
    {"child:nan", child_nan, 0},
    {"child:again", child_again, 0},
};
TEST_LIB_MAIN(cases)
