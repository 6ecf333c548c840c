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
    if (!m->own && (uintptr_t)m->record.op.stream == CCL_STREAM_PER_THREAD) {
        m->own = 1;
        TRY(ccl_device()->base.event_record(m->ready, m->record.op.stream));
    }
    atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
    parks->list[parks->n++] = (struct ccl_park){.set = set, .member = member};
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
    if (rc == ncclSuccess) rc = ccl_meet_raise(exec, CCL_GATE_WHOLE);
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

/* Of the launched members of an executor, those that wait themselves for theirs. */
static ncclResult_t follow(const struct ccl_exec *exec, const struct ccl_parks *parks)
{
    for (size_t i = 0; i < parks->n; i++) {
        const struct ccl_park *park = &parks->list[i];
        struct ccl_member *m = &park->set->members[park->member];
        if (park->set->exec != exec || !m->own || !is_launched(park->set)) continue;
        m->own = 0;
        TRY(ccl_device()->base.stream_wait(m->record.op.stream, park->set->done));
    }
    return ncclSuccess;
}

/* Nobody came: the members' streams get gates, unless they came just now. Whoever is late itself
 * launches what is complete. A gate tells that its stream has come to its own operation before the
 * stream waits for what is launched, and stays behind that: what is queued behind a gate that stays
 * would hold a hardware queue. Under the lock. */
static ncclResult_t gate_late(struct ccl_exec *exec, const struct ccl_parks *parks)
{
    TRY(ccl_clique_error(exec->clique));
    for (size_t i = 0; i < parks->n; i++) {
        const struct ccl_park *park = &parks->list[i];
        if (!park->is_late || park->set->exec != exec || is_launched(park->set)) continue;
        if (park->set->state == CCL_SET_GATHERING)
            TRY(ccl_meet_late(park->set, park->member));
        else
            TRY(ccl_join_launch(exec));
    }
    TRY(ccl_meet_raise(exec, CCL_GATE_RAISE));
    TRY(follow(exec, parks));
    return ccl_meet_raise(exec, CCL_GATE_STAY);
}

/* The late members of the executor of one of them, whose device it is: others may be elsewhere. */
static ncclResult_t leave(const struct ccl_park *late, struct ccl_parks *parks)
{
    struct ccl_exec *exec = late->set->exec;
    void *before;
    ncclResult_t rc = ccl_device()->enter(device_of(late), &before);
    int entered = rc == ncclSuccess;
    ccl_exec_lock(exec);
    if (rc == ncclSuccess) rc = gate_late(exec, parks);
    if (rc != ncclSuccess && ccl_clique_error(exec->clique) == ncclSuccess)
        ccl_clique_fail(exec->clique, rc, 1, "%s", ccl_err_last());
    pthread_mutex_unlock(&exec->lock);
    for (size_t i = 0; i < parks->n; i++)
        if (parks->list[i].set->exec == exec) parks->list[i].is_late = 0;
    if (entered) ccl_device()->leave(before);
    return rc;
}

static ncclResult_t park_all(struct ccl_parks *parks)
{
    ncclResult_t rc = ncclSuccess, ended;
    uint64_t start_ns = ccl_clock_ns();
    for (size_t i = 0; i < parks->n; i++) {
        struct ccl_park *park = &parks->list[i];
        enum outcome outcome = wait_launch(park->set, park->member, start_ns);
        park->is_late = outcome == LATE;
        if (outcome != CHOSEN) continue;
        ended = launch(park);
        if (rc == ncclSuccess) rc = ended;
    }
    for (size_t i = 0; i < parks->n; i++) {
        if (!parks->list[i].is_late) continue;
        ended = leave(&parks->list[i], parks);
        if (rc == ncclSuccess) rc = ended;
    }
    for (size_t i = 0; i < parks->n; i++) {
        struct ccl_set *set = parks->list[i].set;
        if (rc == ncclSuccess && is_launched(set)) rc = go_on(set, parks->list[i].member);
        drop(set);
    }
    parks->n = 0;
    return rc;
}

ncclResult_t ccl_park_all(struct ccl_parks *parks)
{
    return parks->n > 0 ? park_all(parks) : ncclSuccess;
}
