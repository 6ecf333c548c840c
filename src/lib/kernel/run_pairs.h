/* run_pairs.h: the interpreter of send/recv pairs.
 *
 * All pairs of a launch progress side by side; a pair that waits never holds up another, except
 * that messages of one connection go in order. Same form as run_sched.h.
 */
#ifndef CCL_KERNEL_RUN_PAIRS_H
#define CCL_KERNEL_RUN_PAIRS_H

#include "kernel/board.h"
#include "kernel/copy.h"
#include "kernel/fifo.h"
#include "kernel/work.h"

#include <string.h>

/* Copies inside the process in bounded bites, so that an abort is seen in between. */
enum { PAIR_BITE_BYTES = 1 << 20 };

CCL_DEVICE void copy_bite(struct ccl_pair *pair, int streams)
{
    uint64_t left = pair->bytes - pair->moved;
    uint64_t bite = left < PAIR_BITE_BYTES ? left : PAIR_BITE_BYTES;
    if (bite > 0 && pair->src != pair->dst) {
        ccl_copy(pair->dst + pair->moved, pair->src + pair->moved, bite, streams);
        if (streams) ccl_copy_fence();
    }
    pair->moved += bite;
}

/* The place of a large source that the receiver reaches; 0: none, data is sent. */
CCL_DEVICE uint64_t find_place(const struct ccl_pair *pair)
{
    uint64_t place = (uint64_t)((uintptr_t)pair->src - (uintptr_t)pair->conn->home);
    if (pair->bytes < pair->conn->place_from || place >= pair->conn->home_bytes) return 0;
    return place;
}

/* An empty message still takes one slot. The first slot tells the length of the whole. */
CCL_DEVICE int run_send(struct ccl_pair *pair)
{
    if (pair->state == CCL_PAIR_POSTED) {
        if (!fifo_is_drained(pair->conn, pair->posted)) return 0;
        pair->moved = pair->bytes;
        return 1;
    }
    if (!fifo_has_credit(pair->conn)) return 0;
    uint64_t place = pair->moved == 0 ? find_place(pair) : 0;
    if (place != 0) {
        memcpy(fifo_line(pair->conn)->data, &place, sizeof place);
        *fifo_meta(pair->conn) = pair->bytes | CCL_META_PLACE;
        fifo_post(pair->conn);
        pair->posted = pair->conn->seq;
        pair->state = CCL_PAIR_POSTED;
        return 1;
    }
    uint64_t left = pair->bytes - pair->moved;
    uint64_t bite = left < pair->conn->slot_bytes ? left : pair->conn->slot_bytes;
    if (bite > 0) memcpy(fifo_place(pair->conn, pair->bytes), pair->src + pair->moved, bite);
    *fifo_meta(pair->conn) = pair->bytes;
    fifo_post(pair->conn);
    pair->moved += bite;
    return 1;
}

/* Copies from where the sender's buffer lies; then the sender may have it back. */
CCL_DEVICE int fetch(struct ccl_pair *pair, int streams)
{
    uint64_t place;
    memcpy(&place, fifo_line(pair->conn)->data, sizeof place);
    if (place >= pair->conn->home_bytes || pair->bytes > pair->conn->home_bytes - place) return 0;
    pair->src = pair->conn->home + place;
    copy_bite(pair, streams);
    if (pair->moved == pair->bytes) fifo_release(pair->conn);
    return 1;
}

/* A message of another length is a mistake of the program; a place outside, of the sender. */
CCL_DEVICE int run_recv(const struct ccl_pairs *work, struct ccl_pair *pair)
{
    if (!fifo_has_data(pair->conn)) return 0;
    uint64_t meta = *fifo_meta(pair->conn);
    int streams = work->streams != 0, has_place = (meta & CCL_META_PLACE) != 0;
    if ((meta & ~CCL_META_PLACE) != pair->bytes || (has_place && !fetch(pair, streams))) {
        set_error(work->error, CCL_ERROR_MISMATCH);
        return 0;
    }
    if (has_place) return 1;
    uint64_t left = pair->bytes - pair->moved;
    uint64_t bite = left < pair->conn->slot_bytes ? left : pair->conn->slot_bytes;
    if (bite > 0)
        ccl_copy(pair->dst + pair->moved, fifo_place(pair->conn, pair->bytes), bite, streams);
    if (streams) ccl_copy_fence();
    fifo_release(pair->conn);
    pair->moved += bite;
    return 1;
}

/* The next message of the connection may go, in whatever kernel. Release publishes what this one
 * left in the connection. */
CCL_DEVICE void pass_turn(const struct ccl_pairs *work, const struct ccl_pair *pair)
{
    store_release(&pair->conn->turn, pair->ticket + 1);
    ccl_bell_ring(work->bell);
}

/* 1 when the pair moved on. */
CCL_DEVICE int run_pair(const struct ccl_pairs *work, struct ccl_pair *pair)
{
    if (pair->state == CCL_PAIR_DONE) return 0;
    if (pair->state == CCL_PAIR_START) {
        /* Acquire pairs with pass_turn. */
        if (load_acquire(&pair->conn->turn) != pair->ticket) return 0;
        pair->state = CCL_PAIR_MOVING;
    }
    uint16_t before = pair->state;
    if (!(pair->role == CCL_PAIR_SEND ? run_send(pair) : run_recv(work, pair))) {
        uint32_t kind = pair->role == CCL_PAIR_SEND ? CCL_WAIT_CREDIT : CCL_WAIT_DATA;
        set_note(pair->note, kind, pair->conn->peer);
        return 0;
    }
    if (pair->moved == pair->bytes) pair->state = CCL_PAIR_DONE;
    if (pair->state == CCL_PAIR_DONE) set_note(pair->note, CCL_WAIT_NONE, 0);
    if (before == CCL_PAIR_MOVING && pair->state != CCL_PAIR_MOVING) pass_turn(work, pair);
    return 1;
}

/* A collective that became these messages may be another one elsewhere. */
CCL_DEVICE int wait_pairs(struct ccl_pairs *work)
{
    if (work->boards == NULL || ++work->nwaits < CCL_LONG_WAIT) return 0;
    for (uint32_t e = 0; e < work->nexecs; e++) {
        if (e == work->self || !board_differs(work->boards[e], &work->call)) continue;
        set_error(work->error, CCL_ERROR_MISMATCH);
        return 1;
    }
    return 0;
}

/* Returns 1 when all pairs are done or the communicator was aborted, 0 when it has to wait. */
CCL_DEVICE int run_pairs(struct ccl_pairs *work)
{
    for (;;) {
        if (load_acquire32(work->abort_word)) return 1;
        if (__atomic_load_n(work->error, __ATOMIC_RELAXED)) return 1;
        uint32_t moved = 0, done = 0;
        for (uint32_t i = 0; i < work->npairs; i++) {
            moved += (uint32_t)run_pair(work, &work->pairs[i]);
            done += work->pairs[i].state == CCL_PAIR_DONE;
        }
        if (done == work->npairs) return 1;
        if (moved == 0) return wait_pairs(work);
    }
}

#endif
