/* Random wrong results and random right ones: 1,000 of each, over patterns, types, operators, rank
 * counts, sizes, roots, in and out of place. Every wrong one must be seen, no right one refused.
 *
 * A fault that leaves the bytes as they must be (a maximum without a rank that is not the
 * greatest, a swap of equal bytes) is none; it is drawn again, and such draws are counted.
 */
#include "harness/options.h"
#include "harness/pattern.h"
#include "harness/reference.h"
#include "harness/types.h"
#include "harness/values.h"
#include "unit/test.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 1000, MAX_COUNT = 700, MAX_RANKS = 64 };

static uint64_t random_state = 20;

static uint64_t draw(uint64_t below)
{
    random_state++;
    return perf_mix(random_state * 0x9e3779b97f4a7c15) % below;
}

/* send, recv: elements as multiples of count (0: count, 1: count * nranks). */
static const struct {
    const char *name;
    const struct perf_pattern *pattern;
    int has_op, wide_send, wide_recv, in_place;
} collectives[] = {
    {"all_gather", &perf_pattern_all_gather, 0, 0, 1, 1},
    {"all_reduce", &perf_pattern_all_reduce, 1, 0, 0, 1},
    {"alltoall", &perf_pattern_alltoall, 0, 1, 1, 0},
    {"broadcast", &perf_pattern_broadcast, 0, 0, 0, 1},
    {"gather", &perf_pattern_gather, 0, 0, 1, 1},
    {"reduce", &perf_pattern_reduce, 1, 0, 0, 1},
    {"reduce_scatter", &perf_pattern_reduce_scatter, 1, 1, 0, 1},
    {"scatter", &perf_pattern_scatter, 0, 1, 0, 1},
    {"sendrecv", &perf_pattern_sendrecv, 0, 0, 0, 0},
};

/* One drawn result. The area holds the send and the receive buffer, apart or (in place) as one,
 * with guards around it. */
struct trial {
    const char *name;
    struct perf_reference world;
    struct perf_fill fill;
    struct perf_shape shape;
    uint8_t *memory;      /* guard, send, guard, recv, guard */
    uint8_t *send, *recv; /* in memory */
    uint8_t *end;         /* guard behind the receive buffer's area */
    uint8_t *before;      /* the receive buffer before the call */
    uint8_t *right;       /* and as it must be after it */
    size_t recv_bytes;
};

static int draw_nranks(void)
{
    static const int often[] = {1, 2, 2, 3, 4, 5, 8, 8};
    return draw(4) ? often[draw(TEST_COUNT(often))] : 1 + (int)draw(MAX_RANKS);
}

static void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes + 1);
    CHECK(memory);
    return memory;
}

static void place_buffers(struct trial *trial)
{
    size_t type_bytes = trial->shape.type_bytes, send_bytes = trial->shape.send_elems * type_bytes;
    size_t area = send_bytes > trial->recv_bytes ? send_bytes : trial->recv_bytes;
    trial->memory = allocate(3 * PERF_GUARD_BYTES + 2 * area);
    uint8_t *data = trial->memory + PERF_GUARD_BYTES;
    trial->send = data;
    trial->recv = data + area + PERF_GUARD_BYTES;
    trial->end = trial->recv + trial->recv_bytes;
    if (trial->shape.in_place) {
        ptrdiff_t at = trial->shape.send_at * (ptrdiff_t)type_bytes;
        trial->send = at > 0 ? data + at : data;
        trial->recv = at < 0 ? data - at : data;
        trial->end = data + area;
    }
    perf_guard_fill(trial->memory);
    perf_guard_fill(trial->end);
}

static void fill_shape(struct trial *trial, size_t which)
{
    struct perf_shape *shape = &trial->shape;
    size_t count = draw(3) ? draw(MAX_COUNT) + 1 : draw(8) + 1;
    size_t wide = count * (size_t)trial->fill.nranks;
    *shape = (struct perf_shape){.nranks = trial->fill.nranks,
                                 .rank = trial->fill.rank,
                                 .root = (int)draw((uint64_t)trial->fill.nranks),
                                 .count = count,
                                 .send_elems = collectives[which].wide_send ? wide : count,
                                 .recv_elems = collectives[which].wide_recv ? wide : count,
                                 .type_bytes = perf_numbers[trial->fill.type].bytes};
    /* The receiving rank of a rooted collective is worth more trials than the others. */
    if (draw(2)) shape->root = shape->rank;
    shape->in_place = collectives[which].in_place && draw(2);
    if (shape->send_elems < shape->recv_elems) shape->send_at = (ptrdiff_t)count * shape->rank;
    if (shape->send_elems > shape->recv_elems) shape->send_at = -(ptrdiff_t)count * shape->rank;
}

/* Draws a collective and runs it right, reduced in a random order. */
static void open_trial(struct trial *trial)
{
    size_t which = draw(TEST_COUNT(collectives));
    int order[MAX_RANKS], nranks = draw_nranks();
    *trial = (struct trial){.name = collectives[which].name,
                            .fill = {.type = (ncclDataType_t)draw(ncclNumTypes),
                                     .op = collectives[which].has_op ? (int)draw(PERF_NOPS) : -1,
                                     .rank = (int)draw((uint64_t)nranks),
                                     .nranks = nranks,
                                     .seed = draw(1000)}};
    fill_shape(trial, which);
    trial->recv_bytes = trial->shape.recv_elems * trial->shape.type_bytes;
    place_buffers(trial);
    perf_fill_recv(&trial->fill, collectives[which].pattern, &trial->shape, trial->recv);
    perf_fill(&trial->fill, 0, trial->shape.send_elems, trial->send);
    trial->before = allocate(trial->recv_bytes);
    memcpy(trial->before, trial->recv, trial->recv_bytes);
    for (int i = 0; i < nranks; i++) {
        int other = (int)draw((uint64_t)i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    trial->world = (struct perf_reference){.fill = trial->fill,
                                           .pattern = collectives[which].pattern,
                                           .shape = trial->shape,
                                           .order = order,
                                           .norder = nranks};
    CHECK_EQ(perf_reference_open(&trial->world), 0);
    perf_reference_run(&trial->world, trial->fill.rank, trial->recv);
    trial->world.order = NULL;
    trial->right = allocate(trial->recv_bytes);
    memcpy(trial->right, trial->recv, trial->recv_bytes);
}

static void close_trial(struct trial *trial)
{
    perf_reference_close(&trial->world);
    free(trial->memory);
    free(trial->before);
    free(trial->right);
}

/* What the run would report; 0: all is well. */
static uint64_t count_wrong(const struct trial *trial)
{
    struct perf_mismatch recv, send;
    perf_compare(&trial->fill, trial->world.pattern, &trial->shape, trial->recv, &recv);
    perf_compare_send(&trial->fill, &trial->shape, trial->send, &send);
    uint64_t guards = perf_guard_bad(trial->memory) != -1;
    guards += perf_guard_bad(trial->end) != -1;
    return recv.wrong + send.wrong + guards;
}

/* ---- faults: each spoils the receive buffer ---- */

static void drop_last(struct trial *trial)
{
    size_t at = trial->recv_bytes - trial->shape.type_bytes;
    memcpy(trial->recv + at, trial->before + at, trial->shape.type_bytes);
}

static void skip_call(struct trial *trial)
{
    memcpy(trial->recv, trial->before, trial->recv_bytes);
}

static void swap_chunks(struct trial *trial)
{
    size_t elems = trial->shape.recv_elems, chunk = 1 + draw(elems), bytes;
    if (2 * chunk > elems) return;
    size_t first = draw(elems - 2 * chunk + 1);
    size_t second = first + chunk + draw(elems - first - 2 * chunk + 1);
    uint8_t *a = trial->recv + first * trial->shape.type_bytes;
    uint8_t *b = trial->recv + second * trial->shape.type_bytes;
    bytes = chunk * trial->shape.type_bytes;
    for (size_t i = 0; i < bytes; i++) {
        uint8_t byte = a[i];
        a[i] = b[i];
        b[i] = byte;
    }
}

/* The result of the same call with other inputs: of a seed before, or of changed ranks. */
static void run_again(struct trial *trial, uint64_t seed, const int *order, int norder)
{
    struct perf_reference other = trial->world;
    other.fill.seed = seed;
    other.order = order;
    other.norder = norder;
    CHECK_EQ(perf_reference_open(&other), 0);
    perf_reference_run(&other, trial->fill.rank, trial->recv);
    perf_reference_close(&other);
}

static void keep_stale(struct trial *trial)
{
    run_again(trial, trial->fill.seed - 1 - draw(3), NULL, 0);
}

/* In collectives without an operator: a part of the result is another rank's. */
static void take_other_part(struct trial *trial)
{
    size_t bytes = trial->shape.count * trial->shape.type_bytes;
    uint64_t nparts = trial->shape.recv_elems / trial->shape.count;
    if (nparts < 2) return;
    uint64_t a = draw(nparts), b = (a + 1 + draw(nparts - 1)) % nparts;
    memcpy(trial->recv + a * bytes, trial->recv + b * bytes, bytes);
}

static void count_rank(struct trial *trial, int times)
{
    int order[MAX_RANKS + 1], norder = 0, nranks = trial->fill.nranks;
    int rank = (int)draw((uint64_t)nranks);
    if (trial->fill.op < 0) {
        take_other_part(trial);
        return;
    }
    for (int other = 0; other < nranks; other++)
        for (int time = other == rank ? times : 1; time > 0; time--) order[norder++] = other;
    run_again(trial, trial->fill.seed, order, norder);
}

static void double_rank(struct trial *trial)
{
    count_rank(trial, 2);
}

static void drop_rank(struct trial *trial)
{
    count_rank(trial, 0);
}

static void flip_bit(struct trial *trial)
{
    trial->recv[draw(trial->recv_bytes)] ^= (uint8_t)(1 << draw(8));
}

static void shift_by_one(struct trial *trial)
{
    size_t bytes = trial->shape.type_bytes;
    if (draw(2))
        memmove(trial->recv, trial->recv + bytes, trial->recv_bytes - bytes);
    else
        memmove(trial->recv + bytes, trial->recv, trial->recv_bytes - bytes);
}

static void write_past_end(struct trial *trial)
{
    trial->end[draw(PERF_GUARD_BYTES)] ^= (uint8_t)(1 + draw(255));
}

static void write_before_start(struct trial *trial)
{
    trial->memory[draw(PERF_GUARD_BYTES)] ^= (uint8_t)(1 + draw(255));
}

static void change_input(struct trial *trial)
{
    trial->send[draw(trial->shape.send_elems * trial->shape.type_bytes)] ^= 0x10;
}

static void clear_chunk(struct trial *trial)
{
    size_t first = draw(trial->shape.recv_elems), bytes = trial->shape.type_bytes;
    size_t elems = 1 + draw(trial->shape.recv_elems - first);
    memset(trial->recv + first * bytes, 0, elems * bytes);
}

static const struct {
    const char *name;
    void (*spoil)(struct trial *trial);
    int elsewhere; /* spoils what is not in the receive buffer */
} faults[] = {
    {"drops the last element", drop_last, 0},
    {"skips the call", skip_call, 0},
    {"swaps two chunks", swap_chunks, 0},
    {"returns an earlier result", keep_stale, 0},
    {"doubles one rank", double_rank, 0},
    {"drops one rank", drop_rank, 0},
    {"flips a bit", flip_bit, 0},
    {"shifts by one element", shift_by_one, 0},
    {"clears a chunk", clear_chunk, 0},
    {"writes past the end", write_past_end, 1},
    {"writes before the start", write_before_start, 1},
    {"changes an input", change_input, 1},
};

static void describe(const struct trial *trial, const char *what)
{
    FAIL("%s: %s, type %s, op %d, rank %d of %d, root %d, count %zu, in place %d, seed %llu", what,
         trial->name, perf_numbers[trial->fill.type].name, trial->fill.op, trial->fill.rank,
         trial->fill.nranks, trial->shape.root, trial->shape.count, trial->shape.in_place,
         (unsigned long long)trial->fill.seed);
}

static void test_right(void)
{
    NOTE("random state %llu", (unsigned long long)random_state);
    for (int round = 0; round < ROUNDS; round++) {
        struct trial trial;
        open_trial(&trial);
        if (count_wrong(&trial) != 0) describe(&trial, "a right result is refused");
        close_trial(&trial);
    }
    perf_verify_drop();
}

/* ROUNDS faults that change something, each kind as often. */
static void test_wrong(void)
{
    NOTE("random state %llu", (unsigned long long)random_state);
    int seen = 0, void_draws = 0;
    while (seen < ROUNDS) {
        size_t which = (size_t)seen % TEST_COUNT(faults);
        struct trial trial;
        open_trial(&trial);
        faults[which].spoil(&trial);
        int changed =
            faults[which].elsewhere || memcmp(trial.recv, trial.right, trial.recv_bytes) != 0;
        if (changed && count_wrong(&trial) == 0) describe(&trial, faults[which].name);
        close_trial(&trial);
        seen += changed;
        void_draws += !changed;
    }
    NOTE("%d faults seen, %d draws changed nothing", seen, void_draws);
    CHECK(void_draws < ROUNDS / 2);
    perf_verify_drop();
}

/* The first wrong element is named with what was expected and found. */
static void test_first_wrong(void)
{
    for (int round = 0; round < 100; round++) {
        struct trial trial;
        struct perf_mismatch mismatch;
        open_trial(&trial);
        size_t bytes = trial.shape.type_bytes, at = draw(trial.shape.recv_elems);
        trial.recv[at * bytes] ^= 0x41;
        perf_compare(&trial.fill, trial.world.pattern, &trial.shape, trial.recv, &mismatch);
        CHECK_EQ(mismatch.wrong, 1);
        CHECK_EQ(mismatch.first, at);
        CHECK_EQ(mismatch.guard, PERF_RECV_WRONG);
        CHECK_MEM(mismatch.expected, trial.right + at * bytes, bytes);
        CHECK_MEM(mismatch.got, trial.recv + at * bytes, bytes);
        close_trial(&trial);
    }
    perf_verify_drop();
}

static const struct test_case cases[] = {
    {"1,000 right results pass", test_right, 120},
    {"1,000 wrong results are seen", test_wrong, 120},
    {"the first wrong element is named", test_first_wrong, 0},
};
TEST_MAIN(cases)
