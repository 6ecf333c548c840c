/* How sockets of sock.h come to be: addresses, listen, accept, connect. Every function either
 * gives a descriptor or closes what it opened. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/fault.h"
#include "base/sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 4096, RETRY_MS = 100 };

static socklen_t addr_bytes(const union ccl_sock_addr *addr)
{
    return addr->any.sa_family == AF_INET6 ? sizeof addr->v6 : sizeof addr->v4;
}

const char *ccl_sock_text(const union ccl_sock_addr *addr, char out[CCL_SOCK_TEXT_BYTES])
{
    char text[INET6_ADDRSTRLEN] = "?";
    if (addr->any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &addr->v6.sin6_addr, text, sizeof text);
        if (addr->v6.sin6_scope_id != 0)
            snprintf(out, CCL_SOCK_TEXT_BYTES, "[%s%%%u]:%u", text, addr->v6.sin6_scope_id,
                     ntohs(addr->v6.sin6_port));
        else
            snprintf(out, CCL_SOCK_TEXT_BYTES, "[%s]:%u", text, ntohs(addr->v6.sin6_port));
    } else {
        inet_ntop(AF_INET, &addr->v4.sin_addr, text, sizeof text);
        snprintf(out, CCL_SOCK_TEXT_BYTES, "%s:%u", text, ntohs(addr->v4.sin_port));
    }
    return out;
}

int ccl_sock_parse(const char *text, int family, union ccl_sock_addr *out)
{
    char host[256];
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text || (size_t)(colon - text) >= sizeof host) return EINVAL;
    size_t length = (size_t)(colon - text);
    if (text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    }
    memcpy(host, text, length);
    host[length] = '\0';
    char *end = NULL;
    long port = strtol(colon + 1, &end, 10);
    if (end == colon + 1 || *end != '\0' || port < 1 || port > 65535) return EINVAL;

    struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (CCL_FAULT("boot-lookup") || getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return EHOSTUNREACH;
    int code = EHOSTUNREACH;
    if (found->ai_addrlen <= sizeof *out) {
        memset(out, 0, sizeof *out);
        memcpy(out, found->ai_addr, found->ai_addrlen);
        code = 0;
    }
    freeaddrinfo(found);
    return code;
}

static int open_socket(int family, int *fd)
{
    *fd = CCL_FAULT("boot-socket") ? (errno = EMFILE, -1)
                                   : socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return *fd < 0 ? errno : 0;
}

/* Small messages leave at once, and a host that vanished is noticed within a minute. Failures
 * cost only speed, so they are not errors. */
static void tune_tcp(int fd)
{
    int on = 1, idle_s = 15, interval_s = 5, probes = 4;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

static int close_failed(int *fd, int code)
{
    close(*fd);
    *fd = -1;
    return code;
}

int ccl_sock_listen(union ccl_sock_addr *addr, int *fd)
{
    int code = open_socket(addr->any.sa_family, fd);
    if (code != 0) return code;
    int on = 1;
    socklen_t bytes = addr_bytes(addr);
    setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (CCL_FAULT("boot-bind")) return close_failed(fd, EADDRNOTAVAIL);
    if (bind(*fd, &addr->any, bytes) != 0) return close_failed(fd, errno);
    if (CCL_FAULT("boot-listen")) return close_failed(fd, EADDRINUSE);
    if (listen(*fd, BACKLOG) != 0) return close_failed(fd, errno);
    if (getsockname(*fd, &addr->any, &bytes) != 0) return close_failed(fd, errno);
    return 0;
}

int ccl_sock_accept(int listen_fd, int *fd, union ccl_sock_addr *peer)
{
    union ccl_sock_addr from;
    if (CCL_FAULT("boot-full")) return EMFILE;
    do {
        socklen_t bytes = sizeof from;
        memset(&from, 0, sizeof from);
        *fd = accept4(listen_fd, &from.any, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
        /* A connection that broke while it waited is nobody's error. */
    } while (*fd < 0 && (errno == EINTR || errno == ECONNABORTED || errno == EPROTO));
    if (*fd >= 0 && CCL_FAULT("boot-accept")) return close_failed(fd, EMFILE);
    if (*fd < 0) return errno;
    if (from.any.sa_family == AF_INET || from.any.sa_family == AF_INET6) tune_tcp(*fd);
    if (peer != NULL) *peer = from;
    return 0;
}

static int finish_connect(int fd, const struct ccl_sock_wait *wait)
{
    int code = ccl_sock_poll(fd, POLLOUT, wait);
    if (code != 0) return code;
    socklen_t bytes = sizeof code;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &bytes) != 0) return errno;
    return code;
}

int ccl_sock_connect(const union ccl_sock_addr *addr, const struct ccl_sock_wait *wait, int *fd)
{
    int code = open_socket(addr->any.sa_family, fd);
    if (code != 0) return code;
    tune_tcp(*fd);
    if (CCL_FAULT("boot-connect")) return close_failed(fd, ENETUNREACH);
    if (connect(*fd, &addr->any, addr_bytes(addr)) == 0) return 0;
    code = errno;
    /* An interrupted connect goes on in the background, as a non-blocking one does. */
    if (code == EINPROGRESS || code == EINTR) code = finish_connect(*fd, wait);
    return code == 0 ? 0 : close_failed(fd, code);
}

static int fill_unix(const char *name, struct sockaddr_un *addr, socklen_t *bytes)
{
    size_t length = strlen(name);
    if (length == 0 || length > sizeof addr->sun_path - 1) return EINVAL;
    memset(addr, 0, sizeof *addr);
    addr->sun_family = AF_UNIX;
    memcpy(addr->sun_path + 1, name, length);
    *bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    return 0;
}

int ccl_sock_listen_unix(const char *name, int *fd)
{
    struct sockaddr_un addr;
    socklen_t bytes;
    *fd = -1;
    int code = fill_unix(name, &addr, &bytes);
    if (code == 0) code = open_socket(AF_UNIX, fd);
    if (code != 0) return code;
    if (CCL_FAULT("boot-bind")) return close_failed(fd, EADDRINUSE);
    if (bind(*fd, (struct sockaddr *)&addr, bytes) != 0) return close_failed(fd, errno);
    if (listen(*fd, BACKLOG) != 0) return close_failed(fd, errno);
    return 0;
}

/* A full backlog gives no event to poll for, so the connect itself waits, a bounded time. */
static int connect_unix_once(int fd, const struct sockaddr_un *addr, socklen_t bytes)
{
    struct timeval slice = {.tv_usec = RETRY_MS * 1000};
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &slice, sizeof slice) != 0) return errno;
    if (CCL_FAULT("boot-connect")) return ECONNREFUSED;
    return connect(fd, (const struct sockaddr *)addr, bytes) == 0 ? 0 : errno;
}

int ccl_sock_connect_unix(const char *name, const struct ccl_sock_wait *wait, int *fd)
{
    struct sockaddr_un addr;
    socklen_t bytes;
    *fd = -1;
    int code = fill_unix(name, &addr, &bytes);
    if (code != 0) return code;
    *fd = CCL_FAULT("boot-socket") ? (errno = EMFILE, -1)
                                   : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0) return errno;
    while ((code = connect_unix_once(*fd, &addr, bytes)) == EAGAIN || code == EINTR) {
        if (wait->abort_word != NULL &&
            atomic_load_explicit(wait->abort_word, memory_order_acquire) != 0)
            return close_failed(fd, ECANCELED);
        if (ccl_clock_ns() >= wait->deadline_ns) return close_failed(fd, ETIMEDOUT);
    }
    return code == 0 ? 0 : close_failed(fd, code);
}
