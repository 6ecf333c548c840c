/* copy.c: plain and streaming copies; without SSE2 all are plain. */
#include "kernel/copy.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

enum { LINE_BYTES = 64, VECTOR_BYTES = 16 };

static void stream_line(char *to, const char *from)
{
    for (size_t k = 0; k < LINE_BYTES; k += VECTOR_BYTES)
        _mm_stream_si128((__m128i *)(void *)(to + k),
                         _mm_loadu_si128((const __m128i *)(const void *)(from + k)));
}

static void stream_bytes(char *to, const char *from, size_t bytes)
{
    size_t head = (size_t)(-(uintptr_t)to & (LINE_BYTES - 1));
    if (head > bytes) head = bytes;
    memcpy(to, from, head);
    size_t at = head;
    for (; at + LINE_BYTES <= bytes; at += LINE_BYTES) stream_line(to + at, from + at);
    memcpy(to + at, from + at, bytes - at);
}

void ccl_copy(void *to, const void *from, size_t bytes, int streams)
{
    if (streams)
        stream_bytes(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

void ccl_copy_fence(void)
{
    _mm_sfence();
}

#else

void ccl_copy(void *to, const void *from, size_t bytes, int streams)
{
    (void)streams;
    memcpy(to, from, bytes);
}

void ccl_copy_fence(void)
{
}

#endif
