/* fifo.h: the slot protocol "Simple" over a connection.
 *
 * Sender: has_credit, write the slot, post. Receiver: has_data, read the slot, release. Each flag
 * has one writer and counts up for ever, so nothing is cleared.
 */
#ifndef CCL_KERNEL_FIFO_H
#define CCL_KERNEL_FIFO_H

#include "kernel/dev.h"
#include "kernel/work.h"

CCL_DEVICE char *fifo_slot(const struct ccl_conn *conn)
{
    return conn->ring + (conn->seq % conn->depth) * conn->slot_bytes;
}

CCL_DEVICE struct ccl_fifo_line *fifo_line(const struct ccl_conn *conn)
{
    return &conn->fifo->lines[conn->seq % conn->depth];
}

CCL_DEVICE uint64_t *fifo_meta(const struct ccl_conn *conn)
{
    return &fifo_line(conn)->meta;
}

/* Where a message of so many bytes lies, or the part of a longer one: in the line if it fits. */
CCL_DEVICE char *fifo_place(const struct ccl_conn *conn, uint64_t bytes)
{
    struct ccl_fifo_line *line = fifo_line(conn);
    return bytes <= sizeof line->data ? line->data : fifo_slot(conn);
}

/* Acquire pairs with fifo_release: the receiver has read the slot that is written next. Its line is
 * only looked at when the known part of the credit is used up. */
CCL_DEVICE int fifo_has_credit(struct ccl_conn *conn)
{
    if (conn->seq - conn->credit_seen < conn->depth) return 1;
    conn->credit_seen = load_acquire(&conn->fifo->credit);
    return conn->seq - conn->credit_seen < conn->depth;
}

/* All of the first `seq` slots are drained. Acquire pairs with fifo_release: the receiver has read
 * them and what they point to. */
CCL_DEVICE int fifo_is_drained(const struct ccl_conn *conn, uint64_t seq)
{
    return load_acquire(&conn->fifo->credit) >= seq;
}

/* Acquire pairs with fifo_post: the slot's bytes and meta are visible. */
CCL_DEVICE int fifo_has_data(const struct ccl_conn *conn)
{
    return load_acquire(&fifo_line(conn)->ready) == conn->seq + 1;
}

/* Release publishes the slot's bytes and meta. */
CCL_DEVICE void fifo_post(struct ccl_conn *conn)
{
    struct ccl_fifo_line *line = fifo_line(conn);
    conn->seq++;
    store_release(&line->ready, conn->seq);
    ccl_bell_ring(conn->bell);
}

/* Release says that the slot has been read and may be overwritten. */
CCL_DEVICE void fifo_release(struct ccl_conn *conn)
{
    conn->seq++;
    store_release(&conn->fifo->credit, conn->seq);
    ccl_bell_ring(conn->bell);
}

#endif
