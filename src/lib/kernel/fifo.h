/* fifo.h: the slot protocol "Simple" over a connection.
 *
 * Sender: has_credit, write the slot, post. Receiver: has_data, read the slot, release. Each flag
 * has one writer, counts up for ever and is compared as a difference, so nothing is cleared.
 */
#ifndef CCL_KERNEL_FIFO_H
#define CCL_KERNEL_FIFO_H

#include "kernel/dev.h"
#include "kernel/work.h"

CCL_DEVICE char *fifo_slot(const struct ccl_conn *conn)
{
    return conn->ring + (conn->seq % conn->depth) * conn->slot_bytes;
}

CCL_DEVICE uint64_t *fifo_meta(const struct ccl_conn *conn)
{
    return &conn->fifo->meta[conn->seq % conn->depth];
}

/* Acquire pairs with fifo_release: the receiver has read the slot that is written next. */
CCL_DEVICE int fifo_has_credit(const struct ccl_conn *conn)
{
    return conn->seq - load_acquire(&conn->fifo->credit) < conn->depth;
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
    return load_acquire(&conn->fifo->ready) != conn->seq;
}

/* Release publishes the slot's bytes and meta. */
CCL_DEVICE void fifo_post(struct ccl_conn *conn)
{
    conn->seq++;
    store_release(&conn->fifo->ready, conn->seq);
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
