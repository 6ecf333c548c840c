/* Contents of the buffers before a verified iteration: inputs, receive buffer, guards.
 *
 * The run calls it on host memory, a rank at a time and several ranks at once. What it writes is
 * what compare.c expects; both take it from values.c.
 */
#include "harness/expected.h"
#include "harness/values.h"
#include "harness/verify.h"

#include <string.h>

void perf_fill(const struct perf_fill *fill, size_t first, size_t elems, void *to)
{
    struct perf_source source = perf_source_of(fill, fill->rank);
    uint64_t scratch[PERF_COLUMNS];
    uint8_t *at = to;
    while (elems > 0) {
        size_t piece = elems;
        const uint8_t *from = perf_source_piece(&source, first, &piece, scratch);
        memcpy(at, from, piece * source.type_bytes);
        at += piece * source.type_bytes;
        first += piece;
        elems -= piece;
    }
}

struct recv_fill {
    const struct perf_fill *fill;
    uint8_t *to;
};

/* Copies with all bits flipped, a word at a time. */
static void copy_flipped(uint8_t *to, const uint8_t *from, size_t bytes)
{
    size_t at = 0;
    for (; at + 8 <= bytes; at += 8) {
        uint64_t word;
        memcpy(&word, from + at, 8);
        word = ~word;
        memcpy(to + at, &word, 8);
    }
    for (; at < bytes; at++) to[at] = (uint8_t)~from[at];
}

static void fill_run(void *state, const struct perf_run *run)
{
    const struct recv_fill *recv = state;
    struct perf_source source = perf_source_of(recv->fill, run->source);
    uint64_t scratch[PERF_COLUMNS];
    uint8_t *at = recv->to + run->first * source.type_bytes;
    for (size_t done = 0; done < run->elems;) {
        size_t piece = run->elems - done;
        const uint8_t *from = perf_source_piece(&source, run->from + done, &piece, scratch);
        size_t bytes = piece * source.type_bytes;
        if (run->source == PERF_UNTOUCHED)
            memcpy(at, from, bytes);
        else
            copy_flipped(at, from, bytes);
        at += bytes;
        done += piece;
    }
}

void perf_fill_recv(const struct perf_fill *fill, const struct perf_pattern *pattern,
                    const struct perf_shape *shape, void *to)
{
    struct recv_fill state = {.fill = fill, .to = to};
    perf_expected_walk(pattern, shape, fill_run, &state);
}

/* Byte of a guard at an offset; no two neighbours are equal and none is 0 or 255, which are what
 * a stray clear or fill most likely writes. */
static uint8_t guard_byte(size_t offset)
{
    return (uint8_t)(offset * 37 % 251 + 1);
}

void perf_guard_fill(void *guard)
{
    uint8_t *bytes = guard;
    for (size_t i = 0; i < PERF_GUARD_BYTES; i++) bytes[i] = guard_byte(i);
}

int perf_guard_bad(const void *guard)
{
    const uint8_t *bytes = guard;
    for (size_t i = 0; i < PERF_GUARD_BYTES; i++)
        if (bytes[i] != guard_byte(i)) return (int)i;
    return -1;
}
