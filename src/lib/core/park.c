/* park.c: the wait, and what becomes of a member afterwards. */
#include "core/park.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/err.h"
#include "core/await.h"
#include "core/join.h"
#include "core/meet.h"

#include <sched.h>

/* Calls of threads that work side by side come within microseconds. */
enum { PARK_US = 1000, LONG_PARK_US = 100000, SPIN_US = 2 };

/* Both handles of it. */
static int is_legacy(cudaStream_t stream)
{
    return (uintptr_t)stream < CCL_STREAM_PER_THREAD;
}

uint64_t ccl_park_us(const struct ccl_op *op)
{
    if (ccl_device()->launches_block != NULL && ccl_device()->launches_block()) return UINT64_MAX;
    int is_long = is_legacy(op->stream) || ccl_await_is_tight(op->comm->device);
    return is_long ? LONG_PARK_US : PARK_US;
}

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
    uint64_t patience_us = ccl_park_us(&set->members[member].record.op);
    while (!is_launched(set)) {
        int chosen = atomic_load_explicit(&set->chosen, memory_order_acquire);
        if (chosen == member + 1) return CHOSEN;
        uint64_t past_us = (ccl_clock_ns() - start_ns) / 1000;
        if (past_us >= (chosen != 0 ? PARK_US : patience_us)) return LATE;
        if (ccl_clique_error(set->exec->clique) != ncclSuccess) return LATE;
        if (past_us >= SPIN_US) sched_yield();
    }
    return LAUNCHED;
}

/* The others may be arriving this moment; the member's own call stands. */
static int device_of(const struct ccl_park *park)
{
    return park->set->members[park->member].record.op.comm->device;
}

/* For all members, unless another thread has done it meanwhile. */
static ncclResult_t launch(const struct ccl_park *park)
{
    struct ccl_set *set = park->set;
    struct ccl_exec *exec = set->exec;
    void *before;
    TRY(ccl_device()->enter(device_of(park), &before));
    ccl_exec_lock(exec);
    ncclResult_t rc = ccl_clique_error(exec->clique);
    if (rc == ncclSuccess && !is_launched(set)) rc = ccl_join_launch(exec);
    if (rc == ncclSuccess) rc = ccl_meet_raise(exec);
    if (rc != ncclSuccess && ccl_clique_error(exec->clique) == ncclSuccess)
        ccl_clique_fail(exec->clique, rc, 1, "%s", ccl_err_last());
    pthread_mutex_unlock(&exec->lock);
    ccl_device()->leave(before);
    return rc;
}

/* The set is launched. */
static ncclResult_t go_on(const struct ccl_set *set, uint16_t member)
{
    const struct ccl_member *m = &set->members[member];
    void *before;
    if (!m->own) return ncclSuccess;
    TRY(ccl_device()->enter(m->record.op.comm->device, &before));
    ncclResult_t rc = ccl_device()->base.stream_wait(m->record.op.stream, set->done);
    ccl_device()->leave(before);
    return rc;
}

/* Release: the set is not looked at any more and may be used again. */
static void drop(struct ccl_set *set)
{
    atomic_fetch_sub_explicit(&set->refs, 1, memory_order_release);
}

/* Returns 0 when the member is late: nobody has come. */
static int end_park(const struct ccl_park *park, uint64_t start_ns, ncclResult_t *rc)
{
    struct ccl_set *set = park->set;
    enum outcome outcome = wait_launch(set, park->member, start_ns);
    if (outcome == LATE) return 0;
    *rc = outcome == CHOSEN ? launch(park) : go_on(set, park->member);
    drop(set);
    return 1;
}

/* Nobody came: the members' streams get gates, unless they came just now. Whoever is late itself
 * launches what is complete. Under the lock. */
static ncclResult_t gate_late(struct ccl_exec *exec, const struct ccl_parks *parks)
{
    TRY(ccl_clique_error(exec->clique));
    for (size_t i = 0; i < parks->n; i++) {
        struct ccl_set *set = parks->list[i].set;
        if (set->exec != exec || is_launched(set)) continue;
        if (set->state == CCL_SET_GATHERING)
            TRY(ccl_meet_late(set, parks->list[i].member));
        else
            TRY(ccl_join_launch(exec));
    }
    return ccl_meet_raise(exec);
}

/* The late members of one executor. */
static ncclResult_t leave(struct ccl_exec *exec, struct ccl_parks *parks)
{
    void *before;
    ncclResult_t rc = ccl_device()->enter(device_of(&parks->list[0]), &before);
    int entered = rc == ncclSuccess;
    ccl_exec_lock(exec);
    if (rc == ncclSuccess) rc = gate_late(exec, parks);
    if (rc != ncclSuccess && ccl_clique_error(exec->clique) == ncclSuccess)
        ccl_clique_fail(exec->clique, rc, 1, "%s", ccl_err_last());
    pthread_mutex_unlock(&exec->lock);
    size_t kept = 0;
    for (size_t i = 0; i < parks->n; i++) {
        const struct ccl_park park = parks->list[i];
        if (park.set->exec != exec) {
            parks->list[kept++] = park;
            continue;
        }
        if (rc == ncclSuccess && is_launched(park.set)) rc = go_on(park.set, park.member);
        drop(park.set);
    }
    parks->n = kept;
    if (entered) ccl_device()->leave(before);
    return rc;
}

static ncclResult_t park_all(struct ccl_parks *parks)
{
    ncclResult_t rc = ncclSuccess;
    uint64_t start_ns = ccl_clock_ns();
    size_t nlate = 0;
    for (size_t i = 0; i < parks->n; i++) {
        ncclResult_t ended = ncclSuccess;
        if (!end_park(&parks->list[i], start_ns, &ended)) parks->list[nlate++] = parks->list[i];
        if (rc == ncclSuccess) rc = ended;
    }
    parks->n = nlate;
    while (parks->n > 0) {
        ncclResult_t left = leave(parks->list[0].set->exec, parks);
        if (rc == ncclSuccess) rc = left;
    }
    return rc;
}

ncclResult_t ccl_park_all(struct ccl_parks *parks)
{
    return parks->n > 0 ? park_all(parks) : ncclSuccess;
}
