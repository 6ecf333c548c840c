/* Compares buffers after a verified iteration with what they must hold, bit for bit.
 *
 * The run calls it on host memory, a rank at a time and several ranks at once. A block that is
 * right costs one memcmp; elements are only looked at one by one where it is not.
 */
#include "harness/expected.h"
#include "harness/values.h"
#include "harness/verify.h"

#include <string.h>

struct comparison {
    const struct perf_fill *fill;
    const uint8_t *got;
    struct perf_mismatch *mismatch;
};

struct block {
    size_t first, elems, type_bytes;
    const uint8_t *got, *expected;
};

/* Counts the wrong elements of a block, and keeps the first of all. */
static void count_wrong(struct perf_mismatch *mismatch, const struct block *block)
{
    const uint8_t *got = block->got, *expected = block->expected;
    size_t bytes = block->type_bytes;
    for (size_t i = 0; i < block->elems; i++) {
        if (memcmp(got + i * bytes, expected + i * bytes, bytes) == 0) continue;
        if (mismatch->wrong++ > 0) continue;
        mismatch->first = block->first + i;
        memcpy(mismatch->expected, expected + i * bytes, bytes);
        memcpy(mismatch->got, got + i * bytes, bytes);
    }
}

static void compare_run(void *state, const struct perf_run *run)
{
    struct comparison *comparison = state;
    struct perf_source source = perf_source_of(comparison->fill, run->source);
    uint64_t scratch[PERF_COLUMNS];
    for (size_t done = 0; done < run->elems;) {
        size_t piece = run->elems - done;
        struct block block = {.first = run->first + done, .type_bytes = source.type_bytes};
        block.got = comparison->got + block.first * source.type_bytes;
        block.expected = perf_source_piece(&source, run->from + done, &piece, scratch);
        block.elems = piece;
        if (memcmp(block.got, block.expected, piece * source.type_bytes) != 0)
            count_wrong(comparison->mismatch, &block);
        done += piece;
    }
}

void perf_compare(const struct perf_fill *fill, const struct perf_pattern *pattern,
                  const struct perf_shape *shape, const void *got, struct perf_mismatch *mismatch)
{
    struct comparison state = {.fill = fill, .got = got, .mismatch = mismatch};
    *mismatch = (struct perf_mismatch){.guard = PERF_RECV_WRONG};
    perf_expected_walk(pattern, shape, compare_run, &state);
}

void perf_compare_send(const struct perf_fill *fill, const struct perf_shape *shape,
                       const void *got, struct perf_mismatch *mismatch)
{
    struct comparison state = {.fill = fill, .got = got, .mismatch = mismatch};
    *mismatch = (struct perf_mismatch){.guard = PERF_SEND_CHANGED};
    perf_expected_walk_send(shape, compare_run, &state);
}
