/* The middle of the out-of-band star: one poll loop over all processes of a run. It never waits
 * for one process: frames are read in pieces, and sends that a stopped process does not take
 * give up after a second. Strangers are dropped before they cost more than one hello.
 */
#define _GNU_SOURCE
#include "harness/oob.h"

#include "harness/timing.h"
#include "harness/verdict.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { MAX_STRANGERS = 64, MAX_GATHER_BYTES = 16 << 20 };

struct conn {
    int fd;   /* -1: free or gone */
    int proc; /* -1: has not said hello */
    struct perf_frame frame;
    size_t have; /* bytes of frame and payload read so far */
    char *payload;
};

struct member {
    int there, left, ended; /* said hello; said goodbye; its connection is closed */
    struct perf_hello hello;
    char *gathered; /* its contribution to the round, NULL: not yet */
    size_t gathered_bytes;
};

struct perf_hub {
    struct perf_hub_args args;
    struct conn *conns;
    int nconns;
    struct member *members;
    struct pollfd *polls;
    uint64_t deadline_ns;
    int nthere, failed;
    char failure[PERF_OOB_TEXT]; /* what all are told with the code `failed` */
};

static void *must_alloc(size_t n, size_t bytes)
{
    void *memory = calloc(n, bytes);
    if (memory != NULL) return memory;
    fprintf(stderr, "%s: out of memory for %zu processes\n", perf_program(), n);
    _exit(PERF_EXIT_ERROR);
}

struct perf_hub *perf_hub_open(const struct perf_hub_args *args)
{
    struct perf_hub *hub = must_alloc(1, sizeof *hub);
    size_t n = (size_t)args->nprocs;
    hub->args = *args;
    hub->nconns = args->nprocs + MAX_STRANGERS;
    hub->conns = must_alloc((size_t)hub->nconns, sizeof *hub->conns);
    hub->polls = must_alloc((size_t)hub->nconns + 2, sizeof *hub->polls);
    hub->members = must_alloc(n, sizeof *hub->members);
    for (int i = 0; i < hub->nconns; i++) hub->conns[i].fd = -1;
    hub->deadline_ns = perf_clock_ns() + (uint64_t)(args->timeout_s * 1e9);
    return hub;
}

static void drop_conn(struct conn *conn)
{
    if (conn->fd >= 0) close(conn->fd);
    free(conn->payload);
    memset(conn, 0, sizeof *conn);
    conn->fd = -1;
    conn->proc = -1;
}

static void add_conn(struct perf_hub *hub, int proc, int fd)
{
    struct timeval second = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
    for (int i = 0; i < hub->nconns; i++) {
        if (hub->conns[i].fd >= 0) continue;
        hub->conns[i].fd = fd;
        hub->conns[i].proc = proc;
        return;
    }
    close(fd); /* more strangers than anybody needs */
}

void perf_hub_add(struct perf_hub *hub, int proc, int fd)
{
    add_conn(hub, proc, fd);
}

void perf_hub_name(const struct perf_hub *hub, int proc, char *text, size_t bytes)
{
    int n = hub->args.ranks_per_proc, first = proc * n;
    if (n == 1)
        snprintf(text, bytes, "rank %d", first);
    else
        snprintf(text, bytes, "ranks %d-%d", first, first + n - 1);
}

static void send_to_all(struct perf_hub *hub, const struct perf_frame *frame, const void *payload,
                        int except)
{
    for (int i = 0; i < hub->nconns; i++) {
        struct conn *conn = &hub->conns[i];
        if (conn->fd >= 0 && conn->proc >= 0 && conn->proc != except)
            perf_frame_send(conn->fd, frame, payload);
    }
}

static void send_failure(const struct perf_hub *hub, const struct conn *conn)
{
    struct perf_frame frame;
    perf_frame_init(&frame, PERF_FRAME_FAIL, strlen(hub->failure), hub->failed);
    perf_frame_send(conn->fd, &frame, hub->failure);
}

/* Tells all, process `last` (-1: none) after the others. Only the first failure counts. */
static void tell_failure(struct perf_hub *hub, int code, const char *text, int last)
{
    if (hub->failed != 0) return;
    hub->failed = code;
    snprintf(hub->failure, sizeof hub->failure, "%s", text);
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < hub->nconns; i++) {
            const struct conn *conn = &hub->conns[i];
            if (conn->fd >= 0 && conn->proc >= 0 && (conn->proc == last) == turn)
                send_failure(hub, conn);
        }
}

void perf_hub_fail(struct perf_hub *hub, int code, const char *text)
{
    tell_failure(hub, code, text, -1);
}

/* A process is gone. After a goodbye that is as it should be; after a failure only a cause of its
 * own is worth a line. */
static void lose_member(struct perf_hub *hub, int proc)
{
    struct member *member = &hub->members[proc];
    if (member->ended) return;
    member->ended = 1;
    if (member->left) return;
    char name[48], why[160] = "", text[PERF_OOB_TEXT] = "";
    int code = PERF_EXIT_ERROR;
    if (hub->args.reason != NULL)
        code = hub->args.reason(proc, why, sizeof why);
    else if (hub->failed == 0)
        snprintf(why, sizeof why, "ended without a goodbye");
    if (why[0] != '\0') {
        perf_hub_name(hub, proc, name, sizeof name);
        snprintf(text, sizeof text, "%s (process %d, pid %d%s%s) %s", name, proc, member->hello.pid,
                 member->there ? " on " : "", member->hello.host, why);
        fprintf(stderr, "%s: %s\n", perf_program(), text);
    }
    tell_failure(hub, code, text, -1);
}

/* Says what keeps a hello from being taken; 0 when it is good. */
static int refuse_hello(struct perf_hub *hub, const struct conn *conn,
                        const struct perf_hello *hello)
{
    char text[PERF_OOB_TEXT] = "";
    int proc = hello->proc;
    if (hello->token != hub->args.token) return 1; /* somebody else's run: no word to ours */
    if (hello->nprocs != hub->args.nprocs)
        snprintf(text, sizeof text, "process %d on %s counts %d processes, process 0 counts %d",
                 proc, hello->host, hello->nprocs, hub->args.nprocs);
    else if (proc < 0 || proc >= hello->nprocs)
        snprintf(text, sizeof text, "process number %d is not in [0, %d)", proc, hello->nprocs);
    else if (hub->members[proc].there && conn->proc < 0)
        snprintf(text, sizeof text, "two processes say that they are process %d", proc);
    else if (hello->nranks != hub->args.ranks_per_proc)
        snprintf(text, sizeof text, "process %d on %s drives %d ranks, process 0 drives %d", proc,
                 hello->host, hello->nranks, hub->args.ranks_per_proc);
    if (text[0] == '\0') return 0;
    fprintf(stderr, "%s: %s\n", perf_program(), text);
    struct perf_frame frame;
    perf_frame_init(&frame, PERF_FRAME_FAIL, strlen(text), PERF_EXIT_ERROR);
    perf_frame_send(conn->fd, &frame, text);
    tell_failure(hub, PERF_EXIT_ERROR, text, -1);
    return 1;
}

static int take_hello(struct perf_hub *hub, struct conn *conn)
{
    struct perf_hello hello;
    if (conn->frame.bytes != sizeof hello) return -1;
    memcpy(&hello, conn->payload, sizeof hello);
    hello.host[sizeof hello.host - 1] = '\0';
    if (refuse_hello(hub, conn, &hello)) return -1;
    struct member *member = &hub->members[hello.proc];
    if (conn->proc < 0 && hub->failed != 0) send_failure(hub, conn); /* the others know */
    conn->proc = hello.proc;
    member->hello = hello;
    hub->nthere += !member->there;
    member->there = 1;
    return 0;
}

/* Keeps a contribution; when it is the last of the round, sends all of them to everyone. */
static int take_gather(struct perf_hub *hub, struct conn *conn)
{
    struct member *members = hub->members;
    size_t n = (unsigned)hub->args.nprocs;
    if (members[conn->proc].gathered != NULL) return -1;
    members[conn->proc].gathered = must_alloc(1, conn->frame.bytes + 1);
    members[conn->proc].gathered_bytes = conn->frame.bytes;
    if (conn->frame.bytes > 0)
        memcpy(members[conn->proc].gathered, conn->payload, conn->frame.bytes);
    for (size_t i = 0; i < n; i++)
        if (members[i].gathered == NULL) return 0;
    size_t bytes = conn->frame.bytes;
    char *all = must_alloc(n, bytes + 1);
    int equal = 1;
    for (size_t i = 0; i < n; i++) {
        equal &= members[i].gathered_bytes == bytes;
        if (equal) memcpy(all + i * bytes, members[i].gathered, bytes);
        free(members[i].gathered);
        members[i].gathered = NULL;
    }
    struct perf_frame frame;
    perf_frame_init(&frame, PERF_FRAME_RESULT, bytes * n, 0);
    if (equal)
        send_to_all(hub, &frame, all, -1);
    else
        perf_hub_fail(hub, PERF_EXIT_ERROR, "the processes disagree about what to exchange");
    free(all);
    return 0;
}

/* Adds the names of those of whom `present` is not true; returns the length of the text. */
static size_t list_names(const struct perf_hub *hub, int (*present)(const struct member *member),
                         char *text, size_t used, size_t bytes)
{
    const char *before = "";
    for (int i = 0; i < hub->args.nprocs && used + 64 < bytes; i++) {
        char name[48];
        if (present(&hub->members[i])) continue;
        perf_hub_name(hub, i, name, sizeof name);
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", before, name);
        before = ", ";
    }
    return used;
}

static int has_come(const struct member *member)
{
    return member->there;
}

static int has_contributed(const struct member *member)
{
    return member->gathered != NULL;
}

static void answer_missing(const struct perf_hub *hub, const struct conn *conn)
{
    char text[PERF_OOB_TEXT] = "";
    int contributed = 0;
    for (int i = 0; i < hub->args.nprocs; i++) contributed += has_contributed(&hub->members[i]);
    if (contributed > 0) list_names(hub, has_contributed, text, 0, sizeof text);
    struct perf_frame frame;
    perf_frame_init(&frame, PERF_FRAME_MISSING, strlen(text), 0);
    perf_frame_send(conn->fd, &frame, text);
}

static int take_frame(struct perf_hub *hub, struct conn *conn)
{
    if (conn->frame.type == PERF_FRAME_HELLO) return take_hello(hub, conn);
    if (conn->proc < 0) return -1;
    switch (conn->frame.type) {
    case PERF_FRAME_GATHER: return take_gather(hub, conn);
    case PERF_FRAME_PROGRESS: send_to_all(hub, &conn->frame, NULL, conn->proc); return 0;
    case PERF_FRAME_MISSING: answer_missing(hub, conn); return 0;
    case PERF_FRAME_FAIL:
        tell_failure(hub, conn->frame.code, conn->payload != NULL ? conn->payload : "", conn->proc);
        return 0;
    case PERF_FRAME_GOODBYE: hub->members[conn->proc].left = 1; return 0;
    default: return -1;
    }
}

/* Reads what is there. -1: the connection is of no more use. */
static int read_conn(struct perf_hub *hub, struct conn *conn)
{
    size_t head = sizeof conn->frame;
    for (;;) {
        char *to = conn->have < head ? (char *)&conn->frame + conn->have
                                     : conn->payload + (conn->have - head);
        size_t want = conn->have < head ? head - conn->have : head + conn->frame.bytes - conn->have;
        ssize_t got = recv(conn->fd, to, want, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return 0;
        if (got <= 0) return -1;
        conn->have += (size_t)got;
        if (conn->have < head) continue;
        if (conn->have == head) {
            size_t most = conn->proc < 0 ? sizeof(struct perf_hello) : MAX_GATHER_BYTES;
            if (!perf_frame_valid(&conn->frame, most)) return -1;
            if (conn->frame.bytes > 0) conn->payload = must_alloc(1, conn->frame.bytes + 1);
        }
        if (conn->have < head + conn->frame.bytes) continue;
        int status = take_frame(hub, conn);
        free(conn->payload);
        conn->payload = NULL;
        conn->have = 0;
        if (status != 0) return -1;
    }
}

void perf_hub_ended(struct perf_hub *hub, int proc)
{
    for (int i = 0; i < hub->nconns; i++) {
        struct conn *conn = &hub->conns[i];
        if (conn->fd < 0 || conn->proc != proc) continue;
        read_conn(hub, conn); /* its last words may still be on the way */
        drop_conn(conn);
    }
    lose_member(hub, proc);
}

/* After the deadline: names those who never came. */
static void check_deadline(struct perf_hub *hub)
{
    if (hub->nthere == hub->args.nprocs || hub->failed != 0) return;
    if (perf_clock_ns() < hub->deadline_ns) return;
    char text[PERF_OOB_TEXT];
    size_t used = (size_t)snprintf(text, sizeof text,
                                   "rendezvous: not there after %g s: ", hub->args.timeout_s);
    list_names(hub, has_come, text, used, sizeof text);
    fprintf(stderr, "%s: %s\n", perf_program(), text);
    perf_hub_fail(hub, PERF_EXIT_TIMEOUT, text);
}

static void take_poll(struct perf_hub *hub, struct conn *conn)
{
    if (read_conn(hub, conn) == 0) return;
    int proc = conn->proc;
    drop_conn(conn);
    if (proc >= 0) lose_member(hub, proc);
}

int perf_hub_serve(struct perf_hub *hub, int extra_fd, int timeout_ms)
{
    nfds_t n = 0;
    hub->polls[n++] = (struct pollfd){.fd = extra_fd, .events = POLLIN};
    hub->polls[n++] = (struct pollfd){.fd = hub->args.listen_fd, .events = POLLIN};
    /* Only what is open: poll refuses more entries than the process may have descriptors. */
    for (int i = 0; i < hub->nconns; i++)
        if (hub->conns[i].fd >= 0)
            hub->polls[n++] = (struct pollfd){.fd = hub->conns[i].fd, .events = POLLIN};
    if (poll(hub->polls, n, timeout_ms) < 0) return 0;
    nfds_t next = 2;
    for (int i = 0; i < hub->nconns && next < n; i++) {
        struct conn *conn = &hub->conns[i];
        if (conn->fd < 0 || conn->fd != hub->polls[next].fd) continue;
        if (hub->polls[next++].revents != 0) take_poll(hub, conn);
    }
    if (hub->polls[1].revents != 0) {
        int fd = accept4(hub->args.listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) add_conn(hub, -1, fd);
    }
    check_deadline(hub);
    return hub->polls[0].revents != 0;
}

int perf_hub_done(const struct perf_hub *hub)
{
    for (int i = 0; i < hub->args.nprocs; i++) {
        const struct member *member = &hub->members[i];
        if (member->there ? !member->ended : hub->failed == 0) return 0;
    }
    return 1;
}

int perf_hub_failed(const struct perf_hub *hub)
{
    return hub->failed;
}

void perf_hub_close(struct perf_hub *hub)
{
    if (hub == NULL) return;
    for (int i = 0; i < hub->nconns; i++) drop_conn(&hub->conns[i]);
    for (int i = 0; i < hub->args.nprocs; i++) free(hub->members[i].gathered);
    if (hub->args.listen_fd >= 0) close(hub->args.listen_fd);
    free(hub->members);
    free(hub->polls);
    free(hub->conns);
    free(hub);
}
