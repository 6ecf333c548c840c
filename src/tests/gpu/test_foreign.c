/* Buffers of other processes on one GPU: every kind of memory, memory that is freed, exchanged or
 * whose owner dies, limits, captures, and a long random life of two allocators.
 *
 * Each case has an owner and a user, processes of their own (foreign_kit.h). Needs a GPU.
 */
#include "gpu/foreign_steps.h"

#include "base/clock.h"
#include "unit/test.h"

#include <time.h>

#define MIB ((size_t)1 << 20)
enum { HUGE_CHUNKS = 8 };

/* ---- kinds of memory ---- */

static const struct {
    const char *name;
    enum kit_memory memory;
    size_t bytes, offset, length;
    int is_exported;
} kinds[] = {
    {"cudaMalloc", KIT_MALLOC, 8 << 20, 0, 8 << 20, 1},
    {"cudaMalloc, the middle", KIT_MALLOC, 8 << 20, 3000001, 1000003, 1},
    {"cudaMalloc, the last byte", KIT_MALLOC, 8 << 20, (8 << 20) - 1, 1, 1},
    {"cudaMalloc, odd size", KIT_MALLOC, 1000003, 77, 999926, 1},
    {"cudaMalloc, 1 byte", KIT_MALLOC, 1, 0, 1, 1},
    {"one chunk", KIT_CHUNKS, 2 << 20, 0, 2 << 20, 1},
    {"one chunk, the middle", KIT_CHUNKS, 2 << 20, 4097, 99, 1},
    {"four chunks", KIT_CHUNKS, 8 << 20, 0, 8 << 20, 1},
    {"four chunks, across two", KIT_CHUNKS, 8 << 20, (4 << 20) - 5, 10, 1},
    {"four chunks, the last", KIT_CHUNKS, 8 << 20, 7 << 20, 1 << 20, 1},
    {"chunks without a handle", KIT_PRIVATE, 4 << 20, 0, 4 << 20, 0},
    {"cudaMallocAsync", KIT_POOL, 1 << 20, 0, 1 << 20, 0},
    {"a pool for export", KIT_SHARED_POOL, 1 << 20, 0, 1 << 20, 0},
    {"cudaMallocManaged", KIT_MANAGED, 1 << 20, 0, 1 << 20, 0},
    {"cudaHostAlloc", KIT_PINNED, 1 << 20, 0, 1 << 20, 0},
    {"malloc", KIT_HEAP, 1 << 20, 0, 1 << 20, 0},
};

static void try_kind(struct kit_scene *s, size_t k)
{
    size_t offset = kinds[k].offset, bytes = kinds[k].length;
    uint64_t seed = 100 + k;
    KIT_DO(s, KIT_OWNER, .op = KIT_ALLOC, .memory = kinds[k].memory, .bytes = kinds[k].bytes);
    if (kinds[k].memory != KIT_HEAP) KIT_DO(s, KIT_OWNER, .op = KIT_FILL, .seed = seed);
    struct ccl_foreign_ref ref = export_part(s, 0, offset, bytes);
    NOTE("%-28s %s", kinds[k].name, ref.span != 0 ? "exported" : "staged");
    CHECK_EQ(ref.span != 0, kinds[k].is_exported);
    if (ref.span != 0) {
        IMPORT_PINNED(s, 0, ref, .offset = offset, .bytes = bytes, .seed = seed);
        KIT_DO(s, KIT_USER, .op = KIT_WRITE, .seed = seed + 50);
        unpin(s, 0);
        KIT_DO(s, KIT_OWNER, .op = KIT_VERIFY, .offset = offset, .bytes = bytes, .seed = seed + 50);
        if (offset > 0) KIT_DO(s, KIT_OWNER, .op = KIT_VERIFY, .bytes = offset, .seed = seed);
    }
    KIT_DO(s, KIT_OWNER, .op = KIT_FREE);
    CHECK_EQ(clean(s).allocations, 0);
}

/* Each kind twice: the second time nothing may be left of the first. */
static void test_kinds(void)
{
    struct kit_scene s;
    kit_open(&s);
    for (size_t k = 0; k < TEST_COUNT(kinds); k++) try_kind(&s, k);
    struct kit_answer owner = state(&s, KIT_OWNER), user = state(&s, KIT_USER);
    for (size_t k = 0; k < TEST_COUNT(kinds); k++) try_kind(&s, k);
    CHECK_EQ(state(&s, KIT_OWNER).nfds, owner.nfds);
    CHECK_EQ(state(&s, KIT_USER).nfds, user.nfds);
    kit_close(&s);
}

/* Allocations of the same 2 MiB are mapped together and apart. */
static void test_small(void)
{
    enum { N = 8, BYTES = 1000 };
    struct kit_scene s;
    struct ccl_foreign_ref refs[N];
    kit_open(&s);
    for (int i = 0; i < N; i++) refs[i] = make_block(&s, i, KIT_MALLOC, BYTES, (uint64_t)i);
    for (int i = 0; i < N; i++) IMPORT_PINNED(&s, i, refs[i], .bytes = BYTES, .seed = (uint64_t)i);
    for (int i = 0; i < N; i += 2) {
        KIT_DO(&s, KIT_OWNER, .op = KIT_FREE, .block = i);
        unpin(&s, i);
    }
    CHECK_EQ(clean(&s).regions, N / 2);
    for (int i = 1; i < N; i += 2)
        KIT_DO(&s, KIT_USER, .op = KIT_LOOK, .pin = i, .bytes = BYTES, .seed = (uint64_t)i);
    kit_close(&s);
}

/* All buffers of a block are one mapping; two communicators share it. */
static void test_shared(void)
{
    struct kit_scene s;
    struct ccl_import_usage usage;
    kit_open(&s);
    struct ccl_foreign_ref whole = make_block(&s, 0, KIT_MALLOC, 16 * MIB, 5);
    for (size_t at = 0; at < 16; at += 5) {
        struct ccl_foreign_ref ref = export_part(&s, 0, at * MIB, MIB);
        CHECK_EQ(ref.span, whole.span);
        IMPORT(&s, ref, .offset = at * MIB, .bytes = MIB, .seed = 5);
    }
    struct ccl_foreign_ref again =
        KIT_DO(&s, KIT_OWNER, .op = KIT_EXPORT, .pair = 1, .bytes = 16 * MIB).ref;
    IMPORT(&s, again, .pair = 1, .bytes = 16 * MIB, .seed = 5);
    usage = clean(&s);
    CHECK_EQ(usage.regions, 1);
    CHECK_EQ(usage.allocations, 1);
    KIT_DO(&s, KIT_USER, .op = KIT_CLOSE, .pair = 0);
    usage = KIT_DO(&s, KIT_USER, .op = KIT_COLLECT).usage;
    CHECK_EQ(usage.regions, 1);
    KIT_DO(&s, KIT_USER, .op = KIT_CLOSE, .pair = 1);
    usage = KIT_DO(&s, KIT_USER, .op = KIT_COLLECT).usage;
    CHECK_EQ(usage.regions + usage.allocations, 0);
    kit_close(&s);
}

/* ---- memory that changes ---- */

/* A chunk in the middle is exchanged: new spans see the new one, old mappings the old one. */
static void test_segments(void)
{
    enum { N = 6 };
    struct kit_scene s;
    size_t bytes = N * KIT_CHUNK, chunk = KIT_CHUNK;
    kit_open(&s);
    struct ccl_foreign_ref old = make_block(&s, 0, KIT_CHUNKS, bytes, 1);
    IMPORT_PINNED(&s, 1, old, .bytes = bytes, .seed = 1);
    struct ccl_foreign_ref part = export_part(&s, 0, chunk + 100, 3 * chunk);
    IMPORT(&s, part, .offset = chunk + 100, .bytes = 3 * chunk, .seed = 1);
    KIT_DO(&s, KIT_OWNER, .op = KIT_REMAP, .chunk = 2);
    KIT_DO(&s, KIT_OWNER, .op = KIT_FILL, .seed = 2);
    struct ccl_foreign_ref now = export_part(&s, 0, 0, bytes);
    CHECK(now.span != old.span);
    IMPORT_PINNED(&s, 2, now, .bytes = bytes, .seed = 2);
    KIT_DO(&s, KIT_USER, .op = KIT_LOOK, .pin = 1, .offset = 2 * chunk, .bytes = chunk, .seed = 1);
    KIT_DO(&s, KIT_USER, .op = KIT_LOOK, .pin = 1, .offset = 3 * chunk, .bytes = chunk, .seed = 2);
    part = export_part(&s, 0, chunk + 100, 3 * chunk);
    IMPORT(&s, part, .offset = chunk + 100, .bytes = 3 * chunk, .seed = 2);
    unpin(&s, 1);
    struct ccl_import_usage usage = clean(&s);
    CHECK_EQ(usage.allocations, N);
    CHECK_EQ(usage.regions, 2);
    /* What ends before the exchanged chunk is still the same. */
    CHECK_EQ(export_part(&s, 0, 5, 2 * chunk - 5).span, now.span);
    unpin(&s, 2);
    KIT_DO(&s, KIT_OWNER, .op = KIT_FREE);
    CHECK_EQ(clean(&s).allocations, 0);
    kit_close(&s);
}

/* Freed and allocated again at the same address is other memory. */
static void reuse(enum kit_memory memory)
{
    struct kit_scene s;
    size_t bytes = 64 * MIB;
    int nsame = 0;
    kit_open(&s);
    struct ccl_foreign_ref first = make_block(&s, 0, memory, bytes, 1);
    uint64_t address = KIT_DO(&s, KIT_OWNER, .op = KIT_VERIFY, .bytes = 1, .seed = 1).address;
    IMPORT_PINNED(&s, 1, first, .bytes = bytes, .seed = 1);
    for (uint64_t seed = 2; seed < 8; seed++) {
        KIT_DO(&s, KIT_OWNER, .op = KIT_FREE);
        struct ccl_foreign_ref next = make_block(&s, 0, memory, bytes, seed);
        nsame +=
            KIT_DO(&s, KIT_OWNER, .op = KIT_VERIFY, .bytes = 1, .seed = seed).address == address;
        CHECK(next.span != first.span);
        IMPORT(&s, next, .bytes = bytes, .seed = seed);
        KIT_DO(&s, KIT_USER, .op = KIT_LOOK, .pin = 1, .bytes = bytes, .seed = 1);
        if (seed % 2 == 0) clean(&s);
    }
    NOTE("%d of 6 at the same address", nsame);
    unpin(&s, 1);
    CHECK_EQ(clean(&s).regions, 1);
    kit_close(&s);
}

static void test_reuse_malloc(void)
{
    reuse(KIT_MALLOC);
}

static void test_reuse_chunks(void)
{
    reuse(KIT_CHUNKS);
}

/* Other programs use the GPU at the same time: a block so large that they do not count. */
static struct ccl_foreign_ref make_huge(struct kit_scene *s, int block, enum kit_memory memory,
                                        size_t bytes)
{
    KIT_DO(s, KIT_OWNER, .op = KIT_ALLOC, .block = block, .memory = memory, .bytes = bytes,
           .chunk_bytes = bytes / HUGE_CHUNKS);
    KIT_DO(s, KIT_OWNER, .op = KIT_FILL, .block = block, .seed = 3);
    return export_part(s, block, 0, bytes);
}

static size_t huge_bytes(size_t free_bytes)
{
    size_t step = HUGE_CHUNKS * KIT_CHUNK;
    return free_bytes / 5 / step * step;
}

/* The memory is free, or becomes so when another program gives back what it has got meanwhile. */
static void await_free(struct kit_scene *s, size_t bytes)
{
    enum { LIMIT_MS = 30000 };
    uint64_t deadline_ns = ccl_clock_deadline_ns(LIMIT_MS);
    while (state(s, KIT_USER).free_bytes < bytes) {
        CHECK(ccl_clock_ns() < deadline_ns);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

/* What the owner frees goes back to the device once it has told and the user has collected. */
static void test_frees(void)
{
    struct kit_scene s;
    kit_open(&s);
    for (enum kit_memory memory = KIT_MALLOC; memory <= KIT_CHUNKS; memory++) {
        size_t before = state(&s, KIT_USER).free_bytes;
        size_t bytes = huge_bytes(before);
        struct ccl_foreign_ref ref = make_huge(&s, 0, memory, bytes);
        IMPORT_PINNED(&s, 0, ref, .bytes = bytes, .seed = 3);
        KIT_DO(&s, KIT_OWNER, .op = KIT_FREE);
        CHECK_EQ(clean(&s).regions, 1);
        KIT_DO(&s, KIT_USER, .op = KIT_LOOK, .bytes = bytes, .seed = 3);
        unpin(&s, 0);
        CHECK_EQ(clean(&s).allocations, 0);
        await_free(&s, before - bytes / 2);
    }
    kit_close(&s);
}

static void test_dies(void)
{
    struct kit_scene s;
    kit_open(&s);
    size_t before = state(&s, KIT_USER).free_bytes;
    size_t bytes = huge_bytes(before);
    for (int i = 0; i < 2; i++) {
        struct ccl_foreign_ref ref = make_huge(&s, i, i == 0 ? KIT_MALLOC : KIT_CHUNKS, bytes);
        IMPORT_PINNED(&s, i, ref, .bytes = bytes, .seed = 3);
    }
    kit_kill(&s, KIT_OWNER);
    KIT_DO(&s, KIT_USER, .op = KIT_COLLECT);
    for (int i = 0; i < 2; i++) {
        KIT_DO(&s, KIT_USER, .op = KIT_LOOK, .pin = i, .bytes = bytes, .seed = 3);
        KIT_DO(&s, KIT_USER, .op = KIT_CLOSE, .pair = i);
        unpin(&s, i);
    }
    CHECK_EQ(KIT_DO(&s, KIT_USER, .op = KIT_COLLECT).usage.allocations, 0);
    await_free(&s, before - bytes / 2);
    kit_close(&s);
}

/* ---- limits and pins ---- */

static void test_limits(void)
{
    enum { N = 24, REGIONS = 5 };
    struct kit_scene s;
    struct ccl_foreign_ref refs[N];
    kit_open(&s);
    KIT_DO(&s, KIT_USER, .op = KIT_LIMIT, .limits = {REGIONS, 1024 * MIB});
    for (int i = 0; i < N; i++)
        refs[i] = make_block(&s, i, i % 2 ? KIT_CHUNKS : KIT_MALLOC, 2 * KIT_CHUNK, (uint64_t)i);
    for (int round = 0; round < 3; round++) {
        if (round == 2) KIT_DO(&s, KIT_USER, .op = KIT_LIMIT, .limits = {N, 10 * MIB});
        for (int i = 0; i < N; i++) {
            CHECK_EQ(export_part(&s, i, 0, 2 * KIT_CHUNK).span, refs[i].span);
            IMPORT(&s, refs[i], .bytes = 2 * KIT_CHUNK, .seed = (uint64_t)i);
            struct ccl_import_usage usage = clean(&s);
            CHECK(usage.regions <= REGIONS);
            if (round == 2) CHECK(usage.bytes <= 10 * MIB);
        }
    }
    /* The last one used is there still, at its address. */
    uint64_t address =
        IMPORT_PINNED(&s, 1, refs[N - 1], .bytes = 9, .seed = (uint64_t)N - 1).address;
    IMPORT(&s, refs[0], .bytes = 9, .seed = 0);
    KIT_DO(&s, KIT_USER, .op = KIT_LIMIT, .limits = {0, 0});
    CHECK_EQ(clean(&s).regions, 1);
    CHECK_EQ(IMPORT_PINNED(&s, 2, refs[N - 1], .bytes = 9, .seed = (uint64_t)N - 1).address,
             address);
    kit_close(&s);
}

/* A pinned region outlives its importer, as a graph outlives a communicator. */
static void test_pins(void)
{
    struct kit_scene s;
    kit_open(&s);
    for (int i = 0; i < 2; i++) {
        enum kit_memory memory = i == 0 ? KIT_MALLOC : KIT_CHUNKS;
        struct ccl_foreign_ref ref = make_block(&s, i, memory, 4 * MIB, 3);
        IMPORT_PINNED(&s, i, ref, .bytes = 4 * MIB, .seed = 3);
    }
    KIT_DO(&s, KIT_USER, .op = KIT_CLOSE, .pair = 0);
    CHECK_EQ(KIT_DO(&s, KIT_USER, .op = KIT_COLLECT).usage.regions, 2);
    for (int i = 0; i < 2; i++) {
        KIT_DO(&s, KIT_USER, .op = KIT_LOOK, .pin = i, .bytes = 4 * MIB, .seed = 3);
        unpin(&s, i);
        CHECK_EQ(KIT_DO(&s, KIT_USER, .op = KIT_COLLECT).usage.regions, 1 - i);
    }
    kit_close(&s);
}

/* First uses in a capture neither fail nor spoil it, in each of the modes. */
static void test_captures(void)
{
    struct kit_scene s;
    int block = 0;
    kit_open(&s);
    for (int capture = 1; capture <= 3; capture++) {
        for (enum kit_memory memory = KIT_MALLOC; memory <= KIT_CHUNKS; memory++, block++) {
            size_t bytes = 3 * KIT_CHUNK;
            KIT_DO(&s, KIT_OWNER, .op = KIT_ALLOC, .block = block, .memory = memory,
                   .bytes = bytes);
            KIT_DO(&s, KIT_OWNER, .op = KIT_FILL, .block = block, .seed = 7);
            struct ccl_foreign_ref ref = KIT_DO(&s, KIT_OWNER, .op = KIT_EXPORT, .block = block,
                                                .bytes = bytes, .capture = capture)
                                             .ref;
            IMPORT(&s, ref, .bytes = bytes, .seed = 7, .capture = capture);
        }
    }
    kit_close(&s);
}

/* Both processes do with many threads what they do with one, at the same time. */
static void test_threads(void)
{
    struct kit_scene s;
    struct kit_call call = {.op = KIT_STORM, .bytes = 2 * KIT_CHUNK};
    kit_open(&s);
    for (int i = 0; i < KIT_REFS; i++) {
        enum kit_memory memory = i % 3 == 2 ? KIT_CHUNKS : KIT_MALLOC;
        call.refs[i] = make_block(&s, i, memory, call.bytes, (uint64_t)i);
        KIT_DO(&s, KIT_OWNER, .op = KIT_EXPORT, .pair = 1, .block = i, .bytes = call.bytes);
    }
    KIT_DO(&s, KIT_USER, .op = KIT_LIMIT, .limits = {3, 1024 * MIB});
    for (int who = 0; who < 2; who++) kit_start(&s, who, &call);
    for (int who = 0; who < 2; who++) kit_good(kit_finish(&s, who), __FILE__, __LINE__);
    for (int i = 0; i < KIT_REFS; i++) KIT_DO(&s, KIT_OWNER, .op = KIT_FREE, .block = i);
    CHECK_EQ(clean(&s).allocations, 0);
    kit_close(&s);
}

/* ---- errors and sizes ---- */

static void test_errors(void)
{
    struct kit_scene s;
    kit_open(&s);
    struct ccl_foreign_ref ref = make_block(&s, 0, KIT_MALLOC, 4 * MIB, 1);
    make_block(&s, 1, KIT_CHUNKS, 2 * KIT_CHUNK, 2);
    for (int block = 0; block < 2; block++) {
        struct kit_answer answer =
            kit_ask(&s, KIT_OWNER,
                    &(struct kit_call){.op = KIT_EXPORT, .block = block, .bytes = 4 * MIB + 1});
        CHECK_EQ(answer.rc, ncclInvalidArgument);
        CHECK_HAS(answer.text, "runs past");
    }
    CHECK_EQ(export_part(&s, 0, 0, 0).span, 0);
    CHECK_EQ(export_part(&s, 0, 1, 3).span, ref.span);
    IMPORT(&s, ref, .bytes = 4 * MIB, .seed = 1);
    struct kit_answer answer =
        kit_ask(&s, KIT_USER, &(struct kit_call){.op = KIT_IMPORT, .ref = ref, .bytes = 5 * MIB});
    CHECK_EQ(answer.rc, ncclRemoteError);
    answer =
        kit_ask(&s, KIT_USER,
                &(struct kit_call){
                    .op = KIT_IMPORT, .pair = 1, .ref = {99, 0}, .bytes = 1, .timeout_ms = 200});
    CHECK_EQ(answer.rc, ncclTimeout);
    CHECK_HAS(answer.text, "another process");
    kit_close(&s);
}

/* More chunks than the socket holds: the user reads while the owner sends. */
static void test_long_segment(void)
{
    enum { N = 400 };
    struct kit_scene s;
    kit_open(&s);
    KIT_DO(&s, KIT_OWNER, .op = KIT_ALLOC, .memory = KIT_CHUNKS, .bytes = N * KIT_CHUNK);
    KIT_DO(&s, KIT_OWNER, .op = KIT_FILL, .seed = 4);
    const struct kit_call call = {.op = KIT_EXPORT, .bytes = N * KIT_CHUNK, .timeout_ms = 20000};
    kit_start(&s, KIT_OWNER, &call);
    /* The first span of the process is number 1, which is all that a reference needs. */
    struct kit_answer mapped =
        IMPORT_PINNED(&s, 0, ((struct ccl_foreign_ref){1, 0}), .bytes = N * KIT_CHUNK, .seed = 4,
                      .timeout_ms = 20000);
    struct kit_answer sent = kit_good(kit_finish(&s, KIT_OWNER), __FILE__, __LINE__);
    CHECK_EQ(sent.ref.span, 1);
    NOTE("%d chunks: sent in %.1f ms, mapped in %.1f ms", N, sent.ns / 1e6, mapped.ns / 1e6);
    unpin(&s, 0);
    KIT_DO(&s, KIT_OWNER, .op = KIT_FREE);
    CHECK_EQ(clean(&s).allocations, 0);
    kit_close(&s);
}

static void test_speed(void)
{
    enum { N = 20000 };
    struct kit_scene s;
    kit_open(&s);
    for (enum kit_memory memory = KIT_MALLOC; memory <= KIT_CHUNKS; memory++) {
        int block = (int)memory;
        size_t bytes = 8 * KIT_CHUNK;
        KIT_DO(&s, KIT_OWNER, .op = KIT_ALLOC, .block = block, .memory = memory, .bytes = bytes);
        KIT_DO(&s, KIT_OWNER, .op = KIT_FILL, .block = block, .seed = 1);
        struct kit_call call = {.op = KIT_EXPORT, .block = block, .bytes = KIT_CHUNK};
        struct kit_answer first = kit_ask(&s, KIT_OWNER, &call);
        call.repeat = N;
        struct kit_answer out = kit_ask(&s, KIT_OWNER, &call);
        struct kit_answer mapped = IMPORT_PINNED(&s, 0, out.ref, .bytes = KIT_CHUNK, .seed = 1);
        unpin(&s, 0);
        struct kit_answer in =
            IMPORT_PINNED(&s, 0, out.ref, .bytes = KIT_CHUNK, .seed = 1, .repeat = N);
        unpin(&s, 0);
        call.bytes = bytes;
        double ns = kit_ask(&s, KIT_OWNER, &call).ns;
        NOTE("%s: export %.0f us, again %.0f ns (16 MiB: %.0f ns); import %.0f us, again %.0f ns",
             memory == KIT_MALLOC ? "cudaMalloc" : "chunks", first.ns / 1e3, out.ns, ns,
             mapped.ns / 1e3, in.ns);
        CHECK(out.ns < 2000 && in.ns < 2000);
    }
    kit_close(&s);
}

static const struct test_case cases[] = {
    {"every kind of memory", test_kinds, 0},
    {"small allocations that share a block", test_small, 0},
    {"allocations that overlap freed ones of their block", test_overlaps, 0},
    {"a small block at the same address is other memory", test_new_blocks, 0},
    {"a block outlives what opened it", test_vehicle, 0},
    {"one mapping for all buffers and communicators", test_shared, 0},
    {"chunks side by side, one exchanged", test_segments, 0},
    {"cudaMalloc at the same address is other memory", test_reuse_malloc, 0},
    {"chunks at the same address are other memory", test_reuse_chunks, 0},
    {"memory that its owner frees comes back", test_frees, 120},
    {"an owner that dies", test_dies, 120},
    {"the limits", test_limits, 0},
    {"pins", test_pins, 0},
    {"first uses in a capture", test_captures, 0},
    {"many threads at once", test_threads, 0},
    {"errors", test_errors, 0},
    {"more chunks than the socket holds", test_long_segment, 0},
    {"no system call after the first use", test_speed, 0},
    {"10,000 random steps of two allocators", test_torture, 120},
};
TEST_MAIN(cases)
