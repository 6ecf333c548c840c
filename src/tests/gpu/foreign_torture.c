/* The long random life of test_foreign: blocks of all kinds come, change and go, and are read and
 * written through mappings, of which some are kept for a while. What a kept one shows is checked as
 * long as nobody has written to the block since.
 */
#include "gpu/foreign_kit.h"
#include "unit/test.h"

#include <time.h>

enum { STEPS = 10000, NBLOCKS = 40, NPINS = 12, CLEAN_EVERY = 40, MAX_CHUNKS = 4 };

struct torture {
    struct kit_scene scene;
    uint64_t state, seed; /* of the random numbers; the last content */
    struct block {
        int is_live;
        enum kit_memory memory;
        size_t bytes;
        uint64_t seed;
    } blocks[NBLOCKS];
    struct pin {
        int is_used, is_stale, block; /* -1: was freed */
        size_t bytes;
        uint64_t seed;
    } pins[NPINS];
    unsigned nallocs, nremaps, nstaged, nimports, nlooks;
};

static uint32_t draw(struct torture *t, uint32_t below)
{
    t->state ^= t->state << 13;
    t->state ^= t->state >> 7;
    t->state ^= t->state << 17;
    return (uint32_t)(t->state >> 32) % below;
}

static void fill(struct torture *t, int b)
{
    t->blocks[b].seed = ++t->seed;
    for (int p = 0; p < NPINS; p++)
        if (t->pins[p].block == b) t->pins[p].is_stale = 1;
    KIT_DO(&t->scene, KIT_OWNER, .op = KIT_FILL, .block = b, .seed = t->seed);
}

static void make(struct torture *t, int b)
{
    static const enum kit_memory memories[] = {KIT_MALLOC, KIT_MALLOC,  KIT_MALLOC, KIT_CHUNKS,
                                               KIT_CHUNKS, KIT_PRIVATE, KIT_POOL};
    struct block *block = &t->blocks[b];
    block->memory = memories[draw(t, TEST_COUNT(memories))];
    block->is_live = 1;
    int is_chunks = block->memory == KIT_CHUNKS || block->memory == KIT_PRIVATE;
    int is_whole = is_chunks || draw(t, 4) == 0;
    block->bytes =
        is_whole ? (1 + draw(t, MAX_CHUNKS)) * KIT_CHUNK : 1 + (draw(t, 8 << 20) >> draw(t, 16));
    KIT_DO(&t->scene, KIT_OWNER, .op = KIT_ALLOC, .block = b, .memory = block->memory,
           .bytes = block->bytes);
    fill(t, b);
    t->nallocs++;
}

/* What is freed keeps its content where it is mapped, but for the parts of a block of cudaMalloc
 * that it shares with others: they go to the owner's next allocations while the block lives. */
static void let_free(struct torture *t, int b)
{
    const struct block *block = &t->blocks[b];
    int shares = block->memory == KIT_MALLOC && block->bytes % KIT_CHUNK != 0;
    for (int p = 0; p < NPINS; p++) {
        if (t->pins[p].block != b) continue;
        t->pins[p].block = -1;
        t->pins[p].is_stale |= shares;
    }
}

/* Frees the block, gives one of its chunks other memory, or leaves it. */
static void change(struct torture *t, int b)
{
    struct block *block = &t->blocks[b];
    uint32_t what = draw(t, 10);
    if (what < 3) {
        KIT_DO(&t->scene, KIT_OWNER, .op = KIT_FREE, .block = b);
        block->is_live = 0;
        let_free(t, b);
    } else if (what < 5 && block->memory == KIT_CHUNKS) {
        int chunk = (int)draw(t, (uint32_t)(block->bytes / KIT_CHUNK));
        KIT_DO(&t->scene, KIT_OWNER, .op = KIT_REMAP, .block = b, .chunk = chunk);
        fill(t, b);
        t->nremaps++;
    } else if (what < 7) {
        fill(t, b);
    }
}

/* The content is the latest that the test knows of. */
static void let_go(struct torture *t, int p)
{
    struct pin *pin = &t->pins[p];
    if (!pin->is_used) return;
    if (!pin->is_stale) {
        KIT_DO(&t->scene, KIT_USER, .op = KIT_LOOK, .pin = p, .bytes = pin->bytes,
               .seed = pin->seed);
        t->nlooks++;
    }
    KIT_DO(&t->scene, KIT_USER, .op = KIT_UNPIN, .pin = p);
    pin->is_used = 0;
}

/* The user writes the block, whose owner sees it. Only whole blocks, since those have one seed. */
static void write_back(struct torture *t, int b, int p)
{
    struct block *block = &t->blocks[b];
    block->seed = ++t->seed;
    for (int other = 0; other < NPINS; other++)
        if (t->pins[other].block == b) t->pins[other].is_stale = 1;
    KIT_DO(&t->scene, KIT_USER, .op = KIT_WRITE, .pin = p, .seed = block->seed);
    KIT_DO(&t->scene, KIT_OWNER, .op = KIT_VERIFY, .block = b, .bytes = block->bytes,
           .seed = block->seed);
    t->pins[p].seed = block->seed;
    t->pins[p].is_stale = 0;
}

/* Exports a part of the block, or the whole, and reads it through the mapping. */
static void use(struct torture *t, int b)
{
    const struct block *block = &t->blocks[b];
    int is_whole = draw(t, 3) == 0, pair = (int)draw(t, KIT_PAIRS), p = (int)draw(t, NPINS);
    size_t offset = is_whole ? 0 : draw(t, (uint32_t)block->bytes);
    size_t bytes = is_whole ? block->bytes : 1 + draw(t, (uint32_t)(block->bytes - offset));
    struct ccl_foreign_ref ref = KIT_DO(&t->scene, KIT_OWNER, .op = KIT_EXPORT, .pair = pair,
                                        .block = b, .offset = offset, .bytes = bytes)
                                     .ref;
    CHECK_EQ(ref.span != 0, block->memory == KIT_MALLOC || block->memory == KIT_CHUNKS);
    if (ref.span == 0) {
        t->nstaged++;
        return;
    }
    let_go(t, p);
    KIT_DO(&t->scene, KIT_USER, .op = KIT_IMPORT, .pair = pair, .pin = p, .ref = ref,
           .bytes = bytes, .offset = offset, .seed = block->seed);
    t->nimports++;
    t->pins[p] = (struct pin){.is_used = 1, .block = b, .bytes = bytes, .seed = block->seed};
    if (is_whole && draw(t, 4) == 0) write_back(t, b, p);
}

static struct ccl_import_usage clean(struct torture *t)
{
    for (int p = 0; p < KIT_PAIRS; p++) KIT_DO(&t->scene, KIT_OWNER, .op = KIT_SWEEP, .pair = p);
    return KIT_DO(&t->scene, KIT_USER, .op = KIT_COLLECT).usage;
}

static void end(struct torture *t)
{
    for (int p = 0; p < NPINS; p++) let_go(t, p);
    for (int b = 0; b < NBLOCKS; b++) {
        if (t->blocks[b].is_live) KIT_DO(&t->scene, KIT_OWNER, .op = KIT_FREE, .block = b);
        t->blocks[b].is_live = 0;
    }
    struct ccl_import_usage usage = clean(t);
    CHECK_EQ(usage.allocations, 0);
    CHECK_EQ(usage.regions, 0);
    CHECK_EQ(usage.bytes, 0);
}

static void run(struct torture *t, int nsteps)
{
    for (int step = 1; step <= nsteps; step++) {
        int b = (int)draw(t, NBLOCKS);
        if (t->blocks[b].is_live)
            change(t, b);
        else
            make(t, b);
        if (t->blocks[b].is_live) use(t, b);
        if (step % CLEAN_EVERY == 0) CHECK(clean(t).regions <= NBLOCKS);
    }
    end(t);
}

/* After a short life that makes what CUDA keeps, a long one leaves no descriptor. */
void test_torture(void)
{
    static struct torture t;
    t = (struct torture){.state = (uint64_t)time(NULL) * 0x9e3779b97f4a7c15ull | 1};
    NOTE("seed %llu", (unsigned long long)t.state);
    kit_open(&t.scene);
    KIT_DO(&t.scene, KIT_USER, .op = KIT_LIMIT, .limits = {24, (size_t)64 << 20});
    struct kit_answer before[2], after[2];
    run(&t, STEPS / 10);
    for (int who = 0; who < 2; who++) before[who] = KIT_DO(&t.scene, who, .op = KIT_STATE);
    run(&t, STEPS);
    for (int who = 0; who < 2; who++) after[who] = KIT_DO(&t.scene, who, .op = KIT_STATE);
    NOTE("%u allocations, %u chunks exchanged, %u imports, %u staged, %u kept ones checked",
         t.nallocs, t.nremaps, t.nimports, t.nstaged, t.nlooks);
    for (int who = 0; who < 2; who++) CHECK_EQ(before[who].nfds, after[who].nfds);
    kit_close(&t.scene);
}
