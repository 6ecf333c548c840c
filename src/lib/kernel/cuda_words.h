/* cuda_words.h: the arithmetic of each data type on the GPU, on words of packed elements.
 *
 * One struct per type: `word` holds one 8-byte or several smaller elements; sum, prod, max and min
 * combine two words, spread repeats one element, divide is that of averages of integers. Plain
 * types take reduce.h as it stands; for the others there are instructions on packed elements whose
 * results are those of types.h: sums and products of small floats are exact enough in the wider
 * format that rounding twice changes nothing. Words may hold one element and zeros above it.
 */
#ifndef CCL_KERNEL_CUDA_WORDS_H
#define CCL_KERNEL_CUDA_WORDS_H

#include "kernel/reduce.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#define WORD_OP static __device__ __forceinline__

/* One element a word: the functions of reduce.h. */
#define CCL_SINGLE_WORDS(name, word_type, from, to, quotient)                                      \
    struct name##_words {                                                                          \
        typedef word_type word;                                                                    \
        enum { ELEM_BYTES = sizeof(word_type), REDUCES = 1, SM = 0 };                              \
        WORD_OP word sum(word a, word b)                                                           \
        {                                                                                          \
            return to(name##_sum(from(a), from(b)));                                               \
        }                                                                                          \
        WORD_OP word prod(word a, word b)                                                          \
        {                                                                                          \
            return to(name##_prod(from(a), from(b)));                                              \
        }                                                                                          \
        WORD_OP word max(word a, word b)                                                           \
        {                                                                                          \
            return to(name##_max(from(a), from(b)));                                               \
        }                                                                                          \
        WORD_OP word min(word a, word b)                                                           \
        {                                                                                          \
            return to(name##_min(from(a), from(b)));                                               \
        }                                                                                          \
        WORD_OP word spread(uint64_t bits)                                                         \
        {                                                                                          \
            return (word)bits;                                                                     \
        }                                                                                          \
        WORD_OP word divide(word a, uint32_t n)                                                    \
        {                                                                                          \
            return quotient;                                                                       \
        }                                                                                          \
    };

CCL_SINGLE_WORDS(f32, uint32_t, bits_float, float_bits, a)
CCL_SINGLE_WORDS(f64, uint64_t, bits_double, double_bits, a)
CCL_SINGLE_WORDS(i32, uint32_t, (int32_t), (uint32_t), (word)((int32_t)a / (int32_t)n))
CCL_SINGLE_WORDS(u32, uint32_t, (uint32_t), (uint32_t), a / n)
CCL_SINGLE_WORDS(i64, uint64_t, (int64_t), (uint64_t), (word)((int64_t)a / (int64_t)n))
CCL_SINGLE_WORDS(u64, uint64_t, (uint64_t), (uint64_t), a / n)

/* ---- bytes: four a word ---- */

static __device__ __forceinline__ uint32_t spread_byte(uint64_t bits)
{
    return ((uint32_t)bits & 0xffu) * 0x01010101u;
}

/* The low byte of a product does not depend on signs. */
static __device__ __forceinline__ uint32_t bytes_prod(uint32_t a, uint32_t b)
{
    uint32_t even = (a & 0xffu) * (b & 0xffu) & 0xffu;
    uint32_t odd = (a >> 8 & 0xffu) * (b & 0xff00u) & 0xff00u;
    uint32_t third = (a >> 16 & 0xffu) * (b & 0xff0000u) & 0xff0000u;
    uint32_t last = (a >> 24) * (b & 0xff000000u);
    return even | odd | third | last;
}

template <class ELEM> static __device__ __forceinline__ uint32_t bytes_divide(uint32_t a, int n)
{
    uint32_t result = 0;
#pragma unroll
    for (int at = 0; at < 32; at += 8) result |= (uint32_t)(uint8_t)((ELEM)(a >> at) / n) << at;
    return result;
}

#define CCL_BYTE_WORDS(name, elem, max_of, min_of)                                                 \
    struct name##_words {                                                                          \
        typedef uint32_t word;                                                                     \
        enum { ELEM_BYTES = 1, REDUCES = 1, SM = 0 };                                              \
        WORD_OP word sum(word a, word b)                                                           \
        {                                                                                          \
            return __vadd4(a, b);                                                                  \
        }                                                                                          \
        WORD_OP word prod(word a, word b)                                                          \
        {                                                                                          \
            return bytes_prod(a, b);                                                               \
        }                                                                                          \
        WORD_OP word max(word a, word b)                                                           \
        {                                                                                          \
            return max_of(a, b);                                                                   \
        }                                                                                          \
        WORD_OP word min(word a, word b)                                                           \
        {                                                                                          \
            return min_of(a, b);                                                                   \
        }                                                                                          \
        WORD_OP word spread(uint64_t bits)                                                         \
        {                                                                                          \
            return spread_byte(bits);                                                              \
        }                                                                                          \
        WORD_OP word divide(word a, uint32_t n)                                                    \
        {                                                                                          \
            return bytes_divide<elem>(a, (int)n);                                                  \
        }                                                                                          \
    };

CCL_BYTE_WORDS(i8, int8_t, __vmaxs4, __vmins4)
CCL_BYTE_WORDS(u8, uint8_t, __vmaxu4, __vminu4)

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

/* Bytes that are only copied, of any type. */
struct copy_words {
    typedef uint32_t word;
    enum { ELEM_BYTES = 1, REDUCES = 0, SM = 0 };
};

#undef WORD_OP

#endif
