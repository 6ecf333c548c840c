/* Compares collectives with Open MPI's own, bit for bit: every process is a rank of both worlds,
 * the unique id travels by MPI_Bcast, the data are random from a printed seed. Started under
 * mpirun by test_oracle.sh; rank 0 prints TAP, a case for each collective, type and operator.
 * Invariant: the whole receive buffer is compared on every rank, also where nothing may arrive.
 */
#include "chorus.h"

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 8, POISON = 0xa5 };

static const int counts[] = {0,  1,   2,   3,   5,   7,    8,    13,   16,    31,
                             64, 100, 127, 255, 999, 1024, 4097, 9973, 65537, 100003};
enum { NCOUNTS = sizeof counts / sizeof counts[0], MAX_COUNT = 100003, MAX_TYPE_BYTES = 8 };
#define MAX_BYTES ((size_t)MAX_RANKS * MAX_COUNT * MAX_TYPE_BYTES)

struct type {
    const char *name;
    ncclDataType_t ours;
    MPI_Datatype theirs; /* of reductions; movement is compared as bytes */
    int bytes, reduces;  /* reduces: 1 min and max, 2 sum and prod as well */
};

struct op {
    const char *name;
    ncclRedOp_t ours;
    MPI_Op theirs;
    int needs; /* the least `reduces` of a type */
};

/* This rank's world. */
static struct {
    int rank, nranks;
    ncclComm_t comm;
    const struct chorus_devices *device;
    cudaStream_t stream;
    unsigned char *send, *recv;       /* of the device */
    unsigned char *in, *got, *wanted; /* of the host */
    uint64_t seed;
    int ncases, nfailed;
} me;

struct call {
    const struct type *type;
    const struct op *op;
    int count, root;
};

/* How many `count`s the buffers hold is 1 or the number of ranks. */
struct collective {
    const char *name;
    int reduces, has_root, send_all, recv_all;
    ncclResult_t (*ours)(const struct call *call);
    int (*theirs)(const struct call *call);
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "oracle_mpi: rank %d: %s: %s\n", me.rank, what, why);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void must(ncclResult_t rc, const char *what)
{
    if (rc != ncclSuccess) die(what, ncclGetLastError(NULL));
}

/* ---- ours ---- */

static ncclResult_t our_all_reduce(const struct call *c)
{
    return ncclAllReduce(me.send, me.recv, (size_t)c->count, c->type->ours, c->op->ours, me.comm,
                         me.stream);
}

static ncclResult_t our_reduce(const struct call *c)
{
    return ncclReduce(me.send, me.recv, (size_t)c->count, c->type->ours, c->op->ours, c->root,
                      me.comm, me.stream);
}

static ncclResult_t our_reduce_scatter(const struct call *c)
{
    return ncclReduceScatter(me.send, me.recv, (size_t)c->count, c->type->ours, c->op->ours,
                             me.comm, me.stream);
}

static ncclResult_t our_broadcast(const struct call *c)
{
    return ncclBroadcast(me.send, me.recv, (size_t)c->count, c->type->ours, c->root, me.comm,
                         me.stream);
}

static ncclResult_t our_all_gather(const struct call *c)
{
    return ncclAllGather(me.send, me.recv, (size_t)c->count, c->type->ours, me.comm, me.stream);
}

static ncclResult_t our_alltoall(const struct call *c)
{
    return ncclAlltoAll(me.send, me.recv, (size_t)c->count, c->type->ours, me.comm, me.stream);
}

static ncclResult_t our_gather(const struct call *c)
{
    return ncclGather(me.send, me.recv, (size_t)c->count, c->type->ours, c->root, me.comm,
                      me.stream);
}

static ncclResult_t our_scatter(const struct call *c)
{
    return ncclScatter(me.send, me.recv, (size_t)c->count, c->type->ours, c->root, me.comm,
                       me.stream);
}

static ncclResult_t our_shift(const struct call *c)
{
    int next = (me.rank + 1) % me.nranks, last = (me.rank + me.nranks - 1) % me.nranks;
    size_t count = (size_t)c->count;
    must(ncclGroupStart(), "ncclGroupStart");
    must(ncclSend(me.send, count, c->type->ours, next, me.comm, me.stream), "ncclSend");
    must(ncclRecv(me.recv, count, c->type->ours, last, me.comm, me.stream), "ncclRecv");
    return ncclGroupEnd();
}

/* ---- theirs ---- */

static int their_all_reduce(const struct call *c)
{
    return MPI_Allreduce(me.in, me.wanted, c->count, c->type->theirs, c->op->theirs,
                         MPI_COMM_WORLD);
}

static int their_reduce(const struct call *c)
{
    return MPI_Reduce(me.in, me.wanted, c->count, c->type->theirs, c->op->theirs, c->root,
                      MPI_COMM_WORLD);
}

static int their_reduce_scatter(const struct call *c)
{
    return MPI_Reduce_scatter_block(me.in, me.wanted, c->count, c->type->theirs, c->op->theirs,
                                    MPI_COMM_WORLD);
}

static int bytes_of(const struct call *c)
{
    return c->count * c->type->bytes;
}

static int their_broadcast(const struct call *c)
{
    if (me.rank == c->root) memcpy(me.wanted, me.in, (size_t)bytes_of(c));
    return MPI_Bcast(me.wanted, bytes_of(c), MPI_BYTE, c->root, MPI_COMM_WORLD);
}

static int their_all_gather(const struct call *c)
{
    return MPI_Allgather(me.in, bytes_of(c), MPI_BYTE, me.wanted, bytes_of(c), MPI_BYTE,
                         MPI_COMM_WORLD);
}

static int their_alltoall(const struct call *c)
{
    return MPI_Alltoall(me.in, bytes_of(c), MPI_BYTE, me.wanted, bytes_of(c), MPI_BYTE,
                        MPI_COMM_WORLD);
}

static int their_gather(const struct call *c)
{
    return MPI_Gather(me.in, bytes_of(c), MPI_BYTE, me.wanted, bytes_of(c), MPI_BYTE, c->root,
                      MPI_COMM_WORLD);
}

static int their_scatter(const struct call *c)
{
    return MPI_Scatter(me.in, bytes_of(c), MPI_BYTE, me.wanted, bytes_of(c), MPI_BYTE, c->root,
                       MPI_COMM_WORLD);
}

static int their_shift(const struct call *c)
{
    int next = (me.rank + 1) % me.nranks, last = (me.rank + me.nranks - 1) % me.nranks;
    return MPI_Sendrecv(me.in, bytes_of(c), MPI_BYTE, next, 0, me.wanted, bytes_of(c), MPI_BYTE,
                        last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static const struct collective collectives[] = {
    {"AllReduce", 1, 0, 0, 0, our_all_reduce, their_all_reduce},
    {"Reduce", 1, 1, 0, 0, our_reduce, their_reduce},
    {"ReduceScatter", 1, 0, 1, 0, our_reduce_scatter, their_reduce_scatter},
    {"Broadcast", 0, 1, 0, 0, our_broadcast, their_broadcast},
    {"AllGather", 0, 0, 0, 1, our_all_gather, their_all_gather},
    {"AlltoAll", 0, 0, 1, 1, our_alltoall, their_alltoall},
    {"Gather", 0, 1, 0, 1, our_gather, their_gather},
    {"Scatter", 0, 1, 1, 0, our_scatter, their_scatter},
    {"Send and Recv", 0, 0, 0, 0, our_shift, their_shift},
};
enum { NCOLLECTIVES = sizeof collectives / sizeof collectives[0] };

/* ---- data ---- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Any bytes for movement and integers; finite, non-zero numbers for the minimum of floats, since
 * the order of zeros and the bits of a NaN are not part of MPI's promise. */
static void make_input(const struct call *c, size_t bytes, uint64_t seed)
{
    uint64_t state = seed * 1000003u + (uint64_t)me.rank;
    size_t elems = bytes / (size_t)c->type->bytes;
    int is_real = c->op != NULL && c->type->reduces == 1;
    for (size_t i = 0; !is_real && i < bytes; i += sizeof(uint64_t)) {
        uint64_t word = next_random(&state);
        memcpy(me.in + i, &word, sizeof word);
    }
    for (size_t i = 0; is_real && i < elems; i++) {
        double value = (double)(int64_t)(next_random(&state) | 1) * 0x1p-40;
        float single = (float)value;
        if (c->type->bytes == 8) memcpy(me.in + i * 8, &value, sizeof value);
        if (c->type->bytes == 4) memcpy(me.in + i * 4, &single, sizeof single);
    }
}

/* Runs one call in both worlds; returns on how many ranks the results differ. */
static int compare(const struct collective *collective, const struct call *c, uint64_t seed)
{
    size_t one = (size_t)bytes_of(c), all = one * (size_t)me.nranks;
    size_t sent = collective->send_all ? all : one, got = collective->recv_all ? all : one;
    size_t watched = got + 64; /* what lies behind the result must stay as it was */
    make_input(c, sent, seed);
    memset(me.wanted, POISON, watched);
    must(me.device->copy(me.send, me.in, sent, me.stream), "copy");
    must(me.device->copy(me.recv, me.wanted, watched, me.stream), "copy");
    must(me.device->stream_sync(me.stream), "stream_sync");
    must(collective->ours(c), collective->name);
    must(me.device->copy(me.got, me.recv, watched, me.stream), "copy");
    must(me.device->stream_sync(me.stream), "stream_sync");
    if (collective->theirs(c) != MPI_SUCCESS) die(collective->name, "MPI failed");
    int wrong = memcmp(me.got, me.wanted, watched) != 0, nwrong = 0;
    for (size_t i = 0; wrong && i < watched; i++) {
        if (me.got[i] == me.wanted[i]) continue;
        fprintf(stderr, "# rank %d, %d elements, root %d: byte %zu of %zu is 0x%02x, not 0x%02x\n",
                me.rank, c->count, c->root, i, got, me.got[i], me.wanted[i]);
        break;
    }
    MPI_Allreduce(&wrong, &nwrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return nwrong;
}

/* One TAP line: all counts, all roots. */
static void run_case(const struct collective *collective, const struct type *type,
                     const struct op *op)
{
    int nwrong = 0;
    for (int i = 0; i < NCOUNTS; i++) {
        for (int root = 0; root < (collective->has_root ? me.nranks : 1); root++) {
            struct call call = {type, op, counts[i], root};
            nwrong += compare(collective, &call, me.seed + (uint64_t)me.ncases * 100 + (uint64_t)i);
        }
    }
    me.ncases++;
    me.nfailed += nwrong != 0;
    if (me.rank != 0) return;
    printf("%sok - %s %s%s%s on %d ranks equals MPI\n", nwrong ? "not " : "", collective->name,
           type->name, op != NULL ? " " : "", op != NULL ? op->name : "", me.nranks);
    fflush(stdout);
}

static void run_all(void)
{
    const struct type types[] = {
        {"int8", ncclInt8, MPI_INT8_T, 1, 2},       {"uint8", ncclUint8, MPI_UINT8_T, 1, 2},
        {"int32", ncclInt32, MPI_INT32_T, 4, 2},    {"uint32", ncclUint32, MPI_UINT32_T, 4, 2},
        {"int64", ncclInt64, MPI_INT64_T, 8, 2},    {"uint64", ncclUint64, MPI_UINT64_T, 8, 2},
        {"half", ncclFloat16, MPI_BYTE, 2, 0},      {"float", ncclFloat32, MPI_FLOAT, 4, 1},
        {"double", ncclFloat64, MPI_DOUBLE, 8, 1},  {"bfloat16", ncclBfloat16, MPI_BYTE, 2, 0},
        {"f8e4m3", ncclFloat8e4m3, MPI_BYTE, 1, 0}, {"f8e5m2", ncclFloat8e5m2, MPI_BYTE, 1, 0},
    };
    const struct op ops[] = {
        {"sum", ncclSum, MPI_SUM, 2},
        {"prod", ncclProd, MPI_PROD, 2},
        {"max", ncclMax, MPI_MAX, 1},
        {"min", ncclMin, MPI_MIN, 1},
    };
    for (int i = 0; i < NCOLLECTIVES; i++)
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            if (!collectives[i].reduces) run_case(&collectives[i], &types[t], NULL);
            for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++)
                if (collectives[i].reduces && types[t].reduces >= ops[o].needs)
                    run_case(&collectives[i], &types[t], &ops[o]);
        }
}

static void open_world(void)
{
    ncclUniqueId id;
    int ndevices = 0;
    me.device = chorus_devices();
    must(me.device->count(&ndevices), "device count");
    must(me.device->set(me.rank % ndevices), "device set");
    must(me.device->stream_create(&me.stream), "stream_create");
    if (me.rank == 0) must(ncclGetUniqueId(&id), "ncclGetUniqueId");
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    must(ncclCommInitRank(&me.comm, me.nranks, id, me.rank), "ncclCommInitRank");
    must(me.device->alloc((void **)&me.send, MAX_BYTES + 64), "alloc");
    must(me.device->alloc((void **)&me.recv, MAX_BYTES + 64), "alloc");
    me.in = malloc(MAX_BYTES + 64);
    me.got = malloc(MAX_BYTES + 64);
    me.wanted = malloc(MAX_BYTES + 64);
    if (me.in == NULL || me.got == NULL || me.wanted == NULL) die("malloc", "out of memory");
}

static void close_world(void)
{
    must(ncclCommDestroy(me.comm), "ncclCommDestroy");
    must(me.device->free(me.send), "free");
    must(me.device->free(me.recv), "free");
    must(me.device->stream_destroy(me.stream), "stream_destroy");
    free(me.in);
    free(me.got);
    free(me.wanted);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &me.nranks);
    if (me.nranks > MAX_RANKS) die("world", "too many ranks");
    me.seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    if (me.rank == 0) printf("# seed %llu\n", (unsigned long long)me.seed);
    open_world();
    run_all();
    close_world();
    if (me.rank == 0) printf("1..%d\n", me.ncases);
    MPI_Finalize();
    return me.nfailed != 0;
}
