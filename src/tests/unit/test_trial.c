/* Verification by kernels of a device: what it writes and finds equals, byte by byte, what the
 * CPU writes and finds for every type, operator and pattern, in and out of place.
 *
 * Each case runs on a device that is made here of plain memory, and on a GPU where there is one.
 * All memory is made before the first case: what CUDA keeps would count as left behind.
 */
#include "harness/devices.h"
#include "harness/expected.h"
#include "harness/mixing.h"
#include "harness/options.h"
#include "harness/pattern.h"
#include "harness/timing.h"
#include "harness/trial.h"
#include "harness/types.h"
#include "harness/values.h"
#include "unit/test.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, MOST = 1000, SMALL = 48 << 10, LARGE = 129 << 20, NCOUNTS = 3 };

/* The same rank twice: memory of the CPU, and memory of the device under test. */
static struct perf_buffers host = {.send_bytes = SMALL, .recv_bytes = SMALL};
static struct perf_buffers plain = {.send_bytes = SMALL, .recv_bytes = SMALL};
static struct perf_buffers gpu = {.send_bytes = LARGE, .recv_bytes = LARGE};
static const struct perf_device_ops *cuda;
static char no_cuda[256];

/* ---- a device of plain memory; its kernel goes through the elements one by one ---- */

static ncclResult_t plain_copy(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    memcpy(to, from, bytes);
    return ncclSuccess;
}

static ncclResult_t plain_fill(void *memory, int byte, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    memset(memory, byte, bytes);
    return ncclSuccess;
}

static ncclResult_t plain_sync(cudaStream_t stream)
{
    (void)stream;
    return ncclSuccess;
}

static void plain_note(struct perf_value_result *result, uint64_t index)
{
    result->wrong++;
    if (~index > result->first_inverted) result->first_inverted = ~index;
}

static void plain_guards(const struct perf_value_job *job)
{
    for (size_t i = 0; i < (size_t)2 * PERF_GUARD_BYTES; i++) {
        size_t offset = i % PERF_GUARD_BYTES;
        uint8_t intact = (uint8_t)(offset * 37 % 251 + 1), *at = job->at;
        at += i < PERF_GUARD_BYTES ? offset - PERF_GUARD_BYTES : job->elems + offset;
        if (job->mode == PERF_GUARDS_FILL)
            *at = intact;
        else if (*at != intact)
            plain_note(job->result + i / PERF_GUARD_BYTES, offset);
    }
}

static ncclResult_t plain_values(const struct perf_value_job *job, cudaStream_t stream)
{
    size_t bytes = job->type_bytes;
    (void)stream;
    if (job->mode == PERF_GUARDS_FILL || job->mode == PERF_GUARDS_COMPARE) {
        plain_guards(job);
        return ncclSuccess;
    }
    for (uint64_t i = 0; i < job->elems; i++) {
        unsigned column = perf_column(job->seed, job->from + i);
        uint64_t value =
            perf_stream_element(perf_stream_base(job->seed, job->stream), job->from + i,
                                (unsigned)bytes, column ^ perf_stream_turn(job->stream));
        if (job->row != NULL) memcpy(&value, (const char *)job->row + column * bytes, bytes);
        if (job->mode == PERF_VALUES_FILL_OTHERS) value = ~value;
        char *at = (char *)job->at + i * bytes;
        if (job->mode != PERF_VALUES_COMPARE)
            memcpy(at, &value, bytes);
        else if (memcmp(at, &value, bytes) != 0)
            plain_note(job->result, job->first + i);
    }
    return ncclSuccess;
}

static const struct perf_device_ops plain_ops = {
    .kind = "plain",
    .copy = plain_copy,
    .fill = plain_fill,
    .stream_sync = plain_sync,
    .values = plain_values,
};

/* ---- shapes ---- */

/* Buffers are so many times `count`; in place a rank's part lies at rank times `count`. */
static const struct shape {
    const char *name;
    const struct perf_pattern *pattern;
    size_t send, recv, send_at, recv_at;
    int reduces, in_place;
} shapes[] = {
    {"all_reduce", &perf_pattern_all_reduce, 1, 1, 0, 0, 1, 1},
    {"reduce", &perf_pattern_reduce, 1, 1, 0, 0, 1, 1},
    {"reduce_scatter", &perf_pattern_reduce_scatter, RANKS, 1, 0, 1, 1, 1},
    {"all_gather", &perf_pattern_all_gather, 1, RANKS, 1, 0, 0, 1},
    {"alltoall", &perf_pattern_alltoall, RANKS, RANKS, 0, 0, 0, 0},
    {"broadcast", &perf_pattern_broadcast, 1, 1, 0, 0, 0, 1},
    {"gather", &perf_pattern_gather, 1, RANKS, 1, 0, 0, 1},
    {"scatter", &perf_pattern_scatter, RANKS, 1, 0, 1, 0, 1},
    {"sendrecv", &perf_pattern_sendrecv, 1, 1, 0, 0, 0, 0},
};

struct variant {
    const struct shape *shape;
    int type, op, rank, in_place;
    size_t count;
};

static void make_trial(const struct variant *variant, const struct perf_buffers *buffers,
                       struct perf_trial *trial)
{
    const struct shape *shape = variant->shape;
    size_t bytes = perf_numbers[variant->type].bytes, part = (size_t)variant->rank * variant->count;
    struct perf_layout layout = {.send_bytes = shape->send * variant->count * bytes,
                                 .recv_bytes = shape->recv * variant->count * bytes,
                                 .send_offset = shape->send_at * part * bytes,
                                 .recv_offset = shape->recv_at * part * bytes,
                                 .shift_bytes = variant->count % 3 * bytes,
                                 .in_place = variant->in_place};
    *trial = (struct perf_trial){.pattern = shape->pattern, .scratch = buffers->scratch};
    perf_layout_place(&layout, buffers, 0, &trial->place);
    trial->fill = (struct perf_fill){.type = (ncclDataType_t)variant->type,
                                     .op = variant->op,
                                     .rank = variant->rank,
                                     .nranks = RANKS,
                                     .seed = 41 + variant->count};
    trial->shape = (struct perf_shape){.nranks = RANKS,
                                       .rank = variant->rank,
                                       .root = RANKS - 1,
                                       .count = variant->count,
                                       .send_elems = shape->send * variant->count,
                                       .recv_elems = shape->recv * variant->count,
                                       .type_bytes = bytes,
                                       .in_place = variant->in_place};
    if (variant->in_place)
        trial->shape.send_at =
            ((ptrdiff_t)shape->send_at - (ptrdiff_t)shape->recv_at) * (ptrdiff_t)part;
}

static void for_variants(void (*visit)(const struct variant *, const struct perf_buffers *),
                         const struct perf_buffers *device)
{
    static const size_t counts[NCOUNTS] = {1, 258, MOST};
    for (size_t s = 0; s < TEST_COUNT(shapes); s++) {
        struct variant variant = {.shape = &shapes[s]};
        int first = shapes[s].reduces ? 0 : -1, last = shapes[s].reduces ? PERF_NOPS - 1 : -1;
        for (variant.type = 0; variant.type < ncclNumTypes; variant.type++)
            for (variant.op = first; variant.op <= last; variant.op++)
                for (variant.rank = 1; variant.rank < RANKS; variant.rank += 2)
                    for (int i = 0; i < NCOUNTS * (1 + shapes[s].in_place); i++) {
                        variant.count = counts[i % NCOUNTS];
                        variant.in_place = i / NCOUNTS;
                        visit(&variant, device);
                    }
    }
}

static void describe(const struct variant *variant, const char *what)
{
    FAIL("%s, type %s, op %d, rank %d, count %zu, in place %d: %s", variant->shape->name,
         perf_numbers[variant->type].name, variant->op, variant->rank, variant->count,
         variant->in_place, what);
}

/* ---- the same bytes ---- */

static void copy(void *to, const void *from, size_t bytes)
{
    CHECK_OK(perf_devices()->copy(to, from, bytes, NULL));
    CHECK_OK(perf_devices()->stream_sync(NULL));
}

static void check_fill(const struct variant *variant, const struct perf_buffers *device)
{
    static char seen[SMALL];
    struct perf_trial mine, theirs;
    const char *const here[2] = {host.send, host.recv};
    const char *const there[2] = {device->send, device->recv};
    make_trial(variant, &host, &mine);
    make_trial(variant, device, &theirs);
    /* In place the larger buffer holds everything: the same one on both sides. */
    for (int i = 0; i < 2; i++) {
        memset(i ? host.recv : host.send, 0xa5, SMALL);
        CHECK_OK(perf_devices()->fill(i ? device->recv : device->send, 0xa5, SMALL, NULL));
    }
    perf_trial_fill_host(&mine);
    perf_trial_fill_device(&theirs);
    for (int i = 0; i < 2; i++) {
        copy(seen, there[i], SMALL);
        if (memcmp(seen, here[i], SMALL) != 0) describe(variant, "other bytes were filled in");
    }
}

/* Writes what a right collective leaves in the receive buffer. */
static void write_right(void *state, const struct perf_run *run)
{
    const struct perf_trial *trial = state;
    struct perf_source source = perf_source_of(&trial->fill, run->source);
    uint64_t scratch[PERF_COLUMNS];
    for (size_t done = 0; done < run->elems;) {
        size_t piece = run->elems - done;
        const uint8_t *from = perf_source_piece(&source, run->from + done, &piece, scratch);
        memcpy(trial->place.recv + (run->first + done) * source.type_bytes, from,
               piece * source.type_bytes);
        done += piece;
    }
}

static int is_same(const struct perf_mismatch *a, const struct perf_mismatch *b)
{
    if (a->wrong != b->wrong) return 0;
    return a->wrong == 0 || (a->first == b->first && a->guard == b->guard &&
                             memcmp(a->expected, b->expected, sizeof a->expected) == 0 &&
                             memcmp(a->got, b->got, sizeof a->got) == 0);
}

/* Both look at the same bytes; returns how many wrong elements they agree on. */
static uint64_t compare_both(const struct variant *variant, const struct perf_buffers *device)
{
    struct perf_trial mine, theirs;
    struct perf_mismatch here[PERF_TRIAL_PARTS], there[PERF_TRIAL_PARTS];
    uint64_t wrong = 0;
    make_trial(variant, &host, &mine);
    make_trial(variant, device, &theirs);
    copy(device->send, host.send, SMALL);
    copy(device->recv, host.recv, SMALL);
    perf_trial_compare_host(&mine, here);
    perf_trial_compare_device(&theirs, there);
    for (int i = 0; i < PERF_TRIAL_PARTS; i++) {
        if (!is_same(&here[i], &there[i])) describe(variant, "the device finds something else");
        wrong += here[i].wrong;
    }
    return wrong;
}

static void check_planted(const struct variant *variant, const struct perf_buffers *device,
                          char *at)
{
    *at ^= 0x10;
    if (compare_both(variant, device) == 0) describe(variant, "a planted bit is not seen");
    *at ^= 0x10;
}

static void check_compare(const struct variant *variant, const struct perf_buffers *device)
{
    struct perf_trial mine;
    make_trial(variant, &host, &mine);
    const struct perf_place *place = &mine.place;
    size_t bytes = mine.shape.type_bytes, recv = mine.shape.recv_elems * bytes;
    perf_trial_fill_host(&mine);
    if (compare_both(variant, device) == 0 && !(variant->shape->pattern == &perf_pattern_reduce ||
                                                variant->shape->recv == RANKS || variant->in_place))
        describe(variant, "a call that did nothing is right");
    perf_expected_walk(mine.pattern, &mine.shape, write_right, &mine);
    if (compare_both(variant, device) != 0) describe(variant, "a right result is wrong");
    check_planted(variant, device, place->recv);
    check_planted(variant, device, place->recv + recv - 1);
    check_planted(variant, device, place->recv + recv / 2 / bytes * bytes);
    check_planted(variant, device, place->recv_area - PERF_GUARD_BYTES);
    check_planted(variant, device, place->recv_area - 1);
    check_planted(variant, device, place->recv_area + place->recv_area_bytes);
    check_planted(variant, device,
                  place->recv_area + place->recv_area_bytes + PERF_GUARD_BYTES - 1);
    check_planted(variant, device, place->send);
    check_planted(variant, device, place->send + mine.shape.send_elems * bytes - 1);
    if (variant->in_place) return;
    check_planted(variant, device, place->send_area - 1);
    check_planted(variant, device, place->send_area + place->send_area_bytes);
}

static void test_plain_fill(void)
{
    perf_devices_take(&plain_ops);
    for_variants(check_fill, &plain);
}

static void test_plain_compare(void)
{
    perf_devices_take(&plain_ops);
    for_variants(check_compare, &plain);
}

static void need_gpu(void)
{
    if (cuda == NULL) SKIP("no GPU: %s", no_cuda);
    perf_devices_take(cuda);
    CHECK_OK(cuda->set(0));
}

static void test_gpu_fill(void)
{
    need_gpu();
    for_variants(check_fill, &gpu);
}

static void test_gpu_compare(void)
{
    need_gpu();
    for_variants(check_compare, &gpu);
}

/* ---- large buffers ---- */

static double run_timed(void (*work)(const struct perf_trial *), const struct perf_trial *trial)
{
    uint64_t start_ns = perf_clock_ns();
    work(trial);
    CHECK_OK(cuda->stream_sync(NULL));
    return (double)(perf_clock_ns() - start_ns) / 1000;
}

static void compare_right(const struct perf_trial *trial)
{
    struct perf_mismatch found[PERF_TRIAL_PARTS];
    perf_trial_compare_device(trial, found);
    for (int i = 0; i < PERF_TRIAL_PARTS; i++) CHECK_EQ(found[i].wrong, 0);
}

/* One wrong bit in the whole of a large buffer. */
static void find_planted(const struct perf_trial *trial, size_t index)
{
    struct perf_mismatch found[PERF_TRIAL_PARTS];
    size_t bytes = trial->shape.type_bytes;
    char *at = trial->place.recv + index * bytes + bytes - 1, byte;
    copy(&byte, at, 1);
    byte ^= 1;
    copy(at, &byte, 1);
    perf_trial_compare_device(trial, found);
    CHECK_EQ(found[PERF_TRIAL_RECV].wrong, 1);
    CHECK_EQ(found[PERF_TRIAL_RECV].first, index);
    CHECK_EQ(found[PERF_TRIAL_RECV].got[bytes - 1] ^ found[PERF_TRIAL_RECV].expected[bytes - 1], 1);
    byte ^= 1;
    copy(at, &byte, 1);
}

static void test_gpu_large(void)
{
    static const int types[] = {ncclInt8, ncclBfloat16, ncclFloat32, ncclFloat64};
    need_gpu();
    for (size_t i = 0; i < TEST_COUNT(types); i++) {
        size_t bytes = perf_numbers[types[i]].bytes, elems = ((size_t)128 << 20) / bytes - 3;
        struct variant variant = {.shape = &shapes[5], .type = types[i], .op = -1};
        struct perf_trial trial;
        variant.rank = RANKS - 1;
        variant.count = elems;
        make_trial(&variant, &gpu, &trial);
        double fill_us = run_timed(perf_trial_fill_device, &trial);
        /* The root's receive buffer is its send buffer. */
        copy(trial.place.recv, trial.place.send, elems * bytes);
        double compare_us = run_timed(compare_right, &trial);
        size_t planted[] = {0, 1, 254, 255, 256, 77777, elems / 2 + 1, elems - 2, elems - 1};
        for (size_t p = 0; p < TEST_COUNT(planted); p++) find_planted(&trial, planted[p]);
        variant.shape = &shapes[0];
        variant.op = ncclSum;
        make_trial(&variant, &gpu, &trial);
        double table_us = run_timed(perf_trial_fill_device, &trial);
        NOTE("%s, 128 MiB twice: stream filled in %.0f us, compared in %.0f us; table filled in "
             "%.0f us",
             perf_numbers[types[i]].name, fill_us, compare_us, table_us);
        CHECK(fill_us < 20000 && compare_us < 20000 && table_us < 20000);
    }
}

/* ---- single elements ---- */

static void test_stream(void)
{
    static const unsigned sizes[] = {1, 2, 4, 8};
    for (int s = 0; s < 4; s++)
        for (uint64_t i = 0; i < 40000; i++) {
            struct perf_source source = {
                .seed = perf_mix(i / 4096), .stream = i % 11, .type_bytes = sizes[s]};
            uint64_t index = i < 4096 ? i : perf_mix(i) >> (i % 50 + 4), scratch[PERF_COLUMNS];
            size_t one = 1;
            const uint8_t *piece = perf_source_piece(&source, index, &one, scratch);
            uint64_t element =
                perf_stream_element(perf_stream_base(source.seed, source.stream), index, sizes[s],
                                    perf_column(source.seed, index) ^ perf_stream_turn(i % 11));
            CHECK_MEM(&element, piece, sizes[s]);
        }
}

/* ---- memory ---- */

static void make_plain(struct perf_buffers *buffers)
{
    buffers->send = malloc(SMALL);
    buffers->recv = malloc(SMALL);
    buffers->scratch = malloc(PERF_TRIAL_SCRATCH);
    if (buffers->send == NULL || buffers->recv == NULL || buffers->scratch == NULL) abort();
}

/* All that CUDA makes at the first use, kernels too. */
static void warm_up(void)
{
    static const int types[] = {ncclInt8, ncclFloat16, ncclFloat32, ncclFloat64};
    for (int op = -1; op <= ncclSum; op++)
        for (size_t i = 0; i < TEST_COUNT(types); i++) {
            struct variant variant = {.shape = &shapes[0], .type = types[i], .op = op};
            struct perf_mismatch found[PERF_TRIAL_PARTS];
            struct perf_trial trial;
            variant.count = (size_t)16 << 20;
            make_trial(&variant, &gpu, &trial);
            perf_trial_fill_device(&trial);
            perf_trial_compare_device(&trial, found);
        }
}

static void prepare(void)
{
    make_plain(&host);
    make_plain(&plain);
    cuda = perf_devices_cuda(no_cuda, sizeof no_cuda);
    if (cuda == NULL) return;
    perf_devices_take(cuda);
    perf_buffers_alloc(&gpu, 0, PERF_UNREGISTERED, NULL);
    warm_up();
}

static const struct test_case cases[] = {
    {"an element of a stream is that of its piece", test_stream, 0},
    {"a device fills in what the host does", test_plain_fill, 0},
    {"a device finds what the host does, wherever it is planted", test_plain_compare, 0},
    {"a GPU fills in what the host does", test_gpu_fill, 0},
    {"a GPU finds what the host does, wherever it is planted", test_gpu_compare, 120},
    {"a GPU fills and compares 128 MiB in milliseconds and finds one bit", test_gpu_large, 0},
};

int main(int argc, char **argv)
{
    test_prepare = prepare;
    return test_main(argc, argv, cases, TEST_COUNT(cases));
}
