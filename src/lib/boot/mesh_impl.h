/* What the two files of the mesh share: mesh_open.c (listen, connect, swap), mesh.c (watch, tell,
 * close). `lock` guards sending and `up`; receiving belongs to the thread that sets the mesh up
 * and then to the watcher. */
#ifndef CCL_BOOT_MESH_IMPL_H
#define CCL_BOOT_MESH_IMPL_H

#include "boot/door.h"
#include "boot/mesh.h"
#include "boot/watch.h"

#include <pthread.h>

struct ccl_mesh_peer {
    struct ccl_mesh *mesh;
    int proc;
    struct ccl_link link;
    int up;                      /* the link is authenticated */
    int pid;                     /* 0: in another PID namespace */
    int pidfd;                   /* -1: none */
    int judged;                  /* its fate was given */
    int over;                    /* nothing more comes */
    struct ccl_watch watches[2]; /* link.fd and pidfd */
    size_t have;
    uint8_t bytes[CCL_WIRE_HEAD_BYTES + CCL_WIRE_FAIL_BYTES]; /* frame that is being read */
};

struct ccl_mesh {
    int nprocs, self;
    int *first_rank;
    uint8_t secret[CCL_KEY_BYTES];
    const _Atomic uint32_t *abort_word;
    struct ccl_boot *boot;
    char host[CCL_WIRE_HOST_BYTES];
    struct ccl_door *door; /* NULL once connected */
    int nmissing;          /* peers that still have to connect to us */
    pthread_mutex_t lock;
    struct ccl_mesh_events events;
    void *context;
    struct ccl_mesh_peer peers[]; /* [nprocs]; the own entry is unused */
};

enum { CCL_MESH_WHO_BYTES = 160 };
/* "rank 3 on host h (pid 71)" */
const char *ccl_mesh_who(const struct ccl_mesh_peer *peer, char out[CCL_MESH_WHO_BYTES]);

/* The error for a peer whose link gave the errno value `code`. */
ncclResult_t ccl_mesh_lost(const struct ccl_mesh_peer *peer, int code);

#endif
