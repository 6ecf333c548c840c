/* cuda_words_half.h: what cuda_words.h is, for floats of 16 and 8 bits. Sums and products of small
 * floats are exact enough in the wider format that rounding twice changes nothing.
 */
#ifndef CCL_KERNEL_CUDA_WORDS_HALF_H
#define CCL_KERNEL_CUDA_WORDS_HALF_H

#include "kernel/cuda_words.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <string.h>

#define WORD_OP static __device__ __forceinline__

/* ---- 16-bit floats: two a word ---- */

static __device__ __forceinline__ uint32_t half2_bits(__half2 value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static __device__ __forceinline__ __half2 bits_half2(uint32_t bits)
{
    __half2 value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static __device__ __forceinline__ uint32_t bfloat2_bits(__nv_bfloat162 value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static __device__ __forceinline__ __nv_bfloat162 bits_bfloat2(uint32_t bits)
{
    __nv_bfloat162 value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The hardware's NaN has all bits set, ours only the upper one of the mantissa. */
static __device__ __forceinline__ uint32_t canonical_half2(__half2 value)
{
    uint32_t is_number = __heq2_mask(value, value);
    return (half2_bits(value) & is_number) | (0x7e007e00u & ~is_number);
}

static __device__ __forceinline__ uint32_t canonical_bfloat2(__nv_bfloat162 value)
{
    uint32_t is_number = __heq2_mask(value, value);
    return (bfloat2_bits(value) & is_number) | (0x7fc07fc0u & ~is_number);
}

#define CCL_PAIR_WORDS(name, from, canonical)                                                      \
    struct name##_words {                                                                          \
        typedef uint32_t word;                                                                     \
        enum { ELEM_BYTES = 2, REDUCES = 1, SM = 0 };                                              \
        WORD_OP word sum(word a, word b)                                                           \
        {                                                                                          \
            return canonical(__hadd2_rn(from(a), from(b)));                                        \
        }                                                                                          \
        WORD_OP word prod(word a, word b)                                                          \
        {                                                                                          \
            return canonical(__hmul2_rn(from(a), from(b)));                                        \
        }                                                                                          \
        WORD_OP word max(word a, word b)                                                           \
        {                                                                                          \
            return canonical(__hmax2(from(a), from(b)));                                           \
        }                                                                                          \
        WORD_OP word min(word a, word b)                                                           \
        {                                                                                          \
            return canonical(__hmin2(from(a), from(b)));                                           \
        }                                                                                          \
        WORD_OP word spread(uint64_t bits)                                                         \
        {                                                                                          \
            return ((uint32_t)bits & 0xffffu) * 0x00010001u;                                       \
        }                                                                                          \
        WORD_OP word divide(word a, uint32_t)                                                      \
        {                                                                                          \
            return a;                                                                              \
        }                                                                                          \
    };

CCL_PAIR_WORDS(f16, bits_half2, canonical_half2)
CCL_PAIR_WORDS(bf16, bits_bfloat2, canonical_bfloat2)

/* ---- 8-bit floats: four a word, computed as two pairs of f16 ---- */

/* Finite values of e4m3 have sums that f16 holds to 11 bits, and products that it holds exactly or
 * overflows, which saturates as it should. NaN comes back as the canonical one. */
struct e4m3_pairs {
    WORD_OP __half2 load(uint32_t pair)
    {
        return __half2(__nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)pair, __NV_E4M3));
    }
    WORD_OP uint32_t save(__half2 value)
    {
        return __nv_cvt_halfraw2_to_fp8x2(__half2_raw(value), __NV_SATFINITE, __NV_E4M3);
    }
};

/* e5m2 is the upper half of f16. */
struct e5m2_pairs {
    WORD_OP __half2 load(uint32_t pair)
    {
        return bits_half2(__byte_perm(pair, 0, 0x1404));
    }
    WORD_OP uint32_t save(__half2 value)
    {
        return __nv_cvt_halfraw2_to_fp8x2(__half2_raw(value), __NV_SATFINITE, __NV_E5M2);
    }
};

#define CCL_QUAD_OP(pairs, op, a, b, low, high)                                                    \
    __half2 low = op(pairs::load((a)&0xffffu), pairs::load((b)&0xffffu));                          \
    __half2 high = op(pairs::load((a) >> 16), pairs::load((b) >> 16))

#define CCL_E4M3_OP(name, op)                                                                      \
    WORD_OP word name(word a, word b)                                                              \
    {                                                                                              \
        CCL_QUAD_OP(e4m3_pairs, op, a, b, low, high);                                              \
        return e4m3_pairs::save(low) | e4m3_pairs::save(high) << 16;                               \
    }

struct e4m3_words {
    typedef uint32_t word;
    enum { ELEM_BYTES = 1, REDUCES = 1, SM = 90 };
    CCL_E4M3_OP(sum, __hadd2_rn)
    CCL_E4M3_OP(prod, __hmul2_rn)
    CCL_E4M3_OP(max, __hmax2)
    CCL_E4M3_OP(min, __hmin2)
    WORD_OP word spread(uint64_t bits)
    {
        return spread_byte(bits);
    }
    WORD_OP word divide(word a, uint32_t)
    {
        return a;
    }
};

/* All bits of each byte of e5m2 that is infinite or NaN. */
static __device__ __forceinline__ uint32_t e5m2_endless(uint32_t a)
{
    return ((((a & 0x7f7f7f7fu) + 0x04040404u) & 0x80808080u) >> 7) * 0xffu;
}

/* What f16 knows without rounding: the upper halves. */
static __device__ __forceinline__ uint32_t e5m2_upper(__half2 low, __half2 high)
{
    return __byte_perm(canonical_half2(low), canonical_half2(high), 0x7531);
}

/* A sum or product of finite values saturates, also where f16 overflows to infinity; one with an
 * infinity or NaN in it is what f16 says. */
#define CCL_E5M2_ROUNDED(name, op)                                                                 \
    WORD_OP word name(word a, word b)                                                              \
    {                                                                                              \
        CCL_QUAD_OP(e5m2_pairs, op, a, b, low, high);                                              \
        uint32_t rounded = e5m2_pairs::save(low) | e5m2_pairs::save(high) << 16;                   \
        uint32_t endless = e5m2_endless(a) | e5m2_endless(b);                                      \
        return (rounded & ~endless) | (e5m2_upper(low, high) & endless);                           \
    }

#define CCL_E5M2_CHOSEN(name, op)                                                                  \
    WORD_OP word name(word a, word b)                                                              \
    {                                                                                              \
        CCL_QUAD_OP(e5m2_pairs, op, a, b, low, high);                                              \
        return e5m2_upper(low, high);                                                              \
    }

struct e5m2_words {
    typedef uint32_t word;
    enum { ELEM_BYTES = 1, REDUCES = 1, SM = 90 };
    CCL_E5M2_ROUNDED(sum, __hadd2_rn)
    CCL_E5M2_ROUNDED(prod, __hmul2_rn)
    CCL_E5M2_CHOSEN(max, __hmax2)
    CCL_E5M2_CHOSEN(min, __hmin2)
    WORD_OP word spread(uint64_t bits)
    {
        return spread_byte(bits);
    }
    WORD_OP word divide(word a, uint32_t)
    {
        return a;
    }
};

#undef WORD_OP

#endif
