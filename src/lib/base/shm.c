/* Segments over memfd_create(2). Called by transport and core at set-up. The seals make the size
 * a promise: neither side can shrink the file under the other's mapping. */
#define _GNU_SOURCE
#include "base/shm.h"

#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static ncclResult_t map_pages(int fd, size_t size_bytes, void **base)
{
    void *pages = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pages != MAP_FAILED && CCL_FAULT("shm-mmap")) {
        munmap(pages, size_bytes);
        pages = MAP_FAILED;
        errno = ENOMEM;
    }
    if (pages == MAP_FAILED)
        return ccl_err(ncclSystemError, "mmap of a shared segment of %zu bytes: %s", size_bytes,
                       strerror(errno));
    *base = pages;
    return ncclSuccess;
}

static int seal(int fd, size_t size_bytes)
{
    if (CCL_FAULT("shm-size")) {
        errno = ENOSPC;
        return -1;
    }
    if (ftruncate(fd, (off_t)size_bytes) != 0) return -1;
    return fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

ncclResult_t ccl_shm_create(size_t size_bytes, struct ccl_shm *out)
{
    *out = CCL_SHM_NONE;
    int fd = CCL_FAULT("shm-memfd") ? (errno = EMFILE, -1)
                                    : memfd_create("chorus-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return ccl_err(ncclSystemError, "memfd_create for a shared segment of %zu bytes: %s",
                       size_bytes, strerror(errno));
    ncclResult_t rc = ncclSuccess;
    if (seal(fd, size_bytes) != 0)
        TRY_GOTO(rc,
                 ccl_err(ncclSystemError, "sizing a shared segment to %zu bytes: %s", size_bytes,
                         strerror(errno)),
                 fail);
    TRY_GOTO(rc, map_pages(fd, size_bytes, &out->base), fail);
    out->fd = fd;
    out->size_bytes = size_bytes;
    CCL_INFO(CCL_LOG_ALLOC_HOST, "shared segment of %zu bytes at %p", size_bytes, out->base);
    return ncclSuccess;
fail:
    close(fd);
    return rc;
}

ncclResult_t ccl_shm_map(int fd, size_t size_bytes, struct ccl_shm *out)
{
    *out = CCL_SHM_NONE;
    struct stat info;
    if (fstat(fd, &info) != 0)
        return ccl_err(ncclSystemError, "fstat of a peer's shared segment of %zu bytes: %s",
                       size_bytes, strerror(errno));
    if (info.st_size < 0 || (size_t)info.st_size < size_bytes)
        return ccl_err(ncclRemoteError, "a peer's shared segment has %lld bytes, expected %zu",
                       (long long)info.st_size, size_bytes);
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
        return ccl_err(ncclRemoteError, "a peer's shared segment of %zu bytes is not sealed",
                       size_bytes);
    TRY(map_pages(fd, size_bytes, &out->base));
    out->size_bytes = size_bytes;
    return ncclSuccess;
}

void ccl_shm_close_fd(struct ccl_shm *shm)
{
    if (shm->fd >= 0) close(shm->fd);
    shm->fd = -1;
}

void ccl_shm_close(struct ccl_shm *shm)
{
    ccl_shm_close_fd(shm);
    if (shm->base != NULL) munmap(shm->base, shm->size_bytes);
    *shm = CCL_SHM_NONE;
}
