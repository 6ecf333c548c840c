/* Frames and sockets of the out-of-band wire; hub and link use them. All sockets are closed on
 * exec and never raise SIGPIPE.
 */
#include "harness/oob.h"

#include "harness/timing.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FRAME_MAGIC = 0x43485246, RETRY_MS = 50 };

void perf_frame_init(struct perf_frame *frame, enum perf_frame_type type, size_t bytes, int code)
{
    frame->magic = FRAME_MAGIC;
    frame->type = type;
    frame->bytes = (uint32_t)bytes;
    frame->code = code;
}

int perf_frame_valid(const struct perf_frame *frame, size_t max_bytes)
{
    return frame->magic == FRAME_MAGIC && frame->type >= PERF_FRAME_HELLO &&
           frame->type <= PERF_FRAME_GOODBYE && frame->bytes <= max_bytes;
}

static int send_all(int fd, const void *data, size_t bytes, int flags)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL | flags);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return -1;
        at += sent;
        bytes -= (size_t)sent;
    }
    return 0;
}

int perf_frame_send(int fd, const struct perf_frame *frame, const void *payload)
{
    if (send_all(fd, frame, sizeof *frame, frame->bytes > 0 ? MSG_MORE : 0) != 0) return -1;
    return frame->bytes > 0 ? send_all(fd, payload, frame->bytes, 0) : 0;
}

static void set_nodelay(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static struct addrinfo *look_up(const char *host, int port, int flags)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *list = NULL;
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    int error = getaddrinfo(host, service, &hints, &list);
    if (error == 0) return list;
    errno = error == EAI_SYSTEM ? errno : EADDRNOTAVAIL;
    return NULL;
}

static int bound_port(int fd)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) return 0;
    if (address.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)(void *)&address)->sin6_port);
    return ntohs(((struct sockaddr_in *)(void *)&address)->sin_port);
}

int perf_listen(const char *host, int *port)
{
    struct addrinfo *list = look_up(host, *port, AI_PASSIVE);
    int fd = -1, on = 1, saved = errno;
    for (struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd < 0) continue;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 1024) == 0) break;
        saved = errno;
        close(fd);
        fd = -1;
    }
    if (list != NULL) freeaddrinfo(list);
    if (fd < 0)
        errno = saved;
    else
        *port = bound_port(fd);
    return fd;
}

int perf_connect(const char *host, int port, double timeout_s)
{
    uint64_t deadline_ns = perf_clock_ns() + (uint64_t)(timeout_s * 1e9);
    int saved;
    do {
        struct addrinfo *list = look_up(host, port, 0);
        saved = errno;
        for (struct addrinfo *a = list; a != NULL; a = a->ai_next) {
            int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
            if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0) {
                set_nodelay(fd);
                freeaddrinfo(list);
                return fd;
            }
            saved = errno;
            if (fd >= 0) close(fd);
        }
        if (list != NULL) freeaddrinfo(list);
        poll(NULL, 0, RETRY_MS); /* rank 0 may not have started to listen yet */
    } while (perf_clock_ns() < deadline_ns);
    errno = saved;
    return -1;
}
