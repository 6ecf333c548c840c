/* Tables of inputs and results for reductions, and the stream of bytes for data movement.
 *
 * fill.c and compare.c read them. Element i of a reduction uses column perf_column(i) of a table
 * of 256 columns; in each block of 256 elements the columns are the table's, rotated, so that a
 * block is one copy or one memcmp. Invariant: any partial reduction of a column in any order is
 * exact, or (avg by a rounded 1/n) at most two equal values meet.
 */
#ifndef PERF_VALUES_H
#define PERF_VALUES_H

#include "harness/mixing.h"
#include "harness/verify.h"

#include <stddef.h>
#include <stdint.h>

struct perf_table {
    struct perf_table *next;
    int type, op, nranks;
    size_t row_bytes;       /* 2 * PERF_COLUMNS elements: the columns twice */
    const uint8_t *inputs;  /* row of rank r at r * row_bytes */
    const uint8_t *reduced; /* one row: the results */
};

/* The table, built at the first call and kept until perf_verify_drop. Never NULL: out of memory
 * ends the process with a message, exit code 3. Thread-safe. */
const struct perf_table *perf_table_get(int type, int op, int nranks);

/* Where expected elements come from. */
struct perf_source {
    const uint8_t *row; /* a row of a table, or NULL: the stream */
    uint64_t seed;
    uint64_t stream; /* which stream: the rank, or PERF_STREAM_REST */
    size_t type_bytes;
};
/* Stream of the elements that nobody may write. */
enum { PERF_STREAM_REST = 0xffff };

/* The contents of rank's send buffer (rank >= 0), of the reduction or of untouched elements. */
struct perf_source perf_source_of(const struct perf_fill *fill, int rank);

/* Elements [first, first + *elems) in one piece; cuts *elems at the end of the block. `scratch`
 * has room for PERF_COLUMNS elements of 8 bytes; the answer points there or into a table. */
const uint8_t *perf_source_piece(const struct perf_source *source, size_t first, size_t *elems,
                                 uint64_t *scratch);

#endif
