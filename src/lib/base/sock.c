/* Sockets with deadlines. Called by boot; the data plane has its own. Invariant: no descriptor
 * blocks, so one slow peer can hold up nobody who waits for several. */
#define _GNU_SOURCE
#include "base/sock.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ABORT_POLL_MS = 100 };

ncclResult_t ccl_sock_err(int code, const char *what)
{
    switch (code) {
    case 0: return ncclSuccess;
    case ETIMEDOUT: return ccl_err(ncclTimeout, "%s: no answer before the deadline", what);
    case ECANCELED: return ccl_err(ncclInternalError, "%s: aborted", what);
    case ECONNRESET:
    case EPIPE: return ccl_err(ncclRemoteError, "%s: the peer closed the connection", what);
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EBADMSG: return ccl_err(ncclRemoteError, "%s: %s", what, strerror(code));
    default: return ccl_err(ncclSystemError, "%s: %s", what, strerror(code));
    }
}

int ccl_sock_poll(int fd, short events, const struct ccl_sock_wait *wait)
{
    for (;;) {
        /* Pairs with the release store of whoever aborts: its reason is visible after this. */
        if (wait->abort_word != NULL &&
            atomic_load_explicit(wait->abort_word, memory_order_acquire) != 0)
            return ECANCELED;
        int left_ms = ccl_clock_poll_ms(wait->deadline_ns);
        struct pollfd item = {.fd = fd, .events = events};
        int ready = poll(&item, 1, left_ms > ABORT_POLL_MS ? ABORT_POLL_MS : left_ms);
        if (CCL_FAULT("boot-poll")) return ENOMEM;
        if (ready > 0) return 0;
        if (ready < 0 && errno != EINTR) return errno;
        if (ready == 0 && left_ms == 0) return ETIMEDOUT;
    }
}

/* A fault build can cut a transfer to one byte or interrupt it, as a signal would. */
static size_t fault_cut(size_t size_bytes)
{
    return size_bytes > 1 && CCL_FAULT("boot-short") ? 1 : size_bytes;
}

int ccl_sock_send_some(int fd, const void *data, size_t size_bytes, size_t *done)
{
    *done = 0;
    ssize_t sent;
    do {
        sent = send(fd, data, fault_cut(size_bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (CCL_FAULT("boot-send")) return ECONNRESET;
    if (sent < 0) return errno;
    *done = (size_t)sent;
    return 0;
}

int ccl_sock_recv_some(int fd, void *data, size_t size_bytes, size_t *done)
{
    *done = 0;
    ssize_t got;
    do {
        got = recv(fd, data, fault_cut(size_bytes), MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (CCL_FAULT("boot-recv")) return ECONNRESET;
    if (got < 0) return errno;
    if (got == 0 && size_bytes > 0) return ECONNRESET;
    *done = (size_t)got;
    return 0;
}

/* Sends or receives once, with or without a descriptor; more parts of a message use it alike. */
struct transfer {
    int fd, sending, flags;
    int *passed; /* in: descriptor to attach; out: the one that came; NULL: none */
};

static void take_passed(struct msghdr *message, int *passed)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL;
         part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        int got;
        memcpy(&got, CMSG_DATA(part), sizeof got);
        if (*passed >= 0) close(*passed);
        *passed = got;
    }
}

static ssize_t transfer_once(const struct transfer *how, void *data, size_t size_bytes)
{
    struct iovec piece = {.iov_base = data, .iov_len = fault_cut(size_bytes)};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (how->passed != NULL) {
        message.msg_control = control.space;
        message.msg_controllen = sizeof control.space;
    }
    if (how->sending) {
        if (how->passed != NULL) {
            struct cmsghdr *part = CMSG_FIRSTHDR(&message);
            part->cmsg_level = SOL_SOCKET;
            part->cmsg_type = SCM_RIGHTS;
            part->cmsg_len = CMSG_LEN(sizeof(int));
            memcpy(CMSG_DATA(part), how->passed, sizeof(int));
        }
        return sendmsg(how->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT | how->flags);
    }
    ssize_t got = recvmsg(how->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got >= 0 && how->passed != NULL) take_passed(&message, how->passed);
    return got;
}

static int transfer_all(struct transfer how, void *data, size_t size_bytes,
                        const struct ccl_sock_wait *wait)
{
    char *bytes = data;
    size_t have = 0;
    while (have < size_bytes) {
        ssize_t moved = transfer_once(&how, bytes + have, size_bytes - have);
        if (CCL_FAULT(how.sending ? "boot-send" : "boot-recv")) return ECONNRESET;
        if (moved > 0) {
            have += (size_t)moved;
            if (how.sending) how.passed = NULL; /* it went with the first bytes */
            continue;
        }
        if (moved == 0) return ECONNRESET;
        if (errno == EINTR) continue;
        if (errno != EAGAIN) return errno;
        int code = ccl_sock_poll(how.fd, how.sending ? POLLOUT : POLLIN, wait);
        if (code != 0) return code;
    }
    return 0;
}

int ccl_sock_send_all(int fd, const void *data, size_t size_bytes, int more,
                      const struct ccl_sock_wait *wait)
{
    struct transfer how = {.fd = fd, .sending = 1, .flags = more ? MSG_MORE : 0};
    return transfer_all(how, (void *)(uintptr_t)data, size_bytes, wait);
}

int ccl_sock_recv_all(int fd, void *data, size_t size_bytes, const struct ccl_sock_wait *wait)
{
    return transfer_all((struct transfer){.fd = fd}, data, size_bytes, wait);
}

int ccl_sock_send_fd(int fd, const void *data, size_t size_bytes, int passed,
                     const struct ccl_sock_wait *wait)
{
    struct transfer how = {.fd = fd, .sending = 1, .passed = &passed};
    return transfer_all(how, (void *)(uintptr_t)data, size_bytes, wait);
}

int ccl_sock_recv_fd(int fd, void *data, size_t size_bytes, int *passed,
                     const struct ccl_sock_wait *wait)
{
    *passed = -1;
    return transfer_all((struct transfer){.fd = fd, .passed = passed}, data, size_bytes, wait);
}
