/* The watchdog, see watchdog.h. Progress is counted over all processes: each tells the others
 * about once a second that its own count has moved, so only a standstill everywhere ends a run.
 */
#include "harness/watchdog.h"

#include "harness/ending.h"
#include "harness/library.h"
#include "harness/marks.h"
#include "harness/signals.h"
#include "harness/timing.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { POLL_MS = 200 };

static struct {
    struct perf_world *world;
    pthread_t thread;
    int started;
    int signal_fd, stop_fd;
    _Atomic uint64_t ticks;
    pthread_mutex_t lock; /* guards row and the watched communicators */
    char row[256];
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .signal_fd = -1, .stop_fd = -1};

void perf_watch_row(const char *text)
{
    pthread_mutex_lock(&watch.lock);
    snprintf(watch.row, sizeof watch.row, "%s", text);
    pthread_mutex_unlock(&watch.lock);
}

void perf_watch_tick(void)
{
    atomic_fetch_add_explicit(&watch.ticks, 1, memory_order_relaxed);
}

void perf_watch_phase(struct perf_rank *ranks, int n, const char *phase)
{
    /* Constant texts need no order: a reader sees the old or the new one. */
    for (int i = 0; i < n; i++) atomic_store_explicit(&ranks[i].phase, phase, memory_order_relaxed);
    perf_watch_tick();
}

void perf_watch_comm(struct perf_rank *rank, ncclComm_t comm)
{
    pthread_mutex_lock(&watch.lock);
    rank->watched = comm;
    pthread_mutex_unlock(&watch.lock);
}

void perf_watch_describe(void)
{
    struct perf_world *world = watch.world;
    if (world == NULL || world->ranks == NULL) return;
    pthread_mutex_lock(&watch.lock);
    for (int i = 0; i < world->nlocal; i++) {
        struct perf_rank *rank = &world->ranks[i];
        const char *phase = atomic_load_explicit(&rank->phase, memory_order_relaxed);
        char status[256];
        perf_comm_status(rank->watched, status, sizeof status);
        fprintf(stderr, "%s: rank %d: %s; phase: %s%s%s\n", perf_program(), rank->rank,
                watch.row[0] != '\0' ? watch.row : "start", phase != NULL ? phase : "start",
                status[0] != '\0' ? "; " : "", status);
    }
    pthread_mutex_unlock(&watch.lock);
}

static void look_at_signals(void)
{
    int number = perf_signals_next(watch.signal_fd);
    if (number == 0) return;
    char text[64];
    snprintf(text, sizeof text, "interrupted by signal %d (%s)", number, strsignal(number));
    perf_end(PERF_EXIT_SIGNAL + number, text);
}

static void look_at_errors(void)
{
    struct perf_world *world = watch.world;
    char text[PERF_OOB_TEXT] = "";
    pthread_mutex_lock(&watch.lock);
    for (int i = 0; i < world->nlocal && text[0] == '\0'; i++) {
        struct perf_rank *rank = &world->ranks[i];
        ncclResult_t error = ncclSuccess;
        if (rank->watched == NULL || ncclCommGetAsyncError(rank->watched, &error) != ncclSuccess)
            continue;
        if (error == ncclSuccess || error == ncclInProgress) continue;
        snprintf(text, sizeof text, "rank %d: %s, %s: %s", rank->rank, watch.row,
                 ncclGetErrorString(error), ncclGetLastError(rank->watched));
    }
    pthread_mutex_unlock(&watch.lock);
    if (text[0] != '\0') perf_end(PERF_EXIT_ERROR, text);
}

struct progress {
    uint64_t own, peers; /* counts at the last look */
    uint64_t told;       /* own count that the others know of */
    uint64_t moved_ns, told_ns;
};

/* Ranks that wait in the library are named by it, those that wait at the drivers' own barrier by
 * the hub of that. */
static _Noreturn void end_for_standstill(double timeout_s)
{
    struct perf_world *world = watch.world;
    char text[PERF_OOB_TEXT], missing[PERF_OOB_TEXT - 128] = "";
    if (world->link != NULL) perf_link_missing(world->link, missing, sizeof missing);
    snprintf(text, sizeof text, "timeout: no progress of any rank for %g s%s%s", timeout_s,
             missing[0] != '\0' ? "; the barrier waits for " : "", missing);
    perf_watch_describe();
    perf_end(PERF_EXIT_TIMEOUT, text);
}

static void look_at_progress(struct progress *last)
{
    struct perf_world *world = watch.world;
    uint64_t now_ns = perf_clock_ns();
    if (perf_marks_look() > 0) perf_watch_tick();
    uint64_t own = atomic_load_explicit(&watch.ticks, memory_order_relaxed);
    uint64_t peers = world->link != NULL ? perf_link_peers_progress(world->link) : 0;
    double timeout_s = world->options->timeout_s;
    double period_s = timeout_s > 0 && timeout_s < 4 ? timeout_s / 4 : 1;
    if (own != last->own || peers != last->peers) last->moved_ns = now_ns;
    last->own = own;
    last->peers = peers;
    if (world->link != NULL && own != last->told &&
        (double)(now_ns - last->told_ns) > period_s * 1e9) {
        last->told = own;
        last->told_ns = now_ns;
        perf_link_progress(world->link);
    }
    if (timeout_s <= 0 || (double)(now_ns - last->moved_ns) < timeout_s * 1e9) return;
    end_for_standstill(timeout_s);
}

static void *watch_run(void *argument)
{
    (void)argument;
    struct progress last = {.moved_ns = perf_clock_ns()};
    struct pollfd ready[2] = {{.fd = watch.signal_fd, .events = POLLIN},
                              {.fd = watch.stop_fd, .events = POLLIN}};
    while (poll(ready, 2, POLL_MS) >= 0 && ready[1].revents == 0) {
        look_at_signals();
        look_at_errors();
        look_at_progress(&last);
    }
    return NULL;
}

void perf_watch_start(struct perf_world *world)
{
    watch.world = world;
    watch.signal_fd = perf_signals_open(0);
    watch.stop_fd = eventfd(0, EFD_CLOEXEC);
    if (watch.signal_fd < 0 || watch.stop_fd < 0 ||
        pthread_create(&watch.thread, NULL, watch_run, NULL) != 0)
        perf_end(PERF_EXIT_ERROR, "cannot start the watchdog thread");
    watch.started = 1;
}

void perf_watch_stop(void)
{
    if (!watch.started) return;
    eventfd_write(watch.stop_fd, 1);
    pthread_join(watch.thread, NULL);
    close(watch.signal_fd);
    close(watch.stop_fd);
    watch.started = 0;
}
