/* One process's end of the out-of-band star. A thread reads all frames, so that a failure of
 * another process is seen whatever the other threads wait for; sends are serialised by a lock.
 */
#include "harness/oob.h"

#include "harness/timing.h"
#include "harness/usage.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct perf_link {
    struct perf_link_args args;
    pthread_t thread;
    pthread_mutex_t send_lock;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t changed;
    void *result; /* where the next RESULT goes; NULL: nobody waits */
    size_t result_bytes;
    char missing[PERF_OOB_TEXT]; /* the hub's last answer */
    int asking;                  /* no answer yet */
    int told;                    /* our own FAIL came back: all know */
    int failing;                 /* we sent FAIL: the echo does not end us */
    int verdict;                 /* code of the FAIL that came, 0: none */
    char cause[PERF_OOB_TEXT];   /* its text */
    int rendezvous_done;
    _Atomic int closing;
    _Atomic uint64_t peers_progress;
};

static int receive_all(int fd, void *data, size_t bytes)
{
    char *at = data;
    while (bytes > 0) {
        ssize_t got = recv(fd, at, bytes, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return -1;
        at += got;
        bytes -= (size_t)got;
    }
    return 0;
}

static int send_frame(struct perf_link *link, enum perf_frame_type type, int code,
                      const void *payload, size_t bytes)
{
    struct perf_frame frame;
    perf_frame_init(&frame, type, bytes, code);
    pthread_mutex_lock(&link->send_lock);
    int status = perf_frame_send(link->args.fd, &frame, payload);
    pthread_mutex_unlock(&link->send_lock);
    return status;
}

/* Puts a result where the waiting thread wants it. Returns 0, or -1 when sizes disagree. */
static int take_result(struct perf_link *link, const struct perf_frame *frame)
{
    pthread_mutex_lock(&link->lock);
    void *to = link->result;
    size_t wanted = link->result_bytes;
    pthread_mutex_unlock(&link->lock);
    if (to == NULL || frame->bytes != wanted) return -1;
    if (receive_all(link->args.fd, to, wanted) != 0) return -1;
    pthread_mutex_lock(&link->lock);
    link->result = NULL;
    link->rendezvous_done = 1;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
    return 0;
}

static int take_missing(struct perf_link *link, const struct perf_frame *frame)
{
    char text[PERF_OOB_TEXT] = "";
    if (frame->bytes >= sizeof text || receive_all(link->args.fd, text, frame->bytes) != 0)
        return -1;
    pthread_mutex_lock(&link->lock);
    memcpy(link->missing, text, sizeof text);
    link->asking = 0;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
    return 0;
}

static int take_fail(struct perf_link *link, const struct perf_frame *frame)
{
    char text[PERF_OOB_TEXT] = "";
    if (frame->bytes >= sizeof text || receive_all(link->args.fd, text, frame->bytes) != 0)
        return -1;
    pthread_mutex_lock(&link->lock);
    int own = link->failing;
    link->told = 1;
    link->verdict = frame->code;
    memcpy(link->cause, text, sizeof text);
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
    if (!own) link->args.failed(frame->code, text, 1);
    return 0;
}

static int take_frame(struct perf_link *link)
{
    struct perf_frame frame;
    if (receive_all(link->args.fd, &frame, sizeof frame) != 0) return -1;
    if (!perf_frame_valid(&frame, (size_t)1 << 30)) return -1;
    switch (frame.type) {
    case PERF_FRAME_RESULT: return take_result(link, &frame);
    case PERF_FRAME_MISSING: return take_missing(link, &frame);
    case PERF_FRAME_FAIL: return take_fail(link, &frame);
    case PERF_FRAME_PROGRESS:
        atomic_fetch_add_explicit(&link->peers_progress, 1, memory_order_relaxed);
        return 0;
    default: return -1;
    }
}

static void *read_frames(void *argument)
{
    struct perf_link *link = argument;
    while (take_frame(link) == 0) continue;
    /* The acquire pairs with the release in perf_link_close: a break after it is our own. */
    if (atomic_load_explicit(&link->closing, memory_order_acquire)) return NULL;
    pthread_mutex_lock(&link->lock);
    int own = link->failing;
    link->told = 1;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
    char text[PERF_OOB_TEXT];
    snprintf(text, sizeof text, "%s ended without a goodbye", link->args.hub_name);
    if (!own) link->args.failed(PERF_EXIT_ERROR, text, 0);
    return NULL;
}

struct perf_link *perf_link_open(const struct perf_link_args *args)
{
    struct perf_link *link = calloc(1, sizeof *link);
    if (link == NULL) args->failed(PERF_EXIT_ERROR, "out of memory for the process link", 0);
    link->args = *args;
    pthread_mutex_init(&link->send_lock, NULL);
    pthread_mutex_init(&link->lock, NULL);
    pthread_cond_init(&link->changed, NULL);
    send_frame(link, PERF_FRAME_HELLO, 0, &args->hello, sizeof args->hello);
    if (pthread_create(&link->thread, NULL, read_frames, link) != 0)
        args->failed(PERF_EXIT_ERROR, "cannot start the thread of the process link", 0);
    return link;
}

void perf_link_allgather(struct perf_link *link, const void *mine, void *all, size_t bytes)
{
    struct timespec until = perf_clock_until(link->args.timeout_s + 2);
    char none;
    pthread_mutex_lock(&link->lock);
    link->result = bytes > 0 ? all : &none;
    link->result_bytes = bytes * (size_t)link->args.hello.nprocs;
    pthread_mutex_unlock(&link->lock);
    /* A failed send needs no word here: the reader sees the break and ends the run. */
    send_frame(link, PERF_FRAME_GATHER, 0, mine, bytes);
    pthread_mutex_lock(&link->lock);
    int late = 0;
    while (link->result != NULL && !late)
        if (link->rendezvous_done)
            pthread_cond_wait(&link->changed, &link->lock);
        else
            late = pthread_cond_timedwait(&link->changed, &link->lock, &until) == ETIMEDOUT;
    pthread_mutex_unlock(&link->lock);
    if (!late) return;
    char text[PERF_OOB_TEXT];
    snprintf(text, sizeof text, "rendezvous: %s has not answered within %g s", link->args.hub_name,
             link->args.timeout_s);
    link->args.failed(PERF_EXIT_TIMEOUT, text, 0);
}

void perf_link_progress(struct perf_link *link)
{
    send_frame(link, PERF_FRAME_PROGRESS, 0, NULL, 0);
}

uint64_t perf_link_peers_progress(struct perf_link *link)
{
    return atomic_load_explicit(&link->peers_progress, memory_order_relaxed);
}

void perf_link_missing(struct perf_link *link, char *text, size_t bytes)
{
    struct timespec until = perf_clock_until(1);
    pthread_mutex_lock(&link->lock);
    link->asking = 1;
    pthread_mutex_unlock(&link->lock);
    send_frame(link, PERF_FRAME_MISSING, 0, NULL, 0);
    pthread_mutex_lock(&link->lock);
    while (link->asking && !link->told &&
           pthread_cond_timedwait(&link->changed, &link->lock, &until) == 0)
        continue;
    snprintf(text, bytes, "%s", link->asking ? link->args.hub_name : link->missing);
    pthread_mutex_unlock(&link->lock);
}

int perf_link_fail(struct perf_link *link, int code, char text[PERF_OOB_TEXT])
{
    struct timespec until = perf_clock_until(1);
    pthread_mutex_lock(&link->lock);
    int asked = link->failing || link->told;
    link->failing = 1;
    pthread_mutex_unlock(&link->lock);
    if (!asked) send_frame(link, PERF_FRAME_FAIL, code, text, strlen(text));
    pthread_mutex_lock(&link->lock);
    while (!link->told && pthread_cond_timedwait(&link->changed, &link->lock, &until) == 0)
        continue;
    if (link->verdict != 0) code = link->verdict;
    if (link->cause[0] != '\0') memcpy(text, link->cause, PERF_OOB_TEXT);
    pthread_mutex_unlock(&link->lock);
    return code;
}

void perf_link_close(struct perf_link *link, int code)
{
    if (link == NULL) return;
    /* The release publishes that the end of the connection is wanted, see read_frames. */
    atomic_store_explicit(&link->closing, 1, memory_order_release);
    send_frame(link, PERF_FRAME_GOODBYE, code, NULL, 0);
    shutdown(link->args.fd, SHUT_RDWR);
    pthread_join(link->thread, NULL);
    close(link->args.fd);
    pthread_mutex_destroy(&link->send_lock);
    pthread_mutex_destroy(&link->lock);
    pthread_cond_destroy(&link->changed);
    free(link);
}
