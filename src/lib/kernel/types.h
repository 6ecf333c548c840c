/* types.h: the 12 data types: storage, arithmetic type, conversions. Shared by host and GPU.
 *
 * Small floats are computed in float and rounded to the type, to nearest even, after every
 * operation; fp8 saturates to the largest finite value (e5m2 keeps infinities). Conversions are
 * exact the other way.
 */
#ifndef CCL_KERNEL_TYPES_H
#define CCL_KERNEL_TYPES_H

#include "kernel/dev.h"

#include <stdint.h>
#include <string.h>

CCL_DEVICE uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

CCL_DEVICE float bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A small float format: 1 sign bit, an exponent, `mantissa` bits. All fields are constants where
 * the functions below are used, and those have no branches, so that loops over them vectorize. */
struct ccl_format {
    uint32_t mantissa, bias, sign_at;
    uint32_t max_finite; /* largest finite magnitude, as bits of the format */
    uint32_t infinity;   /* bits that an infinite value becomes */
    uint32_t overflow;   /* bits that a finite value beyond the range becomes */
    uint32_t nan;        /* bits of the canonical NaN */
    int has_infinity;
};

/* Rounds to nearest even. A normal result comes from integer rounding, whose carry moves into the
 * exponent; a subnormal one from adding a power of two that leaves just its bits in the float. */
CCL_DEVICE uint32_t small_from_float(float value, struct ccl_format f)
{
    uint32_t bits = float_bits(value), magnitude = bits & 0x7fffffffu;
    uint32_t drop = 23 - f.mantissa, odd = magnitude >> drop & 1u;
    uint32_t half = (1u << (drop - 1)) - 1u;
    uint32_t normal = (magnitude + half + odd - ((127 - f.bias) << 23)) >> drop;
    uint32_t magic = (127 - f.bias + drop + 1) << 23;
    uint32_t subnormal = float_bits(bits_float(magnitude) + bits_float(magic)) - magic;
    uint32_t result = magnitude < (128 - f.bias) << 23 ? subnormal : normal;
    uint32_t is_over = (magnitude >= (129 + f.bias) << 23) | (result > f.max_finite);
    result = is_over ? f.overflow : result;
    result = magnitude == 0x7f800000u ? f.infinity : result;
    uint32_t sign = bits >> 31 << f.sign_at;
    return magnitude > 0x7f800000u ? f.nan : result | sign;
}

/* Exact. A subnormal is made normal with the smallest exponent, whose implied bit is then taken
 * off by a float subtraction. */
CCL_DEVICE float small_to_float(uint32_t bits, struct ccl_format f)
{
    uint32_t magnitude = bits & ((1u << f.sign_at) - 1u), raised = magnitude << (23 - f.mantissa);
    uint32_t smallest = (128 - f.bias) << 23;
    float normal = bits_float(raised + ((127 - f.bias) << 23));
    float subnormal = bits_float(raised + smallest) - bits_float(smallest);
    float value = magnitude >> f.mantissa != 0 ? normal : subnormal;
    value = f.has_infinity && magnitude == f.infinity ? bits_float(0x7f800000u) : value;
    int is_nan = f.has_infinity ? magnitude > f.infinity : magnitude == f.nan;
    value = is_nan ? bits_float(0x7fc00000u) : value;
    return bits_float(float_bits(value) | (bits >> f.sign_at & 1u) << 31);
}

#define CCL_FORMAT_F16  ((struct ccl_format){10, 15, 15, 0x7bff, 0x7c00, 0x7c00, 0x7e00, 1})
#define CCL_FORMAT_E4M3 ((struct ccl_format){3, 7, 7, 0x7e, 0x7e, 0x7e, 0x7f, 0})
#define CCL_FORMAT_E5M2 ((struct ccl_format){2, 15, 7, 0x7b, 0x7c, 0x7b, 0x7e, 1})

CCL_DEVICE float f16_load(uint16_t bits)
{
    return small_to_float(bits, CCL_FORMAT_F16);
}

CCL_DEVICE uint16_t f16_store(float value)
{
    return (uint16_t)small_from_float(value, CCL_FORMAT_F16);
}

CCL_DEVICE float bf16_load(uint16_t bits)
{
    return bits_float((uint32_t)bits << 16);
}

CCL_DEVICE uint16_t bf16_store(float value)
{
    uint32_t bits = float_bits(value);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

CCL_DEVICE float e4m3_load(uint8_t bits)
{
    return small_to_float(bits, CCL_FORMAT_E4M3);
}

CCL_DEVICE uint8_t e4m3_store(float value)
{
    return (uint8_t)small_from_float(value, CCL_FORMAT_E4M3);
}

CCL_DEVICE float e5m2_load(uint8_t bits)
{
    return small_to_float(bits, CCL_FORMAT_E5M2);
}

CCL_DEVICE uint8_t e5m2_store(float value)
{
    return (uint8_t)small_from_float(value, CCL_FORMAT_E5M2);
}

#endif
