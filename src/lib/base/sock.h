/* Sockets of the control plane: TCP between processes anywhere, Unix sockets on one host.
 *
 * Every descriptor is close-on-exec and non-blocking; every wait has a deadline and an abort
 * word and looks at both at least every 100 ms; no call raises SIGPIPE. Functions that return int
 * give 0 or an errno value and store no error text, because the caller knows what was tried and
 * may try again: ETIMEDOUT is the deadline, ECANCELED the abort word, ECONNRESET also an orderly
 * end of file. ccl_sock_err turns such a value into a result. All are thread-safe.
 */
#ifndef CCL_BASE_SOCK_H
#define CCL_BASE_SOCK_H

#include "nccl.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

union ccl_sock_addr {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* "[address]:port" of IPv6 with its scope fits. */
enum { CCL_SOCK_TEXT_BYTES = 80 };

struct ccl_sock_wait {
    uint64_t deadline_ns;               /* of ccl_clock_deadline_ns */
    const _Atomic uint32_t *abort_word; /* NULL: cannot be aborted */
};

/* The result for an errno value of this module: ncclTimeout, ncclInternalError for an abort,
 * ncclRemoteError for a lost peer, else ncclSystemError. The text is `what` and the errno text. */
ncclResult_t ccl_sock_err(int code, const char *what);

/* "10.0.0.1:4711" or "[fe80::1%2]:4711". Returns `out`. */
const char *ccl_sock_text(const union ccl_sock_addr *addr, char out[CCL_SOCK_TEXT_BYTES]);

/* Reads "host:port" or "[address]:port"; names are looked up, which may block. EINVAL or
 * EHOSTUNREACH when it cannot. `family` AF_UNSPEC, AF_INET or AF_INET6. */
int ccl_sock_parse(const char *text, int family, union ccl_sock_addr *out);

/* Listens at *addr (port 0: any, stored back). */
int ccl_sock_listen(union ccl_sock_addr *addr, int *fd);
/* Takes one waiting connection; EAGAIN when there is none. `peer` may be NULL (Unix sockets). */
int ccl_sock_accept(int listen_fd, int *fd, union ccl_sock_addr *peer);
int ccl_sock_connect(const union ccl_sock_addr *addr, const struct ccl_sock_wait *wait, int *fd);

/* The same for a name (<= 100 bytes) in the abstract namespace. */
int ccl_sock_listen_unix(const char *name, int *fd);
int ccl_sock_connect_unix(const char *name, const struct ccl_sock_wait *wait, int *fd);

/* Waits until `fd` is ready for `events` of poll(2) (or broken, which the next call tells). */
int ccl_sock_poll(int fd, short events, const struct ccl_sock_wait *wait);

/* One attempt that never waits: *done bytes moved. EAGAIN when nothing can move now. */
int ccl_sock_send_some(int fd, const void *data, size_t size_bytes, size_t *done);
int ccl_sock_recv_some(int fd, void *data, size_t size_bytes, size_t *done);

/* Moves all bytes. `more`: the rest of the message follows at once. */
int ccl_sock_send_all(int fd, const void *data, size_t size_bytes, int more,
                      const struct ccl_sock_wait *wait);
int ccl_sock_recv_all(int fd, void *data, size_t size_bytes, const struct ccl_sock_wait *wait);

/* The same with a descriptor attached to the bytes (Unix sockets). *passed is -1 when none came;
 * else the caller owns it, also when the call fails. */
int ccl_sock_send_fd(int fd, const void *data, size_t size_bytes, int passed,
                     const struct ccl_sock_wait *wait);
int ccl_sock_recv_fd(int fd, void *data, size_t size_bytes, int *passed,
                     const struct ccl_sock_wait *wait);

#endif
