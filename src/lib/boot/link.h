/* One authenticated connection, seen from a thread that waits for it: framed send and receive.
 *
 * Used by the rank side of the bootstrap and by the mesh. One sender and one receiver thread at a
 * time; they may differ. Functions that return int give errno values as base/sock.h does, EBADMSG
 * when a frame was refused.
 */
#ifndef CCL_BOOT_LINK_H
#define CCL_BOOT_LINK_H

#include "base/sock.h"
#include "boot/wire.h"

struct ccl_link {
    int fd; /* -1: closed */
    uint8_t key[CCL_KEY_BYTES];
    uint32_t sent, received; /* frames, the sequence numbers of the next ones */
};

/* Who is talked to: shared by all waits of one call. */
struct ccl_link_want {
    unsigned allowed; /* CCL_WIRE_BITs */
    int nranks;
    int *passed; /* where a descriptor that rides along is stored; NULL when none may */
};

int ccl_link_send(struct ccl_link *link, const struct ccl_wire_head *what, const void *payload,
                  const struct ccl_sock_wait *wait);
/* MESH_FD with a descriptor. */
int ccl_link_send_fd(struct ccl_link *link, int passed, const struct ccl_sock_wait *wait);

/* A frame comes in two steps, so that its payload can go where its type and length say. `head` is
 * the raw header that the second step needs. */
int ccl_link_recv_head(struct ccl_link *link, const struct ccl_link_want *want,
                       const struct ccl_sock_wait *wait, uint8_t head[CCL_WIRE_HEAD_BYTES],
                       struct ccl_wire_head *out);
int ccl_link_recv_body(struct ccl_link *link, const uint8_t head[CCL_WIRE_HEAD_BYTES],
                       void *payload, size_t size_bytes, const struct ccl_sock_wait *wait);

/* The connecting side's handshake up to its hello (whose nonce it fills): waits for the challenge,
 * answers, and leaves link->key ready for the peer's welcome, which proves that the peer knows
 * the secret too. `type` is HELLO or MESH_HELLO. */
int ccl_link_greet(struct ccl_link *link, const uint8_t *secret, unsigned type,
                   struct ccl_wire_hello *hello, const struct ccl_sock_wait *wait);

void ccl_link_close(struct ccl_link *link);

#endif
