/* Inputs and results of a call; see trial.h. */
#include "all/trial.h"

#include "core/numbers.h"

#include <stdlib.h>

int trial_reduces(enum kit_coll coll)
{
    return coll == KIT_ALL_REDUCE || coll == KIT_REDUCE || coll == KIT_REDUCE_SCATTER;
}

/* Elements that a rank brings. */
static size_t count_inputs(const struct kit_op *op, int nranks)
{
    int has_blocks =
        op->coll == KIT_REDUCE_SCATTER || op->coll == KIT_ALL_TO_ALL || op->coll == KIT_SCATTER;
    return op->count * (has_blocks ? (size_t)nranks : 1);
}

/* ---- inputs ---- */

/* The value that changes nothing: 0 of a sum, 1 of a product. */
static uint64_t neutral(const struct trial *trial)
{
    if (trial->redop != ncclProd) return 0;
    return number_inverse(1, trial->op.type);
}

/* Of sums and products of floats in an unknown order, only two ranks count. */
static int has_pairs(const struct trial *trial, const struct trial_shape *shape)
{
    if (!trial_reduces(trial->op.coll) || shape->order != TRIAL_ANY) return 0;
    if (number_is_integer(trial->op.type)) return 0;
    return trial->redop != ncclMax && trial->redop != ncclMin;
}

static void fill_inputs(struct trial *trial, const struct trial_shape *shape)
{
    uint32_t state = trial->op.seed, n = (uint32_t)shape->nranks;
    int pairs = has_pairs(trial, shape);
    uint64_t rest = neutral(trial);
    for (size_t i = 0; i < trial->values.elems; i++) {
        uint32_t a = kit_random(&state) % n, b = kit_random(&state) % n;
        for (uint32_t r = 0; r < n; r++) {
            int counts = !pairs || r == a || r == b;
            trial->inputs[r * trial->values.elems + i] =
                counts ? number_pick(&state, trial->op.type) : rest;
        }
    }
    for (uint32_t r = 0; r < n; r++) trial->scalars[r] = number_pick(&state, trial->op.type);
}

/* ---- results ---- */

/* What a rank brings to the sum. */
static uint64_t brought(const struct trial *trial, int nranks, int rank, size_t i)
{
    ncclDataType_t type = trial->op.type;
    uint64_t input = trial->inputs[(size_t)rank * trial->values.elems + i];
    if (trial->redop >= TRIAL_HOST_SCALAR)
        return number_combine(input, trial->scalars[rank], type, ncclProd);
    if (trial->redop != ncclAvg || number_is_integer(type)) return input;
    return number_combine(input, number_inverse(nranks, type), type, ncclProd);
}

/* Joins a value to a sum that may have none yet. */
struct sum {
    uint64_t value;
    int has;
};

static void add(const struct trial *trial, struct sum *sum, uint64_t value)
{
    ncclRedOp_t op = trial->redop < ncclAvg ? (ncclRedOp_t)trial->redop : ncclSum;
    sum->value = sum->has ? number_combine(sum->value, value, trial->op.type, op) : value;
    sum->has = 1;
}

static uint64_t reduce(const struct trial *trial, const struct trial_shape *shape, size_t i)
{
    struct sum all = {0, 0};
    int n = shape->nranks;
    for (int exec = 0; exec < n; exec++) {
        struct sum own = {0, 0};
        struct sum *sum = shape->order == TRIAL_EXECS ? &own : &all;
        for (int r = 0; r < n; r++)
            if (shape->exec_of[r] == exec) add(trial, sum, brought(trial, n, r, i));
        if (own.has) add(trial, &all, own.value);
    }
    if (trial->redop == ncclAvg && number_is_integer(trial->op.type))
        return number_divide(all.value, n, trial->op.type);
    return all.value;
}

void trial_open(struct trial *trial, const struct trial_shape *shape)
{
    size_t elems = count_inputs(&trial->op, shape->nranks);
    trial->inputs = calloc((size_t)shape->nranks * elems, sizeof *trial->inputs);
    trial->results = calloc(elems, sizeof *trial->results);
    CHECK(trial->inputs != NULL && trial->results != NULL);
    trial->values = (struct kit_values){trial->inputs, trial->results, elems};
    trial->op.values = &trial->values;
    fill_inputs(trial, shape);
    if (!trial_reduces(trial->op.coll)) return;
    for (size_t i = 0; i < elems; i++) trial->results[i] = reduce(trial, shape, i);
}

void trial_close(struct trial *trial)
{
    free(trial->inputs);
    free(trial->results);
}
