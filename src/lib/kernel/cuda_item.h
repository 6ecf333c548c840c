/* cuda_item.h: what a lane loads and stores at a time on the local path: a vector of 16 bytes or
 * one element. Loads and stores of vectors are volatile, so that the loads of several sources stay
 * together ahead of their use; whether they pass the caches is a matter of the configuration.
 */
#ifndef CCL_KERNEL_CUDA_ITEM_H
#define CCL_KERNEL_CUDA_ITEM_H

#include <stdint.h>
#include <string.h>

enum ccl_policy { CCL_PLAIN, CCL_STREAM, CCL_NO_L1 };

#define ITEM_OP static __device__ __forceinline__

template <int POLICY> ITEM_OP uint4 load_vector(const char *at)
{
    uint4 v;
    if (POLICY == CCL_STREAM)
        asm volatile("ld.global.cs.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                     : "l"(at));
    else if (POLICY == CCL_NO_L1)
        asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                     : "l"(at));
    else
        asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                     : "l"(at));
    return v;
}

template <int POLICY> ITEM_OP void store_vector(char *at, uint4 v)
{
    if (POLICY == CCL_STREAM)
        asm volatile("st.global.cs.v4.u32 [%0], {%1,%2,%3,%4};"
                     :
                     : "l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w));
    else if (POLICY == CCL_NO_L1)
        asm volatile("st.global.L1::no_allocate.v4.u32 [%0], {%1,%2,%3,%4};"
                     :
                     : "l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w));
    else
        asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};"
                     :
                     : "l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w));
}

ITEM_OP uint32_t load_word(const char *at)
{
    uint32_t word;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(at));
    return word;
}

/* 16 bytes from anywhere, as words around them; reads up to 4 bytes on either side. */
ITEM_OP uint4 load_shifted(const char *at)
{
    uint32_t shift = ((uint32_t)(uintptr_t)at & 3u) * 8u;
    const char *base = (const char *)((uintptr_t)at & ~(uintptr_t)3);
    uint32_t w0 = load_word(base), w1 = load_word(base + 4), w2 = load_word(base + 8);
    uint32_t w3 = load_word(base + 12), w4 = load_word(base + 16);
    return make_uint4(__funnelshift_r(w0, w1, shift), __funnelshift_r(w1, w2, shift),
                      __funnelshift_r(w2, w3, shift), __funnelshift_r(w3, w4, shift));
}

/* Vectors: WORD is the type's word, N of them an item. */
template <class WORD, int LOADS, int STORES> struct vector_items {
    enum { N = 16 / sizeof(WORD), STEP = 512 };
    ITEM_OP void load(WORD *item, const char *at, uint32_t)
    {
        uint4 v = load_vector<LOADS>(at);
        memcpy(item, &v, sizeof v);
    }
    ITEM_OP void store(char *at, const WORD *item, uint32_t)
    {
        uint4 v;
        memcpy(&v, item, sizeof v);
        store_vector<STORES>(at, v);
    }
};

/* The same where a source may lie anywhere. */
template <class WORD, int STORES> struct shifted_items : vector_items<WORD, CCL_PLAIN, STORES> {
    ITEM_OP void load(WORD *item, const char *at, uint32_t)
    {
        uint4 v = load_shifted(at);
        memcpy(item, &v, sizeof v);
    }
};

/* Single elements, of the type's size or for copies of 1, 2 or 4 bytes. Where an address is no
 * multiple of that, the hardware takes single bytes only. */
template <class WORD> struct element_items {
    enum { N = 1, STEP = 0 };
    ITEM_OP void load(WORD *item, const char *at, uint32_t bytes)
    {
        WORD bits = 0;
        if ((uintptr_t)at & (bytes - 1)) {
#pragma unroll 1
            for (uint32_t i = 0; i < bytes; i++)
                bits |= (WORD) * (const uint8_t *)(at + i) << 8 * i;
        } else if (bytes == 1) {
            bits = *(const uint8_t *)at;
        } else if (bytes == 2) {
            bits = *(const uint16_t *)at;
        } else if (bytes == 4) {
            bits = *(const uint32_t *)at;
        } else {
            bits = *(const WORD *)at;
        }
        *item = bits;
    }
    ITEM_OP void store(char *at, const WORD *item, uint32_t bytes)
    {
        WORD bits = *item;
        if ((uintptr_t)at & (bytes - 1)) {
#pragma unroll 1
            for (uint32_t i = 0; i < bytes; i++) *(uint8_t *)(at + i) = (uint8_t)(bits >> 8 * i);
        } else if (bytes == 1) {
            *(uint8_t *)at = (uint8_t)bits;
        } else if (bytes == 2) {
            *(uint16_t *)at = (uint16_t)bits;
        } else if (bytes == 4) {
            *(uint32_t *)at = (uint32_t)bits;
        } else {
            *(WORD *)at = bits;
        }
    }
};

/* 1 to 8 bytes from anywhere, zeros above them. */
ITEM_OP uint64_t load_bytes(const char *at, uint32_t bytes)
{
    uint32_t low = (uint32_t)(uintptr_t)at | bytes;
    if (low % 8 == 0) return *(const uint64_t *)at;
    uint64_t bits = 0;
    if (low % 4 == 0) {
        if (bytes == 8) bits = *(const uint32_t *)(at + 4);
        return bits << 32 | *(const uint32_t *)at;
    }
#pragma unroll 1
    for (uint32_t i = 0; i < bytes; i++) bits |= (uint64_t) * (const uint8_t *)(at + i) << 8 * i;
    return bits;
}

ITEM_OP void store_bytes(char *at, uint32_t bytes, uint64_t bits)
{
    uint32_t low = (uint32_t)(uintptr_t)at | bytes;
    if (low % 8 == 0) {
        *(uint64_t *)at = bits;
        return;
    }
    if (low % 4 == 0) {
        *(uint32_t *)at = (uint32_t)bits;
        if (bytes == 8) *(uint32_t *)(at + 4) = (uint32_t)(bits >> 32);
        return;
    }
#pragma unroll 1
    for (uint32_t i = 0; i < bytes; i++) *(uint8_t *)(at + i) = (uint8_t)(bits >> 8 * i);
}

#undef ITEM_OP

#endif
