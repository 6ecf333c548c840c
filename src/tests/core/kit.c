/* The kit of the core tests; see kit.h. Values are small integers, so that the types hold results
 * exactly, but for products of floats and for sums that are too large for 8 bits. */
#define _GNU_SOURCE
#include "core/kit.h"

#include "unit/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GUARD_BYTES = 192, GUARD = 0xa5 };

int kit_far;

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

/* exponent 0: an integer. */
static const struct {
    int bytes, exponent, mantissa;
} types[ncclNumTypes] = {
    [ncclInt8] = {1, 0, 0},     [ncclUint8] = {1, 0, 0},      [ncclInt32] = {4, 0, 0},
    [ncclUint32] = {4, 0, 0},   [ncclInt64] = {8, 0, 0},      [ncclUint64] = {8, 0, 0},
    [ncclFloat16] = {2, 5, 10}, [ncclFloat32] = {4, 8, 23},   [ncclFloat64] = {8, 11, 52},
    [ncclBfloat16] = {2, 8, 7}, [ncclFloat8e4m3] = {1, 4, 3}, [ncclFloat8e5m2] = {1, 5, 2},
};

size_t kit_type_bytes(ncclDataType_t type)
{
    return (size_t)types[type].bytes;
}

/* The bits of an integer that the type holds exactly. */
static uint64_t float_bits(ncclDataType_t type, int64_t value)
{
    int mantissa = types[type].mantissa, exponent = types[type].exponent;
    uint64_t magnitude = (uint64_t)(value < 0 ? -value : value);
    uint64_t sign = (uint64_t)(value < 0) << (exponent + mantissa);
    if (magnitude == 0) return 0;
    int power = 63 - __builtin_clzll(magnitude);
    uint64_t fraction = magnitude ^ (uint64_t)1 << power;
    fraction = power <= mantissa ? fraction << (mantissa - power) : fraction >> (power - mantissa);
    uint64_t biased = (uint64_t)(power + (1 << (exponent - 1)) - 1);
    return sign | biased << mantissa | fraction;
}

/* A value of the kit's, or the bit pattern of one of the caller's. */
static void put_value(char *base, size_t index, const struct kit_op *op, int64_t value)
{
    size_t bytes = kit_type_bytes(op->type);
    int is_float = op->values == NULL && types[op->type].exponent > 0;
    uint64_t bits = is_float ? float_bits(op->type, value) : (uint64_t)value;
    memcpy(base + index * bytes, &bits, bytes);
}

static int64_t input_of(const struct kit_op *op, int rank, size_t index)
{
    const struct kit_values *values = op->values;
    if (values == NULL) return value_of(op->seed, rank, index);
    return (int64_t)values->inputs[(size_t)rank * values->elems + index];
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
    if (op->values != NULL) return (int64_t)op->values->results[index];
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
    size_t in_shift = (size_t)op->in_shift * bytes, out_shift = (size_t)op->out_shift * bytes;
    size_t own = (size_t)rank->rank * op->count * bytes;
    int is_root = rank->rank == op->root;
    struct place place = {
        .in = rank->in + offset + in_shift,
        .out = rank->out + offset + out_shift,
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

/* The bytes of each buffer that a call is given, with guard bytes. */
static size_t used_room(const struct kit_rank *rank, const struct kit_op *op)
{
    size_t used = 2 * GUARD_BYTES + (size_t)rank->nranks * op->count * sizeof(int64_t);
    return used < rank->room ? used : rank->room;
}

static int64_t expected(const struct kit_rank *rank, const struct kit_op *op, size_t index)
{
    size_t count = op->count, own = (size_t)rank->rank * count;
    int block = (int)(index / count);
    switch (op->coll) {
    case KIT_BROADCAST: return input_of(op, op->root, index);
    case KIT_ALL_GATHER:
    case KIT_GATHER: return input_of(op, block, index % count);
    case KIT_REDUCE_SCATTER: return reduced(op, rank->nranks, own + index);
    case KIT_ALL_TO_ALL: return input_of(op, block, own + index % count);
    case KIT_SCATTER: return input_of(op, op->root, own + index);
    default: return reduced(op, rank->nranks, index);
    }
}

/* ---- ranks ---- */

/* An image is not pinned: freeing it would wait for all streams. */
static char *open_buffer(size_t bytes, char **far)
{
    *far = NULL;
    if (kit_far) CHECK_OK(chorus_devices()->alloc((void **)far, bytes));
    return kit_far ? calloc(1, bytes) : test_memory_alloc(bytes);
}

static void close_buffer(char *buffer, char *far)
{
    (far != NULL ? free : test_memory_free)(buffer);
    if (far != NULL) CHECK_OK(chorus_devices()->free(far));
}

void kit_rank_open(struct kit_rank *rank, int nranks, int me, size_t count)
{
    rank->nranks = nranks;
    rank->rank = me;
    rank->comm = NULL;
    rank->room = 2 * GUARD_BYTES + (size_t)nranks * count * sizeof(int64_t);
    CHECK_OK(chorus_devices()->get(&rank->device));
    CHECK_OK(chorus_devices()->stream_create(&rank->stream));
    rank->in = open_buffer(rank->room, &rank->far_in);
    rank->out = open_buffer(rank->room, &rank->far_out);
    CHECK(rank->in != NULL && rank->out != NULL);
}

void kit_rank_close(struct kit_rank *rank)
{
    if (rank->comm != NULL) CHECK_OK(ncclCommDestroy(rank->comm));
    rank->comm = NULL;
    CHECK_OK(chorus_devices()->stream_destroy(rank->stream));
    close_buffer(rank->in, rank->far_in);
    close_buffer(rank->out, rank->far_out);
}

void kit_open(struct kit *kit, int nranks, int ndevices, size_t count)
{
    ncclComm_t comms[KIT_MAX_RANKS];
    int devices[KIT_MAX_RANKS], before, after;
    CHECK_OK(chorus_devices()->get(&before));
    kit->nranks = nranks;
    kit->ndevices = test_devices(ndevices);
    for (int r = 0; r < nranks; r++) devices[r] = r % kit->ndevices;
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
        put_value(place.in, i, op, input_of(op, rank->rank, i));
}

void kit_copy(struct kit_rank *rank, size_t bytes, int there)
{
    const struct chorus_devices *devices = chorus_devices();
    if (rank->far_in == NULL) return;
    CHECK_OK(devices->copy(there ? rank->far_in : rank->in, there ? rank->in : rank->far_in, bytes,
                           rank->stream));
    CHECK_OK(devices->copy(there ? rank->far_out : rank->out, there ? rank->out : rank->far_out,
                           bytes, rank->stream));
    kit_sync(rank);
}

void *kit_given(const struct kit_rank *rank, const void *place)
{
    uintptr_t at = (uintptr_t)place, in = (uintptr_t)rank->in;
    if (rank->far_in == NULL) return (void *)at;
    if (at >= in && at < in + rank->room) return rank->far_in + (at - in);
    return rank->far_out + (at - (uintptr_t)rank->out);
}

void kit_prepare(struct kit_rank *rank, const struct kit_op *op)
{
    memset(rank->in, GUARD, used_room(rank, op));
    memset(rank->out, GUARD, used_room(rank, op));
    put_input(rank, op, find_place(rank, op));
    kit_push(rank, used_room(rank, op));
}

ncclResult_t kit_call(struct kit_rank *rank, const struct kit_op *op)
{
    struct place place = find_place(rank, op);
    const void *in = place.has_in || op->spare ? kit_given(rank, place.in) : NULL;
    void *out = place.has_out || op->spare ? kit_given(rank, place.out) : NULL;
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

/* What differs first between a buffer and what must be in it. */
struct difference {
    const char *what;
    size_t at;
    unsigned char got, wanted;
};

static int finds_difference(const char *got, const char *wanted, size_t bytes,
                            struct difference *difference)
{
    if (memcmp(got, wanted, bytes) == 0) return 0;
    size_t at = 0;
    while (got[at] == wanted[at]) at++;
    *difference = (struct difference){NULL, at, (unsigned char)got[at], (unsigned char)wanted[at]};
    return 1;
}

static void expect_buffers(struct kit_rank *wanted, const struct kit_op *op)
{
    size_t room = used_room(wanted, op);
    wanted->far_in = NULL;
    wanted->in = malloc(room);
    wanted->out = malloc(room);
    CHECK(wanted->in != NULL && wanted->out != NULL);
    kit_prepare(wanted, op);
    struct place place = find_place(wanted, op);
    for (size_t i = 0; place.has_out && i < place.out_elems; i++)
        put_value(place.out, i, op, expected(wanted, op, i));
}

int kit_matches(struct kit_rank *rank, const struct kit_op *op, char *text, size_t text_bytes)
{
    struct kit_rank wanted = *rank;
    struct difference found = {0};
    size_t room = used_room(rank, op);
    kit_sync(rank);
    kit_pull(rank, room);
    expect_buffers(&wanted, op);
    if (finds_difference(rank->in, wanted.in, room, &found))
        found.what = "input";
    else if (finds_difference(rank->out, wanted.out, room, &found))
        found.what = "output";
    free(wanted.in);
    free(wanted.out);
    if (found.what == NULL) return 1;
    snprintf(text, text_bytes,
             "%s rank %d of %d, count %zu, type %d, op %d, root %d, in place %d, seed %u, "
             "shifts %d and %d: %s byte %zu of %zu is 0x%02x, not 0x%02x",
             kit_name(op->coll), rank->rank, rank->nranks, op->count, (int)op->type, (int)op->redop,
             op->root, op->in_place, op->seed, op->in_shift, op->out_shift, found.what, found.at,
             room, found.got, found.wanted);
    return 0;
}

void kit_check(struct kit_rank *rank, const struct kit_op *op)
{
    char text[400];
    if (!kit_matches(rank, op, text, sizeof text)) FAIL("%s", text);
}

int kit_try(struct kit *kit, const struct kit_op *op)
{
    ncclResult_t rc = ncclSuccess;
    for (int r = 0; r < kit->nranks; r++) kit_prepare(&kit->ranks[r], op);
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < kit->nranks && rc == ncclSuccess; r++) rc = kit_call(&kit->ranks[r], op);
    ncclResult_t ended = ncclGroupEnd();
    if (rc == ncclInvalidUsage) {
        CHECK_HAS(ncclGetLastError(NULL), "nothing is left");
        return 0;
    }
    CHECK_OK(ended);
    for (int r = 0; r < kit->nranks; r++) kit_check(&kit->ranks[r], op);
    return 1;
}

void kit_run(struct kit *kit, const struct kit_op *op)
{
    CHECK(kit_try(kit, op));
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

int kit_is_slow(void)
{
    return getenv("CHORUS_TEST_SLICE") != NULL;
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
    kit_until(has_failed, rank, 20000, "failure of the communicator");
    CHECK_OK(ncclCommGetAsyncError(rank->comm, &error));
    CHECK_EQ(error, code);
    CHECK_EQ(kit_call(rank, &op), code);
    CHECK_HAS(ncclGetLastError(rank->comm), part);
}
