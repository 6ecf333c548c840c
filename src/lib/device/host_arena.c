/* host_arena.c: the shared memory of this process's host devices, which other processes can map.
 *
 * One sparse memfd a process, mapped once at the first block and kept; host_mem.c takes ranges of
 * it and gives them back. Invariant: the free ranges are sorted by place and never touch, and their
 * pages are with the system. Only the part up to the last block, in steps, may be accessed: tools
 * that read all of a process's memory would fill the holes. The first page is never given out, so
 * that no block has place 0. A forked child does not see its parent's arena and makes its own.
 */
#define _GNU_SOURCE
#include "device/host_engine.h"

#include "base/fault.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Address space costs nothing, but processes map each other's arenas, and tools that shadow
 * memory take their share. */
#define MAX_BYTES ((size_t)256 << 30)

enum { STEP_BYTES = 256 << 20 };

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

struct range {
    struct range *next;
    size_t at, bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t owner; /* the process that `arena` belongs to; 0: none yet */
static struct ccl_arena arena;
static uint32_t number; /* of the arena, from 1; a child's differs from its parent's */
static struct range *free_ranges;
static size_t open_bytes; /* from the start on, may be accessed */

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* As much as the host has. Growing a file beyond the limit would send a signal. */
static size_t choose_bytes(void)
{
    size_t total_bytes, free_bytes;
    struct rlimit limit;
    ccl_host_mem_count(&total_bytes, &free_bytes);
    if (total_bytes > MAX_BYTES) total_bytes = MAX_BYTES;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < total_bytes) return 0;
    return total_bytes / page_bytes() * page_bytes();
}

/* Systems before MFD_NOEXEC_SEAL refuse the flag. */
static int make_file(size_t bytes)
{
    if (CCL_FAULT("arena-memfd")) return -1;
    int fd = memfd_create("chorus-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0) fd = memfd_create("chorus-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -1;
    if (ftruncate(fd, (off_t)bytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    close(fd);
    return -1;
}

static void *map_file(int fd, size_t bytes)
{
    if (CCL_FAULT("arena-map")) return NULL;
    void *base = mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED) return NULL;
    /* A dump of the process would fill the holes. */
    madvise(base, bytes, MADV_DONTDUMP);
    if (madvise(base, bytes, MADV_DONTFORK) == 0) return base;
    munmap(base, bytes);
    return NULL;
}

/* In a child: the parent's addresses are taken, so that no block of the child can be mistaken for
 * one of the parent. 0 when something else has come to lie there. */
static int leave_parent(void)
{
    while (free_ranges != NULL) {
        struct range *range = free_ranges;
        free_ranges = range->next;
        free(range);
    }
    if (owner == 0 || arena.fd < 0) return 1;
    close(arena.fd);
    return mmap(arena.base, arena.bytes, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
                0) == arena.base;
}

/* Makes the arena of this process, once; without one, arena.fd is -1 for good. */
static void make_arena(void)
{
    pid_t self = getpid();
    if (owner == self) return;
    int is_clear = leave_parent();
    owner = self;
    arena = (struct ccl_arena){.fd = -1};
    number++;
    size_t bytes = is_clear ? choose_bytes() : 0, page = page_bytes();
    struct range *whole = bytes > page ? calloc(1, sizeof *whole) : NULL;
    int fd = whole != NULL ? make_file(bytes) : -1;
    char *base = fd >= 0 ? map_file(fd, bytes) : NULL;
    if (base == NULL) {
        if (fd >= 0) close(fd);
        free(whole);
        return;
    }
    *whole = (struct range){.at = page, .bytes = bytes - page};
    free_ranges = whole;
    arena = (struct ccl_arena){.fd = fd, .base = base, .bytes = bytes};
    open_bytes = 0;
}

void ccl_host_arena(struct ccl_arena *out)
{
    pthread_mutex_lock(&lock);
    make_arena();
    *out = arena;
    pthread_mutex_unlock(&lock);
}

/* Opens what holds blocks, a step at least, and closes what does not. Returns 0 on failure. */
static int adjust_open(void)
{
    size_t end = arena.bytes, wanted;
    for (const struct range *range = free_ranges; range != NULL; range = range->next)
        if (range->next == NULL && range->at + range->bytes == arena.bytes) end = range->at;
    wanted = (end + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES;
    if (wanted > arena.bytes) wanted = arena.bytes;
    if (wanted == open_bytes) return 1;
    char *base = arena.base;
    if (wanted > open_bytes) {
        if (mprotect(base + open_bytes, wanted - open_bytes, PROT_READ | PROT_WRITE) != 0) return 0;
    } else if (mprotect(base + wanted, open_bytes - wanted, PROT_NONE) != 0) {
        return 0;
    }
    open_bytes = wanted;
    return 1;
}

/* The first range that is large enough. */
static void *take_range(size_t bytes)
{
    struct range **link = &free_ranges;
    while (*link != NULL && (*link)->bytes < bytes) link = &(*link)->next;
    struct range *range = *link;
    if (range == NULL) return NULL;
    void *memory = (char *)arena.base + range->at;
    range->at += bytes;
    range->bytes -= bytes;
    if (range->bytes == 0) {
        *link = range->next;
        free(range);
    }
    return memory;
}

static size_t round_up(size_t bytes)
{
    size_t page = page_bytes();
    return (bytes + page - 1) / page * page;
}

/* Without memory for a record the range is lost, its pages are not. */
static void give_range(size_t at, size_t bytes)
{
    struct range *before = NULL, *after = free_ranges;
    while (after != NULL && after->at < at) {
        before = after;
        after = after->next;
    }
    if (before != NULL && before->at + before->bytes == at) {
        before->bytes += bytes;
    } else {
        struct range *range = calloc(1, sizeof *range);
        if (range == NULL) return;
        *range = (struct range){.next = after, .at = at, .bytes = bytes};
        if (before == NULL)
            free_ranges = range;
        else
            before->next = range;
        before = range;
    }
    if (after == NULL || before->at + before->bytes != after->at) return;
    before->bytes += after->bytes;
    before->next = after->next;
    free(after);
}

void *ccl_host_arena_take(size_t bytes, uint32_t *arena_number)
{
    pthread_mutex_lock(&lock);
    make_arena();
    size_t rounded = round_up(bytes);
    void *memory = bytes >= page_bytes() ? take_range(rounded) : NULL;
    if (memory != NULL && !adjust_open()) {
        give_range((size_t)((char *)memory - (char *)arena.base), rounded);
        memory = NULL;
    }
    *arena_number = memory != NULL ? number : 0;
    pthread_mutex_unlock(&lock);
    return memory;
}

void ccl_host_arena_give(void *memory, size_t bytes, uint32_t arena_number)
{
    pthread_mutex_lock(&lock);
    if (owner == getpid() && arena_number == number) {
        size_t at = (size_t)((char *)memory - (char *)arena.base);
        bytes = round_up(bytes);
        /* Whoever takes the range next expects zeros. */
        if (fallocate(arena.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
                      (off_t)bytes) != 0)
            memset(memory, 0, bytes);
        give_range(at, bytes);
        adjust_open();
    }
    pthread_mutex_unlock(&lock);
}
