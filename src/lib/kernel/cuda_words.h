/* cuda_words.h: the arithmetic of each data type on the GPU, on words of packed elements.
 *
 * One struct per type: `word` holds one 8-byte or several smaller elements; sum, prod, max and min
 * combine two words, spread repeats one element, divide is that of averages of integers. Plain
 * types take reduce.h as it stands; for the others there are instructions on packed elements whose
 * results are those of types.h. Words may hold one element and zeros above it. Small floats, whose
 * headers take long to compile, are in cuda_words_half.h.
 */
#ifndef CCL_KERNEL_CUDA_WORDS_H
#define CCL_KERNEL_CUDA_WORDS_H

#include "kernel/reduce.h"

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

/* Bytes that are only copied, of any type. */
struct copy_words {
    typedef uint32_t word;
    enum { ELEM_BYTES = 1, REDUCES = 0, SM = 0 };
};

#undef WORD_OP

#endif
