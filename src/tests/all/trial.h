/* The values of one call of the long check: inputs of all ranks, and results by the second opinion
 * on the arithmetic (core/numbers.h). Used by check_all.c; every rank computes the same from the
 * seed alone.
 *
 * Results are compared bit for bit, so their order of rounding must be known. Where the library
 * promises an order all ranks bring anything; in the others, sums and products of floats have two
 * ranks per element that bring anything, and the rest the neutral value: one rounding, in any
 * order. Integers, minimum and maximum know no order.
 */
#ifndef ALL_TRIAL_H
#define ALL_TRIAL_H

#include "core/kit.h"

/* Built-in operators, then PreMulSum with the scalar on the host and on the device. */
enum { TRIAL_HOST_SCALAR = ncclNumOps, TRIAL_DEVICE_SCALAR, TRIAL_NOPS };

/* The order in which floats are folded. */
enum trial_order {
    TRIAL_ANY,   /* none is promised */
    TRIAL_SLOTS, /* rank by rank, sorted by executor */
    TRIAL_EXECS  /* within the executors, then over them */
};

struct trial_shape {
    int nranks;
    const int *exec_of; /* of each rank; executors are numbered by their lowest rank */
    enum trial_order order;
};

struct trial {
    struct kit_op op; /* but for the handle of PreMulSum, all of the call */
    int redop;        /* the operator, or one of the two above */
    struct kit_values values;
    uint64_t scalars[KIT_MAX_RANKS];
    uint64_t *inputs, *results;
};

/* Fills `values` and `scalars` for the call that `op` and `redop` describe. */
void trial_open(struct trial *trial, const struct trial_shape *shape);
void trial_close(struct trial *trial);

/* 1 when the collective reduces. */
int trial_reduces(enum kit_coll coll);

#endif
