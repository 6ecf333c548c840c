/* Element types as numbers: conversion to and from bits, and the arithmetic of one operation.
 *
 * The tables of values, the self-test and the unit tests call it; nothing here is on a hot path.
 * Independent of the library on purpose: a shared mistake would verify itself.
 */
#ifndef PERF_TYPES_H
#define PERF_TYPES_H

#include "nccl.h"

#include <stddef.h>
#include <stdint.h>

enum perf_number_kind { PERF_SIGNED, PERF_UNSIGNED, PERF_FLOAT };

struct perf_number {
    const char *name;
    enum perf_number_kind kind;
    uint8_t bytes;
    uint8_t precision;        /* floats: significant bits, the hidden one included */
    int16_t min_exp, max_exp; /* floats: least exponent of a normal, greatest of a finite number */
    uint64_t max_finite;      /* bits of the greatest finite number (floats, signed) */
};

/* One row per ncclDataType_t, in its order. */
extern const struct perf_number perf_numbers[ncclNumTypes];

/* Bits of an element, in the low `bytes` bytes. */
uint64_t perf_number_load(const struct perf_number *number, const void *from);
void perf_number_store(const struct perf_number *number, uint64_t bits, void *to);

/* Floats only. encode rounds to nearest even; beyond the greatest finite number it gives
 * infinity, or NaN where the type has no infinity. */
double perf_number_decode(const struct perf_number *number, uint64_t bits);
uint64_t perf_number_encode(const struct perf_number *number, double value);

/* One step of a reduction, rounded to the type; integers wrap. op as in options.h: avg and mulsum
 * add, their scaling is perf_number_scale and perf_number_finish. */
uint64_t perf_number_combine(const struct perf_number *number, int op, uint64_t a, uint64_t b);

/* What a rank's input becomes before the reduction (avg of floats, mulsum), and what the
 * reduced value becomes after it (avg of integers). */
uint64_t perf_number_scale(const struct perf_number *number, int op, int rank, int nranks,
                           uint64_t bits);
uint64_t perf_number_finish(const struct perf_number *number, int op, int nranks, uint64_t bits);

/* The factor of mulsum of a rank. */
uint64_t perf_number_scalar(const struct perf_number *number, int rank);

#endif
