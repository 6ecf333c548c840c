/* The work loop of the host devices: sweeps over started lanes, and threads that wait.
 *
 * Called by workers (host_worker.c) and by every thread that synchronizes or helps.
 * A sweep runs every lane that has not begun to run since the sweep began: each lane carries the
 * stamp of the latest sweep at its start, and the list is kept in the order of stamps. A thread
 * whose sweep brought nothing spins, yields, then sleeps: one of them, the leader, on the
 * doorbell of the process, the others on words of their own. Invariant: while lanes are blocked
 * somebody sweeps, or the leader sleeps on the bell and announced itself (ccl_bell_prepare)
 * before each blocked lane last ran; so whoever publishes a flag later sees a sleeper and rings.
 */
#define _GNU_SOURCE
#include "device/host_engine.h"

#include "base/clock.h"
#include "base/doorbell.h"

#include <sched.h>

enum {
    SPIN_NS = 2000,      /* sweeps that bring nothing go on so long */
    MAX_YIELDS = 3,      /* and then so many times */
    CALL_RUN_NS = 30000, /* a run this long with others waiting calls for another thread */
    RELAXES = 8,         /* between two sweeps */
};

struct ccl_host_engine ccl_host = {.lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP};

void ccl_host_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    __asm__ volatile("" ::: "memory");
#endif
}

/* A ready function runs without the lock: it may call anything. */
static int is_met(const struct ccl_host_goal *goal)
{
    if (goal == NULL) return 0;
    /* Acquire pairs with the release in ccl_host_complete: the effects of the operation. */
    if (goal->word != NULL)
        return atomic_load_explicit(goal->word, memory_order_acquire) >= goal->value;
    if (goal->ready == NULL) return 0;
    ccl_host_unlock();
    int met = goal->ready(goal->arg);
    ccl_host_lock();
    return met;
}

static struct ccl_host_lane *take_lane(uint64_t sweep)
{
    struct ccl_host_engine *e = &ccl_host;
    struct ccl_host_lane *lane = e->first;
    if (lane == NULL || lane->stamp >= sweep) return NULL;
    e->first = lane->next;
    if (e->first == NULL) e->last = NULL;
    e->nfresh -= lane->is_fresh;
    lane->is_fresh = 0;
    lane->stamp = e->stamp;
    e->visits++;
    return lane;
}

/* Puts a blocked lane back. One that ran longer than a sweep goes to the front, where the sweeps
 * that began meanwhile still find it. */
static void return_lane(struct ccl_host_lane *lane)
{
    struct ccl_host_engine *e = &ccl_host;
    if (lane->stamp < e->leader_stamp) e->is_missed = 1;
    lane->next = NULL;
    if (e->first == NULL) {
        e->first = e->last = lane;
    } else if (lane->stamp < e->stamp) {
        lane->next = e->first;
        e->first = lane;
    } else {
        e->last->next = lane;
        e->last = lane;
    }
}

static void finish_kernel(struct ccl_host_op *op)
{
    if (op->retire != NULL) {
        ccl_host_unlock();
        op->retire(op->args);
        ccl_host_lock();
    }
    ccl_host_complete(op);
    ccl_host_drain_kicks();
}

/* Runs a lane once, without the lock. 1 when it went on. What one run writes is published
 * to the lane's next run, on whatever thread, and to retire by the lock. */
static int run_lane(struct ccl_host_lane *lane)
{
    struct ccl_host_engine *e = &ccl_host;
    struct ccl_host_op *op = lane->op;
    int may_call = e->first != NULL && e->nactive < e->max_active;
    ccl_host_unlock();
    uint64_t began_ns = may_call ? ccl_clock_ns() : 0;
    enum ccl_run run = op->host(op->args, lane->index, &lane->cursor);
    int is_long = may_call && ccl_clock_ns() - began_ns > CALL_RUN_NS;
    ccl_host_lock();
    if (is_long && e->first != NULL && e->nactive < e->max_active) ccl_host_wake_one();
    if (run == CCL_RUN_DONE) {
        if (--op->lanes_left == 0) finish_kernel(op);
        return 1;
    }
    return_lane(lane);
    return run == CCL_RUN_MORE;
}

/* Runs all lanes once, until `goal` is met. 1 when something went on. */
static int sweep(const struct ccl_host_goal *goal)
{
    struct ccl_host_engine *e = &ccl_host;
    uint64_t number = ++e->stamp, starts = e->starts;
    int progress = 0, missed = e->is_missed;
    struct ccl_host_lane *lane;
    e->is_missed = 0; /* this sweep runs such lanes, unless it ends early */
    while ((lane = take_lane(number)) != NULL) {
        progress |= run_lane(lane);
        if (progress && is_met(goal)) {
            e->is_missed |= missed;
            break;
        }
    }
    return progress || e->starts != starts;
}

static int sweep_once(const struct ccl_host_goal *goal)
{
    ccl_host.nactive++;
    int progress = sweep(goal);
    ccl_host.nactive--;
    return progress;
}

/* Between two sweeps that brought nothing; 0 when it is time to sleep. */
static int pause_sweeping(uint64_t *spin_end_ns, int *nyields)
{
    uint64_t now_ns = ccl_clock_ns();
    if (*spin_end_ns == 0) *spin_end_ns = now_ns + SPIN_NS;
    int spins = now_ns < *spin_end_ns;
    if (!spins && (*nyields)++ == MAX_YIELDS) return 0;
    ccl_host_unlock();
    for (int i = 0; spins && i < RELAXES; i++) ccl_host_relax();
    if (!spins) sched_yield();
    ccl_host_lock();
    return 1;
}

/* Sweeps until the goal of `me` is met or there is nothing to go on with. */
void ccl_host_session(struct ccl_host_thread *me)
{
    struct ccl_host_engine *e = &ccl_host;
    uint64_t spin_end_ns = 0;
    int nyields = 0;
    e->nactive++;
    while (!e->is_stopping || me->goal != NULL) {
        int progress = sweep(me->goal);
        if (is_met(me->goal)) break;
        if (progress) {
            spin_end_ns = 0;
            nyields = 0;
            continue;
        }
        if (e->first == NULL || !pause_sweeping(&spin_end_ns, &nyields)) break;
    }
    e->nactive--;
}

/* Becomes the leader: announces itself at the bell, sweeps once more, and sleeps there. A flag
 * published after the announcement rings; one published before it is seen by the sweep. */
void ccl_host_lead(struct ccl_host_thread *me, uint32_t timeout_us)
{
    struct ccl_host_engine *e = &ccl_host;
    struct ccl_bell *bell = ccl_bell_self();
    e->leader = me;
    e->leader_stamp = e->stamp + 1;
    uint32_t seen = ccl_bell_prepare(bell);
    int stays_awake = sweep_once(me->goal);
    uint64_t starts = e->starts;
    stays_awake |= is_met(me->goal) || e->starts != starts;
    if (stays_awake || e->is_missed || e->leader != me || e->is_stopping) {
        ccl_bell_cancel(bell);
        return;
    }
    me->is_asleep = 1;
    ccl_host_unlock();
    ccl_bell_sleep(bell, seen, timeout_us);
    ccl_host_lock();
    me->is_asleep = 0;
}

/* Called by a thread that leaves, and by one that started work which it will not do: sees to it
 * that the lanes that are left have somebody to run them. */
void ccl_host_hand_over(void)
{
    struct ccl_host_engine *e = &ccl_host;
    if (e->first == NULL || e->nactive > 0) return;
    if (e->leader != NULL) {
        if (e->leader->is_asleep && e->nfresh > 0) e->owes_ring = 1;
        ccl_host_settle();
        return;
    }
    /* A watching worker comes by within its period; a waiting user must not wait for that. */
    struct ccl_host_thread *user = e->sleep_first;
    if (user != NULL && user->goal != NULL)
        ccl_host_wake(user);
    else
        ccl_host_wake_watcher();
}

static void leave(struct ccl_host_thread *me)
{
    if (ccl_host.leader == me) ccl_host.leader = NULL;
    ccl_host_hand_over();
}

/* A user thread leads rather than a worker: its own completion then needs no second wake. */
static int may_lead(const struct ccl_host_thread *me)
{
    const struct ccl_host_thread *leader = ccl_host.leader;
    return leader == NULL || leader == me || leader->goal == NULL;
}

/* Blocks until a goal with a word is met; does the work itself as far as it can. */
void ccl_host_wait(const struct ccl_host_goal *goal)
{
    struct ccl_host_engine *e = &ccl_host;
    if (is_met(goal)) return;
    struct ccl_host_thread me = {.goal = goal};
    ccl_host_lock();
    while (!is_met(goal)) {
        int has_room = e->nactive < e->max_active;
        if (has_room && e->first != NULL) {
            ccl_host_session(&me);
            if (is_met(goal)) break;
        }
        if (has_room && e->first != NULL && may_lead(&me))
            ccl_host_lead(&me, CCL_HOST_BACKSTOP_US);
        else
            ccl_host_follow(&me, CCL_HOST_BACKSTOP_US);
    }
    leave(&me);
    ccl_host_unlock();
}

/* Waits on the bell beside a leader who looks after the lanes. */
static void wait_beside(const struct ccl_host_goal *goal, uint32_t timeout_us)
{
    struct ccl_bell *bell = ccl_bell_self();
    uint32_t seen = ccl_bell_prepare(bell);
    ccl_host_settle();
    if (is_met(goal)) {
        ccl_bell_cancel(bell);
        return;
    }
    ccl_host_unlock();
    ccl_bell_sleep(bell, seen, timeout_us);
    ccl_host_lock();
}

/* Works, and sleeps on the bell, until goal->ready or the time is over; one round when there is
 * no ready function. Returns 1 when ready. */
int ccl_host_help(const struct ccl_host_goal *goal, uint32_t timeout_us)
{
    struct ccl_host_engine *e = &ccl_host;
    struct ccl_host_thread me = {.goal = goal};
    uint64_t end_ns = ccl_clock_ns() + (uint64_t)timeout_us * 1000u;
    int met = 0;
    ccl_host_lock();
    do {
        int has_room = e->first != NULL && e->nactive < e->max_active;
        if (has_room && goal->ready != NULL)
            ccl_host_session(&me);
        else if (has_room && sweep_once(goal))
            break;
        uint64_t now_ns = ccl_clock_ns();
        if ((met = is_met(goal)) || now_ns >= end_ns) break;
        uint64_t left_us = (end_ns - now_ns + 999u) / 1000u;
        if (left_us > CCL_HOST_BACKSTOP_US) left_us = CCL_HOST_BACKSTOP_US;
        e->nbell++;
        if (may_lead(&me))
            ccl_host_lead(&me, (uint32_t)left_us);
        else
            wait_beside(goal, (uint32_t)left_us);
        e->nbell--;
        met = is_met(goal);
    } while (!met && goal->ready != NULL);
    leave(&me);
    ccl_host_unlock();
    return met;
}
