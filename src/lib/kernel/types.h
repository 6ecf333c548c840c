/* types.h: the 12 data types: storage, arithmetic type, conversions. Shared by host and GPU.
 *
 * Small floats are computed in float and rounded to the type, to nearest even, after every
 * operation; fp8 saturates to the largest finite value. Conversions are exact the other way.
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

/* A small float format: 1 sign bit, `exponent` bits, `mantissa` bits. */
struct ccl_format {
    int mantissa, bias;
    uint32_t max_finite; /* largest finite magnitude, as bits of the format */
    uint32_t infinity;   /* bits of infinity; 0 when the format saturates instead */
    uint32_t nan;        /* bits of the canonical NaN */
};

/* Rounds to nearest even. Values beyond the range become infinity or saturate. */
CCL_DEVICE uint32_t small_from_float(float value, struct ccl_format f)
{
    uint32_t bits = float_bits(value);
    uint32_t sign = bits >> 31, magnitude = bits & 0x7fffffffu;
    uint32_t sign_at = f.mantissa == 10 ? 15 : 7;
    if (magnitude > 0x7f800000u) return f.nan;

    int exponent = (int)(magnitude >> 23) - 127;
    int min_exponent = 1 - f.bias;
    uint32_t full = (magnitude & 0x7fffffu) | (magnitude >> 23 != 0 ? 0x800000u : 0u);
    int drop = 23 - f.mantissa;
    if (exponent < min_exponent) drop += min_exponent - exponent;
    uint32_t rounded = 0;
    if (drop <= 24) {
        uint32_t half = 1u << (drop - 1), odd = (full >> drop) & 1u;
        rounded = (full + half - 1u + odd) >> drop;
    }
    /* A normal number keeps its hidden bit in `rounded`; adding exponent - 1 to the field makes
     * the carry of a rounding overflow move into the exponent. */
    uint32_t result = rounded;
    if (exponent >= min_exponent) result += (uint32_t)(exponent - min_exponent) << f.mantissa;
    if (exponent >= min_exponent + 64 || result > f.max_finite)
        result = f.infinity != 0 ? f.infinity : f.max_finite;
    return result | sign << sign_at;
}

CCL_DEVICE float small_to_float(uint32_t bits, struct ccl_format f)
{
    uint32_t sign_at = f.mantissa == 10 ? 15 : 7;
    uint32_t sign = bits >> sign_at & 1u, magnitude = bits & ((1u << sign_at) - 1u);
    uint32_t top = sign << 31;
    if (f.infinity != 0 ? magnitude > f.infinity : magnitude == f.nan)
        return bits_float(top | 0x7fc00000u);
    if (f.infinity != 0 && magnitude == f.infinity) return bits_float(top | 0x7f800000u);
    int shift = 23 - f.mantissa;
    uint32_t exponent = magnitude >> f.mantissa;
    if (exponent != 0)
        return bits_float(top | ((magnitude << shift) + ((uint32_t)(127 - f.bias) << 23)));
    /* Subnormal: mantissa times 2^(1 - bias - mantissa bits), exact in float. */
    float scale = bits_float((uint32_t)(127 + 1 - f.bias - f.mantissa) << 23);
    float value = (float)magnitude * scale;
    return bits_float(top | float_bits(value));
}

#define CCL_FORMAT_F16  ((struct ccl_format){10, 15, 0x7bff, 0x7c00, 0x7e00})
#define CCL_FORMAT_E4M3 ((struct ccl_format){3, 7, 0x7e, 0, 0x7f})
#define CCL_FORMAT_E5M2 ((struct ccl_format){2, 15, 0x7b, 0x7c, 0x7e})

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
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
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

/* Saturates like the other fp8 type, but an infinite value stays infinite. */
CCL_DEVICE uint8_t e5m2_store(float value)
{
    uint32_t bits = small_from_float(value, CCL_FORMAT_E5M2);
    int was_infinite = (float_bits(value) & 0x7fffffffu) == 0x7f800000u;
    if ((bits & 0x7fu) == 0x7cu && !was_infinite) bits -= 1;
    return (uint8_t)bits;
}

#endif
