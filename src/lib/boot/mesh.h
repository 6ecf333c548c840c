/* The mesh: control links between the processes of a communicator on one host.
 *
 * Unix-domain stream sockets in the abstract namespace (nothing is left behind), one per pair of
 * processes. They carry memfds at set-up; afterwards an end-of-file, a pidfd or a message tells
 * that a peer died, failed or left. One watcher thread per process serves all meshes; it exists
 * only while a mesh is watched.
 */
#ifndef CCL_BOOT_MESH_H
#define CCL_BOOT_MESH_H

#include "boot/wire.h"
#include "nccl.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct ccl_boot;
struct ccl_mesh;

struct ccl_mesh_args {
    int nprocs, self;                   /* processes in order of their lowest rank */
    const int *first_rank;              /* [nprocs] lowest rank of each, for texts */
    uint8_t secret[16];                 /* from ccl_boot_secret; names and keys the sockets */
    const _Atomic uint32_t *abort_word; /* non-zero ends every wait with ncclInternalError */
    struct ccl_boot *boot; /* open until ccl_mesh_connect returned: a process that dies before it
                            * connects is then noticed at once, not at the deadline; or NULL */
};

/* Starts to listen and copies the arguments. Every process does so before any connects (a boot
 * all-gather between). ncclSystemError when the system refuses a socket. */
ncclResult_t ccl_mesh_listen(const struct ccl_mesh_args *args, struct ccl_mesh **out);

/* Connects all pairs, authenticating both ends with the secret; strangers are dropped, also
 * those of the same user. Blocks until done, deadline (CHORUS_INIT_TIMEOUT_MS: ncclTimeout naming
 * the missing ranks), abort or error (ncclRemoteError naming the rank, or what it told). */
ncclResult_t ccl_mesh_connect(struct ccl_mesh *mesh);

/* Gives `fd` to every other process and takes theirs: fds[p] is a new descriptor (close-on-exec)
 * that the caller owns; fds[self] = -1. Collective over the mesh, between connect and
 * watch; blocks as connect does. On failure all fds are -1. */
ncclResult_t ccl_mesh_swap_fd(struct ccl_mesh *mesh, int fd, int *fds);
/* The same with a descriptor for each process. */
ncclResult_t ccl_mesh_swap_fds(struct ccl_mesh *mesh, const int *given, int *fds);

/* What comes from peers; all of it runs on the watcher thread and must not wait for anything: it
 * holds up all meshes of the process. */
struct ccl_mesh_events {
    /* A peer's fate, given once per peer. `code`: ncclRemoteError (died; text says "rank 3 on host
     * h (pid 71) ended without closing its communicator"), ncclSuccess (left in order), or the
     * error it told us (ccl_mesh_tell), with its text. */
    void (*fate)(void *context, int proc, ncclResult_t code, const char *text);
    /* A letter (ccl_mesh_write). Letters of a peer come in order, also after it told an error. */
    void (*letter)(void *context, int proc, const struct ccl_wire_letter *letter);
    /* Nothing more comes from the peer; once, after its fate. died: it did not leave in order. */
    void (*over)(void *context, int proc, int died);
};

/* Starts the watch; callbacks (NULL: not wanted) may come at once, until ccl_mesh_close has
 * returned. */
ncclResult_t ccl_mesh_watch(struct ccl_mesh *mesh, const struct ccl_mesh_events *events,
                            void *context);

/* Sends a letter to a process. Does not block: ncclRemoteError when the link takes none, because
 * the peer has gone or leaves what it got unread. Any thread, between watch and close. */
ncclResult_t ccl_mesh_write(struct ccl_mesh *mesh, int proc, const struct ccl_wire_letter *letter);

/* Tells all peers that this process's communicator failed or was aborted. Does not block: a full
 * socket drops the message, the close that follows tells enough. Any
 * thread, at any time before close. The first message counts for a peer. */
void ccl_mesh_tell(struct ccl_mesh *mesh, ncclResult_t code, const char *text);

/* Says goodbye, stops watching and frees; NULL and half-open meshes are fine. Does not wait for
 * the peers; waits for a callback that is running, so it is not for the callback itself, and its
 * caller must hold no lock that the callback takes. */
void ccl_mesh_close(struct ccl_mesh *mesh);

#endif
