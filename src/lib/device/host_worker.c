/* Threads of the host devices and their life: workers, and one thread for host functions.
 *
 * Started at the first enqueue; ended and joined when nobody holds the devices any more and
 * nothing is pending, or by reset. A worker rests unless somebody calls it; one of them, the
 * watcher, looks around now and then while operations keep coming, so that an enqueue need not
 * wake anybody. Host functions have a thread of their own, since they may block, and since a
 * thread that synchronizes may hold a lock that a function of another stream wants.
 */
#define _GNU_SOURCE
#include "device/host_engine.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/param.h"
#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_THREADS = 257,
    WATCH_US = 100,           /* while the engine has operations */
    WATCH_KEPT_US = 500,      /* while streams keep small kernels that their threads run */
    WATCH_IDLE_NS = 10000000, /* the watch ends after so long without an enqueue */
};

static pthread_mutex_t life_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before the engine's */
static pthread_t threads[MAX_THREADS];
static struct ccl_host_thread selves[MAX_THREADS]; /* not on their stacks: a wake may come late */
static uint32_t nthreads;
static uint32_t nworkers;
static pthread_once_t count_once = PTHREAD_ONCE_INIT;
static uint32_t nholds; /* under life_lock */
static _Thread_local int is_engine_thread;

static uint32_t count_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int ncores = CPU_COUNT(&set);
    return ncores < 1 ? 1 : ncores >= MAX_THREADS ? MAX_THREADS - 1 : (uint32_t)ncores;
}

static void count_workers(void)
{
    int64_t asked = ccl_param_int(CCL_PARAM_HOST_THREADS);
    nworkers = asked > 0 ? (uint32_t)asked : count_cores();
}

/* How many workers there are when they run: also how many threads sweep at once at most. */
uint32_t ccl_host_nworkers(void)
{
    pthread_once(&count_once, count_workers);
    return nworkers;
}

/* What a worker remembers between two looks. */
struct look {
    uint64_t visits, enqueues, busy_ns;
};

/* True when lanes are there that nobody has run since the last look, and the leader does not
 * sleep over blocked ones. */
static int is_unattended(const struct look *look)
{
    const struct ccl_host_engine *e = &ccl_host;
    if (e->first == NULL || e->nactive >= e->max_active || e->visits != look->visits) return 0;
    return e->nfresh > 0 || e->leader == NULL || !e->leader->is_asleep;
}

/* Takes or gives up the watch; returns how long this worker may sleep, in microseconds. */
static uint32_t keep_watch(struct ccl_host_thread *me, struct look *look)
{
    struct ccl_host_engine *e = &ccl_host;
    if (e->watcher != NULL && e->watcher != me) return 0;
    uint64_t now_ns = ccl_clock_ns(), nkept = ccl_host_watch_kept();
    if (e->enqueues != look->enqueues || nkept > 0) look->busy_ns = now_ns;
    look->enqueues = e->enqueues;
    /* Blocked lanes are looked after when a leader sleeps over them, as this worker itself will
     * when nobody else is there; not while all threads are busy with long lanes. */
    int is_cared_for = e->first == NULL || (e->leader == NULL && e->nactive == 0) ||
                       (e->leader != NULL && (e->leader == me || e->leader->is_asleep));
    int is_over = is_cared_for && now_ns - look->busy_ns > WATCH_IDLE_NS;
    /* Before the last look, see call_watcher in host_keep.c. */
    atomic_store_explicit(&e->is_watched, !is_over, memory_order_seq_cst);
    if (is_over && ccl_host_count_kept() > 0) {
        atomic_store_explicit(&e->is_watched, 1, memory_order_relaxed);
        is_over = 0;
    }
    e->watcher = is_over ? NULL : me;
    if (is_over) return 0;
    return e->pending > 0 ? WATCH_US : WATCH_KEPT_US;
}

static void *run_worker(void *self)
{
    struct ccl_host_engine *e = &ccl_host;
    struct ccl_host_thread *me = self;
    struct look look = {0};
    int is_called = 1;
    is_engine_thread = 1;
    ccl_thread_name("chorus-worker");
    ccl_host_lock();
    while (!e->is_stopping) {
        int has_room = e->first != NULL && e->nactive < e->max_active;
        if (has_room && (is_called || is_unattended(&look))) ccl_host_session(me);
        e->is_watch_called = 0;
        uint32_t watch_us = keep_watch(me, &look);
        look.visits = e->visits;
        if (e->is_stopping) break;
        if (e->first != NULL && e->nactive == 0 && (e->leader == NULL || e->leader == me)) {
            ccl_host_lead(me, watch_us > 0 ? watch_us : CCL_HOST_BACKSTOP_US);
            is_called = e->leader == me;
        } else {
            ccl_host_follow(me, watch_us);
            is_called = atomic_load_explicit(&me->woken, memory_order_relaxed) != 0;
        }
    }
    if (e->leader == me) e->leader = NULL;
    if (e->watcher == me) {
        e->watcher = NULL;
        atomic_store_explicit(&e->is_watched, 0, memory_order_relaxed);
    }
    ccl_host_unlock();
    return NULL;
}

static void run_func(struct ccl_host_op *op)
{
    ccl_host_unlock();
    op->function(op->argument);
    ccl_host_lock();
    ccl_host_complete(op);
    ccl_host_drain_kicks();
    ccl_host_hand_over();
}

static void *run_funcs(void *self)
{
    struct ccl_host_engine *e = &ccl_host;
    is_engine_thread = 1;
    ccl_thread_name("chorus-func");
    ccl_host_lock();
    while (!e->is_stopping) {
        struct ccl_host_op *op = e->func_first;
        if (op == NULL) {
            ccl_host_rest(self);
            continue;
        }
        e->func_first = op->next;
        if (op->next == NULL) e->func_last = NULL;
        run_func(op);
    }
    ccl_host_unlock();
    return NULL;
}

/* Ends and joins all threads. With life_lock, without the engine's. */
static void join_threads(void)
{
    struct ccl_host_engine *e = &ccl_host;
    ccl_host_lock();
    e->is_stopping = 1;
    while (ccl_host_wake_one()) {
    }
    if (e->func_thread != NULL) ccl_host_wake(e->func_thread);
    e->func_thread = NULL;
    e->owes_ring = 1;
    ccl_host_unlock();
    for (uint32_t i = 0; i < nthreads; i++) pthread_join(threads[i], NULL);
    nthreads = 0;
    ccl_host_lock();
    e->is_stopping = 0;
    e->is_watch_called = 0;
    ccl_host_unlock();
}

/* Signals are the business of the program's own threads. */
static ncclResult_t create_thread(void *(*body)(void *))
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_t *thread = &threads[nthreads];
    int error =
        CCL_FAULT("thread-create") ? EAGAIN : pthread_create(thread, NULL, body, &selves[nthreads]);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error != 0)
        return ccl_err(ncclSystemError, "creating thread %u of the host devices failed: %s",
                       nthreads, strerror(error));
    nthreads++;
    return ncclSuccess;
}

/* Starts the threads unless they run. Blocks while others start or end them. */
ncclResult_t ccl_host_workers_start(void)
{
    struct ccl_host_engine *e = &ccl_host;
    ncclResult_t rc = ncclSuccess;
    pthread_mutex_lock(&life_lock);
    if (nthreads > 0) goto out;
    ccl_host_lock();
    e->max_active = ccl_host_nworkers();
    ccl_host_unlock();
    for (uint32_t i = 0; i < nworkers; i++) TRY_GOTO(rc, create_thread(run_worker), fail);
    TRY_GOTO(rc, create_thread(run_funcs), fail);
    ccl_host_lock();
    e->is_running = 1;
    ccl_host_unlock();
    goto out;
fail:
    join_threads();
out:
    pthread_mutex_unlock(&life_lock);
    return rc;
}

static void stop_locked(int even_if_held)
{
    struct ccl_host_engine *e = &ccl_host;
    if (nthreads == 0 || is_engine_thread || (nholds > 0 && !even_if_held)) return;
    ccl_host_lock();
    int is_idle = e->pending == 0 && ccl_host_stop_keeping();
    if (is_idle) e->is_running = 0; /* an enqueue from now on waits for life_lock */
    ccl_host_unlock();
    if (is_idle) join_threads();
}

/* Ends the threads if nothing is pending (and, unless even_if_held, nobody holds the devices). A
 * call from one of the threads leaves them to the next call from elsewhere. */
void ccl_host_workers_stop(int even_if_held)
{
    pthread_mutex_lock(&life_lock);
    stop_locked(even_if_held);
    pthread_mutex_unlock(&life_lock);
}

ncclResult_t ccl_host_hold(void)
{
    pthread_mutex_lock(&life_lock);
    nholds++;
    pthread_mutex_unlock(&life_lock);
    return ncclSuccess;
}

void ccl_host_drop(void)
{
    pthread_mutex_lock(&life_lock);
    if (nholds > 0 && --nholds == 0) stop_locked(0);
    pthread_mutex_unlock(&life_lock);
}
