/* The self-test at the start of every driver: good data pass, and one fault of each kind is seen.
 *
 * perf_main calls it before anything is measured (and alone with --selftest). It guards against a
 * checker that cannot fail: a broken build would otherwise print 0 wrong.
 */
#include "harness/options.h"
#include "harness/pattern.h"
#include "harness/reference.h"
#include "harness/types.h"
#include "harness/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, ELEMS = 300, MAX_BYTES = RANKS * ELEMS * 8 };

/* Each spoils a good result of `elems` elements; `spare` holds the result of the seed before. */
struct spoiled {
    uint8_t *data;
    const uint8_t *spare;
    size_t elems, type_bytes;
};

static void flip_bit(const struct spoiled *spoiled)
{
    spoiled->data[spoiled->elems / 3 * spoiled->type_bytes] ^= 1;
}

static void lose_last(const struct spoiled *spoiled)
{
    size_t last = (spoiled->elems - 1) * spoiled->type_bytes;
    for (size_t i = 0; i < spoiled->type_bytes; i++) spoiled->data[last + i] ^= 0xff;
}

static void shift_by_one(const struct spoiled *spoiled)
{
    memmove(spoiled->data, spoiled->data + spoiled->type_bytes,
            (spoiled->elems - 1) * spoiled->type_bytes);
}

static void swap_halves(const struct spoiled *spoiled)
{
    size_t bytes = spoiled->elems / 2 * spoiled->type_bytes;
    for (size_t i = 0; i < bytes; i++) {
        uint8_t byte = spoiled->data[i];
        spoiled->data[i] = spoiled->data[bytes + i];
        spoiled->data[bytes + i] = byte;
    }
}

static void keep_stale(const struct spoiled *spoiled)
{
    memcpy(spoiled->data, spoiled->spare, spoiled->elems * spoiled->type_bytes);
}

static const struct {
    const char *name;
    void (*spoil)(const struct spoiled *spoiled);
} faults[] = {
    {"a flipped bit", flip_bit},      {"a lost last element", lose_last},
    {"a shift by one", shift_by_one}, {"two swapped halves", swap_halves},
    {"a stale result", keep_stale},
};

static int complain(const struct perf_reference *world, const char *what)
{
    const struct perf_fill *fill = &world->fill;
    fprintf(stderr, "self-test: %s, type %s, op %d: verification cannot be trusted\n", what,
            perf_numbers[fill->type].name, fill->op);
    return 1;
}

static uint64_t count_wrong(const struct perf_reference *world, int rank, const uint8_t *got)
{
    struct perf_fill fill = world->fill;
    struct perf_shape shape = world->shape;
    struct perf_mismatch mismatch;
    fill.rank = shape.rank = rank;
    perf_compare(&fill, world->pattern, &shape, got, &mismatch);
    return mismatch.wrong;
}

/* The right result of a rank for the world's seed. */
static int right_result(struct perf_reference *world, int rank, uint8_t *to)
{
    struct perf_fill fill = world->fill;
    struct perf_shape shape = world->shape;
    fill.rank = shape.rank = rank;
    if (perf_reference_open(world) != 0) return complain(world, "out of memory");
    perf_fill_recv(&fill, world->pattern, &shape, to);
    if (count_wrong(world, rank, to) == 0) return complain(world, "a skipped call is not seen");
    perf_reference_run(world, rank, to);
    perf_reference_close(world);
    return 0;
}

static int test_world(struct perf_reference *world, uint8_t *memory)
{
    uint8_t *stale = memory, *good = memory + MAX_BYTES, *bad = memory + 2 * (size_t)MAX_BYTES;
    int rank = RANKS - 1;
    size_t bytes = world->shape.recv_elems * world->shape.type_bytes;
    world->fill.seed = 41;
    if (right_result(world, rank, stale)) return 1;
    world->fill.seed = 42;
    if (right_result(world, rank, good)) return 1;
    if (count_wrong(world, rank, good) != 0) return complain(world, "a right result is refused");
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct spoiled spoiled = {.data = bad,
                                  .spare = stale,
                                  .elems = world->shape.recv_elems,
                                  .type_bytes = world->shape.type_bytes};
        memcpy(bad, good, bytes);
        faults[i].spoil(&spoiled);
        if (count_wrong(world, rank, bad) == 0) return complain(world, faults[i].name);
    }
    return 0;
}

static int test_guards(void)
{
    uint8_t guard[PERF_GUARD_BYTES];
    perf_guard_fill(guard);
    int right = perf_guard_bad(guard);
    guard[7] ^= 4;
    if (right == -1 && perf_guard_bad(guard) == 7) return 0;
    fprintf(stderr, "self-test: guard bytes cannot be trusted\n");
    return 1;
}

int perf_selftest(void)
{
    uint8_t *memory = malloc(3 * (size_t)MAX_BYTES);
    int failed = test_guards();
    if (!memory) failed = 1;
    for (int type = 0; type < ncclNumTypes && !failed; type++) {
        for (int op = -1; op < PERF_NOPS && !failed; op++) {
            size_t parts = op < 0 ? RANKS : 1;
            struct perf_reference world = {
                .fill = {.type = (ncclDataType_t)type, .op = op, .nranks = RANKS},
                .pattern = op < 0 ? &perf_pattern_all_gather : &perf_pattern_all_reduce,
                .shape = {.nranks = RANKS,
                          .count = ELEMS,
                          .send_elems = ELEMS,
                          .recv_elems = parts * ELEMS,
                          .type_bytes = perf_numbers[type].bytes}};
            failed = test_world(&world, memory);
        }
    }
    free(memory);
    return failed;
}
