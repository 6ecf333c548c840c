/* The watcher thread. Invariant: the thread touches an entry only in a pass that began while the
 * entry was listed; a removal waits for the pass to end, so that neither a callback nor a poll(2)
 * in progress still holds the descriptor. */
#define _GNU_SOURCE
#include "boot/watch.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum state { ABSENT, RUNNING, ENDING };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* state or passes */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static enum state state;
static struct ccl_watch *list;
static uint64_t passes; /* begun */
static int wake_fd = -1;
static pthread_t thread;

struct pass {
    struct pollfd *polls; /* [0] is wake_fd */
    struct ccl_watch **entries;
    int cap, n;
};

/* Held over a fork, so that the child finds the list whole. */
static void lock_list(void)
{
    pthread_mutex_lock(&lock);
}

static void unlock_list(void)
{
    pthread_mutex_unlock(&lock);
}

/* The watches of the parent are not the child's, nor is the thread. */
static void forget_in_child(void)
{
    pthread_cond_init(&changed, NULL);
    state = ABSENT;
    list = NULL;
    if (wake_fd >= 0) close(wake_fd);
    wake_fd = -1;
    unlock_list();
}

static void prepare_fork(void)
{
    pthread_atfork(lock_list, unlock_list, forget_in_child);
}

static void wake(void)
{
    uint64_t one = 1;
    while (write(wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

/* Makes room for one more entry. Entries without room wait for a later pass. */
static int has_room(struct pass *pass)
{
    if (pass->n < pass->cap) return 1;
    if (CCL_FAULT("boot-room")) return 0;
    int cap = pass->cap == 0 ? 16 : 2 * pass->cap;
    struct pollfd *polls = realloc(pass->polls, (size_t)(cap + 1) * sizeof *polls);
    if (polls == NULL) return 0;
    pass->polls = polls;
    struct ccl_watch **entries = realloc(pass->entries, (size_t)cap * sizeof *entries);
    if (entries == NULL) return 0;
    pass->entries = entries;
    pass->cap = cap;
    return 1;
}

static void begin_pass(struct pass *pass)
{
    passes++;
    pthread_cond_broadcast(&changed);
    pass->n = 0;
    for (struct ccl_watch *entry = list; entry != NULL; entry = entry->next) {
        if (!entry->armed || !has_room(pass)) continue;
        pass->entries[pass->n++] = entry;
        pass->polls[pass->n] = (struct pollfd){.fd = entry->fd, .events = POLLIN};
    }
    if (pass->polls != NULL) pass->polls[0] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
}

static void take_wake(void)
{
    uint64_t count;
    while (read(wake_fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
}

/* Called and returns with the lock held; gives it up around poll and callbacks. */
static void run_pass(struct pass *pass)
{
    pthread_mutex_unlock(&lock);
    int ready = poll(pass->polls, (nfds_t)pass->n + 1, -1);
    pthread_mutex_lock(&lock);
    if (ready <= 0) return;
    if (pass->polls[0].revents != 0) take_wake();
    for (int i = 0; i < pass->n; i++) {
        struct ccl_watch *entry = pass->entries[i];
        if (pass->polls[i + 1].revents == 0 || !entry->listed) continue;
        pthread_mutex_unlock(&lock);
        int armed = entry->ready(entry->context);
        pthread_mutex_lock(&lock);
        entry->armed = armed;
    }
}

static void *run_watcher(void *argument)
{
    struct pass pass = {.cap = 0};
    (void)argument;
    ccl_thread_name("chorus-watch");
    pthread_mutex_lock(&lock);
    while (state == RUNNING) {
        begin_pass(&pass);
        if (pass.polls != NULL) run_pass(&pass);
    }
    passes++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    free(pass.polls);
    free(pass.entries);
    return NULL;
}

static ncclResult_t start_watcher(void)
{
    wake_fd =
        CCL_FAULT("boot-eventfd") ? (errno = EMFILE, -1) : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd < 0)
        return ccl_err(ncclSystemError, "eventfd for the watcher thread: %s", strerror(errno));
    state = RUNNING;
    int code = ccl_thread_start(&thread, run_watcher, NULL);
    if (code == 0) return ncclSuccess;
    state = ABSENT;
    close(wake_fd);
    wake_fd = -1;
    return ccl_err(ncclSystemError, "pthread_create for the watcher thread: %s", strerror(code));
}

ncclResult_t ccl_watch_add(struct ccl_watch *watches, int n)
{
    ncclResult_t rc = ncclSuccess;
    if (n == 0) return rc;
    pthread_once(&fork_once, prepare_fork);
    pthread_mutex_lock(&lock);
    while (state == ENDING) pthread_cond_wait(&changed, &lock);
    if (state == ABSENT) rc = start_watcher();
    for (int i = 0; i < n && rc == ncclSuccess; i++) {
        watches[i].listed = watches[i].armed = 1;
        watches[i].next = list;
        list = &watches[i];
    }
    if (rc == ncclSuccess) wake();
    pthread_mutex_unlock(&lock);
    return rc;
}

/* Takes one entry off the list; returns whether it was there. */
static int unlist(struct ccl_watch *watch)
{
    if (!watch->listed) return 0;
    watch->listed = 0;
    for (struct ccl_watch **at = &list; *at != NULL; at = &(*at)->next) {
        if (*at != watch) continue;
        *at = watch->next;
        return 1;
    }
    return 0; /* a watch of the parent process */
}

/* Whoever removes the last entry ends the thread. */
static void end_watcher(void)
{
    state = ENDING;
    wake();
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    pthread_mutex_lock(&lock);
    close(wake_fd);
    wake_fd = -1;
    state = ABSENT;
    pthread_cond_broadcast(&changed);
}

void ccl_watch_remove(struct ccl_watch *watches, int n)
{
    int removed = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n; i++) removed += unlist(&watches[i]);
    if (removed > 0 && list == NULL && state == RUNNING) {
        end_watcher();
    } else if (removed > 0) {
        uint64_t seen = passes;
        if (state == RUNNING) wake();
        while (passes == seen && state != ABSENT) pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}
