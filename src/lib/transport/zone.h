/* zone.h: where everything lies in the zones of executors on GPUs.
 *
 * A zone is the memory of an executor in which others write: the FIFOs in which it, or one of its
 * ranks, receives, and the lines of credit of those in which they send. All processes lay zones out
 * alike, so that no addresses are exchanged. What a FIFO holds is the kernel's business. Pure
 * arithmetic; core/zones.c has the memory.
 */
#ifndef CCL_TRANSPORT_ZONE_H
#define CCL_TRANSPORT_ZONE_H

#include "transport/transport.h"

enum { CCL_ZONE_LINE_BYTES = 128, CCL_ZONE_PROTOS = 3 };

/* The same in all processes. Sizes are multiples of CCL_ZONE_LINE_BYTES. */
struct ccl_zone_shape {
    uint16_t nexecs, nranks;
    uint16_t nchannels;                 /* of executors */
    uint16_t nlanes;                    /* of a message between ranks */
    const uint16_t *exec_of;            /* [nranks] */
    const uint16_t *slot_of;            /* [nranks] ranks sorted by executor */
    const uint16_t *first_slot;         /* [nexecs + 1] */
    size_t fifo_bytes[CCL_ZONE_PROTOS]; /* of an executor's FIFO of each protocol */
    size_t message_bytes;               /* of a rank's FIFO */
};

/* A place in the zone of an executor. */
struct ccl_zone_place {
    uint16_t exec;
    size_t at;
};

/* Bytes of the zone of an executor. */
size_t ccl_zone_bytes(const struct ccl_zone_shape *shape, uint16_t exec);

/* The memory of a FIFO, at its receiver, and its credit, at its sender. FIFOs of ranks have one
 * protocol, 0, and lanes for channels. */
struct ccl_zone_place ccl_zone_fifo(const struct ccl_zone_shape *shape,
                                    const struct ccl_fifo_id *id, unsigned proto);
struct ccl_zone_place ccl_zone_credit(const struct ccl_zone_shape *shape,
                                      const struct ccl_fifo_id *id, unsigned proto);

#endif
