/* Those who knock at the root without belonging there, a root that is none, and bits that flip on
 * the way: a session is never disturbed, and nothing that was changed is believed. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/err.h"
#include "boot/id.h"
#include "boot/link.h"
#include "unit/boot_ranks.h"
#include "unit/test.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_MS = 20000, SILENT = 400, PER_KIND = 400 };

static struct test_rank ranks[MAX_TEST_RANKS];

static struct ccl_sock_wait soon(void)
{
    return (struct ccl_sock_wait){.deadline_ns = ccl_clock_deadline_ns(WAIT_MS)};
}

static void unpack(const ncclUniqueId *id, struct ccl_boot_id *parts)
{
    CHECK_OK(ccl_boot_id_unpack(id, parts));
}

/* Connections reset at the end, so that thousands of them leave no waiting ports. */
static int knock(const struct ccl_boot_id *id)
{
    struct ccl_sock_wait wait = soon();
    struct linger reset = {.l_onoff = 1};
    int fd;
    CHECK_EQ(ccl_sock_connect(&id->root, &wait, &fd), 0);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    return fd;
}

/* The root must close the connection; 0 bytes of anything but its challenge may come. */
static void expect_end(int fd)
{
    struct ccl_sock_wait wait = soon();
    uint8_t challenge[CCL_WIRE_HEAD_BYTES + CCL_WIRE_NONCE_BYTES];
    uint8_t byte;
    int code = ccl_sock_recv_all(fd, challenge, sizeof challenge, &wait);
    if (code == 0) code = ccl_sock_recv_all(fd, &byte, 1, &wait);
    CHECK_EQ(code, ECONNRESET);
    close(fd);
}

static void say(int fd, const void *bytes, size_t size_bytes)
{
    struct ccl_sock_wait wait = soon();
    int code = ccl_sock_send_all(fd, bytes, size_bytes, 0, &wait);
    CHECK(code == 0 || code == ECONNRESET || code == EPIPE);
}

static void run_close(const struct ccl_boot_id *id)
{
    close(knock(id));
}

static void run_random(const struct ccl_boot_id *id)
{
    uint8_t bytes[1024];
    int fd = knock(id);
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)rand();
    say(fd, bytes, sizeof bytes);
    expect_end(fd);
}

static void run_http(const struct ccl_boot_id *id)
{
    static const char request[] = "GET /status/index.html HTTP/1.1\r\nHost: localhost\r\n\r\n";
    int fd = knock(id);
    say(fd, request, sizeof request - 1);
    expect_end(fd);
}

/* The right magic, a hello of 4 GiB, a key that is a guess. */
static void run_huge(const struct ccl_boot_id *id)
{
    static const uint8_t guess[CCL_KEY_BYTES] = "guess";
    uint8_t head[CCL_WIRE_HEAD_BYTES];
    struct ccl_wire_head what = {CCL_WIRE_HELLO, 0};
    ccl_wire_seal(head, &what, guess, 0, NULL);
    memset(head + 8, 0xff, 4);
    int fd = knock(id);
    say(fd, head, sizeof head);
    expect_end(fd);
}

/* A good hello, recorded on one connection and sent on another: the challenge differs. */
static void run_replay(const struct ccl_boot_id *id)
{
    uint8_t frame[CCL_WIRE_HEAD_BYTES + CCL_WIRE_HELLO_BYTES], key[CCL_KEY_BYTES];
    uint8_t challenge[CCL_WIRE_HEAD_BYTES + CCL_WIRE_NONCE_BYTES];
    struct ccl_sock_wait wait = soon();
    struct ccl_wire_hello hello = {.nranks = 4, .rank = 2};
    struct ccl_wire_head what = {CCL_WIRE_HELLO, CCL_WIRE_HELLO_BYTES};
    int fd = knock(id);
    CHECK_EQ(ccl_sock_recv_all(fd, challenge, sizeof challenge, &wait), 0);
    ccl_wire_hello_key(key, id->secret, challenge + CCL_WIRE_HEAD_BYTES);
    ccl_wire_put_hello(frame + CCL_WIRE_HEAD_BYTES, &hello);
    ccl_wire_seal(frame, &what, key, 0, frame + CCL_WIRE_HEAD_BYTES);
    close(fd);
    fd = knock(id);
    say(fd, frame, sizeof frame);
    expect_end(fd);
}

static double run_session(const ncclUniqueId *id)
{
    uint64_t start_ns = ccl_clock_ns();
    test_ranks_fill(ranks, 4, id, 2);
    test_ranks_run(ranks, 4);
    for (int i = 0; i < 4; i++) CHECK_EQ(ranks[i].result, ncclSuccess);
    return (double)(ccl_clock_ns() - start_ns) / 1e6;
}

static void test_strangers(void)
{
    static void (*const kinds[])(const struct ccl_boot_id *) = {run_close, run_random, run_http,
                                                                run_huge, run_replay};
    ncclUniqueId id;
    struct ccl_boot_id parts;
    CHECK_OK(ccl_boot_make_id(&id));
    unpack(&id, &parts);
    srand(30);
    for (size_t kind = 0; kind < TEST_COUNT(kinds); kind++)
        for (int i = 0; i < PER_KIND; i++) kinds[kind](&parts);
    double ms = run_session(&id);
    NOTE("%d strangers, then a session of 4 in %.1f ms", (int)TEST_COUNT(kinds) * PER_KIND, ms);
}

/* More silent guests than the door has room for, all there while the ranks come. */
static void test_silent(void)
{
    static int fds[SILENT];
    ncclUniqueId id;
    struct ccl_boot_id parts;
    CHECK_OK(ccl_boot_make_id(&id));
    unpack(&id, &parts);
    for (int i = 0; i < SILENT; i++) fds[i] = knock(&parts);
    double ms = run_session(&id);
    NOTE("%d silent guests, a session of 4 in %.1f ms", SILENT, ms);
    for (int i = 0; i < SILENT; i++) close(fds[i]);
}

/* A rank of a running session that sends strangers' bytes is named to the others. */
static void test_damaged_rank(void)
{
    ncclUniqueId id;
    struct ccl_boot_id parts;
    struct ccl_boot *boot;
    CHECK_OK(ccl_boot_make_id(&id));
    unpack(&id, &parts);
    test_ranks_fill(ranks, 3, &id, 1);
    test_ranks_start(ranks, 2);
    CHECK_OK(ccl_boot_open(&ranks[2].args, &boot));
    CHECK_EQ(send(ccl_boot_fd(boot), "0123456789012345678901234567890123456789", 40, 0), 40);
    test_ranks_join(ranks, 2);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(ranks[i].result, ncclRemoteError);
        CHECK_HAS(ranks[i].text, "a damaged message came from rank 2");
    }
    ccl_boot_close(boot);
}

/* ---- who answers is not the root, or passes on what is not said ---- */

/* Passes bytes between one rank and the root at a time and flips one bit of one direction. */
struct proxy {
    union ccl_sock_addr addr, root;
    int listen_fd;
    _Atomic int stop;
    int to_root; /* direction of the flip */
    size_t at;   /* byte of the first connection that is changed */
    uint8_t mask;
    int flipped;
    pthread_t thread;
};

/* Moves what is there from one side to the other; 0 at the end. */
static int move(struct proxy *proxy, int from, int to, size_t *seen)
{
    uint8_t bytes[4096];
    struct ccl_sock_wait wait = soon();
    size_t got;
    int code = ccl_sock_recv_some(from, bytes, sizeof bytes, &got);
    if (code == EAGAIN) return 1;
    if (code != 0) return 0;
    if (seen != NULL && !proxy->flipped && proxy->at >= *seen && proxy->at < *seen + got) {
        bytes[proxy->at - *seen] ^= proxy->mask;
        proxy->flipped = 1;
    }
    if (seen != NULL) *seen += got;
    return ccl_sock_send_all(to, bytes, got, 0, &wait) == 0;
}

static void serve_one(struct proxy *proxy, int rank_fd)
{
    struct ccl_sock_wait wait = soon();
    int root_fd, alive = 1;
    size_t seen = 0;
    if (ccl_sock_connect(&proxy->root, &wait, &root_fd) != 0) {
        close(rank_fd);
        return;
    }
    while (alive && !atomic_load(&proxy->stop)) {
        struct pollfd polls[2] = {{.fd = rank_fd, .events = POLLIN},
                                  {.fd = root_fd, .events = POLLIN}};
        poll(polls, 2, 20);
        if (polls[0].revents != 0)
            alive = move(proxy, rank_fd, root_fd, proxy->to_root ? &seen : NULL);
        if (alive && polls[1].revents != 0)
            alive = move(proxy, root_fd, rank_fd, proxy->to_root ? NULL : &seen);
    }
    close(rank_fd);
    close(root_fd);
}

static void *run_proxy(void *argument)
{
    struct proxy *proxy = argument;
    while (!atomic_load(&proxy->stop)) {
        struct pollfd item = {.fd = proxy->listen_fd, .events = POLLIN};
        int fd;
        if (poll(&item, 1, 20) > 0 && ccl_sock_accept(proxy->listen_fd, &fd, NULL) == 0)
            serve_one(proxy, fd);
    }
    return NULL;
}

/* A session of one rank through the proxy. The only good ends: an error, or, when the changed
 * message was dropped and said again, the right data. */
static ncclResult_t run_flipped(struct proxy *proxy)
{
    ncclUniqueId id;
    struct ccl_boot_id parts;
    struct test_rank rank;
    CHECK_OK(ccl_boot_make_id(&id));
    unpack(&id, &parts);
    proxy->root = parts.root;
    proxy->addr = parts.root;
    proxy->addr.v4.sin_port = 0;
    CHECK_EQ(ccl_sock_listen(&proxy->addr, &proxy->listen_fd), 0);
    parts.root = proxy->addr;
    ccl_boot_id_pack(&parts, &id);
    CHECK_EQ(pthread_create(&proxy->thread, NULL, run_proxy, proxy), 0);
    test_ranks_fill(&rank, 1, &id, 2);
    uint64_t start_ns = ccl_clock_ns();
    test_ranks_run(&rank, 1);
    CHECK(ccl_clock_ns() - start_ns < UINT64_C(10000000000));
    atomic_store(&proxy->stop, 1);
    CHECK_EQ(pthread_join(proxy->thread, NULL), 0);
    close(proxy->listen_fd);
    ccl_boot_quiesce();
    return rank.result;
}

/* Where the frames after the hello begin: whatever is changed there must fail the session. */
static void run_direction(int to_root)
{
    size_t hello_end = CCL_WIRE_HEAD_BYTES + CCL_WIRE_HELLO_BYTES;
    size_t end =
        to_root ? hello_end + 2 * (CCL_WIRE_HEAD_BYTES + 24)
                : 2 * (CCL_WIRE_HEAD_BYTES + CCL_WIRE_NONCE_BYTES) + 2 * (CCL_WIRE_HEAD_BYTES + 24);
    int refused = 0, again = 0;
    srand(31);
    for (size_t at = 0; at < end; at += 1 + (size_t)rand() % 3) {
        struct proxy proxy = {
            .to_root = to_root, .at = at, .mask = (uint8_t)(1u << (unsigned)rand() % 8)};
        ncclResult_t result = run_flipped(&proxy);
        CHECK(proxy.flipped);
        if (result != ncclSuccess)
            refused++;
        else if (to_root && at < hello_end)
            again++;
        else
            FAIL("seed 31: byte %zu mask %02x %s the root was accepted", at, proxy.mask,
                 to_root ? "to" : "from");
    }
    NOTE("%s the root: %d refused, %d said again after a refusal", to_root ? "to" : "from", refused,
         again);
}

static void test_flips_to_root(void)
{
    run_direction(1);
}

static void test_flips_from_root(void)
{
    run_direction(0);
}

static void *answer_garbage(void *argument)
{
    struct ccl_sock_wait wait = soon();
    uint8_t bytes[64];
    int listen_fd = *(int *)argument, fd;
    memset(bytes, 'A', sizeof bytes);
    if (ccl_sock_poll(listen_fd, POLLIN, &wait) != 0) return NULL;
    if (ccl_sock_accept(listen_fd, &fd, NULL) != 0) return NULL;
    ccl_sock_send_all(fd, bytes, sizeof bytes, 0, &wait);
    while (ccl_sock_recv_all(fd, bytes, 1, &wait) == 0)
        ;
    close(fd);
    return NULL;
}

/* Another service got the port. */
static void test_no_root(void)
{
    struct ccl_boot_id parts = {.pid = 1};
    struct ccl_boot_args args = {.nranks = 1};
    struct ccl_boot *boot;
    pthread_t thread;
    int listen_fd;
    parts.root.v4.sin_family = AF_INET;
    parts.root.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_EQ(ccl_sock_listen(&parts.root, &listen_fd), 0);
    ccl_boot_id_pack(&parts, &args.id);
    CHECK_EQ(pthread_create(&thread, NULL, answer_garbage, &listen_fd), 0);
    CHECK_EQ(ccl_boot_open(&args, &boot), ncclRemoteError);
    CHECK_HAS(ccl_err_last(), "is not the root of this unique id");
    CHECK(boot == NULL);
    pthread_join(thread, NULL);
    close(listen_fd);
}

static const struct test_case cases[] = {
    {"strangers", test_strangers, 0},
    {"silent guests", test_silent, 0},
    {"a damaged message names its rank", test_damaged_rank, 0},
    {"flipped bits to the root", test_flips_to_root, 0},
    {"flipped bits from the root", test_flips_from_root, 0},
    {"not a root", test_no_root, 0},
};

TEST_LIB_MAIN(cases)
