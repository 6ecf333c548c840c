/* Wrong arguments of the eleven calls that enqueue, as a product of calls and faults: each case
 * spoils one argument (or two, to see the order of the checks), alone and inside a group, expects
 * the code and the text, and then the communicator must still work.
 */
#include "conform/world.h"

#include <limits.h>
#include <string.h>

struct args {
    const void *in;
    void *out;
    size_t count;
    int type, op;
    int root;
    ncclComm_t comm;
    cudaStream_t stream;
};

struct callee {
    const char *name;
    ncclResult_t (*call)(const struct args *args);
};

#define TYPE ((ncclDataType_t)a->type)
#define OP   ((ncclRedOp_t)a->op)

/* CALLEE(name without nccl, (arguments)) */
#define CALLEE(id, arguments)                                                                      \
    static ncclResult_t call_##id(const struct args *a)                                            \
    {                                                                                              \
        return nccl##id arguments;                                                                 \
    }                                                                                              \
    static const struct callee id = {"nccl" #id, call_##id};

CALLEE(AllReduce, (a->in, a->out, a->count, TYPE, OP, a->comm, a->stream))
CALLEE(Reduce, (a->in, a->out, a->count, TYPE, OP, a->root, a->comm, a->stream))
CALLEE(Broadcast, (a->in, a->out, a->count, TYPE, a->root, a->comm, a->stream))
CALLEE(Bcast, (a->out, a->count, TYPE, a->root, a->comm, a->stream))
CALLEE(AllGather, (a->in, a->out, a->count, TYPE, a->comm, a->stream))
CALLEE(ReduceScatter, (a->in, a->out, a->count, TYPE, OP, a->comm, a->stream))
CALLEE(AlltoAll, (a->in, a->out, a->count, TYPE, a->comm, a->stream))
CALLEE(Gather, (a->in, a->out, a->count, TYPE, a->root, a->comm, a->stream))
CALLEE(Scatter, (a->in, a->out, a->count, TYPE, a->root, a->comm, a->stream))
CALLEE(Send, (a->in, a->count, TYPE, a->root, a->comm, a->stream))
CALLEE(Recv, (a->out, a->count, TYPE, a->root, a->comm, a->stream))

/* A fault: which arguments become what, and what the text must say. */
enum spoilt {
    COMM_NULL = 1,
    COMM_GARBAGE = 2,
    ROOT = 4,
    TYPE_ = 8,
    OP_ = 16,
    COUNT = 32,
    BUFFERS = 64,
    OP_OF_FLOAT = 128
};

struct fault {
    unsigned spoilt;
    int root, type, op;
    const char *detail;
};

static const struct fault comm_null = {.spoilt = COMM_NULL, .detail = "comm"};
static const struct fault comm_garbage = {.spoilt = COMM_GARBAGE, .detail = "comm"};
static const struct fault type_low = {
    .spoilt = TYPE_, .type = -1, .detail = "datatype -1 is not in [0, 12)"};
static const struct fault type_first_bad = {
    .spoilt = TYPE_, .type = 12, .detail = "datatype 12 is not in [0, 12)"};
static const struct fault type_high = {
    .spoilt = TYPE_, .type = 1 << 20, .detail = "datatype 1048576 is not in [0, 12)"};
static const struct fault count_huge = {.spoilt = COUNT, .detail = "count 18446744073709551615"};
static const struct fault buffers_null = {.spoilt = BUFFERS, .detail = "NULL with count 4"};
static const struct fault root_low = {.spoilt = ROOT, .root = -1, .detail = " -1 is not in [0, 3)"};
static const struct fault root_first_bad = {
    .spoilt = ROOT, .root = NRANKS, .detail = " 3 is not in [0, 3)"};
static const struct fault root_high = {
    .spoilt = ROOT, .root = INT_MAX, .detail = " 2147483647 is not in [0, 3)"};
static const struct fault op_low = {.spoilt = OP_, .op = -1, .detail = "-1"};
static const struct fault op_first_bad = {.spoilt = OP_, .op = 5, .detail = "5"};
static const struct fault op_high = {.spoilt = OP_, .op = INT_MAX, .detail = "2147483647"};
static const struct fault op_of_float = {.spoilt = OP_OF_FLOAT, .detail = "type"};
/* Two faults: the earlier check wins. */
static const struct fault comm_before_type = {
    .spoilt = COMM_NULL | TYPE_, .type = 12, .detail = "comm"};
static const struct fault comm_before_root = {
    .spoilt = COMM_NULL | ROOT, .root = -1, .detail = "comm"};
static const struct fault root_before_type = {
    .spoilt = ROOT | TYPE_, .root = 9, .type = 12, .detail = " 9 is not in [0, 3)"};
static const struct fault type_before_op = {
    .spoilt = TYPE_ | OP_, .type = 12, .op = -1, .detail = "datatype 12 is not in [0, 12)"};
static const struct fault type_before_count = {
    .spoilt = TYPE_ | COUNT, .type = 12, .detail = "datatype 12 is not in [0, 12)"};

static void spoil(struct args *args, const struct fault *fault, void *garbage)
{
    if (fault->spoilt & COMM_NULL) args->comm = NULL;
    if (fault->spoilt & COMM_GARBAGE) args->comm = garbage;
    if (fault->spoilt & ROOT) args->root = fault->root;
    if (fault->spoilt & TYPE_) args->type = fault->type;
    if (fault->spoilt & OP_) args->op = fault->op;
    if (fault->spoilt & COUNT) args->count = SIZE_MAX;
    if (fault->spoilt & BUFFERS) args->in = args->out = NULL;
}

/* Alone: the call fails. In a group: the call fails, the end returns the same code, and the
 * valid operation beside it is dropped, which world_works would notice as a stray operation. */
static void try_fault(const struct callee *callee, const struct fault *fault, int grouped)
{
    static uint64_t garbage[4096 / sizeof(uint64_t)];
    struct world world;
    float scale = 2;
    ncclRedOp_t float_op = ncclSum;
    world_open(&world);
    memset(garbage, 0x5a, sizeof garbage);
    struct args args = {.in = world.in[0],
                        .out = world.out[0],
                        .count = 4,
                        .type = ncclInt32,
                        .op = ncclSum,
                        .comm = world.comm[0],
                        .stream = world.stream[0]};
    spoil(&args, fault, garbage);
    if (fault->spoilt & OP_OF_FLOAT) {
        CHECK_OK(ncclRedOpCreatePreMulSum(&float_op, &scale, ncclFloat32, ncclScalarHostImmediate,
                                          world.comm[0]));
        args.op = (int)float_op;
    }
    if (grouped) {
        CHECK_OK(ncclGroupStart());
        CHECK_OK(ncclAllReduce(world.in[0], world.out[0], NELEMS, ncclInt32, ncclMax, world.comm[0],
                               world.stream[0]));
    }
    expect_error(callee->call(&args), ncclInvalidArgument, callee->name, fault->detail);
    if (grouped) CHECK_EQ(ncclGroupEnd(), ncclInvalidArgument);
    if (fault->spoilt & OP_OF_FLOAT) CHECK_OK(ncclRedOpDestroy(float_op, world.comm[0]));
    world_works(&world);
    world_close(&world);
}

#define FOR_ALL(X, c)                                                                              \
    X(c, comm_null)                                                                                \
    X(c, comm_garbage)                                                                             \
    X(c, type_low)                                                                                 \
    X(c, type_first_bad)                                                                           \
    X(c, type_high)                                                                                \
    X(c, count_huge)                                                                               \
    X(c, buffers_null)                                                                             \
    X(c, comm_before_type)                                                                         \
    X(c, type_before_count)
#define FOR_ROOTED(X, c)                                                                           \
    X(c, root_low)                                                                                 \
    X(c, root_first_bad)                                                                           \
    X(c, root_high)                                                                                \
    X(c, comm_before_root)                                                                         \
    X(c, root_before_type)
#define FOR_REDUCING(X, c)                                                                         \
    X(c, op_low)                                                                                   \
    X(c, op_first_bad)                                                                             \
    X(c, op_high)                                                                                  \
    X(c, op_of_float)                                                                              \
    X(c, type_before_op)

#define CASES(X)                                                                                   \
    FOR_ALL(X, AllReduce)                                                                          \
    FOR_REDUCING(X, AllReduce)                                                                     \
    FOR_ALL(X, Reduce)                                                                             \
    FOR_ROOTED(X, Reduce)                                                                          \
    FOR_REDUCING(X, Reduce)                                                                        \
    FOR_ALL(X, Broadcast)                                                                          \
    FOR_ROOTED(X, Broadcast)                                                                       \
    FOR_ALL(X, Bcast)                                                                              \
    FOR_ROOTED(X, Bcast)                                                                           \
    FOR_ALL(X, AllGather)                                                                          \
    FOR_ALL(X, ReduceScatter)                                                                      \
    FOR_REDUCING(X, ReduceScatter)                                                                 \
    FOR_ALL(X, AlltoAll)                                                                           \
    FOR_ALL(X, Gather)                                                                             \
    FOR_ROOTED(X, Gather)                                                                          \
    FOR_ALL(X, Scatter)                                                                            \
    FOR_ROOTED(X, Scatter)                                                                         \
    FOR_ALL(X, Send)                                                                               \
    FOR_ROOTED(X, Send)                                                                            \
    FOR_ALL(X, Recv)                                                                               \
    FOR_ROOTED(X, Recv)

#define FUNCTIONS(c, fault)                                                                        \
    static void c##_##fault(void)                                                                  \
    {                                                                                              \
        try_fault(&c, &fault, 0);                                                                  \
    }                                                                                              \
    static void c##_##fault##_in_group(void)                                                       \
    {                                                                                              \
        try_fault(&c, &fault, 1);                                                                  \
    }
CASES(FUNCTIONS)

#define ROWS(c, fault)                                                                             \
    {"wrong: nccl" #c " " #fault, c##_##fault, 0},                                                 \
        {"wrong: nccl" #c " " #fault " in a group", c##_##fault##_in_group, 0},
static const struct test_case cases[] = {CASES(ROWS)};
const struct case_list wrong_op_cases = {cases, TEST_COUNT(cases)};
