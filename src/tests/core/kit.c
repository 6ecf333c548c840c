/* The kit of the core tests; see kit.h. Values are small integers, so that every type but the
 * product of floats holds every result exactly. */
#define _GNU_SOURCE
#include "core/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GUARD_BYTES = 96, GUARD = 0xa5 };

/* ---- values ---- */

uint32_t kit_random(uint32_t *state)
{
    *state += 0x9e3779b9u;
    uint32_t x = *state;
    x = (x ^ x >> 16) * 0x21f0aaadu;
    x = (x ^ x >> 15) * 0x735a2d97u;
    return x ^ x >> 15;
}

static int64_t value_of(uint32_t seed, int rank, size_t index)
{
    uint32_t state = seed * 2654435761u + (uint32_t)rank * 40503u + (uint32_t)index;
    return (int64_t)(kit_random(&state) % 9) - 4;
}

size_t kit_type_bytes(ncclDataType_t type)
{
    switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
    default: FAIL("the kit does not know type %d", (int)type);
    }
}

static void put_value(char *base, size_t index, ncclDataType_t type, int64_t value)
{
    size_t bytes = kit_type_bytes(type);
    float single = (float)value;
    double twice = (double)value;
    const void *from = &value;
    if (type == ncclFloat32) from = &single;
    if (type == ncclFloat64) from = &twice;
    memcpy(base + index * bytes, from, bytes);
}

static int64_t fold(int64_t a, int64_t b, ncclRedOp_t op)
{
    switch (op) {
    case ncclSum: return (int64_t)((uint64_t)a + (uint64_t)b);
    case ncclProd: return (int64_t)((uint64_t)a * (uint64_t)b);
    case ncclMax: return a > b ? a : b;
    default: return a < b ? a : b;
    }
}

/* Unsigned types see negative values as large ones; only their order differs. */
static int64_t reduced(const struct kit_op *op, int nranks, size_t index)
{
    int is_unsigned = op->type == ncclUint8 || op->type == ncclUint32 || op->type == ncclUint64;
    int64_t flip = is_unsigned && (op->redop == ncclMax || op->redop == ncclMin) ? INT64_MIN : 0;
    int64_t result = value_of(op->seed, 0, index) ^ flip;
    for (int r = 1; r < nranks; r++)
        result = fold(result, value_of(op->seed, r, index) ^ flip, op->redop);
    return result ^ flip;
}

/* ---- shapes ---- */

static const struct {
    const char *name;
    int in_blocks, out_blocks; /* 0: one per rank */
    int reduces, in_at_root, out_at_root, has_place;
} shapes[KIT_NCOLLS] = {
    [KIT_ALL_REDUCE] = {"ncclAllReduce", 1, 1, 1, 0, 0, 1},
    [KIT_REDUCE] = {"ncclReduce", 1, 1, 1, 0, 1, 1},
    [KIT_BROADCAST] = {"ncclBroadcast", 1, 1, 0, 1, 0, 1},
    [KIT_ALL_GATHER] = {"ncclAllGather", 1, 0, 0, 0, 0, 1},
    [KIT_REDUCE_SCATTER] = {"ncclReduceScatter", 0, 1, 1, 0, 0, 1},
    [KIT_ALL_TO_ALL] = {"ncclAlltoAll", 0, 0, 0, 0, 0, 0},
    [KIT_GATHER] = {"ncclGather", 1, 0, 0, 0, 1, 1},
    [KIT_SCATTER] = {"ncclScatter", 0, 1, 0, 1, 0, 1},
};

int kit_has_place(enum kit_coll coll)
{
    return shapes[coll].has_place;
}

const char *kit_name(enum kit_coll coll)
{
    return shapes[coll].name;
}

/* Where input and output of a rank lie in the rank's two buffers. */
struct place {
    char *in, *out;
    size_t in_elems, out_elems;
    int has_in, has_out;
};

static struct place find_place(const struct kit_rank *rank, const struct kit_op *op)
{
    size_t n = (size_t)rank->nranks, bytes = kit_type_bytes(op->type);
    size_t offset = GUARD_BYTES + op->seed % 3 * bytes;
    size_t own = (size_t)rank->rank * op->count * bytes;
    int is_root = rank->rank == op->root;
    struct place place = {
        .in = rank->in + offset,
        .out = rank->out + offset,
        .in_elems = op->count * (shapes[op->coll].in_blocks ? 1 : n),
        .out_elems = op->count * (shapes[op->coll].out_blocks ? 1 : n),
        .has_in = is_root || !shapes[op->coll].in_at_root,
        .has_out = is_root || !shapes[op->coll].out_at_root,
    };
    if (!op->in_place || !place.has_in || !place.has_out || !kit_has_place(op->coll)) return place;
    place.in = place.out;
    if (place.in_elems < place.out_elems) place.in += own;
    if (place.in_elems > place.out_elems) place.out += own;
    return place;
}

static int64_t expected(const struct kit_rank *rank, const struct kit_op *op, size_t index)
{
    size_t count = op->count, own = (size_t)rank->rank * count;
    int block = (int)(index / count);
    switch (op->coll) {
    case KIT_BROADCAST: return value_of(op->seed, op->root, index);
    case KIT_ALL_GATHER:
    case KIT_GATHER: return value_of(op->seed, block, index % count);
    case KIT_REDUCE_SCATTER: return reduced(op, rank->nranks, own + index);
    case KIT_ALL_TO_ALL: return value_of(op->seed, block, own + index % count);
    case KIT_SCATTER: return value_of(op->seed, op->root, own + index);
    default: return reduced(op, rank->nranks, index);
    }
}

/* ---- ranks ---- */

void kit_rank_open(struct kit_rank *rank, int nranks, int me, size_t count)
{
    const struct chorus_devices *devices = chorus_devices();
    rank->nranks = nranks;
    rank->rank = me;
    rank->comm = NULL;
    rank->room = 2 * GUARD_BYTES + (size_t)nranks * count * sizeof(int64_t);
    CHECK_OK(devices->get(&rank->device));
    CHECK_OK(devices->stream_create(&rank->stream));
    CHECK_OK(devices->alloc((void **)&rank->in, rank->room));
    CHECK_OK(devices->alloc((void **)&rank->out, rank->room));
}

void kit_rank_close(struct kit_rank *rank)
{
    const struct chorus_devices *devices = chorus_devices();
    if (rank->comm != NULL) CHECK_OK(ncclCommDestroy(rank->comm));
    rank->comm = NULL;
    CHECK_OK(devices->stream_destroy(rank->stream));
    CHECK_OK(devices->free(rank->in));
    CHECK_OK(devices->free(rank->out));
}

void kit_open(struct kit *kit, int nranks, int ndevices, size_t count)
{
    ncclComm_t comms[KIT_MAX_RANKS];
    int devices[KIT_MAX_RANKS], before, after;
    CHECK_OK(chorus_devices()->get(&before));
    kit->nranks = nranks;
    kit->ndevices = ndevices;
    for (int r = 0; r < nranks; r++) devices[r] = r % ndevices;
    CHECK_OK(ncclCommInitAll(comms, nranks, devices));
    CHECK_OK(chorus_devices()->get(&after));
    CHECK_EQ(after, before);
    for (int r = 0; r < nranks; r++) {
        CHECK_OK(chorus_devices()->set(devices[r]));
        kit_rank_open(&kit->ranks[r], nranks, r, count);
        kit->ranks[r].comm = comms[r];
    }
    CHECK_OK(chorus_devices()->set(before));
}

void kit_close(struct kit *kit)
{
    for (int r = 0; r < kit->nranks; r++) kit_rank_close(&kit->ranks[r]);
}

/* ---- calls ---- */

static void put_input(const struct kit_rank *rank, const struct kit_op *op, struct place place)
{
    if (!place.has_in) return;
    for (size_t i = 0; i < place.in_elems; i++)
        put_value(place.in, i, op->type, value_of(op->seed, rank->rank, i));
}

void kit_prepare(struct kit_rank *rank, const struct kit_op *op)
{
    memset(rank->in, GUARD, rank->room);
    memset(rank->out, GUARD, rank->room);
    put_input(rank, op, find_place(rank, op));
}

ncclResult_t kit_call(struct kit_rank *rank, const struct kit_op *op)
{
    struct place place = find_place(rank, op);
    const void *in = place.has_in ? place.in : NULL;
    void *out = place.has_out ? place.out : NULL;
    ncclComm_t comm = rank->comm;
    cudaStream_t stream = rank->stream;
    switch (op->coll) {
    case KIT_ALL_REDUCE:
        return ncclAllReduce(in, out, op->count, op->type, op->redop, comm, stream);
    case KIT_REDUCE:
        return ncclReduce(in, out, op->count, op->type, op->redop, op->root, comm, stream);
    case KIT_BROADCAST: return ncclBroadcast(in, out, op->count, op->type, op->root, comm, stream);
    case KIT_ALL_GATHER: return ncclAllGather(in, out, op->count, op->type, comm, stream);
    case KIT_REDUCE_SCATTER:
        return ncclReduceScatter(in, out, op->count, op->type, op->redop, comm, stream);
    case KIT_ALL_TO_ALL: return ncclAlltoAll(in, out, op->count, op->type, comm, stream);
    case KIT_GATHER: return ncclGather(in, out, op->count, op->type, op->root, comm, stream);
    default: return ncclScatter(in, out, op->count, op->type, op->root, comm, stream);
    }
}

void kit_sync(struct kit_rank *rank)
{
    CHECK_OK(chorus_devices()->stream_sync(rank->stream));
}

static void compare(const struct kit_rank *rank, const struct kit_op *op, const char *what,
                    const char *got, const char *wanted)
{
    if (memcmp(got, wanted, rank->room) == 0) return;
    for (size_t i = 0; i < rank->room; i++)
        if (got[i] != wanted[i])
            FAIL("%s rank %d of %d, count %zu, type %d, op %d, root %d, in place %d, seed %u: "
                 "%s byte %zu of %zu is 0x%02x, not 0x%02x",
                 kit_name(op->coll), rank->rank, rank->nranks, op->count, (int)op->type,
                 (int)op->redop, op->root, op->in_place, op->seed, what, i, rank->room,
                 (unsigned char)got[i], (unsigned char)wanted[i]);
}

void kit_check(struct kit_rank *rank, const struct kit_op *op)
{
    struct kit_rank wanted = *rank;
    kit_sync(rank);
    wanted.in = malloc(rank->room);
    wanted.out = malloc(rank->room);
    CHECK(wanted.in != NULL && wanted.out != NULL);
    kit_prepare(&wanted, op);
    struct place place = find_place(&wanted, op);
    for (size_t i = 0; place.has_out && i < place.out_elems; i++)
        put_value(place.out, i, op->type, expected(rank, op, i));
    compare(rank, op, "input", rank->in, wanted.in);
    compare(rank, op, "output", rank->out, wanted.out);
    free(wanted.in);
    free(wanted.out);
}

void kit_run(struct kit *kit, const struct kit_op *op)
{
    for (int r = 0; r < kit->nranks; r++) kit_prepare(&kit->ranks[r], op);
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < kit->nranks; r++) CHECK_OK(kit_call(&kit->ranks[r], op));
    CHECK_OK(ncclGroupEnd());
    for (int r = 0; r < kit->nranks; r++) kit_check(&kit->ranks[r], op);
}

struct kit_op kit_simple(enum kit_coll coll, size_t count)
{
    return (struct kit_op){.coll = coll, .count = count, .type = ncclInt32, .redop = ncclSum};
}

/* ---- threads, time, children ---- */

struct runner {
    void (*body)(void *arg, int i);
    void *arg;
    int i;
};

static void *run_body(void *argument)
{
    struct runner *runner = argument;
    runner->body(runner->arg, runner->i);
    return NULL;
}

void kit_threads(int n, void (*body)(void *arg, int i), void *arg)
{
    pthread_t threads[KIT_MAX_RANKS];
    struct runner runners[KIT_MAX_RANKS];
    for (int i = 0; i < n; i++) {
        runners[i] = (struct runner){body, arg, i};
        CHECK_EQ(pthread_create(&threads[i], NULL, run_body, &runners[i]), 0);
    }
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

int64_t kit_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void kit_until(int (*done)(void *arg), void *arg, int limit_ms, const char *what)
{
    int64_t end = kit_now_ms() + limit_ms;
    while (!done(arg)) {
        if (kit_now_ms() >= end) FAIL("%s: not within %d ms", what, limit_ms);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

long kit_resident_pages(void)
{
    long resident = 0;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    FILE *file = fopen("/proc/self/statm", "re");
    CHECK(file != NULL);
    CHECK_EQ(fscanf(file, "%*d %ld", &resident), 1);
    fclose(file);
#endif
    return resident;
}

void kit_child(const char *name, const char *const env[])
{
    static struct test_output output;
    test_exec_case(name, env, &output);
    if (output.code != 0)
        FAIL("%s exited %d\n%.400s\n%.800s", name, output.code, output.out, output.err);
}

/* ---- states ---- */

struct status_wait {
    ncclComm_t comm;
    const char *part;
    char text[512];
};

static int has_status(void *arg)
{
    struct status_wait *wait = arg;
    CHECK_OK(chorus_comm_status(wait->comm, wait->text, sizeof wait->text));
    return strstr(wait->text, wait->part) != NULL;
}

void kit_await_status(ncclComm_t comm, const char *part)
{
    struct status_wait wait = {.comm = comm, .part = part};
    int64_t end = kit_now_ms() + 10000;
    while (!has_status(&wait)) {
        if (kit_now_ms() >= end) FAIL("status '%s' never has '%s'", wait.text, part);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static int has_failed(void *arg)
{
    struct kit_rank *rank = arg;
    ncclResult_t error;
    CHECK_OK(ncclCommGetAsyncError(rank->comm, &error));
    return error != ncclSuccess;
}

void kit_await_error(struct kit_rank *rank, ncclResult_t code, const char *part)
{
    ncclResult_t error;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, 1);
    kit_until(has_failed, rank, 5000, "failure of the communicator");
    CHECK_OK(ncclCommGetAsyncError(rank->comm, &error));
    CHECK_EQ(error, code);
    CHECK_EQ(kit_call(rank, &op), code);
    CHECK_HAS(ncclGetLastError(rank->comm), part);
}
