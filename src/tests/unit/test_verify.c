/* Verification itself: number formats, tables of values, the stream, patterns in and out of place.
 *
 * What a right result is comes from harness/reference.c, which knows nothing of the tables.
 */
#include "harness/columns.h"
#include "harness/options.h"
#include "harness/pattern.h"
#include "harness/reference.h"
#include "harness/types.h"
#include "harness/values.h"
#include "unit/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t random_state = 7;

static uint64_t draw(uint64_t below)
{
    random_state++;
    return perf_mix(random_state * 0x9e3779b97f4a7c15) % below;
}

static void test_formats(void)
{
    for (int type = 0; type < ncclNumTypes; type++) {
        const struct perf_number *number = &perf_numbers[type];
        if (number->kind != PERF_FLOAT || number->bytes > 2) continue;
        for (uint64_t bits = 0; bits < (uint64_t)1 << 8 * number->bytes; bits++) {
            double value = perf_number_decode(number, bits);
            if (isnan(value)) continue;
            if (perf_number_encode(number, value) != bits)
                FAIL("%s: %#llx becomes %#llx", number->name, (unsigned long long)bits,
                     (unsigned long long)perf_number_encode(number, value));
        }
    }
}

static void test_rounding(void)
{
    const struct perf_number *half = &perf_numbers[ncclFloat16], *f32 = &perf_numbers[ncclFloat32];
    const struct perf_number *e4m3 = &perf_numbers[ncclFloat8e4m3];
    CHECK_EQ(perf_number_encode(half, 1.0 + 0x1p-11), 0x3c00);           /* tie to even */
    CHECK_EQ(perf_number_encode(half, 1.0 + 0x3p-11), 0x3c02);           /* tie to even, up */
    CHECK_EQ(perf_number_encode(half, 1.0 + 0x1p-11 + 0x1p-30), 0x3c01); /* just above a tie */
    CHECK_EQ(perf_number_encode(half, 65519), 0x7bff);
    CHECK_EQ(perf_number_encode(half, 65520), 0x7c00);
    CHECK_EQ(perf_number_encode(half, -0x1p-25), 0x8000);
    CHECK_EQ(perf_number_encode(half, 0x1.8p-25), 0x0001);
    CHECK_EQ(perf_number_encode(e4m3, 448), 0x7e);
    CHECK_EQ(perf_number_encode(e4m3, 480), 0x7f);
    CHECK_EQ(perf_number_encode(e4m3, 0x1p-9), 0x01);
    CHECK(isnan(perf_number_decode(e4m3, 0x7f)));
    CHECK(isinf(perf_number_decode(&perf_numbers[ncclFloat8e5m2], 0x7c)));
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = draw(UINT64_MAX);
        double value = ldexp((double)(int64_t)bits, (int)draw(300) - 210);
        float native = (float)value;
        uint32_t expected;
        memcpy(&expected, &native, sizeof(expected));
        CHECK_EQ(perf_number_encode(f32, value), expected);
        CHECK(perf_number_decode(f32, expected) == (double)native);
    }
}

static void test_format_value(void)
{
    char text[64];
    float value = 3.25F;
    int64_t least = INT64_MIN;
    uint8_t byte = 200;
    perf_format_value(ncclFloat32, (uint8_t *)&value, text, sizeof(text));
    CHECK_STR(text, "3.25 (0x40500000)");
    perf_format_value(ncclInt64, (uint8_t *)&least, text, sizeof(text));
    CHECK_STR(text, "-9223372036854775808 (0x8000000000000000)");
    perf_format_value(ncclUint8, &byte, text, sizeof(text));
    CHECK_STR(text, "200 (0xc8)");
    perf_format_value(ncclInt8, &byte, text, sizeof(text));
    CHECK_STR(text, "-56 (0xc8)");
    byte = 0x7e;
    perf_format_value(ncclFloat8e4m3, &byte, text, sizeof(text));
    CHECK_STR(text, "448 (0x7e)");
}

/* Combines scaled inputs in a random tree until one value is left. */
static uint64_t reduce_by_tree(const struct perf_fill *fill, uint64_t *values)
{
    const struct perf_number *number = &perf_numbers[fill->type];
    for (int left = fill->nranks; left > 1; left--) {
        uint64_t a = draw((uint64_t)left), b = draw((uint64_t)left - 1);
        if (b >= a) b++;
        uint64_t low = a < b ? a : b, high = a < b ? b : a;
        values[low] = perf_number_combine(number, fill->op, values[a], values[b]);
        values[high] = values[left - 1];
    }
    return perf_number_finish(number, fill->op, fill->nranks, values[0]);
}

static void check_column(const struct perf_fill *fill, const struct perf_table *table,
                         size_t column)
{
    const struct perf_number *number = &perf_numbers[fill->type];
    uint64_t values[64];
    for (int rank = 0; rank < fill->nranks; rank++) {
        const uint8_t *at =
            table->inputs + (size_t)rank * table->row_bytes + column * number->bytes;
        uint64_t bits = perf_number_load(number, at);
        if (number->kind == PERF_FLOAT) CHECK(isfinite(perf_number_decode(number, bits)));
        values[rank] = perf_number_scale(number, fill->op, rank, fill->nranks, bits);
    }
    uint64_t expected = perf_number_load(number, table->reduced + column * number->bytes);
    uint64_t got = reduce_by_tree(fill, values);
    if (got != expected)
        FAIL("%s op %d, %d ranks, column %zu: %#llx, not %#llx", number->name, fill->op,
             fill->nranks, column, (unsigned long long)got, (unsigned long long)expected);
}

/* Any order and grouping of the reduction gives the table's result, bit for bit. */
static void test_any_order(void)
{
    for (int type = 0; type < ncclNumTypes; type++) {
        for (int op = 0; op < PERF_NOPS; op++) {
            for (int nranks = 1; nranks <= 64; nranks++) {
                struct perf_fill fill = {.type = (ncclDataType_t)type, .op = op, .nranks = nranks};
                const struct perf_table *table = perf_table_get(type, op, nranks);
                for (size_t column = (size_t)nranks % 5; column < PERF_COLUMNS; column += 5)
                    check_column(&fill, table, column);
            }
            perf_verify_drop();
        }
    }
}

/* How many of the 256 columns show that a rank is missing, or counted twice. */
static int count_visible(const struct perf_fill *fill, int rank, int twice)
{
    const struct perf_table *table = perf_table_get((int)fill->type, fill->op, fill->nranks);
    const struct perf_number *number = &perf_numbers[fill->type];
    uint64_t bits[64];
    int order[65], norder = 0, visible = 0;
    for (int other = 0; other < fill->nranks; other++) {
        if (other != rank || twice) order[norder++] = other;
        if (other == rank && twice) order[norder++] = other;
    }
    for (size_t column = 0; column < PERF_COLUMNS; column++) {
        for (int other = 0; other < fill->nranks; other++)
            bits[other] = perf_number_load(
                number, table->inputs + (size_t)other * table->row_bytes + column * number->bytes);
        uint64_t right = perf_number_load(number, table->reduced + column * number->bytes);
        visible += perf_reference_reduce(fill, bits, order, norder) != right;
    }
    return visible;
}

/* Each rank shows in each table: in 3 of 256 columns at least, when it is left out and when it is
 * counted twice (where the operator can tell). */
static void test_every_rank_shows(void)
{
    static const int sizes[] = {1, 2, 3, 5, 8, 16, 33, 64};
    for (int type = 0; type < ncclNumTypes; type++) {
        for (int op = 0; op < PERF_NOPS; op++) {
            for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
                struct perf_fill fill = {
                    .type = (ncclDataType_t)type, .op = op, .nranks = sizes[i]};
                int rank = (int)draw((uint64_t)sizes[i]);
                int missing = sizes[i] > 1 ? count_visible(&fill, rank, 0) : PERF_COLUMNS;
                int twice =
                    op == ncclMax || op == ncclMin ? PERF_COLUMNS : count_visible(&fill, rank, 1);
                if (missing < 3 || twice < 3)
                    FAIL("%s op %d, rank %d of %d: seen %d times missing, %d twice",
                         perf_numbers[type].name, op, rank, sizes[i], missing, twice);
            }
            perf_verify_drop();
        }
    }
}

/* Neighbours in a table differ, so that a shift or a stale result shows in every element; only
 * averages of small integers and the 8-bit floats have too few values for all of it. */
static void test_columns_differ(void)
{
    for (int type = 0; type < ncclNumTypes; type++) {
        for (int op = 0; op < PERF_NOPS; op++) {
            const struct perf_number *number = &perf_numbers[type];
            const struct perf_table *table = perf_table_get(type, op, 8);
            int repeats = 0;
            for (size_t column = 0; column < PERF_COLUMNS; column++)
                for (size_t next = column + 1; next <= column + 16; next++)
                    repeats += memcmp(table->reduced + column * number->bytes,
                                      table->reduced + next * number->bytes, number->bytes) == 0;
            int allowed = number->bytes > 1 ? 0 : 16;
            if (repeats > allowed) FAIL("%s op %d: %d repeats", number->name, op, repeats);
        }
    }
    perf_verify_drop();
}

static void test_column_of_index(void)
{
    for (int i = 0; i < 200000; i++) {
        uint64_t index = draw(UINT64_MAX) >> 8 * draw(8), seed = draw(1000);
        int byte = (int)draw(7);
        uint64_t other = index ^ (1 + draw(255)) << 8 * byte;
        CHECK(perf_column(seed, index) != perf_column(seed, other));
        CHECK(perf_column(seed, index) != perf_column(seed + 1 + draw(255), index));
    }
}

/* A part of a buffer is filled as it is when the whole is; other ranks and seeds differ. */
static void test_fill_parts(void)
{
    static uint8_t whole[3000 * 8], part[3000 * 8], other[3000 * 8];
    for (int round = 0; round < 500; round++) {
        int type = (int)draw(ncclNumTypes), op = (int)draw(PERF_NOPS + 1) - 1;
        size_t bytes = perf_numbers[type].bytes, first = draw(2999), elems = draw(3000 - first) + 1;
        struct perf_fill fill = {.type = (ncclDataType_t)type, .op = op, .nranks = 5};
        fill.rank = (int)draw(5);
        fill.seed = draw(1000000);
        perf_fill(&fill, 0, 3000, whole);
        memset(part, 0xee, sizeof(part));
        perf_fill(&fill, first, elems, part);
        CHECK_MEM(part, whole + first * bytes, elems * bytes);
        if (elems < 3000) CHECK_EQ(part[elems * bytes], 0xee);
        if (op >= 0) continue;
        struct perf_fill changed = fill;
        if (round % 2) changed.seed++;
        changed.rank = (fill.rank + (round % 2 ? 0 : 1)) % 5;
        perf_fill(&changed, 0, 3000, other);
        for (size_t i = 0; i < 3000; i++)
            CHECK(memcmp(whole + i * bytes, other + i * bytes, bytes) != 0);
    }
    perf_verify_drop();
}

/* Positions beyond 2^31 and 2^32 in a buffer that no collective touches: of all bytes exactly those
 * are wrong that were flipped, the last one included, and the first is named. */
static void test_beyond_4g(void)
{
    const size_t elems = ((size_t)1 << 32) + (1 << 20) + 3, half = (size_t)1 << 31;
    const size_t flips[] = {half - 1, half, 2 * half - 1, 2 * half, 2 * half + 1, elems - 1};
    struct perf_fill fill = {.type = ncclInt8, .op = -1, .nranks = 2, .seed = 7};
    struct perf_shape shape = {.nranks = 2, .count = elems, .type_bytes = 1, .recv_elems = elems};
    struct perf_mismatch mismatch;
    size_t free_bytes = (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    if (getenv("CHORUS_TEST_SLICE") != NULL) SKIP("takes too long in a slow build");
    if (free_bytes < 2 * elems) SKIP("needs 8 GiB of free memory");
    uint8_t *buffer = malloc(elems);
    CHECK(buffer != NULL);
    perf_fill(&fill, 0, elems, buffer);
    for (size_t i = 0; i < TEST_COUNT(flips); i++) buffer[flips[i]] ^= 1;
    perf_compare(&fill, &perf_pattern_broadcast, &shape, buffer, &mismatch);
    CHECK_EQ(mismatch.wrong, TEST_COUNT(flips));
    CHECK_EQ(mismatch.first, flips[0]);
    free(buffer);
    perf_verify_drop();
}

static void test_guard_bytes(void)
{
    uint8_t guard[PERF_GUARD_BYTES];
    perf_guard_fill(guard);
    CHECK_EQ(perf_guard_bad(guard), -1);
    for (int i = 0; i < PERF_GUARD_BYTES; i++) {
        guard[i] ^= 1;
        CHECK_EQ(perf_guard_bad(guard), i);
        guard[i] ^= 1;
    }
}

static void test_self(void)
{
    CHECK_EQ(perf_selftest(), 0);
    perf_verify_drop();
}

static const struct test_case cases[] = {
    {"formats of small floats", test_formats, 0},
    {"rounding", test_rounding, 0},
    {"value as text", test_format_value, 0},
    {"any order of reduction", test_any_order, 120},
    {"every rank shows", test_every_rank_shows, 120},
    {"neighbouring results differ", test_columns_differ, 0},
    {"column of an index", test_column_of_index, 0},
    {"fill in parts", test_fill_parts, 0},
    {"beyond 2^32 elements", test_beyond_4g, 120},
    {"guard bytes", test_guard_bytes, 0},
    {"self-test", test_self, 0},
};
TEST_MAIN(cases)
