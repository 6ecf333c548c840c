/* The root thread: its loop, and the list of the roots of this process. Called by boot.c.
 *
 * Invariant: one slow or silent peer holds up nobody: the loop waits only in poll(2), with all
 * connections in it. The thread is detached and the last user of its struct.
 */
#define _GNU_SOURCE
#include "boot/root.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/param.h"
#include "base/rng.h"
#include "base/thread.h"
#include "boot/boot.h"
#include "boot/root_impl.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { QUIESCE_MS = 10000, GONE_TIDS = 64 };

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static struct ccl_root *roots;
static pid_t gone_tids[GONE_TIDS]; /* threads that are returning from their function */
static unsigned ngone;

static void free_root(struct ccl_root *root)
{
    for (int i = 0; i < root->nconns; i++) ccl_root_conn_free(root->conns[i]);
    ccl_door_close(root->door);
    ccl_root_blob_drop(root->parts);
    ccl_root_blob_drop(root->failure);
    ccl_free(root->conns);
    ccl_free(root->polls);
    ccl_free(root->next_polls);
    ccl_free(root->by_rank);
    ccl_free(root->seen);
    if (root->wake_fd >= 0) close(root->wake_fd);
    ccl_free(root);
}

/* Frees connections that were closed or have drained long enough. */
static void sweep(struct ccl_root *root)
{
    int kept = 0;
    int stop = atomic_load_explicit(&root->stop, memory_order_relaxed);
    for (int i = 0; i < root->nconns; i++) {
        struct ccl_root_conn *conn = root->conns[i];
        int drained =
            conn->draining && ((stop && conn->nqueue == 0) || ccl_clock_ns() >= conn->close_ns);
        if (conn->link.fd >= 0 && !drained) {
            root->conns[kept++] = conn;
            continue;
        }
        if (conn->member) root->by_rank[conn->hello.rank] = NULL;
        ccl_root_conn_free(conn);
    }
    root->nconns = kept;
}

static void serve(struct ccl_root *root, struct ccl_root_conn *conn, short revents)
{
    int code = 0;
    if (conn->link.fd < 0 || revents == 0) return;
    if (revents & POLLOUT) code = ccl_root_conn_flush(conn);
    if (code == 0 && conn->draining) {
        code = ccl_root_conn_discard(conn);
    } else if (code == 0) {
        code = ccl_root_conn_read(conn, root->nranks);
        if (code == 0) ccl_root_frame(root, conn);
    }
    if (code != 0 && code != EAGAIN) ccl_root_broken(root, conn, code);
}

static int fill_conn_polls(struct ccl_root *root, struct pollfd *polls, int *timeout_ms)
{
    for (int i = 0; i < root->nconns; i++) {
        const struct ccl_root_conn *conn = root->conns[i];
        short events = POLLIN;
        if (conn->nqueue > 0) events |= POLLOUT;
        polls[i] = (struct pollfd){.fd = conn->link.fd, .events = events};
        if (!conn->draining) continue;
        int left_ms = ccl_clock_poll_ms(conn->close_ns);
        if (*timeout_ms < 0 || left_ms < *timeout_ms) *timeout_ms = left_ms;
    }
    return root->nconns;
}

static int deadline_ms(uint64_t deadline_ns)
{
    return deadline_ns == UINT64_MAX ? -1 : ccl_clock_poll_ms(deadline_ns);
}

static void take_wake(struct ccl_root *root)
{
    uint64_t count;
    while (read(root->wake_fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
}

static void step(struct ccl_root *root)
{
    int timeout_ms = deadline_ms(root->deadline_ns);
    if (root->next_polls != NULL) {
        ccl_free(root->polls);
        root->polls = root->next_polls;
        root->next_polls = NULL;
    }
    struct pollfd *polls = root->polls;
    int nconns = fill_conn_polls(root, polls, &timeout_ms);
    polls[nconns] = (struct pollfd){.fd = root->wake_fd, .events = POLLIN};
    int n = nconns + 1;
    n += ccl_door_polls(root->door, polls + n, &timeout_ms);
    if (poll(polls, (nfds_t)n, timeout_ms) < 0) return;

    if (polls[nconns].revents != 0) take_wake(root);
    for (int i = 0; i < nconns; i++) serve(root, root->conns[i], polls[i].revents);
    /* The door comes last: an arrival may move the array of connections. */
    ccl_door_step(root->door, polls + nconns + 1);
    int starved = ccl_door_starved(root->door);
    if (starved != 0) ccl_root_starve(root, starved);
    if (ccl_clock_ns() >= root->deadline_ns) ccl_root_expire(root);
    sweep(root);
}

static void unlist(struct ccl_root *root)
{
    for (struct ccl_root **at = &roots; *at != NULL; at = &(*at)->next) {
        if (*at != root) continue;
        *at = root->next;
        return;
    }
}

static void *run_root(void *argument)
{
    struct ccl_root *root = argument;
    ccl_thread_name("chorus-root");
    while (!ccl_root_over(root)) step(root);
    CCL_INFO(CCL_LOG_BOOTSTRAP, "root of a session of %d ranks ends", root->nranks);
    pthread_mutex_lock(&list_lock);
    unlist(root);
    if (ngone == GONE_TIDS) ngone = 0; /* these have certainly ended */
    gone_tids[ngone++] = (pid_t)syscall(SYS_gettid);
    pthread_mutex_unlock(&list_lock);
    free_root(root);
    return NULL;
}

/* Held over a fork, so that the child finds the list whole. */
static void lock_list(void)
{
    pthread_mutex_lock(&list_lock);
}

static void unlock_list(void)
{
    pthread_mutex_unlock(&list_lock);
}

/* A forked child has the memory of the roots but not their threads. It gives up the listening
 * sockets, so that nobody connects to a root that is no more because a child holds its socket. */
static void forget_in_child(void)
{
    for (struct ccl_root *root = roots; root != NULL; root = root->next) {
        if (root->listen_fd >= 0) close(root->listen_fd);
        root->listen_fd = -1;
    }
    unlock_list();
}

static void prepare_fork(void)
{
    pthread_atfork(lock_list, unlock_list, forget_in_child);
}

static ncclResult_t fill_root(struct ccl_root *root)
{
    root->wake_fd =
        CCL_FAULT("boot-eventfd") ? (errno = EMFILE, -1) : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (root->wake_fd < 0)
        return ccl_err(ncclSystemError, "eventfd for a root thread: %s", strerror(errno));
    TRY(CCL_NEW(&root->polls, CCL_DOOR_POLLS + 1));
    return ccl_rng_fill(root->session, sizeof root->session);
}

ncclResult_t ccl_root_start(const struct ccl_boot_id *id, int listen_fd)
{
    struct ccl_root *root = NULL;
    ncclResult_t rc = CCL_NEW(&root, 1);
    if (rc != ncclSuccess) {
        close(listen_fd);
        return rc;
    }
    pthread_once(&fork_once, prepare_fork);
    root->wake_fd = -1;
    root->listen_fd = listen_fd;
    root->id = *id;
    root->owner = getpid();
    root->deadline_ns = ccl_clock_deadline_ns(ccl_param_int(CCL_PARAM_INIT_TIMEOUT_MS));
    struct ccl_door_args door = {.listen_fd = listen_fd,
                                 .secret = root->id.secret,
                                 .hello_type = CCL_WIRE_HELLO,
                                 .welcome = ccl_root_welcome,
                                 .context = root};
    TRY_GOTO(rc, ccl_door_open(&door, &root->door), fail);
    TRY_GOTO(rc, fill_root(root), fail);
    pthread_mutex_lock(&list_lock);
    root->next = roots;
    roots = root;
    pthread_mutex_unlock(&list_lock);
    int code = ccl_thread_start(NULL, run_root, root);
    if (code == 0) return ncclSuccess;
    rc = ccl_err(ncclSystemError, "pthread_create for a root thread: %s", strerror(code));
    pthread_mutex_lock(&list_lock);
    unlist(root);
    pthread_mutex_unlock(&list_lock);
fail:
    free_root(root);
    return rc;
}

/* The write also orders the store before the root's read of the eventfd. */
static void stop_root(struct ccl_root *root)
{
    uint64_t one = 1;
    atomic_store_explicit(&root->stop, 1, memory_order_relaxed);
    if (write(root->wake_fd, &one, sizeof one) < 0) return; /* already awake */
}

void ccl_root_stop(const struct ccl_boot_id *id)
{
    pthread_mutex_lock(&list_lock);
    for (struct ccl_root *root = roots; root != NULL; root = root->next)
        if (root->owner == getpid() && memcmp(root->id.secret, id->secret, sizeof id->secret) == 0)
            stop_root(root);
    pthread_mutex_unlock(&list_lock);
}

/* Tells idle roots to end; returns how many of this process are left. */
static int stop_roots(void)
{
    int left = 0;
    pthread_mutex_lock(&list_lock);
    for (struct ccl_root *root = roots; root != NULL; root = root->next) {
        if (root->owner != getpid()) continue;
        left++;
        stop_root(root);
    }
    /* A thread is still visible for a moment after its last instruction. */
    unsigned kept = 0;
    for (unsigned i = 0; i < ngone; i++)
        if (syscall(SYS_tgkill, getpid(), gone_tids[i], 0) == 0) gone_tids[kept++] = gone_tids[i];
    ngone = kept;
    pthread_mutex_unlock(&list_lock);
    return left + (int)kept;
}

void ccl_boot_quiesce(void)
{
    uint64_t deadline_ns = ccl_clock_deadline_ns(QUIESCE_MS);
    while (stop_roots() > 0 && ccl_clock_ns() < deadline_ns) poll(NULL, 0, 1);
}
