/* Shared memory segments: memfds that are passed to peers over a socket.
 *
 * A memfd has no name in any file system, so a crash leaves nothing behind and a full /dev/shm does
 * not matter. Segments are sealed against resizing, so a peer cannot make an access fail.
 */
#ifndef CCL_BASE_SHM_H
#define CCL_BASE_SHM_H

#include "nccl.h"

#include <stddef.h>

struct ccl_shm {
    int fd;            /* -1 in a mapped (not created) or closed segment */
    void *base;        /* NULL when closed */
    size_t size_bytes; /* as asked for; the mapping is rounded up to pages */
};

#define CCL_SHM_NONE ((struct ccl_shm){-1, 0, 0})

/* Makes a zeroed segment and maps it; out->fd is for peers. ncclSystemError naming size and call;
 * *out is then CCL_SHM_NONE. size_bytes > 0. */
ncclResult_t ccl_shm_create(size_t size_bytes, struct ccl_shm *out);

/* Maps a peer's segment, which must be sealed and hold size_bytes at least (ncclRemoteError
 * otherwise: the peer broke the agreement). Does not take `fd`, which may be closed afterwards. */
ncclResult_t ccl_shm_map(int fd, size_t size_bytes, struct ccl_shm *out);

/* Closes the descriptor of a created segment and keeps the mapping. */
void ccl_shm_close_fd(struct ccl_shm *shm);

/* Unmaps and closes; closed segments are fine. */
void ccl_shm_close(struct ccl_shm *shm);

#endif
