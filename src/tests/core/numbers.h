/* A second opinion on the arithmetic of the 12 data types, written from the rules and not from the
 * library: values decoded by ldexp, rounding by search among all values of the type. Used by
 * test_arith.c.
 */
#ifndef CORE_NUMBERS_H
#define CORE_NUMBERS_H

#include "nccl.h"

#include <stdint.h>

size_t number_bytes(ncclDataType_t type);

/* a op b for sum, prod, max, min on bit patterns: integers wrap; floats round to nearest even
 * after the operation, fp8 saturates, a number beats a NaN in max and min, -0 is below +0, and
 * every NaN that comes out is the canonical one. */
uint64_t number_combine(uint64_t a, uint64_t b, ncclDataType_t type, ncclRedOp_t op);

/* 1/n in the type; 0 for integers. */
uint64_t number_inverse(int n, ncclDataType_t type);
/* a / n, truncating; for integers only. */
uint64_t number_divide(uint64_t a, int n, ncclDataType_t type);
int number_is_integer(ncclDataType_t type);

/* Bit patterns that matter: NaNs, infinities, zeros, subnormals, largest values, and random ones,
 * many of them near 1. */
uint64_t number_pick(uint32_t *state, ncclDataType_t type);

/* The bits of a value that the type holds exactly. */
uint64_t number_of(double value, ncclDataType_t type);

#endif
