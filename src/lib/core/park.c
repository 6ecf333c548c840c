/* park.c: the wait, and what becomes of a member afterwards. */
#include "core/park.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/err.h"
#include "core/join.h"
#include "core/meet.h"

#include <sched.h>

/* Calls of threads that work side by side come within microseconds. */
enum { PARK_US = 1000, SPIN_US = 2 };

ncclResult_t ccl_park_add(struct ccl_parks *parks, struct ccl_set *set, uint16_t member)
{
    struct ccl_member *m = &set->members[member];
    TRY(ccl_grow((void **)&parks->list, parks->n, &parks->room, sizeof *parks->list));
    m->parked = 1;
    m->own = (uintptr_t)m->record.op.stream == CCL_STREAM_PER_THREAD;
    if (m->own) TRY(ccl_device()->base.event_record(m->ready, m->record.op.stream));
    atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
    parks->list[parks->n++] = (struct ccl_park){set, member};
    return ncclSuccess;
}

/* Acquire pairs with the launch: the set's event is recorded. */
static int is_launched(const struct ccl_set *set)
{
    return atomic_load_explicit(&set->is_launched, memory_order_acquire);
}

enum outcome { LAUNCHED, CHOSEN, LATE };

/* Waits for the rest to arrive. Once they have, some thread launches the set at once. LATE also
 * when the communicator failed. Acquire pairs with the choice. */
static enum outcome wait_launch(const struct ccl_set *set, uint16_t member, uint64_t start_ns)
{
    while (!is_launched(set)) {
        int chosen = atomic_load_explicit(&set->chosen, memory_order_acquire);
        if (chosen == member + 1) return CHOSEN;
        uint64_t past_us = (ccl_clock_ns() - start_ns) / 1000;
        if (past_us >= PARK_US) return LATE;
        if (ccl_clique_error(set->exec->clique) != ncclSuccess) return LATE;
        if (past_us >= SPIN_US) sched_yield();
    }
    return LAUNCHED;
}

/* For all members, unless another thread has done it meanwhile. */
static ncclResult_t launch(struct ccl_set *set)
{
    struct ccl_exec *exec = set->exec;
    ccl_exec_lock(exec);
    ncclResult_t rc = ccl_clique_error(exec->clique);
    if (rc == ncclSuccess && !is_launched(set)) rc = ccl_join_launch(exec);
    if (rc != ncclSuccess && ccl_clique_error(exec->clique) == ncclSuccess)
        ccl_clique_fail(exec->clique, rc, 1, "%s", ccl_err_last());
    pthread_mutex_unlock(&exec->lock);
    return rc;
}

/* The set is launched. */
static ncclResult_t go_on(const struct ccl_set *set, uint16_t member)
{
    const struct ccl_member *m = &set->members[member];
    return m->own ? ccl_device()->base.stream_wait(m->record.op.stream, set->done) : ncclSuccess;
}

/* Nobody came: the member's stream gets a gate, unless they came just now. Whoever is late itself
 * launches what is complete. */
static ncclResult_t leave(struct ccl_set *set, uint16_t member)
{
    struct ccl_exec *exec = set->exec;
    ccl_exec_lock(exec);
    ncclResult_t rc = ccl_clique_error(exec->clique);
    if (rc == ncclSuccess && !is_launched(set))
        rc = set->state == CCL_SET_GATHERING ? ccl_meet_gate(set, member) : ccl_join_launch(exec);
    pthread_mutex_unlock(&exec->lock);
    return rc == ncclSuccess && is_launched(set) ? go_on(set, member) : rc;
}

static ncclResult_t end_park(const struct ccl_park *park, uint64_t start_ns)
{
    struct ccl_set *set = park->set;
    ncclResult_t rc = ncclSuccess;
    void *before;
    TRY(ccl_device()->enter(set->members[park->member].record.op.comm->device, &before));
    switch (wait_launch(set, park->member, start_ns)) {
    case LATE: rc = leave(set, park->member); break;
    case CHOSEN: rc = launch(set); break;
    default: rc = go_on(set, park->member);
    }
    ccl_device()->leave(before);
    /* Release: the set is not looked at any more and may be used again. */
    atomic_fetch_sub_explicit(&set->refs, 1, memory_order_release);
    return rc;
}

ncclResult_t ccl_park_all(struct ccl_parks *parks)
{
    if (parks->n == 0) return ncclSuccess;
    ncclResult_t rc = ncclSuccess;
    uint64_t start_ns = ccl_clock_ns();
    for (size_t i = 0; i < parks->n; i++) {
        ncclResult_t ended = end_park(&parks->list[i], start_ns);
        if (rc == ncclSuccess) rc = ended;
    }
    parks->n = 0;
    return rc;
}
