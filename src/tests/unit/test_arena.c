/* The arena of the host devices: blocks that other processes can map come and go without touching
 * each other, give their pages back, and do without the arena where there is none. */
#define _GNU_SOURCE
#include "base/err.h"
#include "device/device.h"
#include "unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEV chorus_devices()

enum { PAGE = 4096, BLOCKS = 64, STEPS = 4000 };

static struct ccl_arena find_arena(void)
{
    struct ccl_arena arena;
    ccl_device()->arena(&arena);
    return arena;
}

static int lies_inside(const struct ccl_arena *arena, const void *memory, size_t bytes)
{
    const char *base = arena->base, *at = memory;
    return at > base && at + bytes <= base + arena->bytes;
}

static long long used_bytes(const struct ccl_arena *arena)
{
    struct stat info;
    CHECK_EQ(fstat(arena->fd, &info), 0);
    return (long long)info.st_blocks * 512;
}

static void test_place(void)
{
    struct ccl_arena arena = find_arena();
    void *small, *page, *large;
    CHECK(arena.fd >= 0);
    CHECK_OK(DEV->alloc(&small, PAGE / 2));
    CHECK_OK(DEV->alloc(&page, PAGE));
    CHECK_OK(DEV->alloc(&large, (5 << 20) + 3));
    CHECK(!lies_inside(&arena, small, 1));
    CHECK(lies_inside(&arena, page, PAGE));
    CHECK(lies_inside(&arena, large, (5 << 20) + 3));
    CHECK(ftruncate(arena.fd, PAGE) != 0);
    CHECK(ftruncate(arena.fd, (off_t)arena.bytes + PAGE) != 0);
    CHECK_OK(DEV->free(small));
    CHECK_OK(DEV->free(page));
    CHECK_OK(DEV->free(large));
}

/* What is written through the block is read through a mapping of the file, as a peer does it. */
static void test_shared(void)
{
    struct ccl_arena arena = find_arena();
    void *block;
    CHECK_OK(DEV->alloc(&block, 3 * PAGE));
    off_t place = (char *)block - (char *)arena.base;
    char *peer = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, arena.fd, place);
    CHECK(peer != MAP_FAILED);
    memset(block, 0x5b, 3 * PAGE);
    CHECK_MEM(peer, block, 3 * PAGE);
    peer[PAGE] = 7;
    CHECK_EQ(((char *)block)[PAGE], 7);
    munmap(peer, 3 * PAGE);
    CHECK_OK(DEV->free(block));
}

struct block {
    unsigned char *memory;
    size_t bytes;
    int value;
};

static void check_block(const struct block *block)
{
    for (size_t i = 0; i < block->bytes; i += 509)
        if (block->memory[i] != block->value)
            FAIL("byte %zu of a block of %zu is %d, not %d", i, block->bytes, block->memory[i],
                 block->value);
}

static void swap_block(struct block *block, uint32_t pick)
{
    if (block->memory != NULL) {
        check_block(block);
        CHECK_OK(DEV->free(block->memory));
        block->memory = NULL;
        return;
    }
    block->bytes = 1 + (pick >> 8) % ((uint64_t)PAGE << pick % 8);
    block->value = (int)(pick >> 24 | 1);
    CHECK_OK(DEV->alloc((void **)&block->memory, block->bytes));
    for (size_t i = 0; block->bytes >= PAGE && i < block->bytes; i += 509)
        if (block->memory[i] != 0) FAIL("byte %zu of a fresh block is not 0", i);
    memset(block->memory, block->value, block->bytes);
}

/* In the end nothing is in use, and the first block lies where the first ever lay. */
static void test_random(void)
{
    static struct block blocks[BLOCKS];
    struct ccl_arena arena = find_arena();
    uint32_t seed = (uint32_t)getpid(), state = seed;
    void *first, *again;
    NOTE("seed %u", seed);
    CHECK_OK(DEV->alloc(&first, 64 * PAGE));
    CHECK_OK(DEV->free(first));
    CHECK_EQ(used_bytes(&arena), 0);
    for (int i = 0; i < STEPS; i++) {
        state = state * 1664525u + 1013904223u;
        uint32_t pick = state;
        state = state * 1664525u + 1013904223u;
        swap_block(&blocks[state >> 16 & (BLOCKS - 1)], pick);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].memory != NULL) swap_block(&blocks[i], 0);
    CHECK_EQ(used_bytes(&arena), 0);
    CHECK_OK(DEV->alloc(&again, 64 * PAGE));
    CHECK_EQ(again, first);
    CHECK_OK(DEV->free(again));
}

/* Bytes of the arena that this process may read. */
static size_t readable_bytes(void)
{
    char line[512];
    size_t bytes = 0;
    FILE *file = fopen("/proc/self/maps", "re");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned long from, to;
        char rights[8];
        if (strstr(line, "chorus-arena") != NULL &&
            sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 && rights[0] == 'r')
            bytes += to - from;
    }
    fclose(file);
    return bytes;
}

/* Tools that scan all memory of a process must not fill the arena. */
static void test_closed(void)
{
    char *large = NULL;
    size_t bytes = (size_t)600 << 20;
    struct ccl_arena arena = find_arena();
    size_t least = readable_bytes();
    CHECK(least <= (size_t)256 << 20);
    if (arena.bytes < 2 * bytes || DEV->alloc((void **)&large, bytes) != ncclSuccess)
        SKIP("no memory for %zu bytes", bytes);
    CHECK(readable_bytes() >= bytes);
    large[0] = large[bytes - 1] = 1;
    CHECK_OK(DEV->free(large));
    CHECK_EQ(readable_bytes(), least);
}

/* ---- forks ---- */

static int use_in_child(void *inherited)
{
    struct ccl_arena arena = find_arena();
    char *own;
    if (arena.fd < 0 || DEV->alloc((void **)&own, PAGE) != ncclSuccess) return 1;
    memset(own, 0x11, PAGE);
    if (!lies_inside(&arena, own, PAGE) || DEV->free(inherited) != ncclSuccess) return 2;
    for (int i = 0; i < PAGE; i++)
        if (own[i] != 0x11) return 3;
    return DEV->free(own) == ncclSuccess ? 0 : 4;
}

static void test_fork(void)
{
    char *block;
    int status = 0;
    CHECK_OK(DEV->alloc((void **)&block, PAGE));
    memset(block, 0x77, PAGE);
    pid_t child = fork();
    if (child == 0) _exit(use_in_child(block));
    CHECK(child > 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    for (int i = 0; i < PAGE; i++) CHECK_EQ(block[i], 0x77);
    CHECK_OK(DEV->free(block));
}

/* ---- without an arena ---- */

static void check_without(void)
{
    char *blocks[3];
    static const size_t sizes[3] = {100, 3 * PAGE, 3 << 20};
    CHECK_EQ(find_arena().fd, -1);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(DEV->alloc((void **)&blocks[i], sizes[i]));
        memset(blocks[i], i + 1, sizes[i]);
    }
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(blocks[i][sizes[i] - 1], i + 1);
        CHECK_OK(DEV->free(blocks[i]));
    }
}

static void run_child(const char *name, const char *const env[])
{
    static struct test_output output;
    test_exec_case(name, env, &output);
    if (output.code != 0) FAIL("%s: %s%s", name, output.out, output.err);
}

/* No file may become as large as an arena. */
static void test_without(void)
{
    struct rlimit usual, tight;
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &usual), 0);
    tight = usual;
    tight.rlim_cur = 1 << 20;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
    run_child("child:without", NULL);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &usual), 0);
}

static void test_faults(void)
{
#ifdef CCL_FAULTS
    run_child("child:without", (const char *const[]){"CHORUS_FAULTS=arena-memfd:1", NULL});
    run_child("child:without", (const char *const[]){"CHORUS_FAULTS=arena-map:1", NULL});
#else
    SKIP("built without FAULTS=1");
#endif
}

static const struct test_case cases[] = {
    {"blocks of a page or more lie in the arena", test_place, 0},
    {"a mapping of the file sees the block", test_shared, 0},
    {"blocks do not touch each other and give their pages back", test_random, 0},
    {"only what holds blocks may be read", test_closed, 0},
    {"a forked child leaves its parent's blocks alone", test_fork, 0},
    {"without an arena there is memory all the same", test_without, 0},
    {"fault points", test_faults, 0},
    {"child:without", check_without, 0},
};
TEST_LIB_MAIN(cases)
