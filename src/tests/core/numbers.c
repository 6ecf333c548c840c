/* A second opinion on the arithmetic; see numbers.h. */
#include "core/numbers.h"

#include "core/kit.h"

#include <math.h>
#include <string.h>

/* exponent 0: an integer. `special`: the top exponent means infinity and NaN. */
static const struct shape {
    int bytes, is_signed, exponent, mantissa, special;
    uint64_t largest, canonical; /* largest finite value; the NaN */
} shapes[ncclNumTypes] = {
    [ncclInt8] = {.bytes = 1, .is_signed = 1},
    [ncclUint8] = {.bytes = 1},
    [ncclInt32] = {.bytes = 4, .is_signed = 1},
    [ncclUint32] = {.bytes = 4},
    [ncclInt64] = {.bytes = 8, .is_signed = 1},
    [ncclUint64] = {.bytes = 8},
    [ncclFloat16] = {2, 1, 5, 10, 1, 0x7bff, 0x7e00},
    [ncclFloat32] = {4, 1, 8, 23, 1, 0x7f7fffff, 0x7fc00000},
    [ncclFloat64] = {8, 1, 11, 52, 1, 0x7fefffffffffffff, 0x7ff8000000000000},
    [ncclBfloat16] = {2, 1, 8, 7, 1, 0x7f7f, 0x7fc0},
    [ncclFloat8e4m3] = {1, 1, 4, 3, 0, 0x7e, 0x7f},
    [ncclFloat8e5m2] = {1, 1, 5, 2, 1, 0x7b, 0x7e},
};

static uint64_t mask_of(const struct shape *s)
{
    return s->bytes == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * s->bytes) - 1;
}

static uint64_t sign_bit(const struct shape *s)
{
    return (uint64_t)1 << (8 * s->bytes - 1);
}

size_t number_bytes(ncclDataType_t type)
{
    return (size_t)shapes[type].bytes;
}

int number_is_integer(ncclDataType_t type)
{
    return shapes[type].exponent == 0;
}

/* ---- floats ---- */

static double decode(uint64_t bits, const struct shape *s)
{
    uint64_t magnitude = bits & (sign_bit(s) - 1);
    uint64_t fraction = magnitude & (((uint64_t)1 << s->mantissa) - 1);
    int exponent = (int)(magnitude >> s->mantissa), bias = (1 << (s->exponent - 1)) - 1;
    double value;
    if (magnitude > s->largest)
        value = s->special && fraction == 0 ? INFINITY : NAN;
    else if (exponent == 0)
        value = ldexp((double)fraction, 1 - bias - s->mantissa);
    else
        value =
            ldexp((double)(fraction + ((uint64_t)1 << s->mantissa)), exponent - bias - s->mantissa);
    return bits & sign_bit(s) ? -value : value;
}

/* The nearest value of a small type, the even one of two. */
static uint64_t search(double magnitude, const struct shape *s)
{
    uint64_t low = 0, high = s->largest;
    while (low < high) {
        uint64_t middle = (low + high + 1) / 2;
        if (decode(middle, s) <= magnitude)
            low = middle;
        else
            high = middle - 1;
    }
    if (low < s->largest) {
        double below = magnitude - decode(low, s), above = decode(low + 1, s) - magnitude;
        return below < above || (below == above && low % 2 == 0) ? low : low + 1;
    }
    double step = decode(low, s) - decode(low - 1, s);
    int is_beyond = magnitude - decode(low, s) >= step / 2;
    if (!is_beyond || (s->bytes == 1 && !isinf(magnitude))) return low;
    return s->special ? s->largest + 1 : low;
}

static uint64_t encode(double value, ncclDataType_t type)
{
    const struct shape *s = &shapes[type];
    float single = (float)value;
    uint64_t bits = 0;
    if (isnan(value)) return s->canonical;
    if (type == ncclFloat64) {
        memcpy(&bits, &value, sizeof value);
        return bits;
    }
    if (type == ncclFloat32) {
        memcpy(&bits, &single, sizeof single);
        return bits;
    }
    return search(fabs((double)single), s) | (signbit(single) ? sign_bit(s) : 0);
}

/* All but double are computed in float. */
static double compute(double a, double b, ncclDataType_t type, ncclRedOp_t op)
{
    volatile float x = (float)a, y = (float)b, sum = x + y, product = x * y;
    if (type == ncclFloat64) return op == ncclSum ? a + b : a * b;
    return op == ncclSum ? (double)sum : (double)product;
}

static uint64_t combine_floats(uint64_t a, uint64_t b, ncclDataType_t type, ncclRedOp_t op)
{
    const struct shape *s = &shapes[type];
    double x = decode(a, s), y = decode(b, s);
    if (op == ncclSum || op == ncclProd) return encode(compute(x, y, type, op), type);
    if (isnan(x) && isnan(y)) return s->canonical;
    if (isnan(x)) return b;
    if (isnan(y)) return a;
    int a_is_less = x < y || (x == y && signbit(x) && !signbit(y));
    return a_is_less == (op == ncclMin) ? a : b;
}

/* ---- integers ---- */

static int64_t widen(uint64_t bits, const struct shape *s)
{
    int shift = 64 - 8 * s->bytes;
    return s->is_signed ? (int64_t)(bits << shift) >> shift : (int64_t)bits;
}

static int is_less(uint64_t a, uint64_t b, const struct shape *s)
{
    return s->is_signed ? widen(a, s) < widen(b, s) : a < b;
}

uint64_t number_combine(uint64_t a, uint64_t b, ncclDataType_t type, ncclRedOp_t op)
{
    const struct shape *s = &shapes[type];
    if (!number_is_integer(type)) return combine_floats(a, b, type, op);
    switch (op) {
    case ncclSum: return (a + b) & mask_of(s);
    case ncclProd: return a * b & mask_of(s);
    default: return is_less(a, b, s) == (op == ncclMin) ? a : b;
    }
}

uint64_t number_inverse(int n, ncclDataType_t type)
{
    return number_is_integer(type) ? 0 : encode(1.0 / n, type);
}

uint64_t number_divide(uint64_t a, int n, ncclDataType_t type)
{
    const struct shape *s = &shapes[type];
    if (!s->is_signed) return a / (uint64_t)n;
    return (uint64_t)(widen(a, s) / n) & mask_of(s);
}

uint64_t number_of(double value, ncclDataType_t type)
{
    if (!number_is_integer(type)) return encode(value, type);
    return (uint64_t)(int64_t)value & mask_of(&shapes[type]);
}

/* ---- inputs ---- */

uint64_t number_pick(uint32_t *state, ncclDataType_t type)
{
    const struct shape *s = &shapes[type];
    uint64_t bits = ((uint64_t)kit_random(state) << 32 | kit_random(state)) & mask_of(s);
    uint64_t top = s->largest + (uint64_t)s->special;
    const uint64_t special[] = {0, 1, s->largest, top, s->canonical, s->canonical + 1, top / 2, 2};
    uint32_t kind = kit_random(state) % 8;
    if (kind < 2) return bits;
    if (number_is_integer(type)) return kind < 5 ? bits % 16 : (mask_of(s) - bits % 16);
    if (kind < 4) return (special[bits % 8] | (bits & sign_bit(s))) & mask_of(s);
    /* Exponents within three of 1's. */
    uint64_t exponent = ((uint64_t)1 << (s->exponent - 1)) - 4 + bits % 7;
    uint64_t fraction = (bits >> 3) & (((uint64_t)1 << s->mantissa) - 1);
    return exponent << s->mantissa | fraction | (bits & sign_bit(s));
}
