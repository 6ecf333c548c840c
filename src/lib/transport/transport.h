/* transport.h: memory for the FIFOs between two executors (or two ranks).
 *
 * A transport knows which processes it connects and where the memory of each FIFO lies; what is in
 * it is the kernel's business (kernel/work.h). Called by core under the clique's lock.
 */
#ifndef CCL_TRANSPORT_TRANSPORT_H
#define CCL_TRANSPORT_TRANSPORT_H

#include "nccl.h"

#include <stddef.h>
#include <stdint.h>

/* Names one FIFO of a communicator: from one executor to another on a channel, or from one
 * rank to another for send/recv. */
struct ccl_fifo_id {
    int of_ranks; /* sender and receiver are ranks, else executors */
    uint16_t sender, receiver, channel;
};

/* Who lives where, as much as transports need; see topo/topo.h. */
struct ccl_places {
    uint16_t nranks, nexecs, nprocs, self;  /* self: this process */
    uint16_t nchannels;                     /* of executor connections */
    const uint16_t *proc_of_exec, *proc_of; /* of an executor's lowest rank; of a rank */
    size_t fifo_bytes;                      /* of one FIFO, flags and ring */
    size_t flags_bytes;                     /* of its flags alone */
    size_t board_bytes;                     /* of one executor */
    size_t common_bytes;                    /* of memory that all processes share */
};

struct ccl_transport; /* state of one transport of one communicator in this process */

/* shared: other processes map it, too. */
struct ccl_transport_memory {
    const struct ccl_fifo_id *id;
    char *memory;
    size_t bytes;
    int shared;
};
typedef void ccl_transport_look(void *context, const struct ccl_transport_memory *memory);

struct ccl_transport_ops {
    const char *name;
    /* True when the transport can carry data between two hosts' processes. */
    int (*reach)(int same_process, int same_host);
    ncclResult_t (*open)(const struct ccl_places *places, struct ccl_transport **out);
    /* The descriptor that the other processes need, -1 when there is none; stays ours. */
    int (*share)(struct ccl_transport *transport);
    /* Takes what process `proc` shared; does not keep the fd. */
    ncclResult_t (*attach)(struct ccl_transport *transport, int proc, int fd);
    /* The FIFO's memory in this process, zeroed before first use; valid until close. */
    ncclResult_t (*fifo)(struct ccl_transport *transport, const struct ccl_fifo_id *id,
                         void **memory);
    /* Memory of common_bytes that all processes map, zeroed at first; after attach of all. */
    void *(*common)(struct ccl_transport *transport);
    /* Memory of board_bytes that an executor's process writes and all processes read, as
     * long-lived and zeroed as a FIFO; after attach. NULL: the transport has none. */
    void *(*board)(struct ccl_transport *transport, uint16_t exec);
    /* Shows all memory that this process holds: FIFOs in which its executors and ranks receive,
     * and, with id NULL, the rest. */
    void (*show)(struct ccl_transport *transport, ccl_transport_look *look, void *context);
    void (*close)(struct ccl_transport *transport); /* NULL is fine */
};

extern const struct ccl_transport_ops ccl_transport_p2p; /* ranks of one process */
extern const struct ccl_transport_ops ccl_transport_shm; /* processes of one host */

/* In order of preference, NULL at the end. */
extern const struct ccl_transport_ops *const ccl_transports[];

#endif
