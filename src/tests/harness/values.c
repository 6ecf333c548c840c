/* The stream of data movement, the columns, and the cache of tables.
 *
 * fill.c and compare.c call it; the contents of a column are made in columns.c. Tables are
 * immutable once published under the lock, and live until perf_verify_drop.
 */
#include "harness/values.h"

#include "harness/columns.h"
#include "harness/types.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER;
static struct perf_table *tables[ncclNumTypes][PERF_COLUMN_OPS];

/* Adds the bytes of two words without carries between them. */
static uint64_t add_bytes(uint64_t a, uint64_t b)
{
    const uint64_t low = 0x7f7f7f7f7f7f7f7f;
    return ((a & low) + (b & low)) ^ ((a ^ b) & ~low);
}

/* Words [0, words) of the block that holds element `first`, from the word of `first` on. Every
 * bit is mixed, except that each element's first byte is its column, turned by the rank: so two
 * elements differ for sure where their columns or ranks differ, even with one byte each. */
static void stream_words(const struct perf_source *source, size_t first, size_t words, uint64_t *to)
{
    static const uint64_t first_bytes[9] = {[1] = UINT64_MAX,
                                            [2] = 0x00ff00ff00ff00ff,
                                            [4] = 0x000000ff000000ff,
                                            [8] = 0x00000000000000ff};
    static const uint64_t lane_number[9] = {
        [1] = 0x0706050403020100, [2] = 0x0003000200010000, [4] = 0x0000000100000000, [8] = 0};
    const uint64_t every_byte = 0x0101010101010101;
    size_t lanes = 8 / source->type_bytes;
    uint64_t mask = first_bytes[source->type_bytes], number = lane_number[source->type_bytes];
    uint64_t turn = perf_stream_turn(source->stream) * every_byte;
    uint64_t base = perf_stream_base(source->seed, source->stream);
    uint64_t column = perf_column(source->seed, first), word = first / lanes;
    for (size_t i = 0; i < words; i++) {
        uint64_t mixed = perf_mix(base + (word + i) * PERF_STREAM_STEP);
        uint64_t bytes = add_bytes(((column + i * lanes) & 255) * every_byte, number) ^ turn;
        to[i] = (mixed & ~mask) | (bytes & mask);
    }
}

const uint8_t *perf_source_piece(const struct perf_source *source, size_t first, size_t *elems,
                                 uint64_t *scratch)
{
    size_t in_block = first % PERF_COLUMNS;
    if (*elems > PERF_COLUMNS - in_block) *elems = PERF_COLUMNS - in_block;
    if (source->row) return source->row + perf_column(source->seed, first) * source->type_bytes;
    size_t lanes = 8 / source->type_bytes, skip = first % lanes;
    stream_words(source, first - skip, (skip + *elems + lanes - 1) / lanes, scratch);
    return (const uint8_t *)scratch + skip * source->type_bytes;
}

struct perf_source perf_source_of(const struct perf_fill *fill, int rank)
{
    struct perf_source source = {.seed = fill->seed,
                                 .stream = rank >= 0 ? (uint64_t)rank : PERF_STREAM_REST,
                                 .type_bytes = perf_numbers[fill->type].bytes};
    if (fill->op < 0 || rank == PERF_UNTOUCHED) return source;
    const struct perf_table *table = perf_table_get((int)fill->type, fill->op, fill->nranks);
    source.row =
        rank == PERF_REDUCED ? table->reduced : table->inputs + (size_t)rank * table->row_bytes;
    return source;
}

static _Noreturn void out_of_memory(size_t bytes)
{
    fprintf(stderr, "verification: out of memory for a table of %zu bytes\n", bytes);
    exit(3);
}

/* Writes one column at its place and once more a period later. */
static void put_column(const struct perf_table *table, uint8_t *rows,
                       const struct perf_column_values *values)
{
    const struct perf_number *number = &perf_numbers[table->type];
    for (int row = 0; row <= table->nranks; row++) {
        uint64_t bits = row < table->nranks ? values->inputs[row] : values->reduced;
        uint8_t *at = rows + (size_t)row * table->row_bytes + values->column * number->bytes;
        perf_number_store(number, bits, at);
        perf_number_store(number, bits, at + (size_t)PERF_COLUMNS * number->bytes);
    }
}

static struct perf_table *build_table(int type, int op, int nranks)
{
    size_t row_bytes = (size_t)2 * PERF_COLUMNS * perf_numbers[type].bytes;
    size_t bytes = sizeof(struct perf_table) + ((size_t)nranks + 1) * row_bytes;
    struct perf_table *table = malloc(bytes);
    uint64_t *inputs = malloc((size_t)nranks * sizeof(*inputs));
    if (!table || !inputs) out_of_memory(bytes);
    uint8_t *rows = (uint8_t *)(table + 1);
    *table = (struct perf_table){.type = type,
                                 .op = op,
                                 .nranks = nranks,
                                 .row_bytes = row_bytes,
                                 .inputs = rows,
                                 .reduced = rows + (size_t)nranks * row_bytes};
    uint64_t results[PERF_COLUMNS];
    struct perf_column_values values = {.type = type, .op = op, .nranks = nranks, .inputs = inputs};
    for (unsigned column = 0; column < PERF_COLUMNS; column++) {
        values.column = column;
        perf_column_make(&values, results);
        results[column] = values.reduced;
        put_column(table, rows, &values);
    }
    free(inputs);
    return table;
}

const struct perf_table *perf_table_get(int type, int op, int nranks)
{
    pthread_mutex_lock(&tables_lock);
    const struct perf_table *table = tables[type][op];
    while (table && table->nranks != nranks) table = table->next;
    if (!table) {
        struct perf_table *made = build_table(type, op, nranks);
        made->next = tables[type][op];
        tables[type][op] = made;
        table = made;
    }
    pthread_mutex_unlock(&tables_lock);
    return table;
}

void perf_verify_drop(void)
{
    pthread_mutex_lock(&tables_lock);
    for (int type = 0; type < ncclNumTypes; type++) {
        for (int op = 0; op < PERF_COLUMN_OPS; op++) {
            struct perf_table *table = tables[type][op];
            tables[type][op] = NULL;
            while (table) {
                struct perf_table *next = table->next;
                free(table);
                table = next;
            }
        }
    }
    pthread_mutex_unlock(&tables_lock);
}
