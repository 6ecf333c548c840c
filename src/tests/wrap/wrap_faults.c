/* A library for LD_PRELOAD that spoils collectives: the drivers' verification must see each fault.
 *
 * It redefines ncclX and calls pncclX. WRAP_FAULT names the fault: drop (the last element is not
 * written), skip (nothing is called), swap (two halves of the result change places), stale (the
 * result of the call before), double (rank 0 counts twice), past (a byte behind the result).
 * WRAP_SLOW_US makes every outermost call, or group of calls, take that much longer.
 * Spoiling happens on the host in stream order. A GPU's memory is out of its reach: there only
 * drop spoils, by copies on the stream, and the other faults but skip leave the results alone.
 * Invariant: what waits for a stream lives until that stream has run it.
 */
#include "chorus.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Another library has none; skip needs none. */
extern const struct chorus_devices *chorus_devices(void) __attribute__((weak));

#define WRAP __attribute__((visibility("default")))

enum fault { NONE, DROP, SKIP, SWAP, STALE, DOUBLE, PAST };

/* One result that will be spoiled. */
struct spoil {
    struct spoil *next;
    enum fault fault;
    uint8_t *recv;
    size_t elems, type_bytes;
    ncclComm_t comm;
    int peer; /* of a receive, -1: a collective */
    int device;
    cudaStream_t stream;
    uint8_t *last;    /* on a GPU: its last element before the call */
    uint8_t before[]; /* elsewhere: recv before the call */
};

/* The last result of a communicator (and peer): what STALE gives back. */
struct kept {
    struct kept *next;
    ncclComm_t comm;
    int peer;
    size_t bytes;
    uint8_t *data;
};

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *kept_list;

/* Groups are per thread: what is spoiled when the outermost one ends. */
static _Thread_local int depth;
static _Thread_local struct spoil *pending;

static enum fault fault_wanted(void)
{
    static const char *const names[] = {"none", "drop", "skip", "swap", "stale", "double", "past"};
    const char *text = getenv("WRAP_FAULT");
    for (int i = 0; text && i < (int)(sizeof(names) / sizeof(names[0])); i++)
        if (strcmp(text, names[i]) == 0) return (enum fault)i;
    return NONE;
}

static int is_on_gpu(void)
{
    return strcmp(chorus_devices()->kind, "cuda") == 0;
}

static size_t bytes_of(ncclDataType_t type)
{
    static const uint8_t bytes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return bytes[type];
}

/* ---- on the stream ---- */

static void save_before(void *argument)
{
    struct spoil *spoil = argument;
    memcpy(spoil->before, spoil->recv, spoil->elems * spoil->type_bytes);
}

static struct kept *kept_of(const struct spoil *spoil)
{
    struct kept *kept = kept_list;
    while (kept && (kept->comm != spoil->comm || kept->peer != spoil->peer)) kept = kept->next;
    if (kept) return kept;
    kept = calloc(1, sizeof(*kept));
    if (!kept) abort();
    *kept = (struct kept){.next = kept_list, .comm = spoil->comm, .peer = spoil->peer};
    kept_list = kept;
    return kept;
}

/* Gives back the result before this one, and keeps this one; the first gives what was there. */
static void give_stale(struct spoil *spoil, size_t bytes)
{
    uint8_t *result = malloc(bytes);
    if (!result) abort();
    memcpy(result, spoil->recv, bytes);
    pthread_mutex_lock(&kept_lock);
    struct kept *kept = kept_of(spoil);
    memcpy(spoil->recv, kept->bytes == bytes ? kept->data : spoil->before, bytes);
    free(kept->data);
    kept->data = result;
    kept->bytes = bytes;
    pthread_mutex_unlock(&kept_lock);
}

static void apply(void *argument)
{
    struct spoil *spoil = argument;
    size_t bytes = spoil->elems * spoil->type_bytes, half = spoil->elems / 2 * spoil->type_bytes;
    uint8_t *recv = spoil->recv, *second = recv + bytes - half;
    switch (spoil->fault) {
    case DROP:
        memcpy(recv + bytes - spoil->type_bytes, spoil->before + bytes - spoil->type_bytes,
               spoil->type_bytes);
        break;
    case SWAP:
        for (size_t i = 0; i < half; i++) {
            uint8_t byte = recv[i];
            recv[i] = second[i];
            second[i] = byte;
        }
        break;
    case STALE: give_stale(spoil, bytes); break;
    case DOUBLE: memcpy(second, recv, half); break; /* data movement: the first half twice */
    case PAST: recv[bytes] ^= 0xff; break;
    case NONE:
    case SKIP: break;
    }
    free(spoil);
}

/* ---- around the calls ---- */

struct result {
    void *recv;
    size_t elems;
    ncclDataType_t type;
    ncclComm_t comm;
    int peer;
    cudaStream_t stream;
};

static void *last_of(const struct spoil *spoil)
{
    return spoil->recv + (spoil->elems - 1) * spoil->type_bytes;
}

/* The copies are never freed: streams may still use them, and the programs are short. */
static void save_on_gpu(struct spoil *spoil)
{
    const struct chorus_devices *devices = chorus_devices();
    if (devices->alloc((void **)&spoil->last, spoil->type_bytes) != ncclSuccess) abort();
    devices->copy(spoil->last, last_of(spoil), spoil->type_bytes, spoil->stream);
}

static void apply_on_gpu(struct spoil *spoil)
{
    chorus_devices()->copy(last_of(spoil), spoil->last, spoil->type_bytes, spoil->stream);
    free(spoil);
}

/* Before the call that will write the result. */
static void spoil_before(const struct result *result, enum fault fault)
{
    size_t type_bytes = bytes_of(result->type), bytes = result->elems * type_bytes;
    if (fault == NONE || fault == SKIP || bytes == 0) return;
    int on_gpu = is_on_gpu();
    if (on_gpu && fault != DROP) return;
    const struct chorus_devices *devices = chorus_devices();
    struct spoil *spoil = malloc(sizeof(*spoil) + (on_gpu ? 0 : bytes));
    if (!spoil) abort();
    *spoil = (struct spoil){.fault = fault,
                            .recv = result->recv,
                            .elems = result->elems,
                            .type_bytes = type_bytes,
                            .comm = result->comm,
                            .peer = result->peer,
                            .stream = result->stream,
                            .next = pending};
    devices->get(&spoil->device);
    if (on_gpu)
        save_on_gpu(spoil);
    else
        devices->host_func(result->stream, save_before, spoil);
    pending = spoil;
}

/* After the outermost group, or after a call outside of any: only then is the work enqueued. */
static void spoil_pending(void)
{
    int device;
    if (depth > 0 || !pending) return;
    const struct chorus_devices *devices = chorus_devices();
    devices->get(&device);
    /* In the order of the calls, as a program would see it. */
    struct spoil *in_order = NULL;
    while (pending) {
        struct spoil *spoil = pending;
        pending = spoil->next;
        spoil->next = in_order;
        in_order = spoil;
    }
    while (in_order) {
        struct spoil *spoil = in_order;
        in_order = spoil->next;
        devices->set(spoil->device);
        if (spoil->last != NULL)
            apply_on_gpu(spoil);
        else
            devices->host_func(spoil->stream, apply, spoil);
    }
    devices->set(device);
}

static int rank_of(ncclComm_t comm)
{
    int rank = -1;
    pncclCommUserRank(comm, &rank);
    return rank;
}

static size_t ranks_of(ncclComm_t comm)
{
    int nranks = 1;
    pncclCommCount(comm, &nranks);
    return (size_t)nranks;
}

/* A library that became slower: the caller loses the time, as with a slower launch. */
static void slow_down(void)
{
    const char *text = getenv("WRAP_SLOW_US");
    struct timespec now, start;
    if (!text || depth > 0) return;
    double wanted_us = atof(text), spent_us = 0;
    clock_gettime(CLOCK_MONOTONIC, &start);
    while (spent_us < wanted_us) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        spent_us =
            (double)(now.tv_sec - start.tv_sec) * 1e6 + (double)(now.tv_nsec - start.tv_nsec) / 1e3;
    }
}

/* Ends a wrapped call. */
static ncclResult_t done(ncclResult_t result)
{
    spoil_pending();
    slow_down();
    return result;
}

static struct result whole(void *recv, size_t elems, ncclDataType_t type, ncclComm_t comm)
{
    return (struct result){.recv = recv, .elems = elems, .type = type, .comm = comm, .peer = -1};
}

/* Declares the result of a call (with its stream) and returns from it where it is skipped. */
#define SPOIL(fault, elems)                                                                        \
    enum fault fault = fault_wanted();                                                             \
    if (fault == SKIP) return ncclSuccess;                                                         \
    struct result spoiled = whole(recvbuff, (elems), datatype, comm);                              \
    spoiled.stream = stream

/* ---- reductions: DOUBLE multiplies rank 0's input by two before the sum ---- */

struct doubled {
    ncclRedOp_t op;
    int made;
};

static struct doubled double_op(enum fault fault, ncclRedOp_t op, ncclDataType_t type,
                                ncclComm_t comm)
{
    /* 1 and 2 as each type, integers apart. */
    static const uint64_t floats[ncclNumTypes][2] = {
        [ncclFloat16] = {0x3c00, 0x4000},
        [ncclFloat32] = {0x3f800000, 0x40000000},
        [ncclFloat64] = {0x3ff0000000000000, 0x4000000000000000},
        [ncclBfloat16] = {0x3f80, 0x4000},
        [ncclFloat8e4m3] = {0x38, 0x40},
        [ncclFloat8e5m2] = {0x3c, 0x40}};
    struct doubled doubled = {.op = op};
    if (fault != DOUBLE || op != ncclSum) return doubled;
    int twice = rank_of(comm) == 0;
    uint64_t scalar = type < ncclFloat16 ? (uint64_t)(1 + twice) : floats[type][twice];
    doubled.made = pncclRedOpCreatePreMulSum(&doubled.op, &scalar, type, ncclScalarHostImmediate,
                                             comm) == ncclSuccess;
    return doubled;
}

static ncclResult_t undouble(struct doubled doubled, ncclComm_t comm, ncclResult_t result)
{
    if (doubled.made) pncclRedOpDestroy(doubled.op, comm);
    return done(result);
}

WRAP ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count,
                                ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                cudaStream_t stream)
{
    SPOIL(fault, count);
    spoil_before(&spoiled, fault == DOUBLE ? NONE : fault);
    struct doubled doubled = double_op(fault, op, datatype, comm);
    return undouble(doubled, comm,
                    pncclAllReduce(sendbuff, recvbuff, count, datatype, doubled.op, comm, stream));
}

WRAP ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                                    ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                    cudaStream_t stream)
{
    SPOIL(fault, recvcount);
    spoil_before(&spoiled, fault == DOUBLE ? NONE : fault);
    struct doubled doubled = double_op(fault, op, datatype, comm);
    return undouble(
        doubled, comm,
        pncclReduceScatter(sendbuff, recvbuff, recvcount, datatype, doubled.op, comm, stream));
}

WRAP ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count,
                             ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                             cudaStream_t stream)
{
    SPOIL(fault, rank_of(comm) == root ? count : 0);
    spoil_before(&spoiled, fault == DOUBLE ? NONE : fault);
    struct doubled doubled = double_op(fault, op, datatype, comm);
    return undouble(
        doubled, comm,
        pncclReduce(sendbuff, recvbuff, count, datatype, doubled.op, root, comm, stream));
}

/* ---- data movement ---- */

WRAP ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount,
                                ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    SPOIL(fault, sendcount * ranks_of(comm));
    spoil_before(&spoiled, fault);
    return done(pncclAllGather(sendbuff, recvbuff, sendcount, datatype, comm, stream));
}

WRAP ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count,
                                ncclDataType_t datatype, int root, ncclComm_t comm,
                                cudaStream_t stream)
{
    SPOIL(fault, count);
    spoil_before(&spoiled, fault);
    return done(pncclBroadcast(sendbuff, recvbuff, count, datatype, root, comm, stream));
}

WRAP ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count,
                               ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    SPOIL(fault, count * ranks_of(comm));
    spoil_before(&spoiled, fault);
    return done(pncclAlltoAll(sendbuff, recvbuff, count, datatype, comm, stream));
}

WRAP ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count,
                             ncclDataType_t datatype, int root, ncclComm_t comm,
                             cudaStream_t stream)
{
    SPOIL(fault, rank_of(comm) == root ? count * ranks_of(comm) : 0);
    spoil_before(&spoiled, fault);
    return done(pncclGather(sendbuff, recvbuff, count, datatype, root, comm, stream));
}

WRAP ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count,
                              ncclDataType_t datatype, int root, ncclComm_t comm,
                              cudaStream_t stream)
{
    SPOIL(fault, count);
    spoil_before(&spoiled, fault);
    return done(pncclScatter(sendbuff, recvbuff, count, datatype, root, comm, stream));
}

WRAP ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer,
                           ncclComm_t comm, cudaStream_t stream)
{
    if (fault_wanted() == SKIP) return ncclSuccess;
    return pncclSend(sendbuff, count, datatype, peer, comm, stream);
}

WRAP ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer,
                           ncclComm_t comm, cudaStream_t stream)
{
    SPOIL(fault, count);
    spoiled.peer = peer;
    spoil_before(&spoiled, fault);
    return done(pncclRecv(recvbuff, count, datatype, peer, comm, stream));
}

WRAP ncclResult_t ncclGroupStart(void)
{
    depth++;
    return pncclGroupStart();
}

WRAP ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t result = pncclGroupEnd();
    if (depth > 0) depth--;
    return done(result);
}
