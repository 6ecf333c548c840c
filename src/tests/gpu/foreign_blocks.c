/* The cases of test_foreign about blocks of cudaMalloc that several allocations share, at one time
 * or one after the other: the driver opens a block once, and its addresses and handles do not say
 * whose memory it is. */
#include "gpu/foreign_steps.h"

/* In a block that lives on, memory is freed and allocated again in other sizes, while the old
 * allocations are mapped still: the new ones overlap them. */
void test_overlaps(void)
{
    enum { N = 8, ROUNDS = 6 };
    struct kit_scene s;
    int nsame = 0;
    kit_open(&s);
    uint64_t number = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++) {
            size_t bytes = (size_t)(300 + 517 * ((i + round * 3) % N));
            uint64_t seed = (uint64_t)(round * N + i);
            if (round > 0) KIT_DO(&s, KIT_OWNER, .op = KIT_FREE, .block = i);
            uint64_t now =
                KIT_DO(&s, KIT_OWNER, .op = KIT_ALLOC, .block = i, .bytes = bytes).physical;
            nsame += now == number && number != 0;
            number = now;
            KIT_DO(&s, KIT_OWNER, .op = KIT_FILL, .block = i, .seed = seed);
            struct ccl_foreign_ref ref = export_part(&s, i, 0, bytes);
            IMPORT_PINNED(&s, round * N + i, ref, .bytes = bytes, .seed = seed);
        }
        /* None was written to through another. */
        for (int i = 0; i < N; i++)
            KIT_DO(&s, KIT_USER, .op = KIT_LOOK, .pin = round * N + i, .bytes = 300,
                   .seed = (uint64_t)(round * N + i));
    }
    struct ccl_import_usage usage = KIT_DO(&s, KIT_USER, .op = KIT_COLLECT).usage;
    NOTE("%d of %d in the block of the one before; %zu mapped from %zu blocks", nsame,
         N * ROUNDS - 1, usage.regions, usage.blocks);
    CHECK_EQ(usage.regions, N * ROUNDS);
    CHECK(usage.blocks < N);
    for (int p = 0; p < N * ROUNDS; p++) unpin(&s, p);
    CHECK_EQ(clean(&s).regions, N);
    for (int i = 0; i < N; i++) KIT_DO(&s, KIT_OWNER, .op = KIT_FREE, .block = i);
    usage = clean(&s);
    CHECK_EQ(usage.allocations + usage.blocks, 0);
    kit_close(&s);
}

enum { NNEW = 3 };

/* Nobody has got the old one's block, as far as the driver tells. */
static int is_gone(const struct kit_answer *old, const struct kit_answer *made)
{
    for (int i = 0; i < NNEW; i++)
        if (made[i].physical == old->physical) return 0;
    return 1;
}

/* A block that was given back, and one anew at its address while the old one is mapped still: new
 * memory, and the old one keeps what it held. */
void test_new_blocks(void)
{
    enum { N = NNEW, ROUNDS = 8, BYTES = 700000 };
    struct kit_scene s;
    int nsame = 0, nnew = 0;
    struct kit_answer made[N], old[N];
    kit_open(&s);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++) {
            uint64_t seed = (uint64_t)(round * N + i);
            made[i] = KIT_DO(&s, KIT_OWNER, .op = KIT_ALLOC, .block = i, .bytes = BYTES);
            nsame += round > 0 && made[i].address == old[i].address;
            nnew += round > 0 && made[i].physical != old[i].physical;
            KIT_DO(&s, KIT_OWNER, .op = KIT_FILL, .block = i, .seed = seed);
            struct ccl_foreign_ref ref = export_part(&s, i, 0, BYTES);
            IMPORT_PINNED(&s, round * N + i, ref, .bytes = BYTES, .seed = seed);
        }
        for (int i = 0; round > 0 && i < N; i++)
            if (is_gone(&old[i], made))
                KIT_DO(&s, KIT_USER, .op = KIT_LOOK, .pin = (round - 1) * N + i, .bytes = BYTES,
                       .seed = (uint64_t)((round - 1) * N + i));
        memcpy(old, made, sizeof old);
        for (int i = 0; i < N; i++) KIT_DO(&s, KIT_OWNER, .op = KIT_FREE, .block = i);
    }
    NOTE("%d of %d at the same address, %d in another block", nsame, (ROUNDS - 1) * N, nnew);
    for (int p = 0; p < N * ROUNDS; p++) unpin(&s, p);
    CHECK_EQ(clean(&s).allocations, 0);
    kit_close(&s);
}

/* What opened the block goes first; and the block is opened anew for another allocation. */
void test_vehicle(void)
{
    enum { N = 4, BYTES = 5000 };
    struct kit_scene s;
    struct ccl_foreign_ref refs[N];
    kit_open(&s);
    for (int i = 0; i < N; i++) refs[i] = make_block(&s, i, KIT_MALLOC, BYTES, (uint64_t)i);
    for (int i = 0; i < N - 1; i++)
        IMPORT_PINNED(&s, i, refs[i], .bytes = BYTES, .seed = (uint64_t)i);
    KIT_DO(&s, KIT_OWNER, .op = KIT_FREE, .block = 0);
    unpin(&s, 0);
    CHECK_EQ(clean(&s).regions, N - 2);
    for (int i = 1; i < N - 1; i++) {
        KIT_DO(&s, KIT_USER, .op = KIT_LOOK, .pin = i, .bytes = BYTES, .seed = (uint64_t)i);
        unpin(&s, i);
    }
    KIT_DO(&s, KIT_USER, .op = KIT_LIMIT, .limits = {0, 0});
    CHECK_EQ(clean(&s).regions, 0);
    for (int i = N - 1; i > 0; i--) IMPORT(&s, refs[i], .bytes = BYTES, .seed = (uint64_t)i);
    kit_close(&s);
}
