/* Memory of the simulated GPU: blocks of pages in one sparse memfd, so that other processes can map
 * any of them, and the pool of flags and words.
 *
 * The file is made when the program starts, before a test looks at what is open. Blocks are new to
 * their users: what was in them is overwritten.
 */
#define _GNU_SOURCE
#include "sim/gpu.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, SPOILT_BYTES = 64 << 10 };
#define ROOM_BYTES ((size_t)8 << 30)

static int file = -1;
static char *room;
static struct sim_block *blocks;
static uint64_t nblocks;

/* At `at`, if that is not NULL. */
static void map_room(char *at)
{
    int fd = memfd_create("cuda-memory", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)ROOM_BYTES) != 0) abort();
    int flags = MAP_SHARED | MAP_NORESERVE | (at != NULL ? MAP_FIXED : 0);
    room = mmap(at, ROOM_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (room == MAP_FAILED) abort();
    if (file < 0)
        file = fd;
    else if (dup3(fd, file, O_CLOEXEC) < 0 || close(fd) != 0)
        abort();
}

/* A forked child has a GPU to itself, if its parent has not used it. */
static void renew_room(void)
{
    map_room(room);
}

__attribute__((constructor)) static void open_room(void)
{
    map_room(NULL);
    if (pthread_atfork(NULL, NULL, renew_room) != 0) abort();
}

int sim_memory_fd(void)
{
    return file;
}

uint64_t sim_memory_place(const void *address)
{
    return (uint64_t)((const char *)address - room);
}

/* ---- blocks ---- */

/* The first gap that is large enough. Under the lock. */
static struct sim_block **find_gap(size_t bytes, char **base)
{
    struct sim_block **at = &blocks;
    *base = room;
    while (*at != NULL && (size_t)((*at)->base - *base) < bytes) {
        *base = (*at)->base + (*at)->bytes;
        at = &(*at)->next;
    }
    return (size_t)(room + ROOM_BYTES - *base) >= bytes ? at : NULL;
}

void *sim_alloc(size_t bytes, int is_shared)
{
    size_t whole = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    struct sim_block *block = sim_need(sizeof *block);
    pthread_mutex_lock(&sim_lock);
    char *base;
    struct sim_block **at = whole <= ROOM_BYTES ? find_gap(whole, &base) : NULL;
    if (at != NULL) {
        *block = (struct sim_block){*at, base, whole, ++nblocks, is_shared};
        *at = block;
    }
    pthread_mutex_unlock(&sim_lock);
    if (at == NULL) {
        free(block);
        return NULL;
    }
    memset(base, 0xa5, bytes < SPOILT_BYTES ? bytes : SPOILT_BYTES);
    return base;
}

int sim_free(void *memory)
{
    pthread_mutex_lock(&sim_lock);
    struct sim_block **at = &blocks;
    while (*at != NULL && (*at)->base != memory) at = &(*at)->next;
    struct sim_block *block = *at;
    if (block != NULL) *at = block->next;
    pthread_mutex_unlock(&sim_lock);
    free(block);
    return block != NULL;
}

int sim_find_block(const void *address, struct sim_block *out)
{
    uintptr_t place = (uintptr_t)address;
    pthread_mutex_lock(&sim_lock);
    const struct sim_block *block = blocks;
    while (block != NULL && place - (uintptr_t)block->base >= block->bytes) block = block->next;
    if (block != NULL) *out = *block;
    pthread_mutex_unlock(&sim_lock);
    return block != NULL;
}

int sim_has_block(uint64_t id)
{
    pthread_mutex_lock(&sim_lock);
    const struct sim_block *block = blocks;
    while (block != NULL && block->id != id) block = block->next;
    pthread_mutex_unlock(&sim_lock);
    return block != NULL;
}

/* ---- the pool ---- */

/* As device/cuda_pool.c, which never frees a piece: a kernel may look at a word a little longer
 * than its owner. New pieces are cleared many at a time, used ones when they are taken again. */
enum { LEAST_BYTES = 256, SLAB_BYTES = 256 << 10 };

enum piece_kind { FLAGS, WORDS, NKINDS };

struct piece {
    struct piece *next;
    size_t bytes;
    int is_used;
    enum piece_kind kind;
    _Alignas(LEAST_BYTES) char memory[];
};

static struct piece *idle[NKINDS][2]; /* new ones, and those that were used */

/* By an operation on a stream of its own, which a queue that is held up delays. */
static void clear(void *memory, size_t bytes)
{
    struct sim_stream *stream = sim_stream_make();
    struct sim_op op = {.kind = SIM_FILL, .to = memory, .bytes = bytes};
    if (sim_put(stream, op) != ncclSuccess) abort();
    sim_stream_drain(stream);
    sim_stream_destroy(stream);
}

static void add_slab(enum piece_kind kind, size_t bytes)
{
    size_t each = offsetof(struct piece, memory) + bytes;
    size_t n = SLAB_BYTES > each ? SLAB_BYTES / each : 1;
    char *slab = aligned_alloc(LEAST_BYTES, n * each);
    if (slab == NULL) abort();
    if (kind == FLAGS) clear(slab, n * each);
    pthread_mutex_lock(&sim_lock);
    for (size_t i = 0; i < n; i++) {
        struct piece *piece = (struct piece *)(void *)(slab + i * each);
        *piece = (struct piece){.next = idle[kind][0], .bytes = bytes, .kind = kind};
        idle[kind][0] = piece;
    }
    pthread_mutex_unlock(&sim_lock);
}

static struct piece *take_idle(enum piece_kind kind, size_t bytes)
{
    struct piece *piece = NULL;
    pthread_mutex_lock(&sim_lock);
    for (int is_used = 0; piece == NULL && is_used < 2; is_used++) {
        struct piece **at = &idle[kind][is_used];
        while (*at != NULL && (*at)->bytes != bytes) at = &(*at)->next;
        piece = *at;
        if (piece != NULL) *at = piece->next;
    }
    pthread_mutex_unlock(&sim_lock);
    return piece;
}

static struct piece *take(enum piece_kind kind, size_t bytes)
{
    size_t whole = LEAST_BYTES;
    while (whole < bytes) whole *= 2;
    struct piece *piece;
    while ((piece = take_idle(kind, whole)) == NULL) add_slab(kind, whole);
    return piece;
}

ncclResult_t sim_flags_alloc(void **memory, size_t bytes)
{
    struct piece *piece = take(FLAGS, bytes);
    if (piece->is_used) clear(piece->memory, bytes);
    *memory = piece->memory;
    return ncclSuccess;
}

ncclResult_t sim_words_alloc(void **memory, size_t bytes)
{
    *memory = take(WORDS, bytes)->memory;
    memset(*memory, 0, bytes);
    return ncclSuccess;
}

ncclResult_t sim_pool_free(void *memory)
{
    if (memory == NULL) return ncclSuccess;
    struct piece *piece = (struct piece *)(void *)((char *)memory - offsetof(struct piece, memory));
    pthread_mutex_lock(&sim_lock);
    piece->is_used = 1;
    piece->next = idle[piece->kind][1];
    idle[piece->kind][1] = piece;
    pthread_mutex_unlock(&sim_lock);
    return ncclSuccess;
}
