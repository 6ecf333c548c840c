/* Bytes between the root and one rank, never waiting. Called by root.c and root_session.c.
 * Invariant: what a peer can make the root allocate is bounded by the limits of wire.c. */
#define _GNU_SOURCE
#include "boot/root_impl.h"

#include "base/alloc.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

ncclResult_t ccl_root_blob_new(struct ccl_root_blob **out, size_t size_bytes)
{
    ncclResult_t rc = ccl_alloc((void **)out, 1, sizeof **out + size_bytes);
    if (rc != ncclSuccess) return rc;
    (*out)->refs = 1;
    (*out)->size_bytes = size_bytes;
    return ncclSuccess;
}

void ccl_root_blob_drop(struct ccl_root_blob *blob)
{
    if (blob != NULL && --blob->refs == 0) ccl_free(blob);
}

ncclResult_t ccl_root_conn_new(const struct ccl_arrival *arrival, struct ccl_root_conn **out)
{
    ncclResult_t rc = CCL_NEW(out, 1);
    if (rc != ncclSuccess) return rc;
    (*out)->link = arrival->link;
    (*out)->hello = arrival->hello;
    return ncclSuccess;
}

void ccl_root_conn_free(struct ccl_root_conn *conn)
{
    for (int i = 0; i < conn->nqueue; i++) ccl_root_blob_drop(conn->queue[i].blob);
    ccl_link_close(&conn->link);
    ccl_free(conn->body);
    ccl_free(conn);
}

static size_t blob_bytes(const struct ccl_root_blob *blob)
{
    return blob == NULL ? 0 : blob->size_bytes;
}

int ccl_root_conn_flush(struct ccl_root_conn *conn)
{
    while (conn->nqueue > 0) {
        struct ccl_root_out *out = &conn->queue[0];
        size_t body_bytes = blob_bytes(out->blob), done = 0;
        int code;
        if (conn->sent < CCL_WIRE_HEAD_BYTES)
            code = ccl_sock_send_some(conn->link.fd, out->head + conn->sent,
                                      CCL_WIRE_HEAD_BYTES - conn->sent, &done);
        else
            code = ccl_sock_send_some(conn->link.fd,
                                      out->blob->data + (conn->sent - CCL_WIRE_HEAD_BYTES),
                                      CCL_WIRE_HEAD_BYTES + body_bytes - conn->sent, &done);
        if (code == EAGAIN) return 0;
        if (code != 0) return code;
        conn->sent += done;
        if (conn->sent < CCL_WIRE_HEAD_BYTES + body_bytes) continue;
        ccl_root_blob_drop(out->blob);
        conn->sent = 0;
        conn->nqueue--;
        memmove(&conn->queue[0], &conn->queue[1], (size_t)conn->nqueue * sizeof conn->queue[0]);
    }
    if (conn->draining) shutdown(conn->link.fd, SHUT_WR);
    return 0;
}

int ccl_root_conn_queue(struct ccl_root_conn *conn, unsigned type, struct ccl_root_blob *blob)
{
    if (conn->nqueue == CCL_ROOT_QUEUE) return ENOBUFS;
    struct ccl_root_out *out = &conn->queue[conn->nqueue++];
    struct ccl_wire_head what = {type, blob_bytes(blob)};
    ccl_wire_seal(out->head, &what, conn->link.key, conn->link.sent++,
                  blob == NULL ? NULL : blob->data);
    out->blob = blob;
    if (blob != NULL) blob->refs++;
    return ccl_root_conn_flush(conn);
}

/* Reads until head and body together hold `want` bytes. */
static int read_until(struct ccl_root_conn *conn, size_t want)
{
    while (conn->have < want) {
        uint8_t *to = conn->have < CCL_WIRE_HEAD_BYTES
                          ? conn->head + conn->have
                          : conn->body + (conn->have - CCL_WIRE_HEAD_BYTES);
        size_t got;
        int code = ccl_sock_recv_some(conn->link.fd, to, want - conn->have, &got);
        if (code != 0) return code;
        conn->have += got;
    }
    return 0;
}

static int grow_body(struct ccl_root_conn *conn, size_t size_bytes)
{
    if (size_bytes <= conn->body_cap) return 0;
    ccl_free(conn->body);
    conn->body_cap = 0;
    if (ccl_alloc((void **)&conn->body, 1, size_bytes) != ncclSuccess) return ENOMEM;
    conn->body_cap = size_bytes;
    return 0;
}

int ccl_root_conn_read(struct ccl_root_conn *conn, int nranks)
{
    struct ccl_wire_rule rule = {.key = conn->link.key,
                                 .sequence = conn->link.received,
                                 .allowed = CCL_WIRE_BIT(CCL_WIRE_GATHER) |
                                            CCL_WIRE_BIT(CCL_WIRE_LEAVE) |
                                            CCL_WIRE_BIT(CCL_WIRE_FAIL),
                                 .nranks = nranks};
    if (conn->have < CCL_WIRE_HEAD_BYTES) {
        int code = read_until(conn, CCL_WIRE_HEAD_BYTES);
        if (code != 0) return code;
        if (ccl_wire_check_head(conn->head, &rule, &conn->frame) != CCL_WIRE_OK) return EBADMSG;
        code = grow_body(conn, conn->frame.length_bytes);
        if (code != 0) return code;
    }
    int code = read_until(conn, CCL_WIRE_HEAD_BYTES + conn->frame.length_bytes);
    if (code != 0) return code;
    if (ccl_wire_check_body(conn->head, conn->link.key, conn->body) != CCL_WIRE_OK) return EBADMSG;
    conn->link.received++;
    conn->have = 0;
    return 0;
}

int ccl_root_conn_discard(struct ccl_root_conn *conn)
{
    uint8_t waste[4096];
    size_t got;
    int code;
    while ((code = ccl_sock_recv_some(conn->link.fd, waste, sizeof waste, &got)) == 0)
        ;
    return code;
}
