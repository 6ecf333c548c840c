/* ledger.c: what is taken of each GPU, under one lock. */
#include "core/ledger.h"

#include "device/device.h"

#include <pthread.h>

/* Kernels with connections fit twice on an SM (kernel/cuda_sched.h); some places are for gates. */
enum { MAX_DEVICES = 64, CTAS_PER_SM = 2, FOR_GATES = 24, PART = 4 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t taken[MAX_DEVICES];

static uint32_t count_left(int device)
{
    uint32_t all = CTAS_PER_SM * ccl_device()->lanes(device), used = taken[device] + FOR_GATES;
    return all > used ? all - used : 0;
}

uint16_t ccl_ledger_lanes(uint16_t most_ranks, uint16_t nchannels)
{
    enum { LANES_MOST = 16 }; /* of all ranks of an executor */
    uint16_t lanes = nchannels < LANES_MOST ? nchannels : LANES_MOST;
    return (uint16_t)(lanes > most_ranks ? lanes / most_ranks : 1);
}

uint32_t ccl_ledger_need(const struct ccl_ledger_ask *ask, uint16_t nchannels)
{
    uint32_t of_messages = (uint32_t)ask->nranks * ccl_ledger_lanes(ask->most, nchannels);
    return (ask->leads ? nchannels : 0u) + of_messages;
}

uint16_t ccl_ledger_take(const struct ccl_ledger_ask *ask, uint16_t most)
{
    uint16_t n = 0;
    if (ask->device < 0 || ask->device >= MAX_DEVICES) return 0;
    pthread_mutex_lock(&lock);
    uint32_t left = count_left(ask->device);
    if (ccl_ledger_need(ask, 1) <= left) n = 1;
    while (n > 0 && n < most && ccl_ledger_need(ask, (uint16_t)(n + 1)) <= left / PART) n++;
    if (n > 0) taken[ask->device] += ccl_ledger_need(ask, n);
    pthread_mutex_unlock(&lock);
    return n;
}

void ccl_ledger_give(int device, uint32_t nctas)
{
    if (nctas == 0) return;
    pthread_mutex_lock(&lock);
    taken[device] -= nctas;
    pthread_mutex_unlock(&lock);
}
