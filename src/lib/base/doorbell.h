/* Doorbells: how a waiting process learns that some flag it polls may have changed.
 *
 * Each process has ONE doorbell in a memfd page that peers map. Whoever publishes a flag (FIFO
 * slot, credit, event, gate) rings the bell of the process that polls it. A ring is a load when
 * nobody sleeps there, where the kernel has membarrier(2), else a fence and a load. Pattern of a
 * sleeper: seen = ccl_bell_prepare(bell);      // announces the sleeper, then if (poll everything
 * once more finds something) { ccl_bell_cancel(bell); continue; } ccl_bell_sleep(bell, seen,
 * timeout_us);
 */
#ifndef CCL_BASE_DOORBELL_H
#define CCL_BASE_DOORBELL_H

#include "nccl.h"

#include <stdatomic.h>
#include <stdint.h>

struct ccl_bell {
    _Alignas(64) _Atomic uint32_t rings; /* futex word */
    _Atomic uint32_t sleepers;
    _Atomic uint32_t does_barrier; /* sleepers order ringers from afar; 0 as soon as they cannot */
};

/* This process's bell; made at first use. On failure of memfd or mmap it lies in private memory
 * until ccl_bell_self_fd succeeds. Rings of the private bell reach the one that replaced it; a
 * sleeper asks for the bell each time. */
struct ccl_bell *ccl_bell_self(void);

/* The memfd of that page for peers to map (ccl_bell_map), owned by this module and kept for the
 * life of the process; -1 when it cannot be made now. */
int ccl_bell_self_fd(void);

/* Maps a peer's bell; ccl_bell_unmap undoes it. Does not take the fd. */
ncclResult_t ccl_bell_map(int fd, struct ccl_bell **out);
void ccl_bell_unmap(struct ccl_bell *bell);

/* Wakes all sleepers, if any. The caller has published its flag before (any order; the fence is
 * in here). */
void ccl_bell_ring(struct ccl_bell *bell);

uint32_t ccl_bell_prepare(struct ccl_bell *bell);
void ccl_bell_cancel(struct ccl_bell *bell);
void ccl_bell_sleep(struct ccl_bell *bell, uint32_t seen, uint32_t timeout_us);

#endif
