/* Who sleeps, and who wakes whom: the list of threads that sleep on their own futex word.
 *
 * Called by the engine with its lock held. Invariant: a thread is listed exactly while nobody
 * has woken it; futex calls are made after the lock is dropped, by ccl_host_unlock.
 */
#define _GNU_SOURCE
#include "base/doorbell.h"
#include "device/host_engine.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void list_thread(struct ccl_host_thread *me)
{
    struct ccl_host_engine *e = &ccl_host;
    me->is_listed = 1;
    if (me->goal != NULL) { /* users in front: they wait for work that they could do themselves */
        me->prev = NULL;
        me->next = e->sleep_first;
    } else {
        me->prev = e->sleep_last;
        me->next = NULL;
    }
    *(me->prev != NULL ? &me->prev->next : &e->sleep_first) = me;
    *(me->next != NULL ? &me->next->prev : &e->sleep_last) = me;
}

static void unlist_thread(struct ccl_host_thread *me)
{
    struct ccl_host_engine *e = &ccl_host;
    if (!me->is_listed) return;
    me->is_listed = 0;
    *(me->prev != NULL ? &me->prev->next : &e->sleep_first) = me->next;
    *(me->next != NULL ? &me->next->prev : &e->sleep_last) = me->prev;
}

static void sleep_on_word(_Atomic uint32_t *word, uint32_t timeout_us)
{
    struct timespec timeout = {.tv_sec = timeout_us / 1000000u,
                               .tv_nsec = (long)(timeout_us % 1000000u) * 1000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, timeout_us == 0 ? NULL : &timeout, NULL, 0);
}

/* Sleeps until woken or until `timeout_us` is over (0: no limit). Drops the lock meanwhile. */
void ccl_host_follow(struct ccl_host_thread *me, uint32_t timeout_us)
{
    struct ccl_host_engine *e = &ccl_host;
    if (e->leader == me) e->leader = NULL; /* a leader sleeps on the bell only */
    ccl_host_settle();
    atomic_store_explicit(&me->woken, 0, memory_order_relaxed);
    list_thread(me);
    ccl_host_unlock();
    sleep_on_word(&me->woken, timeout_us);
    ccl_host_lock();
    unlist_thread(me);
}

/* The thread of host functions sleeps apart: only a host function wakes it. */
void ccl_host_rest(struct ccl_host_thread *me)
{
    struct ccl_host_engine *e = &ccl_host;
    e->func_thread = me;
    atomic_store_explicit(&me->woken, 0, memory_order_relaxed);
    ccl_host_unlock();
    sleep_on_word(&me->woken, 0);
    ccl_host_lock();
    e->func_thread = NULL;
}

void ccl_host_wake(struct ccl_host_thread *thread)
{
    struct ccl_host_engine *e = &ccl_host;
    unlist_thread(thread);
    /* Relaxed: all that the sleeper reads next it reads under the lock. */
    atomic_store_explicit(&thread->woken, 1, memory_order_relaxed);
    if (e->nwakes == CCL_HOST_MAX_WAKES) {
        syscall(SYS_futex, &thread->woken, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        return;
    }
    e->wakes[e->nwakes++] = &thread->woken;
}

/* Wakes one listed thread, a waiting user before a worker; 0 when nobody is listed. */
int ccl_host_wake_one(void)
{
    if (ccl_host.sleep_first == NULL) return 0;
    ccl_host_wake(ccl_host.sleep_first);
    return 1;
}

/* Makes sure that a worker looks at the engine soon. While a watcher is on duty this costs
 * nothing; that is what keeps an enqueue free of system calls. */
void ccl_host_wake_watcher(void)
{
    struct ccl_host_engine *e = &ccl_host;
    if (e->watcher != NULL || e->is_watch_called) return;
    struct ccl_host_thread *worker = e->sleep_last;
    if (worker != NULL && worker->goal == NULL) {
        e->is_watch_called = 1;
        ccl_host_wake(worker);
    } else if (e->leader != NULL && e->leader->is_asleep) {
        e->owes_ring = 1;
    }
}

static int is_met(const struct ccl_host_goal *goal)
{
    return goal != NULL && goal->word != NULL &&
           atomic_load_explicit(goal->word, memory_order_relaxed) >= goal->value;
}

/* After completions: wakes the threads whose goal is met now. */
void ccl_host_wake_met(void)
{
    struct ccl_host_engine *e = &ccl_host;
    if (!e->has_completed) return;
    e->has_completed = 0;
    for (struct ccl_host_thread *at = e->sleep_first, *next; at != NULL; at = next) {
        next = at->next;
        if (is_met(at->goal)) ccl_host_wake(at);
    }
    if (e->nbell > 0) e->owes_ring = 1;
    if (e->leader != NULL && e->leader->is_asleep && is_met(e->leader->goal)) e->owes_ring = 1;
}

/* Called by a thread that stops sweeping: if a lane came back blocked which the sleeping leader
 * did not see in its last sweep, the leader has to look again. */
void ccl_host_settle(void)
{
    struct ccl_host_engine *e = &ccl_host;
    if (!e->is_missed || e->leader == NULL || !e->leader->is_asleep) return;
    e->is_missed = 0;
    e->owes_ring = 1;
}

static void pay_wakes(_Atomic uint32_t *const *wakes, uint32_t nwakes)
{
    /* The owner of a word may have gone on already, even ended: then the call wakes nobody. */
    for (uint32_t i = 0; i < nwakes; i++)
        syscall(SYS_futex, wakes[i], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void ccl_host_lock(void)
{
    pthread_mutex_lock(&ccl_host.lock);
}

void ccl_host_unlock(void)
{
    struct ccl_host_engine *e = &ccl_host;
    if (e->nwakes == 0 && !e->owes_ring) {
        pthread_mutex_unlock(&e->lock);
        return;
    }
    _Atomic uint32_t *wakes[CCL_HOST_MAX_WAKES];
    uint32_t nwakes = e->nwakes;
    int rings = e->owes_ring;
    for (uint32_t i = 0; i < nwakes; i++) wakes[i] = e->wakes[i];
    e->nwakes = 0;
    e->owes_ring = 0;
    pthread_mutex_unlock(&e->lock);
    if (rings) ccl_bell_ring(ccl_bell_self());
    pay_wakes(wakes, nwakes);
}
