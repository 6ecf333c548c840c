/* Kept kernels: small ones that the threads which launch and await them run by themselves.
 *
 * A small kernel on an idle stream is not queued: the stream keeps it, and the thread that
 * launched it, or one that waits for the stream, runs it without the engine's lock. One that has
 * nothing to go on with for long, or that nobody looks after, is given to the engine, as is every
 * one behind which something else is enqueued. Invariant: a stream is OPEN, BUSY (one thread has
 * it to itself) or KEEPS a kernel, its only unfinished operation; whoever appends to its queue
 * has made it BUSY.
 */
#define _GNU_SOURCE
#include "device/host_engine.h"

#include "base/clock.h"
#include "base/doorbell.h"

#include <sched.h>

enum {
    MAX_OWN = 64,         /* kernels that a thread keeps at once */
    SPIN_NS = 2000,       /* runs that bring nothing go on so long */
    YIELD_NS = 400000,    /* and then, each behind a yield, until here */
    POLLS_PER_CLOCK = 16, /* runs between two looks at the clock */
    LINGER_POLLS = 16,    /* runs at the end of the call that launched */
    LUCK = 8,             /* waits in a row that spinning did not shorten: then no more spinning */
    LUCK_RETRY = 64,      /* but for one wait of so many */
};

/* The streams whose kernels the thread launched and did not finish. They may be gone: their
 * memory is kept until reset, which starts a new generation. */
static _Thread_local struct {
    struct ccl_host_stream *streams[MAX_OWN];
    uint32_t n, generation;
    uint32_t luck, nwaits;
} own = {.luck = LUCK};

static _Atomic uint32_t generation;

/* ---- who has the stream ---- */

/* Acquire pairs with let_go: what the last who had the stream did to it. */
static int try_take(struct ccl_host_stream *stream, uint32_t from)
{
    return atomic_compare_exchange_strong_explicit(&stream->keep, &from, CCL_HOST_BUSY,
                                                   memory_order_acquire, memory_order_relaxed);
}

static void let_go(struct ccl_host_stream *stream, uint32_t to)
{
    atomic_store_explicit(&stream->keep, to, memory_order_release);
}

/* The same for one that still keeps its kernel. Sequentially consistent, as is the load in
 * call_watcher: either the watcher finds the kernel or its thread finds no watcher. */
static void let_wait(struct ccl_host_stream *stream)
{
    atomic_store_explicit(&stream->keep, CCL_HOST_KEEPS, memory_order_seq_cst);
}

static void let_off(struct ccl_host_stream *stream, int is_done)
{
    if (is_done)
        let_go(stream, CCL_HOST_OPEN);
    else
        let_wait(stream);
}

static uint32_t look(const struct ccl_host_stream *stream)
{
    return atomic_load_explicit(&stream->keep, memory_order_relaxed);
}

/* Memory for the kernel that the stream keeps next. Without it the engine runs that one. */
static void rearm(struct ccl_host_stream *stream)
{
    if (ccl_host_take_op(1, &stream->kept) != ncclSuccess) stream->kept = NULL;
}

/* Puts the kept kernel, if there is one, at the head of the empty queue. (locked) */
static void give_kept(struct ccl_host_stream *stream, uint32_t was)
{
    if (was != CCL_HOST_KEEPS) return;
    ccl_host_append(stream->kept, stream);
    rearm(stream);
}

/* Gives the kernel of a BUSY stream to the engine. */
static void give(struct ccl_host_stream *stream)
{
    ccl_host_lock();
    give_kept(stream, CCL_HOST_KEEPS);
    ccl_host_drain_kicks();
    ccl_host_release(stream);
}

void ccl_host_claim(struct ccl_host_stream *stream)
{
    for (;;) {
        uint32_t was = look(stream);
        if (was == CCL_HOST_BUSY || !try_take(stream, was)) {
            sched_yield();
            continue;
        }
        ccl_host_lock();
        give_kept(stream, was);
        return;
    }
}

void ccl_host_release(struct ccl_host_stream *stream)
{
    let_go(stream, CCL_HOST_OPEN);
    ccl_host_unlock();
}

/* ---- running ---- */

/* 1 when the kernel is done: the stream has completed it. */
static int run_kept(struct ccl_host_stream *stream)
{
    struct ccl_host_op *op = stream->kept;
    enum ccl_run run;
    do run = op->host(op->args, 0, &op->lanes[0].cursor);
    while (run == CCL_RUN_MORE);
    if (run == CCL_RUN_BLOCKED) return 0;
    if (op->retire != NULL) op->retire(op->args);
    /* Release pairs with the acquire of queries and waits, as in ccl_host_complete. */
    atomic_store_explicit(&stream->completed, op->seq, memory_order_release);
    ccl_bell_ring(ccl_bell_self()); /* for those that wait beside the engine */
    return 1;
}

/* Runs the kernel once if the stream keeps one and nobody has it. 1 when it may still keep it. */
static int try_run(struct ccl_host_stream *stream)
{
    uint32_t is = look(stream);
    if (is != CCL_HOST_KEEPS) return is == CCL_HOST_BUSY;
    if (!try_take(stream, CCL_HOST_KEEPS)) return 1;
    int is_done = run_kept(stream);
    let_off(stream, is_done);
    return !is_done;
}

static void drop_stale(void)
{
    uint32_t now = atomic_load_explicit(&generation, memory_order_relaxed);
    if (own.generation == now) return;
    own.generation = now;
    own.n = 0;
}

/* Each stream stands in the list once, and not when this thread has finished its kernel. */
static void forget(const struct ccl_host_stream *stream)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < own.n; i++)
        if (own.streams[i] != stream) own.streams[n++] = own.streams[i];
    own.n = n;
}

/* Runs what the thread keeps, each once, but for `except`. */
static void run_own(const struct ccl_host_stream *except)
{
    uint32_t n = 0;
    drop_stale();
    for (uint32_t i = 0; i < own.n; i++)
        if (own.streams[i] == except || try_run(own.streams[i])) own.streams[n++] = own.streams[i];
    own.n = n;
}

/* The watcher looks after kernels that their threads forget. It ends its watch, then looks for
 * kept ones once more (keep_watch in host_worker.c); we keep one, then look whether it watches. */
static void call_watcher(void)
{
    struct ccl_host_engine *e = &ccl_host;
    if (atomic_load_explicit(&e->is_watched, memory_order_seq_cst)) return;
    ccl_host_lock();
    ccl_host_wake_watcher();
    ccl_host_unlock();
}

/* Runs a lone kernel until it is done or a moment is over: ranks that call at the same time need no
 * more. The stream stays BUSY, since what is ordered between threads in between would wait for
 * the cache line of the flag that the kernel has just set. 1 when the stream may still keep it. */
static int try_linger(struct ccl_host_stream *stream)
{
    uint32_t is = look(stream);
    if (is != CCL_HOST_KEEPS) return is == CCL_HOST_BUSY;
    if (!try_take(stream, CCL_HOST_KEEPS)) return 1;
    int is_done = run_kept(stream);
    for (int i = 0; !is_done && own.luck > 0 && i < LINGER_POLLS; i++) {
        ccl_host_relax();
        is_done = run_kept(stream);
    }
    let_off(stream, is_done);
    return !is_done;
}

void ccl_host_advance(void)
{
    drop_stale();
    if (own.n == 1)
        own.n = (uint32_t)try_linger(own.streams[0]);
    else
        run_own(NULL);
    if (own.n > 0) call_watcher();
}

int ccl_host_keep(struct ccl_host_stream *stream, const struct ccl_launch_spec *spec)
{
    drop_stale();
    if (own.n > 0) forget(stream);
    if (own.n == MAX_OWN || !try_take(stream, CCL_HOST_OPEN)) return 0;
    struct ccl_host_op *op = stream->kept;
    uint64_t seq = atomic_load_explicit(&stream->submitted, memory_order_relaxed) + 1;
    /* Acquire pairs with ccl_host_complete: the effects of the stream's earlier work. */
    uint64_t before = atomic_load_explicit(&stream->completed, memory_order_acquire) + 1;
    if (op == NULL || before != seq) {
        let_go(stream, CCL_HOST_OPEN);
        return 0;
    }
    ccl_host_fill_kernel(op, spec);
    op->stream = stream;
    op->seq = seq;
    atomic_store_explicit(&stream->submitted, seq, memory_order_release);
    let_go(stream, CCL_HOST_KEEPS);
    own.streams[own.n++] = stream;
    return 1;
}

/* ---- waiting ---- */

struct patience {
    uint64_t began_ns;
    uint32_t npolls;
    int spins; /* else it yields */
};

/* Where threads are more than cores, the flag that is spun for is set by one that cannot run. */
static struct patience be_patient(void)
{
    return (struct patience){.spins = own.luck > 0 || ++own.nwaits % LUCK_RETRY == 0};
}

static void note_luck(const struct patience *wait, int is_done)
{
    if (wait->npolls == 0) return;
    if (is_done && wait->spins)
        own.luck = LUCK;
    else if (own.luck > 0)
        own.luck--;
}

/* Between two runs that brought nothing; 0 when it is time to sleep. */
static int pause_polling(struct patience *wait)
{
    if (wait->spins && ++wait->npolls % POLLS_PER_CLOCK != 0) {
        ccl_host_relax();
        return 1;
    }
    uint64_t now_ns = ccl_clock_ns();
    if (wait->began_ns == 0) wait->began_ns = now_ns;
    uint64_t waited_ns = now_ns - wait->began_ns;
    if (waited_ns >= YIELD_NS) return 0;
    if (wait->spins && waited_ns < SPIN_NS) return 1;
    wait->spins = 0;
    wait->npolls++;
    sched_yield();
    return 1;
}

/* Gives all that the thread keeps to the engine, where it will not be forgotten while the thread
 * sleeps. */
void ccl_host_give_own(void)
{
    drop_stale();
    for (uint32_t i = 0; i < own.n; i++) {
        struct ccl_host_stream *stream = own.streams[i];
        if (look(stream) != CCL_HOST_KEEPS || !try_take(stream, CCL_HOST_KEEPS)) continue;
        give(stream);
    }
    own.n = 0;
}

/* Runs the kernel of a stream that this thread has made BUSY until it is done (1), or until that
 * takes too long: then it goes to the engine. */
static int run_to_end(struct ccl_host_stream *stream)
{
    struct patience wait = be_patient();
    int is_done;
    while (!(is_done = run_kept(stream))) {
        if (own.n > 0) run_own(stream);
        if (!pause_polling(&wait)) break;
    }
    note_luck(&wait, is_done);
    forget(stream);
    if (is_done) {
        let_go(stream, CCL_HOST_OPEN);
        return 1;
    }
    give(stream);
    return 0;
}

int ccl_host_run_kept(struct ccl_host_stream *stream, uint64_t value)
{
    for (;;) {
        /* Acquire pairs with run_kept and ccl_host_complete. */
        if (atomic_load_explicit(&stream->completed, memory_order_acquire) >= value) return 1;
        uint32_t is = look(stream);
        if (is == CCL_HOST_OPEN) break; /* the engine has it */
        if (is == CCL_HOST_KEEPS && try_take(stream, CCL_HOST_KEEPS)) {
            if (run_to_end(stream)) return 1;
            break;
        }
        sched_yield();
    }
    ccl_host_give_own();
    return 0;
}

void ccl_host_poll_kept(struct ccl_host_stream *stream)
{
    if (look(stream) != CCL_HOST_OPEN && try_run(stream)) call_watcher();
}

/* ---- the streams that may keep kernels (all locked) ---- */

static struct ccl_host_stream *known;

/* Lets the stream keep kernels from now on. Streams that share a queue never do. Without memory
 * for it the engine runs them all the same. */
void ccl_host_let_keep(struct ccl_host_stream *stream)
{
    if (stream->queue != &stream->own_queue) return;
    if (stream->kept == NULL) rearm(stream);
    if (stream->is_known) return;
    stream->is_known = 1;
    stream->seq_seen = atomic_load_explicit(&stream->submitted, memory_order_relaxed);
    stream->next_known = known;
    known = stream;
}

/* The stream ends; it is idle and BUSY. */
void ccl_host_end_keep(struct ccl_host_stream *stream)
{
    struct ccl_host_stream **link = &known;
    if (!stream->is_known) return;
    while (*link != stream) link = &(*link)->next_known;
    *link = stream->next_known;
    stream->is_known = 0;
    if (stream->kept != NULL) ccl_host_give_op(stream->kept);
    stream->kept = NULL;
}

uint32_t ccl_host_count_kept(void)
{
    uint32_t n = 0;
    for (const struct ccl_host_stream *at = known; at != NULL; at = at->next_known)
        n += atomic_load_explicit(&at->keep, memory_order_seq_cst) != CCL_HOST_OPEN;
    return n;
}

/* Before the threads end: without them nobody would look after a kernel. The next launch goes to
 * the engine, which starts them. 0 when some stream has a kernel. */
int ccl_host_stop_keeping(void)
{
    for (struct ccl_host_stream *at = known; at != NULL; at = at->next_known) {
        if (!try_take(at, CCL_HOST_OPEN)) return 0;
        if (at->kept != NULL) ccl_host_give_op(at->kept);
        at->kept = NULL;
        let_go(at, CCL_HOST_OPEN);
    }
    return 1;
}

/* Takes the kernels that were kept at the last look already. Returns how many operations the
 * streams that may keep some have seen since then. */
uint64_t ccl_host_watch_kept(void)
{
    uint64_t news = 0;
    for (struct ccl_host_stream *at = known; at != NULL; at = at->next_known) {
        uint64_t seq = atomic_load_explicit(&at->submitted, memory_order_relaxed);
        uint64_t before = at->seq_seen;
        at->seq_seen = seq;
        news += seq - before;
        if (seq != before || look(at) != CCL_HOST_KEEPS || !try_take(at, CCL_HOST_KEEPS)) continue;
        give_kept(at, CCL_HOST_KEEPS);
        let_go(at, CCL_HOST_OPEN);
    }
    ccl_host_drain_kicks();
    return news;
}

/* For reset: the memory of streams is about to go. */
void ccl_host_forget_kept(void)
{
    atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
}
