/* Rows of the differential program about calls that enqueue: each of the eleven with each of its
 * arguments wrong, operators, groups, one-sided calls. A row more is a line more.
 */
#include "conform/differ.h"

#include <limits.h>

/* Buffers, count 4, type and what a call needs beside it; the stream is the default one. */
#define BUFFERS    s->buffer, s->buffer + 4096, 4
#define ONE_BUFFER s->buffer, 4
#define TYPE(n)    ((ncclDataType_t)(n))
#define OP(n)      ((ncclRedOp_t)(n))

/* Each takes what it has of communicator, type, operator and root. */
#define ALL_REDUCE(comm, type, op, root)     F(AllReduce)(BUFFERS, type, op, comm, NULL)
#define REDUCE(comm, type, op, root)         F(Reduce)(BUFFERS, type, op, root, comm, NULL)
#define REDUCE_SCATTER(comm, type, op, root) F(ReduceScatter)(BUFFERS, type, op, comm, NULL)
#define BROADCAST(comm, type, op, root)      F(Broadcast)(BUFFERS, type, root, comm, NULL)
#define BCAST(comm, type, op, root)          F(Bcast)(ONE_BUFFER, type, root, comm, NULL)
#define ALL_GATHER(comm, type, op, root)     F(AllGather)(BUFFERS, type, comm, NULL)
#define ALL_TO_ALL(comm, type, op, root)     F(AlltoAll)(BUFFERS, type, comm, NULL)
#define GATHER(comm, type, op, root)         F(Gather)(BUFFERS, type, root, comm, NULL)
#define SCATTER(comm, type, op, root)        F(Scatter)(BUFFERS, type, root, comm, NULL)
#define SEND(comm, type, op, root)           F(Send)(ONE_BUFFER, type, root, comm, NULL)
#define RECV(comm, type, op, root)           F(Recv)(ONE_BUFFER, type, root, comm, NULL)

#define WELL(call, comm) call(comm, ncclFloat32, ncclSum, 0)
#define FOR_ALL(ROW, function, call)                                                               \
    ROW(function, comm_null, NOTHING, WELL(call, NULL))                                            \
    ROW(function, comm_garbage, NOTHING, WELL(call, s->garbage))                                   \
    ROW(function, type_low, COMM, call(s->comm[0], TYPE(-1), ncclSum, 0))                          \
    ROW(function, type_high, COMM, call(s->comm[0], TYPE(12), ncclSum, 0))                         \
    ROW(function, finalized, COMM, (F(CommFinalize)(s->comm[0]), WELL(call, s->comm[0])))          \
    ROW(function, revoked, COMM, (F(CommRevoke)(s->comm[0], 0), WELL(call, s->comm[0])))
#define FOR_ROOTED(ROW, function, call)                                                            \
    ROW(function, root_low, COMM, call(s->comm[0], ncclFloat32, ncclSum, -1))                      \
    ROW(function, root_n, COMM, call(s->comm[0], ncclFloat32, ncclSum, 1))                         \
    ROW(function, root_before_type, COMM, call(s->comm[0], TYPE(12), ncclSum, 9))
#define FOR_REDUCING(ROW, function, call)                                                          \
    ROW(function, op_low, COMM, call(s->comm[0], ncclFloat32, OP(-1), 0))                          \
    ROW(function, op_unknown, COMM, call(s->comm[0], ncclFloat32, OP(5), 0))                       \
    ROW(function, op_high, COMM, call(s->comm[0], ncclFloat32, OP(INT_MAX), 0))

#define ENQUEUE_ROWS(ROW)                                                                          \
    FOR_ALL(ROW, AllReduce, ALL_REDUCE)                                                            \
    FOR_REDUCING(ROW, AllReduce, ALL_REDUCE)                                                       \
    FOR_ALL(ROW, Reduce, REDUCE)                                                                   \
    FOR_ROOTED(ROW, Reduce, REDUCE)                                                                \
    FOR_REDUCING(ROW, Reduce, REDUCE)                                                              \
    FOR_ALL(ROW, ReduceScatter, REDUCE_SCATTER)                                                    \
    FOR_REDUCING(ROW, ReduceScatter, REDUCE_SCATTER)                                               \
    FOR_ALL(ROW, Broadcast, BROADCAST)                                                             \
    FOR_ROOTED(ROW, Broadcast, BROADCAST)                                                          \
    FOR_ALL(ROW, Bcast, BCAST)                                                                     \
    FOR_ROOTED(ROW, Bcast, BCAST)                                                                  \
    FOR_ALL(ROW, AllGather, ALL_GATHER)                                                            \
    FOR_ALL(ROW, AlltoAll, ALL_TO_ALL)                                                             \
    FOR_ALL(ROW, Gather, GATHER)                                                                   \
    FOR_ROOTED(ROW, Gather, GATHER)                                                                \
    FOR_ALL(ROW, Scatter, SCATTER)                                                                 \
    FOR_ROOTED(ROW, Scatter, SCATTER)                                                              \
    FOR_ALL(ROW, Send, SEND)                                                                       \
    FOR_ROOTED(ROW, Send, SEND)                                                                    \
    FOR_ALL(ROW, Recv, RECV)                                                                       \
    FOR_ROOTED(ROW, Recv, RECV)

#define CREATE(scalar, type, residence, comm)                                                      \
    F(RedOpCreatePreMulSum)(&s->op, scalar, TYPE(type), (ncclScalarResidence_t)(residence), comm)
/* An operator of float for a sum of int32. */
#define FLOAT_OP_OF_INTS                                                                           \
    (CREATE(&s->scalar, ncclFloat32, 1, s->comm[0]),                                               \
     F(AllReduce)(BUFFERS, ncclInt32, s->op, s->comm[0], NULL))
#define SUM_OF(count)                                                                              \
    F(AllReduce)(s->buffer, s->buffer + 4096, count, ncclFloat32, ncclSum, s->comm[0], NULL)

#define OPERATOR_ROWS(ROW)                                                                         \
    ROW(AllReduce, op_of_another_type, COMM, FLOAT_OP_OF_INTS)                                     \
    ROW(AllReduce, nothing, COMM, SUM_OF(0))                                                       \
    ROW(AllReduce, buffers_null, COMM,                                                             \
        F(AllReduce)(NULL, NULL, 0, ncclFloat32, ncclSum, s->comm[0], NULL))                       \
    ROW(RedOpCreatePreMulSum, comm_null, NOTHING, CREATE(&s->scalar, ncclFloat32, 1, NULL))        \
    ROW(RedOpCreatePreMulSum, comm_garbage, NOTHING,                                               \
        CREATE(&s->scalar, ncclFloat32, 1, s->garbage))                                            \
    ROW(RedOpCreatePreMulSum, scalar_null, COMM, CREATE(NULL, ncclFloat32, 1, s->comm[0]))         \
    ROW(RedOpCreatePreMulSum, type_high, COMM, CREATE(&s->scalar, 12, 1, s->comm[0]))              \
    ROW(RedOpCreatePreMulSum, residence_high, COMM,                                                \
        CREATE(&s->scalar, ncclFloat32, 2, s->comm[0]))                                            \
    ROW(RedOpDestroy, comm_null, NOTHING, F(RedOpDestroy)(OP(5), NULL))                            \
    ROW(RedOpDestroy, comm_garbage, NOTHING, F(RedOpDestroy)(OP(5), s->garbage))                   \
    ROW(RedOpDestroy, builtin, COMM, F(RedOpDestroy)(ncclSum, s->comm[0]))                         \
    ROW(RedOpDestroy, unknown, COMM, F(RedOpDestroy)(OP(5), s->comm[0]))                           \
    ROW(RedOpDestroy, low, COMM, F(RedOpDestroy)(OP(-1), s->comm[0]))                              \
    ROW(RedOpDestroy, twice, COMM,                                                                 \
        (CREATE(&s->scalar, ncclFloat32, 1, s->comm[0]), F(RedOpDestroy)(s->op, s->comm[0]),       \
         F(RedOpDestroy)(s->op, s->comm[0])))

#define BAD_CALL F(AllReduce)(BUFFERS, TYPE(12), ncclSum, s->comm[0], NULL)
#define GROUP_ROWS(ROW)                                                                            \
    ROW(GroupEnd, after_a_bad_call, COMM, (F(GroupStart)(), BAD_CALL, F(GroupEnd)()))              \
    ROW(GroupEnd, bad_then_good, COMM,                                                             \
        (F(GroupStart)(), BAD_CALL, SUM_OF(4), F(GroupEnd)(), SUM_OF(0)))                          \
    ROW(GroupEnd, inner_after_a_bad_call, COMM,                                                    \
        (F(GroupStart)(), F(GroupStart)(), BAD_CALL, F(GroupEnd)()))                               \
    ROW(GroupEnd, bad_query_inside, COMM,                                                          \
        (F(GroupStart)(), F(CommCount)(NULL, &s->number), F(GroupEnd)()))                          \
    ROW(GroupEnd, send_to_itself_alone, COMM,                                                      \
        (F(GroupStart)(), WELL(SEND, s->comm[0]), F(GroupEnd)()))                                  \
    ROW(GroupSimulateEnd, of_a_sum, COMM,                                                          \
        (F(GroupStart)(), SUM_OF(4), F(GroupSimulateEnd)(&s->sim)))                                \
    ROW(GroupSimulateEnd, after_a_bad_call, COMM,                                                  \
        (F(GroupStart)(), BAD_CALL, F(GroupSimulateEnd)(&s->sim)))

#define PUT(peer, window, index, context, flags, comm)                                             \
    F(PutSignal)(ONE_BUFFER, ncclFloat32, peer, window, 0, index, context, flags, comm, NULL)
#define WAIT(count, of, index)                                                                     \
    (s->desc = (ncclWaitSignalDesc_t){.opCnt = (of), .sigIdx = (index)},                           \
     F(WaitSignal)(count, &s->desc, s->comm[0], NULL))
#define ONE_SIDED_ROWS(ROW)                                                                        \
    ROW(PutSignal, comm_null, NOTHING, PUT(0, s->garbage, 0, 0, 0, NULL))                          \
    ROW(PutSignal, window_null, COMM, PUT(0, NULL, 0, 0, 0, s->comm[0]))                           \
    ROW(PutSignal, peer_high, COMM, PUT(1, s->garbage, 0, 0, 0, s->comm[0]))                       \
    ROW(PutSignal, index_one, COMM, PUT(0, s->garbage, 1, 0, 0, s->comm[0]))                       \
    ROW(PutSignal, context_one, COMM, PUT(0, s->garbage, 0, 1, 0, s->comm[0]))                     \
    ROW(PutSignal, flags_one, COMM, PUT(0, s->garbage, 0, 0, 1, s->comm[0]))                       \
    ROW(Signal, comm_null, NOTHING, F(Signal)(0, 0, 0, 0, NULL, NULL))                             \
    ROW(Signal, peer_high, COMM, F(Signal)(1, 0, 0, 0, s->comm[0], NULL))                          \
    ROW(Signal, peer_low, COMM, F(Signal)(-1, 0, 0, 0, s->comm[0], NULL))                          \
    ROW(Signal, index_one, COMM, F(Signal)(0, 1, 0, 0, s->comm[0], NULL))                          \
    ROW(Signal, flags_one, COMM, F(Signal)(0, 0, 0, 1, s->comm[0], NULL))                          \
    ROW(WaitSignal, comm_null, NOTHING, F(WaitSignal)(1, &s->desc, NULL, NULL))                    \
    ROW(WaitSignal, none, COMM, WAIT(0, 1, 0))                                                     \
    ROW(WaitSignal, list_null, COMM, F(WaitSignal)(1, NULL, s->comm[0], NULL))                     \
    ROW(WaitSignal, count_zero, COMM, WAIT(1, 0, 0))                                               \
    ROW(WaitSignal, index_one, COMM, WAIT(1, 1, 1))

#define ROWS(ROW)                                                                                  \
    ENQUEUE_ROWS(ROW)                                                                              \
    OPERATOR_ROWS(ROW)                                                                             \
    GROUP_ROWS(ROW)                                                                                \
    ONE_SIDED_ROWS(ROW)

ROWS(DIFFER_FUNCTION)
static const struct differ_row rows[] = {ROWS(DIFFER_ROW)};
const struct differ_rows differ_op_rows = {rows, sizeof rows / sizeof rows[0]};
