/* reduce.h: the arithmetic of the reduction operators on one pair of values, the same on host and
 * GPU, compiled without fused multiply-add.
 *
 * Integers wrap. Float min and max: a number beats a NaN, +0 beats -0 in max and the reverse in
 * min, so the answer depends on no order. Every other NaN result is the canonical quiet NaN.
 */
#ifndef CCL_KERNEL_REDUCE_H
#define CCL_KERNEL_REDUCE_H

#include "kernel/types.h"

CCL_DEVICE uint64_t double_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

CCL_DEVICE double bits_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

CCL_DEVICE float canonical_float(float value)
{
    return value != value ? bits_float(0x7fc00000u) : value;
}

CCL_DEVICE double canonical_double(double value)
{
    return value != value ? bits_double(0x7ff8000000000000u) : value;
}

#define CCL_FLOAT_OPS(name, real, word, to_bits, from_bits, canonical)                             \
    CCL_DEVICE real name##_sum(real a, real b)                                                     \
    {                                                                                              \
        return canonical(a + b);                                                                   \
    }                                                                                              \
    CCL_DEVICE real name##_prod(real a, real b)                                                    \
    {                                                                                              \
        return canonical(a * b);                                                                   \
    }                                                                                              \
    /* Equal values differ at most in the sign of zero: the bits decide. */                        \
    CCL_DEVICE real name##_max(real a, real b)                                                     \
    {                                                                                              \
        real tie = from_bits(to_bits(a) & to_bits(b));                                             \
        real pick = a > b || b != b ? a : b;                                                       \
        return canonical(a == b ? tie : pick);                                                     \
    }                                                                                              \
    CCL_DEVICE real name##_min(real a, real b)                                                     \
    {                                                                                              \
        real tie = from_bits(to_bits(a) | to_bits(b));                                             \
        real pick = a < b || b != b ? a : b;                                                       \
        return canonical(a == b ? tie : pick);                                                     \
    }

CCL_FLOAT_OPS(f32, float, uint32_t, float_bits, bits_float, canonical_float)
CCL_FLOAT_OPS(f64, double, uint64_t, double_bits, bits_double, canonical_double)

/* Sum and product of signed types go through the unsigned type: they wrap. The product of two
 * 16-bit or smaller values is taken in 32 bits so that no promotion to int can overflow. */
#define CCL_INT_OPS(name, type, wide)                                                              \
    CCL_DEVICE type name##_sum(type a, type b)                                                     \
    {                                                                                              \
        return (type)((wide)a + (wide)b);                                                          \
    }                                                                                              \
    CCL_DEVICE type name##_prod(type a, type b)                                                    \
    {                                                                                              \
        return (type)((wide)a * (wide)b);                                                          \
    }                                                                                              \
    CCL_DEVICE type name##_max(type a, type b)                                                     \
    {                                                                                              \
        return a > b ? a : b;                                                                      \
    }                                                                                              \
    CCL_DEVICE type name##_min(type a, type b)                                                     \
    {                                                                                              \
        return a < b ? a : b;                                                                      \
    }

CCL_INT_OPS(i8, int8_t, uint32_t)
CCL_INT_OPS(u8, uint8_t, uint32_t)
CCL_INT_OPS(i32, int32_t, uint32_t)
CCL_INT_OPS(u32, uint32_t, uint32_t)
CCL_INT_OPS(i64, int64_t, uint64_t)
CCL_INT_OPS(u64, uint64_t, uint64_t)

#endif
