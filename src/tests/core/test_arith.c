/* Every type and operator against a second opinion (numbers.h), bit for bit and on all ranks:
 * special values, rounding, wrap-around, averages, PreMulSum with scalars in device and host
 * memory; in one executor, in several, and through connections. */
#include "core/numbers.h"

#include "core/kit.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 1500, MOST_RANKS = 5, NOPS = ncclNumOps + 2 };

/* Built-in operators, then PreMulSum with the scalar on the host and on the device. */
enum { OP_HOST_SCALAR = ncclNumOps, OP_DEVICE_SCALAR };

struct trial {
    struct kit kit;
    ncclDataType_t type;
    int op;
    uint32_t seed;
    uint64_t inputs[MOST_RANKS][COUNT], scalars[MOST_RANKS], wanted[COUNT];
    ncclRedOp_t handles[MOST_RANKS];
};

static void fill(struct trial *trial)
{
    uint32_t state = trial->seed;
    size_t bytes = number_bytes(trial->type);
    for (int r = 0; r < trial->kit.nranks; r++) {
        struct kit_rank *rank = &trial->kit.ranks[r];
        memset(rank->out, 0xa5, rank->room);
        for (size_t i = 0; i < COUNT; i++) {
            trial->inputs[r][i] = number_pick(&state, trial->type);
            memcpy(rank->in + i * bytes, &trial->inputs[r][i], bytes);
        }
        trial->scalars[r] = number_pick(&state, trial->type);
        memcpy(rank->in + COUNT * bytes, &trial->scalars[r], bytes);
    }
}

/* What rank r brings to the sum. */
static uint64_t brought(const struct trial *trial, int r, size_t i)
{
    uint64_t input = trial->inputs[r][i];
    if (trial->op >= OP_HOST_SCALAR)
        return number_combine(input, trial->scalars[r], trial->type, ncclProd);
    if (trial->op != ncclAvg || number_is_integer(trial->type)) return input;
    uint64_t factor = number_inverse(trial->kit.nranks, trial->type);
    return number_combine(input, factor, trial->type, ncclProd);
}

/* Ranks are folded device by device. */
static void expect(struct trial *trial)
{
    int n = trial->kit.nranks;
    ncclRedOp_t op = trial->op < ncclAvg ? (ncclRedOp_t)trial->op : ncclSum;
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t result = brought(trial, 0, i);
        for (int device = 0; device < trial->kit.ndevices; device++)
            for (int r = device; r < n; r += trial->kit.ndevices)
                if (r > 0) result = number_combine(result, brought(trial, r, i), trial->type, op);
        if (trial->op == ncclAvg && number_is_integer(trial->type))
            result = number_divide(result, n, trial->type);
        trial->wanted[i] = result;
    }
}

static void make_handles(struct trial *trial)
{
    size_t bytes = number_bytes(trial->type);
    for (int r = 0; r < trial->kit.nranks; r++) {
        struct kit_rank *rank = &trial->kit.ranks[r];
        uint64_t scalar = trial->scalars[r];
        int on_host = trial->op == OP_HOST_SCALAR;
        void *at = on_host ? (void *)&scalar : rank->in + COUNT * bytes;
        trial->handles[r] = (ncclRedOp_t)trial->op;
        if (trial->op < ncclNumOps) continue;
        CHECK_OK(ncclRedOpCreatePreMulSum(&trial->handles[r], at, trial->type,
                                          on_host ? ncclScalarHostImmediate : ncclScalarDevice,
                                          rank->comm));
        scalar = ~scalar;
    }
}

static void call(struct trial *trial)
{
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < trial->kit.nranks; r++) {
        struct kit_rank *rank = &trial->kit.ranks[r];
        CHECK_OK(ncclAllReduce(rank->in, rank->out, COUNT, trial->type, trial->handles[r],
                               rank->comm, rank->stream));
    }
    CHECK_OK(ncclGroupEnd());
    for (int r = 0; r < trial->kit.nranks; r++) {
        struct kit_rank *rank = &trial->kit.ranks[r];
        kit_sync(rank);
        if (trial->op >= ncclNumOps) CHECK_OK(ncclRedOpDestroy(trial->handles[r], rank->comm));
    }
}

static void check(const struct trial *trial)
{
    size_t bytes = number_bytes(trial->type);
    for (int r = 0; r < trial->kit.nranks; r++) {
        const char *out = trial->kit.ranks[r].out;
        for (size_t i = 0; i < COUNT; i++) {
            uint64_t got = 0;
            memcpy(&got, out + i * bytes, bytes);
            if (got != trial->wanted[i])
                FAIL("type %d, op %d, %d ranks on %d devices, seed %u: rank %d has %#llx at %zu, "
                     "not %#llx; inputs %#llx %#llx %#llx, scalars %#llx %#llx",
                     (int)trial->type, trial->op, trial->kit.nranks, trial->kit.ndevices,
                     trial->seed, r, (unsigned long long)got, i,
                     (unsigned long long)trial->wanted[i], (unsigned long long)trial->inputs[0][i],
                     (unsigned long long)trial->inputs[1][i],
                     (unsigned long long)trial->inputs[2][i], (unsigned long long)trial->scalars[0],
                     (unsigned long long)trial->scalars[1]);
        }
        for (size_t i = COUNT * bytes; i < trial->kit.ranks[r].room; i++)
            CHECK_EQ((unsigned char)out[i], 0xa5);
    }
}

/* One communicator, all types and operators. */
static void run_all(int nranks, int ndevices)
{
    struct trial *trial = calloc(1, sizeof *trial);
    CHECK(trial != NULL);
    kit_open(&trial->kit, nranks, ndevices, COUNT + 1);
    for (int type = 0; type < ncclNumTypes; type++)
        for (int op = 0; op < NOPS; op++) {
            trial->type = (ncclDataType_t)type;
            trial->op = op;
            trial->seed = (uint32_t)(type * 64 + op + nranks * 4096);
            fill(trial);
            expect(trial);
            make_handles(trial);
            call(trial);
            check(trial);
        }
    kit_close(&trial->kit);
    free(trial);
}

static void test_one_executor(void)
{
    for (int n = 1; n <= MOST_RANKS; n++) run_all(n, 1);
}

static void test_executors(void)
{
    run_all(2, 2);
    run_all(5, 2);
    run_all(5, 5);
}

/* One rank per executor: the order of the fold is that of the ranks. */
static void child_connected(void)
{
    run_all(2, 2);
    run_all(5, 5);
}

static void test_connected(void)
{
    kit_child("child:connected", (const char *const[]){"NCCL_ALGO=oneshot", NULL});
    kit_child("child:connected",
              (const char *const[]){"NCCL_ALGO=twoshot", "CHORUS_SLOT_BYTES=1024", NULL});
}

/* Around a ring the order depends on the place in the buffer; all ranks must still agree. */
static void child_ring(void)
{
    struct trial *trial = calloc(1, sizeof *trial);
    CHECK(trial != NULL);
    kit_open(&trial->kit, 5, 3, COUNT + 1);
    for (int type = 0; type < ncclNumTypes; type++)
        for (int op = 0; op < NOPS; op++) {
            trial->type = (ncclDataType_t)type;
            trial->op = op;
            trial->seed = (uint32_t)(type * 64 + op);
            fill(trial);
            make_handles(trial);
            call(trial);
            size_t bytes = number_bytes(trial->type);
            for (int r = 1; r < 5; r++)
                CHECK_MEM(trial->kit.ranks[r].out, trial->kit.ranks[0].out, COUNT * bytes);
        }
    kit_close(&trial->kit);
    free(trial);
}

static void test_ring(void)
{
    kit_child("child:ring", (const char *const[]){"NCCL_ALGO=ring", "CHORUS_CHANNELS=2",
                                                  "CHORUS_SLOT_BYTES=1024", NULL});
}

/* The second opinion itself, on values that anybody can look up. */
static void test_numbers(void)
{
    static const struct {
        ncclDataType_t type;
        ncclRedOp_t op;
        uint64_t a, b, result;
    } rows[] = {
        {ncclInt8, ncclSum, 0x7f, 1, 0x80},
        {ncclInt8, ncclMax, 0xff, 1, 1},
        {ncclUint8, ncclMax, 0xff, 1, 0xff},
        {ncclFloat32, ncclSum, 0x3f800000, 0x33800000, 0x3f800000}, /* 1 + 2^-24: tie to even */
        {ncclFloat16, ncclSum, 0x7bff, 0x7bff, 0x7c00},             /* overflow */
        {ncclFloat16, ncclProd, 0x0001, 0x3800, 0x0000},            /* half the least: to even */
        {ncclFloat16, ncclMin, 0x0000, 0x8000, 0x8000},
        {ncclBfloat16, ncclMax, 0x7fc1, 0x3f80, 0x3f80},
        {ncclFloat8e4m3, ncclSum, 0x7e, 0x7e, 0x7e}, /* 448 + 448 saturates */
        {ncclFloat8e5m2, ncclProd, 0x7b, 0x7b, 0x7b},
        {ncclFloat8e5m2, ncclSum, 0x7c, 0xfc, 0x7e}, /* infinity - infinity */
        {ncclFloat64, ncclProd, 0x4000000000000000, 0x4008000000000000, 0x4018000000000000},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++)
        CHECK_EQ(number_combine(rows[i].a, rows[i].b, rows[i].type, rows[i].op), rows[i].result);
    CHECK_EQ(number_inverse(3, ncclFloat16), 0x3555);
    CHECK_EQ(number_divide(0xfb, 2, ncclInt8), 0xfe); /* -5 / 2 = -2 */
}

static const struct test_case cases[] = {
    {"the second opinion", test_numbers, 0},
    {"one executor", test_one_executor, 0},
    {"several executors", test_executors, 0},
    {"through connections", test_connected, 0},
    {"around a ring", test_ring, 0},
    {"child:connected", child_connected, 0},
    {"child:ring", child_ring, 0},
};
TEST_LIB_MAIN(cases)
