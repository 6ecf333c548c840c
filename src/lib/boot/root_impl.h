/* What the three files of the root share: root.c (thread, loop, life), root_conn.c (bytes of one
 * connection), root_session.c (rules of the session). One thread owns all of it; only `stop` and
 * `wake_fd` are touched by others. */
#ifndef CCL_BOOT_ROOT_IMPL_H
#define CCL_BOOT_ROOT_IMPL_H

#include "boot/door.h"
#include "boot/id.h"

#include <sys/types.h>

/* A payload on its way to one or all ranks. */
struct ccl_root_blob {
    int refs;
    size_t size_bytes;
    _Alignas(8) uint8_t data[];
};

struct ccl_root_out {
    uint8_t head[CCL_WIRE_HEAD_BYTES];
    struct ccl_root_blob *blob; /* NULL: no payload */
};

/* An honest rank has at most a welcome, an all-gather and a failure outstanding. */
enum { CCL_ROOT_QUEUE = 4 };

struct ccl_root_conn {
    struct ccl_link link; /* fd -1 once it is to be swept */
    struct ccl_wire_hello hello;
    int member;        /* holds a place in the session; a refused newcomer does not */
    int gave;          /* its part of the round in progress */
    int draining;      /* was told a failure: nothing it says matters any more */
    uint64_t close_ns; /* when draining ends at the latest */

    uint8_t head[CCL_WIRE_HEAD_BYTES]; /* frame that is being read */
    size_t have;                       /* of head and body together */
    struct ccl_wire_head frame;
    uint8_t *body;
    size_t body_cap;

    struct ccl_root_out queue[CCL_ROOT_QUEUE];
    int nqueue;
    size_t sent; /* of the first in the queue */
};

struct ccl_root {
    struct ccl_root *next; /* list of the process, under its lock */
    pid_t owner;           /* process that made it: a forked child has the memory, not the thread */
    int listen_fd;         /* the door's, for a forked child */
    _Atomic int stop;      /* end unless a session is in progress */
    int wake_fd;           /* eventfd that makes the loop look at `stop` */

    struct ccl_boot_id id;
    struct ccl_door *door;
    uint8_t session[CCL_WIRE_NONCE_BYTES];
    struct ccl_wire_hello first; /* of the first rank: what the others are compared with */
    int nranks;                  /* 0 until the first rank came */
    int nseen;                   /* ranks that ever came */
    struct ccl_root_conn **by_rank;
    uint8_t *seen; /* [nranks] */
    int failed;
    struct ccl_root_blob *failure;
    uint64_t join_ns;     /* until then all should have joined, and late ones are told a failure */
    uint64_t deadline_ns; /* of what is being waited for now */
    int late;             /* nobody is waited for any more */

    unsigned round; /* all-gathers completed */
    int ngave;
    size_t each_bytes;
    struct ccl_root_blob *parts; /* NULL: no round in progress */

    struct ccl_root_conn **conns; /* members and others */
    int nconns, conns_cap;
    struct pollfd *polls;      /* [CCL_DOOR_POLLS + 1 + conns_cap] */
    struct pollfd *next_polls; /* grown by an arrival, in use from the next step on; or NULL */
};

/* ---- root_conn.c ---- */
ncclResult_t ccl_root_blob_new(struct ccl_root_blob **out, size_t size_bytes);
void ccl_root_blob_drop(struct ccl_root_blob *blob);

ncclResult_t ccl_root_conn_new(const struct ccl_arrival *arrival, struct ccl_root_conn **out);
void ccl_root_conn_free(struct ccl_root_conn *conn);
/* Queues a frame (takes its own reference of `blob`) and sends what goes at once. 0 or an errno
 * value when the connection is broken. */
int ccl_root_conn_queue(struct ccl_root_conn *conn, unsigned type, struct ccl_root_blob *blob);
int ccl_root_conn_flush(struct ccl_root_conn *conn);
/* Reads on; 0 when conn->frame and conn->body hold a whole frame, EAGAIN, or an errno value. */
int ccl_root_conn_read(struct ccl_root_conn *conn, int nranks);
/* Throws away what comes; errno value (ECONNRESET at the end). */
int ccl_root_conn_discard(struct ccl_root_conn *conn);

/* ---- root_session.c ---- */
/* ccl_door_welcome: a rank that knows the secret has come. */
void ccl_root_welcome(void *root, const struct ccl_arrival *arrival);
void ccl_root_frame(struct ccl_root *root, struct ccl_root_conn *conn);
/* The connection is broken or ended; conn->link is closed afterwards. */
void ccl_root_broken(struct ccl_root *root, struct ccl_root_conn *conn, int code);
/* Nobody can be let in any more: `code` is accept's errno. */
void ccl_root_starve(struct ccl_root *root, int code);
/* The deadline has passed. */
void ccl_root_expire(struct ccl_root *root);
/* Whether nothing is left to do. */
int ccl_root_over(const struct ccl_root *root);

#endif
