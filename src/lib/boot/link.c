/* Framed I/O with deadlines. Called by boot.c and mesh.c. Invariant: a link whose call failed is
 * not used again, except to read what the peer had said before. */
#include "boot/link.h"

#include "base/log.h"
#include "base/rng.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { ONE_PIECE_BYTES = 2048 };

int ccl_link_send(struct ccl_link *link, const struct ccl_wire_head *what, const void *payload,
                  const struct ccl_sock_wait *wait)
{
    uint8_t head[CCL_WIRE_HEAD_BYTES + ONE_PIECE_BYTES];
    ccl_wire_seal(head, what, link->key, link->sent++, payload);
    if (what->length_bytes <= ONE_PIECE_BYTES) {
        if (what->length_bytes > 0) memcpy(head + CCL_WIRE_HEAD_BYTES, payload, what->length_bytes);
        return ccl_sock_send_all(link->fd, head, CCL_WIRE_HEAD_BYTES + what->length_bytes, 0, wait);
    }
    int code = ccl_sock_send_all(link->fd, head, CCL_WIRE_HEAD_BYTES, 1, wait);
    if (code != 0) return code;
    return ccl_sock_send_all(link->fd, payload, what->length_bytes, 0, wait);
}

int ccl_link_send_fd(struct ccl_link *link, int passed, const struct ccl_sock_wait *wait)
{
    uint8_t head[CCL_WIRE_HEAD_BYTES];
    ccl_wire_seal(head, &(struct ccl_wire_head){.type = CCL_WIRE_MESH_FD}, link->key, link->sent++,
                  NULL);
    return ccl_sock_send_fd(link->fd, head, sizeof head, passed, wait);
}

static int refuse(enum ccl_wire_verdict verdict)
{
    CCL_INFO(CCL_LOG_BOOTSTRAP, "a control message was refused: %s",
             ccl_wire_verdict_text(verdict));
    return EBADMSG;
}

int ccl_link_recv_head(struct ccl_link *link, const struct ccl_link_want *want,
                       const struct ccl_sock_wait *wait, uint8_t head[CCL_WIRE_HEAD_BYTES],
                       struct ccl_wire_head *out)
{
    int code = want->passed != NULL
                   ? ccl_sock_recv_fd(link->fd, head, CCL_WIRE_HEAD_BYTES, want->passed, wait)
                   : ccl_sock_recv_all(link->fd, head, CCL_WIRE_HEAD_BYTES, wait);
    if (code != 0) return code;
    struct ccl_wire_rule rule = {link->key, link->received, want->allowed, want->nranks};
    enum ccl_wire_verdict verdict = ccl_wire_check_head(head, &rule, out);
    if (verdict != CCL_WIRE_OK) return refuse(verdict);
    link->received++;
    return 0;
}

int ccl_link_recv_body(struct ccl_link *link, const uint8_t head[CCL_WIRE_HEAD_BYTES],
                       void *payload, size_t size_bytes, const struct ccl_sock_wait *wait)
{
    int code = ccl_sock_recv_all(link->fd, payload, size_bytes, wait);
    if (code != 0) return code;
    enum ccl_wire_verdict verdict = ccl_wire_check_body(head, link->key, payload);
    return verdict == CCL_WIRE_OK ? 0 : refuse(verdict);
}

int ccl_link_greet(struct ccl_link *link, const uint8_t *secret, unsigned type,
                   struct ccl_wire_hello *hello, const struct ccl_sock_wait *wait)
{
    uint8_t head[CCL_WIRE_HEAD_BYTES], nonce[CCL_WIRE_NONCE_BYTES];
    struct ccl_wire_head got;
    struct ccl_link_want want = {.allowed = CCL_WIRE_BIT(CCL_WIRE_CHALLENGE)};
    memcpy(link->key, secret, CCL_KEY_BYTES);
    link->sent = link->received = 0;
    int code = ccl_link_recv_head(link, &want, wait, head, &got);
    if (code == 0) code = ccl_link_recv_body(link, head, nonce, sizeof nonce, wait);
    if (code != 0) return code;

    if (ccl_rng_fill(hello->nonce, sizeof hello->nonce) != ncclSuccess) return EIO;
    ccl_wire_hello_key(link->key, secret, nonce);
    uint8_t payload[CCL_WIRE_HELLO_BYTES];
    ccl_wire_put_hello(payload, hello);
    struct ccl_wire_head what = {type, sizeof payload};
    code = ccl_link_send(link, &what, payload, wait);
    ccl_wire_link_key(link->key, hello->nonce);
    return code;
}

void ccl_link_close(struct ccl_link *link)
{
    if (link->fd >= 0) close(link->fd);
    link->fd = -1;
}
