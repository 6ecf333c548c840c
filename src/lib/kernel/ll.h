/* ll.h: the slot protocol "LL" over a connection: each 8-byte word carries 4 bytes of data and
 * the 4-byte flag of its message, so data says itself that it has arrived.
 *
 * A slot is a line for the signature, then the lines of the data: data flag data flag, 16 bytes.
 * Flags count messages, so nothing is cleared; what a slot holds from 2^31 messages ago would
 * pass for new, therefore a slot is wiped once in 2^30 messages. Credit is reread only when the
 * known part is used up and given for several slots at a time. Data is packed from and unpacked
 * to the end's own scratch; the interpreter folds there.
 */
#ifndef CCL_KERNEL_LL_H
#define CCL_KERNEL_LL_H

#include "kernel/dev.h"
#include "kernel/work.h"

#include <string.h>

enum { CCL_LL_EPOCH_BITS = 30 };

/* Never zero, which is what fresh memory holds. */
CCL_DEVICE uint64_t ll_flag(const struct ccl_conn *conn)
{
    return (uint64_t)((uint32_t)conn->seq | 0x80000000u) << 32;
}

CCL_DEVICE uint64_t *ll_slot(const struct ccl_conn *conn)
{
    return (uint64_t *)(conn->ring + (conn->seq % conn->depth) * CCL_LL_STRIDE(conn->slot_bytes));
}

/* Slots that the receiver drains before it says so; leaves more than half of the depth. */
CCL_DEVICE uint64_t ll_batch(const struct ccl_conn *conn)
{
    return conn->depth > 2 ? conn->depth / 2u : 1;
}

/* Acquire pairs with ll_release: the receiver has read the slot that is written next. */
CCL_DEVICE int ll_has_credit(struct ccl_conn *conn)
{
    if (conn->seq - conn->credit_seen < conn->depth) return 1;
    conn->credit_seen = load_acquire(&conn->fifo->ll_credit);
    return conn->seq - conn->credit_seen < conn->depth;
}

CCL_DEVICE void ll_wipe(const struct ccl_conn *conn)
{
    uint64_t *word = ll_slot(conn), nwords = CCL_LL_STRIDE(conn->slot_bytes) / sizeof *word;
    for (uint64_t i = 0; i < nwords; i++) __atomic_store_n(&word[i], 0, __ATOMIC_RELAXED);
}

/* Writes `bytes` of the scratch, from `at` on (a multiple of 8), and the signature. The words
 * need no order among themselves. The release of the last one publishes what the sender did
 * before, which a receiver that has read the whole message may rely on. */
CCL_DEVICE void ll_put(const struct ccl_conn *conn, uint64_t signature, uint64_t at, uint64_t bytes)
{
    uint64_t *slot = ll_slot(conn), flag = ll_flag(conn);
    uint64_t before = conn->seq - conn->depth;
    if (at == 0 && conn->seq >= conn->depth && (before ^ conn->seq) >> CCL_LL_EPOCH_BITS != 0)
        ll_wipe(conn);
    __atomic_store_n(&slot[0], flag | (uint32_t)signature, __ATOMIC_RELAXED);
    __atomic_store_n(&slot[1], flag | signature >> 32, __ATOMIC_RELAXED);
    uint64_t *word = slot + 2 + at / 4, nwords = (bytes + 7) / 8 * 2;
    for (uint64_t i = 0; i < nwords; i++) {
        uint32_t data;
        memcpy(&data, conn->scratch + at + 4 * i, sizeof data);
        if (i + 1 < nwords)
            __atomic_store_n(&word[i], flag | data, __ATOMIC_RELAXED);
        else
            __atomic_store_n(&word[i], flag | data, __ATOMIC_RELEASE);
    }
}

/* What a look at a slot found. */
enum ll_found { LL_NOTHING, LL_DATA, LL_FOREIGN };

/* Reads `bytes` of the message, from `at` on, into the scratch, if all of them are there.
 * Acquires pair with the release of ll_put's last word. */
CCL_DEVICE enum ll_found ll_get(const struct ccl_conn *conn, uint64_t signature, uint64_t at,
                                uint64_t bytes)
{
    const uint64_t *slot = ll_slot(conn);
    uint64_t flag = ll_flag(conn), mask = ~(uint64_t)0 << 32;
    uint64_t low = __atomic_load_n(&slot[0], __ATOMIC_RELAXED);
    uint64_t high = __atomic_load_n(&slot[1], __ATOMIC_RELAXED);
    if ((low & mask) != flag || (high & mask) != flag) return LL_NOTHING;
    if (((low & ~mask) | high << 32) != signature) return LL_FOREIGN;
    const uint64_t *word = slot + 2 + at / 4;
    uint64_t nwords = (bytes + 7) / 8 * 2;
    for (uint64_t i = 0; i < nwords; i++) {
        uint64_t both = __atomic_load_n(&word[i], __ATOMIC_ACQUIRE);
        if ((both & mask) != flag) return LL_NOTHING;
        uint32_t data = (uint32_t)both;
        memcpy(conn->scratch + at + 4 * i, &data, sizeof data);
    }
    return LL_DATA;
}

CCL_DEVICE void ll_post(struct ccl_conn *conn)
{
    conn->seq++;
    ccl_bell_ring(conn->bell);
}

/* Release says that the slots so far have been read and may be overwritten. */
CCL_DEVICE void ll_release(struct ccl_conn *conn)
{
    conn->seq++;
    if (conn->seq % ll_batch(conn) != 0) return;
    store_release(&conn->fifo->ll_credit, conn->seq);
    ccl_bell_ring(conn->bell);
}

#endif
