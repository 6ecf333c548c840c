/* ledger.h: how many CTAs of a GPU may wait for other executors at the same time.
 *
 * A kernel with connections makes no progress before all that it waits for run as well, so that
 * none of them may lack a place on its GPU. Each communicator takes what its kernels need for its
 * whole life. The list is the process's.
 */
#ifndef CCL_CORE_LEDGER_H
#define CCL_CORE_LEDGER_H

#include <stdint.h>

/* Kernels that one executor may run side by side: one for collectives, one a rank for messages. */
struct ccl_ledger_ask {
    int device;
    int leads;       /* runs the collectives */
    uint16_t nranks; /* of this process */
    uint16_t most;   /* ranks of the executor of the communicator that has most */
};

/* Channels of a message between ranks, beside so many of collectives: the same on all executors. */
uint16_t ccl_ledger_lanes(uint16_t most_ranks, uint16_t nchannels);
/* CTAs for this number of channels. */
uint32_t ccl_ledger_need(const struct ccl_ledger_ask *ask, uint16_t nchannels);
/* Takes CTAs for `most` channels, or for fewer, so that a part of what is left stays for others.
 * Returns the channels; 0: nothing is left. */
uint16_t ccl_ledger_take(const struct ccl_ledger_ask *ask, uint16_t most);
/* Gives so many CTAs back. */
void ccl_ledger_give(int device, uint32_t nctas);

#endif
