/* The guests of a listening socket. Called by root.c and mesh_open.c. Invariant: a guest costs one
 * descriptor and under 256 bytes until it has proved to know the secret. */
#define _GNU_SOURCE
#include "boot/door.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/rng.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    HELLO_MS = 5000,
    YOUNG_MS = 100,
    SOURCES = 16,
    STARVED_MS = 20,         /* accept is tried again after so long */
    STARVED_LIMIT_MS = 2000, /* so long without a descriptor is a failure */
};

struct guest {
    int fd;
    uint8_t key[CCL_KEY_BYTES]; /* of its hello */
    uint64_t since_ns;
    union ccl_sock_addr from;
    size_t have;
    uint8_t bytes[CCL_WIRE_HEAD_BYTES + CCL_WIRE_HELLO_BYTES];
};

struct ccl_door {
    int listen_fd;
    int spare_fd; /* given up for a first guest when no other is left: who listens can tell him */
    uint8_t secret[CCL_KEY_BYTES];
    unsigned hello_type;
    int same_user;
    ccl_door_welcome *welcome;
    void *context;
    int nguests; /* in order of their coming */
    struct guest guests[CCL_DOOR_GUESTS];
    int npolled;               /* guests in the poll entries that were filled last */
    uint64_t starved_until_ns; /* no descriptor was left: accept nobody until then */
    uint64_t starved_since_ns; /* since the last connection that was accepted; 0 not at all */
    int starved_code;
    char sources[SOURCES][CCL_SOCK_TEXT_BYTES]; /* strangers that were logged, the last ones */
    unsigned nsources;
};

static int open_spare(void)
{
    return eventfd(0, EFD_CLOEXEC);
}

ncclResult_t ccl_door_open(const struct ccl_door_args *args, struct ccl_door **out)
{
    struct ccl_door *door;
    ncclResult_t rc = CCL_NEW(&door, 1);
    if (rc != ncclSuccess) {
        close(args->listen_fd);
        return rc;
    }
    door->listen_fd = args->listen_fd;
    door->spare_fd = open_spare();
    if (door->spare_fd < 0) {
        rc = ccl_err(ncclSystemError, "a spare descriptor of a listener: %s", strerror(errno));
        ccl_door_close(door);
        return rc;
    }
    memcpy(door->secret, args->secret, CCL_KEY_BYTES);
    door->hello_type = args->hello_type;
    door->same_user = args->same_user;
    door->welcome = args->welcome;
    door->context = args->context;
    *out = door;
    return ncclSuccess;
}

static void log_stranger(struct ccl_door *door, const union ccl_sock_addr *from, const char *why)
{
    char text[CCL_SOCK_TEXT_BYTES];
    if (!ccl_log_on(CCL_LOG_BOOTSTRAP)) return;
    if (from->any.sa_family == AF_UNIX)
        snprintf(text, sizeof text, "a process of this host");
    else
        ccl_sock_text(from, text);
    char *port = strrchr(text, ':');
    if (port != NULL) *port = '\0'; /* the port differs each time */
    for (unsigned i = 0; i < SOURCES; i++)
        if (strcmp(door->sources[i], text) == 0) return;
    memcpy(door->sources[door->nsources++ % SOURCES], text, sizeof text);
    CCL_INFO(CCL_LOG_BOOTSTRAP, "dropped a stranger from %s: %s", text, why);
}

/* Forgets a guest; its descriptor has been closed or handed over. */
static void forget(struct ccl_door *door, int index)
{
    door->nguests--;
    memmove(&door->guests[index], &door->guests[index + 1],
            (size_t)(door->nguests - index) * sizeof door->guests[0]);
}

static void drop(struct ccl_door *door, int index, const char *why)
{
    log_stranger(door, &door->guests[index].from, why);
    close(door->guests[index].fd);
    forget(door, index);
}

static int other_user(int fd)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return 1;
    return peer.uid != geteuid();
}

/* Greets a new connection with its challenge, which always fits into an empty socket. */
static void admit(struct ccl_door *door, int fd, const union ccl_sock_addr *from)
{
    uint8_t frame[CCL_WIRE_HEAD_BYTES + CCL_WIRE_NONCE_BYTES];
    uint8_t *nonce = frame + CCL_WIRE_HEAD_BYTES;
    struct ccl_wire_head what = {CCL_WIRE_CHALLENGE, CCL_WIRE_NONCE_BYTES};
    struct guest *guest = &door->guests[door->nguests];
    memset(guest, 0, sizeof *guest);
    if ((door->same_user && other_user(fd)) || ccl_rng_fill(nonce, what.length_bytes) != 0) {
        close(fd);
        return;
    }
    ccl_wire_seal(frame, &what, door->secret, 0, nonce);
    size_t done;
    if (ccl_sock_send_some(fd, frame, sizeof frame, &done) != 0 || done != sizeof frame) {
        log_stranger(door, from, "closed at once");
        close(fd);
        return;
    }
    guest->fd = fd;
    guest->from = *from;
    guest->since_ns = ccl_clock_ns();
    ccl_wire_hello_key(guest->key, door->secret, nonce);
    door->nguests++;
}

/* With a full house the oldest makes room, unless it had no time to answer yet. */
static int room_left(struct ccl_door *door)
{
    if (door->nguests < CCL_DOOR_GUESTS) return 1;
    return ccl_clock_ns() - door->guests[0].since_ns > YOUNG_MS * UINT64_C(1000000);
}

/* Without a descriptor for the first guest nobody would ever learn what is missing. */
static int accept_one(struct ccl_door *door, int *fd, union ccl_sock_addr *from)
{
    int code = ccl_sock_accept(door->listen_fd, fd, from);
    if ((code != EMFILE && code != ENFILE) || door->spare_fd < 0) return code;
    close(door->spare_fd);
    door->spare_fd = -1;
    return ccl_sock_accept(door->listen_fd, fd, from);
}

static void accept_all(struct ccl_door *door)
{
    if (door->spare_fd < 0) door->spare_fd = open_spare();
    while (room_left(door)) {
        union ccl_sock_addr from;
        int fd;
        int code = accept_one(door, &fd, &from);
        if (code == EAGAIN) return;
        if (code != 0) {
            /* Most likely out of descriptors. The connection stays in the backlog; trying again
             * at once would only spin. */
            CCL_INFO(CCL_LOG_BOOTSTRAP, "accept: %s", strerror(code));
            door->starved_until_ns = ccl_clock_deadline_ns(STARVED_MS);
            if (door->starved_since_ns == 0) door->starved_since_ns = ccl_clock_ns();
            door->starved_code = code;
            return;
        }
        door->starved_since_ns = 0;
        if (door->nguests == CCL_DOOR_GUESTS) drop(door, 0, "silent, and others wait");
        admit(door, fd, &from);
    }
}

int ccl_door_starved(const struct ccl_door *door)
{
    if (door->starved_since_ns == 0) return 0;
    uint64_t starved_ns = ccl_clock_ns() - door->starved_since_ns;
    return starved_ns > STARVED_LIMIT_MS * UINT64_C(1000000) ? door->starved_code : 0;
}

/* Reads what a guest says; returns 1 when the guest has left the table. */
static int read_guest(struct ccl_door *door, int index)
{
    struct guest *guest = &door->guests[index];
    size_t got;
    int code = ccl_sock_recv_some(guest->fd, guest->bytes + guest->have,
                                  sizeof guest->bytes - guest->have, &got);
    if (code == EAGAIN) return 0;
    if (code != 0) {
        drop(door, index, "closed without a hello");
        return 1;
    }
    guest->have += got;
    struct ccl_wire_rule rule = {.key = guest->key, .allowed = CCL_WIRE_BIT(door->hello_type)};
    struct ccl_wire_head head;
    enum ccl_wire_verdict verdict = ccl_wire_parse(guest->bytes, guest->have, &rule, &head);
    if (verdict == CCL_WIRE_MORE) return 0;
    if (verdict != CCL_WIRE_OK) {
        drop(door, index, ccl_wire_verdict_text(verdict));
        return 1;
    }
    struct ccl_arrival arrival = {.link.fd = guest->fd, .from = guest->from};
    ccl_wire_get_hello(guest->bytes + CCL_WIRE_HEAD_BYTES, &arrival.hello);
    memcpy(arrival.link.key, guest->key, CCL_KEY_BYTES);
    ccl_wire_link_key(arrival.link.key, arrival.hello.nonce);
    /* Both sides have sent one frame: the challenge and the hello. */
    arrival.link.sent = arrival.link.received = 1;
    forget(door, index);
    door->welcome(door->context, &arrival);
    return 1;
}

int ccl_door_polls(struct ccl_door *door, struct pollfd *polls, int *timeout_ms)
{
    uint64_t next_ns = UINT64_MAX;
    short listen_events = POLLIN;
    if (door->starved_until_ns > ccl_clock_ns()) {
        next_ns = door->starved_until_ns;
        listen_events = 0;
    } else if (!room_left(door)) {
        next_ns = door->guests[0].since_ns + YOUNG_MS * UINT64_C(1000000);
        listen_events = 0;
    } else if (door->nguests > 0) {
        next_ns = door->guests[0].since_ns + HELLO_MS * UINT64_C(1000000);
    }
    if (next_ns != UINT64_MAX) {
        int left_ms = ccl_clock_poll_ms(next_ns);
        if (*timeout_ms < 0 || left_ms < *timeout_ms) *timeout_ms = left_ms;
    }
    polls[0] = (struct pollfd){.fd = door->listen_fd, .events = listen_events};
    for (int i = 0; i < door->nguests; i++)
        polls[1 + i] = (struct pollfd){.fd = door->guests[i].fd, .events = POLLIN};
    door->npolled = door->nguests;
    return 1 + door->nguests;
}

void ccl_door_step(struct ccl_door *door, const struct pollfd *polls)
{
    int index = 0;
    for (int i = 0; i < door->npolled; i++)
        if (polls[1 + i].revents == 0 || !read_guest(door, index)) index++;
    while (door->nguests > 0 &&
           ccl_clock_ns() - door->guests[0].since_ns > HELLO_MS * UINT64_C(1000000))
        drop(door, 0, "silent");
    if (polls[0].revents != 0) accept_all(door);
    door->npolled = 0;
}

void ccl_door_close(struct ccl_door *door)
{
    if (door == NULL) return;
    for (int i = 0; i < door->nguests; i++) close(door->guests[i].fd);
    close(door->listen_fd);
    if (door->spare_fd >= 0) close(door->spare_fd);
    ccl_free(door);
}
