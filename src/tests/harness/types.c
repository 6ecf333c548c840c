/* Element types as numbers: one table row per type, conversions written out bit by bit.
 *
 * Called by values.c, reference.c and the report of a mismatch. Every float but double is exact
 * in a double, so that each operation is one double operation rounded once to the type.
 */
#include "harness/types.h"

#include "harness/options.h"
#include "harness/verify.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const struct perf_number perf_numbers[ncclNumTypes] = {
    [ncclInt8] = {"int8", PERF_SIGNED, 1, 0, 0, 0, INT8_MAX},
    [ncclUint8] = {"uint8", PERF_UNSIGNED, 1, 0, 0, 0, UINT8_MAX},
    [ncclInt32] = {"int32", PERF_SIGNED, 4, 0, 0, 0, INT32_MAX},
    [ncclUint32] = {"uint32", PERF_UNSIGNED, 4, 0, 0, 0, UINT32_MAX},
    [ncclInt64] = {"int64", PERF_SIGNED, 8, 0, 0, 0, INT64_MAX},
    [ncclUint64] = {"uint64", PERF_UNSIGNED, 8, 0, 0, 0, UINT64_MAX},
    [ncclFloat16] = {"half", PERF_FLOAT, 2, 11, -14, 15, 0x7bff},
    [ncclFloat32] = {"float", PERF_FLOAT, 4, 24, -126, 127, 0x7f7fffff},
    [ncclFloat64] = {"double", PERF_FLOAT, 8, 53, -1022, 1023, 0x7fefffffffffffff},
    [ncclBfloat16] = {"bfloat16", PERF_FLOAT, 2, 8, -126, 127, 0x7f7f},
    [ncclFloat8e4m3] = {"f8e4m3", PERF_FLOAT, 1, 4, -6, 8, 0x7e},
    [ncclFloat8e5m2] = {"f8e5m2", PERF_FLOAT, 1, 3, -14, 15, 0x7b},
};

static uint64_t mask_of(const struct perf_number *number)
{
    return number->bytes == 8 ? UINT64_MAX : ((uint64_t)1 << (8 * number->bytes)) - 1;
}

static uint64_t sign_of(const struct perf_number *number)
{
    return (uint64_t)1 << (8 * number->bytes - 1);
}

uint64_t perf_number_load(const struct perf_number *number, const void *from)
{
    uint64_t bits = 0;
    memcpy(&bits, from, number->bytes);
    return bits;
}

void perf_number_store(const struct perf_number *number, uint64_t bits, void *to)
{
    memcpy(to, &bits, number->bytes);
}

double perf_number_decode(const struct perf_number *number, uint64_t bits)
{
    double value;
    if (number->bytes == 8) {
        memcpy(&value, &bits, sizeof(value));
        return value;
    }
    uint64_t magnitude = bits & (sign_of(number) - 1);
    int shift = number->precision - 1;
    uint64_t mantissa = magnitude & (((uint64_t)1 << shift) - 1);
    int exponent = (int)(magnitude >> shift);
    /* The first pattern past the finite ones is infinity, except for f8e4m3, which has none. */
    if (magnitude > number->max_finite)
        value = mantissa != 0 || number->max_exp == 8 ? NAN : INFINITY;
    else if (exponent == 0)
        value = ldexp((double)mantissa, number->min_exp - shift);
    else
        value = ldexp((double)(mantissa + ((uint64_t)1 << shift)),
                      exponent - 1 + number->min_exp - shift);
    return bits & sign_of(number) ? -value : value;
}

uint64_t perf_number_encode(const struct perf_number *number, double value)
{
    uint64_t bits;
    if (number->bytes == 8) {
        memcpy(&bits, &value, sizeof(bits));
        return bits;
    }
    uint64_t sign = signbit(value) ? sign_of(number) : 0;
    uint64_t beyond = number->max_finite + 1;
    if (isnan(value)) return sign | (sign_of(number) - 1);
    if (isinf(value)) return sign | beyond;
    if (value == 0) return sign;
    int exponent = ilogb(value);
    if (exponent < number->min_exp) exponent = number->min_exp;
    /* In units of the last place; a subnormal has the exponent of the least normal. The carry of
     * a rounding up to the next power of two lands in the exponent field by itself. */
    int shift = number->precision - 1;
    uint64_t units = (uint64_t)rint(ldexp(fabs(value), shift - exponent));
    if (exponent > number->max_exp) return sign | beyond;
    bits = ((uint64_t)(exponent - number->min_exp) << shift) + units;
    return sign | (bits > number->max_finite ? beyond : bits);
}

static int64_t as_signed(const struct perf_number *number, uint64_t bits)
{
    uint64_t sign = sign_of(number);
    return (int64_t)(((bits & mask_of(number)) ^ sign) - sign);
}

static uint64_t combine_integer(const struct perf_number *number, int op, uint64_t a, uint64_t b)
{
    int less = number->kind == PERF_SIGNED ? as_signed(number, a) < as_signed(number, b) : a < b;
    switch (op) {
    case ncclProd: return (a * b) & mask_of(number);
    case ncclMax: return less ? b : a;
    case ncclMin: return less ? a : b;
    default: return (a + b) & mask_of(number);
    }
}

uint64_t perf_number_combine(const struct perf_number *number, int op, uint64_t a, uint64_t b)
{
    if (number->kind != PERF_FLOAT) return combine_integer(number, op, a, b);
    double x = perf_number_decode(number, a), y = perf_number_decode(number, b);
    switch (op) {
    case ncclProd: return perf_number_encode(number, x * y);
    case ncclMax: return x < y ? b : a;
    case ncclMin: return x < y ? a : b;
    default: return perf_number_encode(number, x + y);
    }
}

uint64_t perf_number_scalar(const struct perf_number *number, int rank)
{
    /* Different from rank to rank, so that a factor of the wrong rank is seen; powers of two
     * for floats and odd for integers, so that no factor hides an input. */
    static const double floats[4] = {2, 0.5, -4, -1};
    static const uint64_t integers[4] = {3, 5, 7, 9};
    if (number->kind == PERF_FLOAT) return perf_number_encode(number, floats[rank % 4]);
    return integers[rank % 4];
}

void perf_mulsum_scalar(ncclDataType_t type, int rank, void *scalar)
{
    const struct perf_number *number = &perf_numbers[type];
    memset(scalar, 0, 8);
    perf_number_store(number, perf_number_scalar(number, rank), scalar);
}

uint64_t perf_number_scale(const struct perf_number *number, int op, int rank, int nranks,
                           uint64_t bits)
{
    uint64_t factor;
    if (op == PERF_OP_MULSUM)
        factor = perf_number_scalar(number, rank);
    else if (op == ncclAvg && number->kind == PERF_FLOAT)
        factor = perf_number_encode(number, 1.0 / nranks);
    else
        return bits;
    return perf_number_combine(number, ncclProd, bits, factor);
}

uint64_t perf_number_finish(const struct perf_number *number, int op, int nranks, uint64_t bits)
{
    if (op != ncclAvg || number->kind == PERF_FLOAT) return bits;
    if (number->kind == PERF_UNSIGNED) return bits / (uint64_t)nranks;
    return (uint64_t)(as_signed(number, bits) / nranks) & mask_of(number);
}

void perf_format_value(ncclDataType_t type, const uint8_t *value, char *text, size_t bytes)
{
    const struct perf_number *number = &perf_numbers[type];
    uint64_t bits = perf_number_load(number, value);
    int digits = 2 * number->bytes;
    if (number->kind == PERF_FLOAT) {
        int decimals = number->bytes == 8 ? 17 : 9;
        snprintf(text, bytes, "%.*g (0x%0*" PRIx64 ")", decimals, perf_number_decode(number, bits),
                 digits, bits);
    } else if (number->kind == PERF_SIGNED) {
        snprintf(text, bytes, "%" PRId64 " (0x%0*" PRIx64 ")", as_signed(number, bits), digits,
                 bits);
    } else {
        snprintf(text, bytes, "%" PRIu64 " (0x%0*" PRIx64 ")", bits, digits, bits);
    }
}
