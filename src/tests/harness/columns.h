/* One column of a table of values: the inputs of all ranks and their reduction.
 *
 * values.c calls it while it builds a table.
 */
#ifndef PERF_COLUMNS_H
#define PERF_COLUMNS_H

#include <stdint.h>

enum { PERF_COLUMN_OPS = 6 }; /* as PERF_NOPS of options.h */

struct perf_column_values {
    int type, op, nranks;
    unsigned column;
    uint64_t *inputs; /* [nranks] bits */
    uint64_t reduced; /* bits */
};

/* Fills inputs and reduced for values->column. `results` are those of the columns before it:
 * the last 16 (and across the end of the table) are avoided where the type has enough values, so
 * that a shift, a swap of neighbours and a stale result show in every element. */
void perf_column_make(struct perf_column_values *values, const uint64_t *results);

#endif
