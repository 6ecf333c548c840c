/* The library's own folds against the tables of verification: two independent implementations of
 * the 12 types and 6 operators must agree bit for bit on every column, for 1 to 64 ranks.
 */
#include "harness/options.h"
#include "harness/types.h"
#include "harness/values.h"
#include "kernel/fold.h"
#include "unit/test.h"

#include <string.h>

enum { MAX_RANKS = 64 };

/* All inputs of a table as the sources of one fold. */
static void set_up_fold(struct ccl_fold *fold, const struct perf_table *table, void *target)
{
    static const int kinds[PERF_NOPS] = {CCL_SUM, CCL_PROD, CCL_MAX, CCL_MIN, CCL_SUM, CCL_SUM};
    const struct perf_number *number = &perf_numbers[table->type];
    int is_float = number->kind == PERF_FLOAT;
    memset(fold, 0, sizeof(*fold));
    fold->nsources = (uint32_t)table->nranks;
    fold->ntargets = 1;
    fold->targets[0] = target;
    fold->type = table->type;
    fold->op = kinds[table->op];
    for (int rank = 0; rank < table->nranks; rank++) {
        struct ccl_source *source = &fold->sources[rank];
        source->data = table->inputs + (size_t)rank * table->row_bytes;
        source->scaled = table->op == PERF_OP_MULSUM || (table->op == ncclAvg && is_float);
        if (table->op == PERF_OP_MULSUM)
            source->scale.bits = perf_number_scalar(number, rank);
        else if (is_float)
            source->scale.bits = perf_number_encode(number, 1.0 / table->nranks);
    }
    if (table->op == ncclAvg && !is_float) fold->divisor = (uint32_t)table->nranks;
}

static void test_fold(void)
{
    static uint8_t folded[PERF_COLUMNS * 8];
    static struct ccl_fold fold;
    for (int type = 0; type < ncclNumTypes; type++) {
        for (int op = 0; op < PERF_NOPS; op++) {
            for (int nranks = 1; nranks <= MAX_RANKS; nranks++) {
                const struct perf_table *table = perf_table_get(type, op, nranks);
                size_t bytes = (size_t)PERF_COLUMNS * perf_numbers[type].bytes;
                set_up_fold(&fold, table, folded);
                ccl_fold_run(&fold, PERF_COLUMNS);
                if (memcmp(folded, table->reduced, bytes) != 0)
                    FAIL("%s op %d, %d ranks", perf_numbers[type].name, op, nranks);
            }
            perf_verify_drop();
        }
    }
}

static const struct test_case cases[] = {
    {"folds of the library and tables of verification agree", test_fold, 0},
};
TEST_MAIN(cases)
