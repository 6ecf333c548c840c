/* arena.c: the mappings of other processes' arenas, found by the file behind them and counted. */
#define _GNU_SOURCE
#include "transport/arena.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct mapping {
    struct ccl_peer_arena view; /* first: what core holds */
    struct mapping *next;
    dev_t dev;
    ino_t ino;
    unsigned refs;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapping *mappings;

static ncclResult_t map_pages(int fd, size_t bytes, char **base)
{
    void *pages = MAP_FAILED;
    if (CCL_FAULT("arena-peer"))
        errno = ENOMEM;
    else
        pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (pages == MAP_FAILED)
        return ccl_err(ncclSystemError, "mmap of a peer's arena of %zu bytes: %s", bytes,
                       strerror(errno));
    madvise(pages, bytes, MADV_DONTDUMP);
    madvise(pages, bytes, MADV_DONTFORK);
    *base = pages;
    return ncclSuccess;
}

static ncclResult_t make_mapping(int fd, const struct stat *info, struct mapping **out)
{
    ncclResult_t rc;
    struct mapping *mapping;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || info->st_size <= 0)
        return ccl_err(ncclRemoteError, "a peer's arena is not sealed or empty");
    TRY(CCL_NEW(&mapping, 1));
    mapping->view.bytes = (size_t)info->st_size;
    TRY_GOTO(rc, map_pages(fd, mapping->view.bytes, &mapping->view.base), fail);
    mapping->dev = info->st_dev;
    mapping->ino = info->st_ino;
    mapping->next = mappings;
    mappings = mapping;
    *out = mapping;
    return ncclSuccess;
fail:
    ccl_free(mapping);
    return rc;
}

ncclResult_t ccl_arena_map(int fd, const struct ccl_peer_arena **out)
{
    struct stat info;
    ncclResult_t rc = ncclSuccess;
    if (fstat(fd, &info) != 0)
        return ccl_err(ncclSystemError, "fstat of a peer's arena: %s", strerror(errno));
    pthread_mutex_lock(&lock);
    struct mapping *mapping = mappings;
    while (mapping != NULL && (mapping->dev != info.st_dev || mapping->ino != info.st_ino))
        mapping = mapping->next;
    if (mapping == NULL) rc = make_mapping(fd, &info, &mapping);
    if (rc == ncclSuccess) {
        mapping->refs++;
        *out = &mapping->view;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

void ccl_arena_unmap(const struct ccl_peer_arena *arena)
{
    if (arena == NULL) return;
    pthread_mutex_lock(&lock);
    struct mapping **link = &mappings;
    while (&(*link)->view != arena) link = &(*link)->next;
    struct mapping *mapping = *link;
    if (--mapping->refs == 0) {
        *link = mapping->next;
        munmap(mapping->view.base, mapping->view.bytes);
        ccl_free(mapping);
    }
    pthread_mutex_unlock(&lock);
}
