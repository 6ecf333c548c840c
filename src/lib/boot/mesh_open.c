/* How a mesh comes to be: every process listens, connects to the processes before it and lets those
 * after it in. Called by core at initialisation. Invariant: waits chain only to lower processes,
 * and process 0 connects to nobody, so they end. */
#define _GNU_SOURCE
#include "boot/mesh_impl.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NAME_BYTES = 48, POLL_MS = 100, LISTED = 16 };

/* Known only to holders of the secret, and different in each session. */
static void socket_name(const uint8_t *secret, int proc, char out[NAME_BYTES])
{
    uint8_t hash[CCL_KEY_BYTES], number[4];
    for (unsigned i = 0; i < 4; i++) number[i] = (uint8_t)((unsigned)proc >> (8 * i));
    ccl_mac_derive(hash, secret, "mesh socket", number, sizeof number);
    int used = snprintf(out, NAME_BYTES, "chorus-");
    for (size_t i = 0; i < sizeof hash; i++)
        used += snprintf(out + used, NAME_BYTES - (size_t)used, "%02x", hash[i]);
}

static struct ccl_sock_wait start_wait(const struct ccl_mesh *mesh)
{
    return (struct ccl_sock_wait){
        .deadline_ns = ccl_clock_deadline_ns(ccl_param_int(CCL_PARAM_INIT_TIMEOUT_MS)),
        .abort_word = mesh->abort_word};
}

/* The process at the other end, from the kernel, so it cannot lie. */
static void identify(struct ccl_mesh_peer *peer)
{
    struct ucred cred = {0};
    socklen_t bytes = sizeof cred;
    if (getsockopt(peer->link.fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes) == 0)
        peer->pid = cred.pid;
    if (peer->pid <= 0 || CCL_FAULT("boot-pidfd")) return;
    /* Where it cannot be had, the end of file of the link has to do. */
    peer->pidfd = (int)syscall(SYS_pidfd_open, peer->pid, 0);
}

static void link_up(struct ccl_mesh_peer *peer)
{
    pthread_mutex_lock(&peer->mesh->lock);
    peer->up = 1;
    pthread_mutex_unlock(&peer->mesh->lock);
}

/* ---- letting in those after us ---- */

static void let_in(void *context, const struct ccl_arrival *arrival)
{
    struct ccl_mesh *mesh = context;
    uint32_t proc = arrival->hello.rank;
    uint32_t nprocs = arrival->hello.nranks;
    if (nprocs != (uint32_t)mesh->nprocs || proc >= nprocs || proc <= (uint32_t)mesh->self ||
        mesh->peers[proc].up) {
        CCL_INFO(CCL_LOG_BOOTSTRAP, "mesh: process %u of %u is not expected", proc, nprocs);
        close(arrival->link.fd);
        return;
    }
    struct ccl_mesh_peer *peer = &mesh->peers[proc];
    struct ccl_sock_wait now = {.deadline_ns = 0};
    peer->link = arrival->link;
    struct ccl_wire_head what = {CCL_WIRE_MESH_WELCOME, 0};
    if (ccl_link_send(&peer->link, &what, NULL, &now) != 0) {
        ccl_link_close(&peer->link);
        return;
    }
    identify(peer);
    link_up(peer);
    mesh->nmissing--;
}

ncclResult_t ccl_mesh_listen(const struct ccl_mesh_args *args, struct ccl_mesh **out)
{
    struct ccl_mesh *mesh = NULL;
    *out = NULL;
    TRY(ccl_alloc((void **)&mesh, 1,
                  sizeof *mesh + (size_t)args->nprocs * sizeof(struct ccl_mesh_peer)));
    mesh->nprocs = args->nprocs;
    mesh->self = args->self;
    mesh->nmissing = args->nprocs - 1 - args->self;
    mesh->abort_word = args->abort_word;
    mesh->boot = args->boot;
    memcpy(mesh->secret, args->secret, CCL_KEY_BYTES);
    gethostname(mesh->host, sizeof mesh->host - 1);
    pthread_mutex_init(&mesh->lock, NULL);
    for (int proc = 0; proc < args->nprocs; proc++) {
        mesh->peers[proc].mesh = mesh;
        mesh->peers[proc].proc = proc;
        mesh->peers[proc].link.fd = mesh->peers[proc].pidfd = -1;
    }
    ncclResult_t rc = CCL_NEW(&mesh->first_rank, (size_t)args->nprocs);
    if (rc != ncclSuccess) goto fail;
    memcpy(mesh->first_rank, args->first_rank, (size_t)args->nprocs * sizeof(int));

    if (mesh->nmissing > 0) {
        char name[NAME_BYTES];
        int listen_fd;
        socket_name(mesh->secret, mesh->self, name);
        int code = ccl_sock_listen_unix(name, &listen_fd);
        TRY_GOTO(rc, ccl_sock_err(code, "listening for the processes of this host"), fail);
        struct ccl_door_args door = {.listen_fd = listen_fd,
                                     .secret = mesh->secret,
                                     .hello_type = CCL_WIRE_MESH_HELLO,
                                     .same_user = 1,
                                     .welcome = let_in,
                                     .context = mesh};
        TRY_GOTO(rc, ccl_door_open(&door, &mesh->door), fail);
    }
    *out = mesh;
    return ncclSuccess;
fail:
    ccl_mesh_close(mesh);
    return rc;
}

/* ---- going to those before us ---- */

static int greet(struct ccl_mesh *mesh, struct ccl_mesh_peer *peer,
                 const struct ccl_sock_wait *wait)
{
    char name[NAME_BYTES];
    socket_name(mesh->secret, peer->proc, name);
    int code = ccl_sock_connect_unix(name, wait, &peer->link.fd);
    if (code != 0) return code;
    struct ccl_wire_hello hello = {.nranks = (uint32_t)mesh->nprocs,
                                   .rank = (uint32_t)mesh->self,
                                   .version = NCCL_VERSION_CODE,
                                   .pid = (uint32_t)getpid()};
    memcpy(hello.host, mesh->host, sizeof hello.host);
    code = ccl_link_greet(&peer->link, mesh->secret, CCL_WIRE_MESH_HELLO, &hello, wait);
    if (code != 0) return code;
    struct ccl_link_want want = {.allowed = CCL_WIRE_BIT(CCL_WIRE_MESH_WELCOME)};
    uint8_t head[CCL_WIRE_HEAD_BYTES];
    struct ccl_wire_head got;
    code = ccl_link_recv_head(&peer->link, &want, wait, head, &got);
    return code == 0 ? ccl_link_recv_body(&peer->link, head, NULL, 0, wait) : code;
}

static ncclResult_t reach(struct ccl_mesh *mesh, struct ccl_mesh_peer *peer,
                          const struct ccl_sock_wait *wait)
{
    int code;
    /* Its door drops the oldest guest when a crowd of strangers comes; then we come again. */
    while ((code = greet(mesh, peer, wait)) == ECONNRESET || code == EPIPE) {
        ccl_link_close(&peer->link);
        if (ccl_clock_ns() >= wait->deadline_ns) break;
        if (mesh->boot != NULL) TRY(ccl_boot_health(mesh->boot));
    }
    if (code == ECONNREFUSED)
        return ccl_err(ncclRemoteError,
                       "rank %d on host %s does not listen: its process has ended or is in another "
                       "network namespace",
                       mesh->first_rank[peer->proc], mesh->host);
    if (code != 0) return ccl_mesh_lost(peer, code);
    identify(peer);
    link_up(peer);
    return ncclSuccess;
}

/* A peer that is up has closed its end: what it said last tells why. It may have begun to swap
 * descriptors before; those are of no use any more. */
static ncclResult_t hear_end(struct ccl_mesh_peer *peer)
{
    int passed = -1;
    struct ccl_link_want want = {
        .allowed = CCL_WIRE_BIT(CCL_WIRE_FAIL) | CCL_WIRE_BIT(CCL_WIRE_MESH_FD), .passed = &passed};
    struct ccl_sock_wait now = {.deadline_ns = 0};
    uint8_t head[CCL_WIRE_HEAD_BYTES], payload[CCL_WIRE_FAIL_BYTES];
    struct ccl_wire_head got;
    struct ccl_wire_fail fail;
    int code;
    do {
        code = ccl_link_recv_head(&peer->link, &want, &now, head, &got);
        if (passed >= 0) close(passed);
        if (code == 0)
            code = ccl_link_recv_body(&peer->link, head, payload, got.length_bytes, &now);
    } while (code == 0 && got.type == CCL_WIRE_MESH_FD);
    if (code != 0) return ccl_mesh_lost(peer, ECONNRESET);
    ccl_wire_get_fail(payload, got.length_bytes, &fail);
    return ccl_err((ncclResult_t)fail.code, "%s", fail.text);
}

static ncclResult_t timed_out(const struct ccl_mesh *mesh)
{
    char list[LISTED * 12] = "";
    size_t used = 0;
    int listed = 0;
    for (int proc = mesh->self + 1; proc < mesh->nprocs && listed < LISTED; proc++) {
        if (mesh->peers[proc].up) continue;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%d", listed++ > 0 ? "," : "",
                                 mesh->first_rank[proc]);
    }
    return ccl_err(ncclTimeout,
                   "%d processes of host %s (of ranks %s) have not connected to that "
                   "of rank %d within %lld ms",
                   mesh->nmissing, mesh->host, list, mesh->first_rank[mesh->self],
                   (long long)ccl_param_int(CCL_PARAM_INIT_TIMEOUT_MS));
}

/* One wait for arrivals, failures of the session and ends of peers that are up. */
static ncclResult_t wait_step(struct ccl_mesh *mesh, struct pollfd *polls)
{
    int n = 0, timeout_ms = POLL_MS;
    for (int proc = 0; proc < mesh->nprocs; proc++, n++)
        polls[n] = (struct pollfd){.fd = mesh->peers[proc].up ? mesh->peers[proc].link.fd : -1,
                                   .events = POLLRDHUP};
    polls[n++] =
        (struct pollfd){.fd = mesh->boot == NULL ? -1 : ccl_boot_fd(mesh->boot), .events = POLLIN};
    int door_at = n;
    n += ccl_door_polls(mesh->door, polls + n, &timeout_ms);
    int starved = ccl_door_starved(mesh->door);
    if (starved != 0)
        return ccl_err(ncclSystemError,
                       "rank %d cannot accept the other processes of host %s: %s (see ulimit -n)",
                       mesh->first_rank[mesh->self], mesh->host, strerror(starved));
    int ready = poll(polls, (nfds_t)n, timeout_ms);
    if (ready < 0 && errno != EINTR) return ccl_sock_err(errno, "poll for processes of this host");
    if (ready <= 0) return ncclSuccess;
    for (int proc = 0; proc < mesh->nprocs; proc++)
        if (polls[proc].revents != 0) return hear_end(&mesh->peers[proc]);
    if (polls[door_at - 1].revents != 0) TRY(ccl_boot_health(mesh->boot));
    ccl_door_step(mesh->door, polls + door_at);
    return ncclSuccess;
}

ncclResult_t ccl_mesh_connect(struct ccl_mesh *mesh)
{
    struct ccl_sock_wait wait = start_wait(mesh);
    struct pollfd *polls = NULL;
    ncclResult_t rc = ncclSuccess;
    for (int proc = 0; proc < mesh->self; proc++) TRY(reach(mesh, &mesh->peers[proc], &wait));
    TRY(CCL_NEW(&polls, (size_t)mesh->nprocs + 1 + CCL_DOOR_POLLS));
    while (mesh->nmissing > 0 && rc == ncclSuccess) {
        rc = wait_step(mesh, polls);
        if (rc != ncclSuccess || mesh->nmissing == 0) break;
        if (mesh->abort_word != NULL &&
            atomic_load_explicit(mesh->abort_word, memory_order_acquire) != 0)
            rc = ccl_sock_err(ECANCELED, "waiting for the processes of this host");
        else if (ccl_clock_ns() >= wait.deadline_ns)
            rc = timed_out(mesh);
    }
    ccl_free(polls);
    ccl_door_close(mesh->door);
    mesh->door = NULL;
    return rc;
}

/* ---- descriptors ---- */

static ncclResult_t recv_fd(struct ccl_mesh_peer *peer, const struct ccl_sock_wait *wait, int *fd)
{
    struct ccl_link_want want = {.allowed = CCL_WIRE_BIT(CCL_WIRE_MESH_FD) |
                                            CCL_WIRE_BIT(CCL_WIRE_FAIL) |
                                            CCL_WIRE_BIT(CCL_WIRE_LEAVE),
                                 .passed = fd};
    uint8_t head[CCL_WIRE_HEAD_BYTES], payload[CCL_WIRE_FAIL_BYTES];
    char who[CCL_MESH_WHO_BYTES];
    struct ccl_wire_head got;
    struct ccl_wire_fail fail;
    int code = ccl_link_recv_head(&peer->link, &want, wait, head, &got);
    if (code == 0) code = ccl_link_recv_body(&peer->link, head, payload, got.length_bytes, wait);
    if (code != 0) return ccl_mesh_lost(peer, code);
    ccl_mesh_who(peer, who);
    if (got.type == CCL_WIRE_LEAVE)
        return ccl_err(ncclRemoteError, "%s left during initialisation", who);
    if (got.type == CCL_WIRE_FAIL) {
        ccl_wire_get_fail(payload, got.length_bytes, &fail);
        return ccl_err((ncclResult_t)fail.code, "%s", fail.text);
    }
    if (*fd < 0)
        return ccl_err(ncclSystemError,
                       "the descriptor from %s did not arrive; is the limit of open files reached?",
                       who);
    return ncclSuccess;
}

static ncclResult_t send_fd(struct ccl_mesh_peer *peer, const struct ccl_sock_wait *wait, int fd)
{
    pthread_mutex_lock(&peer->mesh->lock);
    int code = ccl_link_send_fd(&peer->link, fd, wait);
    pthread_mutex_unlock(&peer->mesh->lock);
    /* A peer that closed may have told why; the receiving side will read it. */
    if (code == 0 || code == EPIPE || code == ECONNRESET) return ncclSuccess;
    return ccl_mesh_lost(peer, code);
}

ncclResult_t ccl_mesh_swap_fds(struct ccl_mesh *mesh, const int *given, int *fds)
{
    struct ccl_sock_wait wait = start_wait(mesh);
    ncclResult_t rc = ncclSuccess;
    for (int proc = 0; proc < mesh->nprocs; proc++) fds[proc] = -1;
    for (int proc = 0; proc < mesh->nprocs; proc++)
        if (proc != mesh->self) TRY(send_fd(&mesh->peers[proc], &wait, given[proc]));
    for (int proc = 0; proc < mesh->nprocs; proc++)
        if (proc != mesh->self) TRY_GOTO(rc, recv_fd(&mesh->peers[proc], &wait, &fds[proc]), fail);
    return ncclSuccess;
fail:
    for (int proc = 0; proc < mesh->nprocs; proc++) {
        if (fds[proc] >= 0) close(fds[proc]);
        fds[proc] = -1;
    }
    return rc;
}

ncclResult_t ccl_mesh_swap_fd(struct ccl_mesh *mesh, int fd, int *fds)
{
    int *given;
    TRY(CCL_NEW(&given, (size_t)mesh->nprocs));
    for (int proc = 0; proc < mesh->nprocs; proc++) given[proc] = fd;
    ncclResult_t rc = ccl_mesh_swap_fds(mesh, given, fds);
    ccl_free(given);
    return rc;
}
