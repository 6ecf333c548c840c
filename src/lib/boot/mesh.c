/* The life of a mesh after set-up: watching peers, telling them, closing. Called by core and, for
 * events, by the watcher. Invariant: each peer's fate is given at most once, whatever of message,
 * end of file and pidfd comes first. */
#define _GNU_SOURCE
#include "boot/mesh.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/log.h"
#include "boot/mesh_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *ccl_mesh_who(const struct ccl_mesh_peer *peer, char out[CCL_MESH_WHO_BYTES])
{
    const struct ccl_mesh *mesh = peer->mesh;
    int rank = mesh->first_rank[peer->proc];
    if (peer->pid > 0)
        snprintf(out, CCL_MESH_WHO_BYTES, "rank %d on host %s (pid %d)", rank, mesh->host,
                 peer->pid);
    else
        snprintf(out, CCL_MESH_WHO_BYTES, "rank %d on host %s", rank, mesh->host);
    return out;
}

static void death_text(const struct ccl_mesh_peer *peer, char *out, size_t out_bytes)
{
    char who[CCL_MESH_WHO_BYTES];
    snprintf(out, out_bytes, "%s ended without closing its communicator", ccl_mesh_who(peer, who));
}

ncclResult_t ccl_mesh_lost(const struct ccl_mesh_peer *peer, int code)
{
    char who[CCL_MESH_WHO_BYTES], text[CCL_MESH_WHO_BYTES + 64];
    if (code == ECONNRESET || code == EPIPE) {
        death_text(peer, text, sizeof text);
        return ccl_err(ncclRemoteError, "%s", text);
    }
    snprintf(text, sizeof text, "the control link to %s", ccl_mesh_who(peer, who));
    return ccl_sock_err(code, text);
}

/* ---- events ---- */

static void judge(struct ccl_mesh_peer *peer, ncclResult_t code, const char *text)
{
    const struct ccl_mesh *mesh = peer->mesh;
    if (!peer->judged && mesh->events.fate != NULL)
        mesh->events.fate(mesh->context, peer->proc, code, text);
    peer->judged = 1;
}

static void take_frame(struct ccl_mesh_peer *peer, const struct ccl_wire_head *head)
{
    const struct ccl_mesh *mesh = peer->mesh;
    const uint8_t *payload = peer->bytes + CCL_WIRE_HEAD_BYTES;
    if (head->type == CCL_WIRE_LEAVE) {
        char who[CCL_MESH_WHO_BYTES], text[CCL_MESH_WHO_BYTES + 64];
        snprintf(text, sizeof text, "%s closed its communicator", ccl_mesh_who(peer, who));
        judge(peer, ncclSuccess, text);
        peer->over = 1;
    } else if (head->type == CCL_WIRE_FAIL) {
        struct ccl_wire_fail fail;
        ccl_wire_get_fail(payload, head->length_bytes, &fail);
        judge(peer, (ncclResult_t)fail.code, fail.text);
    } else if (mesh->events.letter != NULL) {
        struct ccl_wire_letter letter;
        ccl_wire_get_letter(payload, &letter);
        mesh->events.letter(mesh->context, peer->proc, &letter);
    }
}

/* Takes all frames that have come; returns 0 after the last one, else why none comes: EAGAIN when
 * there is no news yet. */
static int hear_frames(struct ccl_mesh_peer *peer)
{
    struct ccl_wire_rule rule = {.key = peer->link.key,
                                 .allowed = CCL_WIRE_BIT(CCL_WIRE_FAIL) |
                                            CCL_WIRE_BIT(CCL_WIRE_LEAVE) |
                                            CCL_WIRE_BIT(CCL_WIRE_LETTER)};
    while (!peer->over) {
        struct ccl_wire_head head;
        rule.sequence = peer->link.received;
        enum ccl_wire_verdict verdict = ccl_wire_parse(peer->bytes, peer->have, &rule, &head);
        if (verdict == CCL_WIRE_OK) {
            size_t whole = CCL_WIRE_HEAD_BYTES + head.length_bytes;
            take_frame(peer, &head);
            peer->link.received++;
            peer->have -= whole;
            memmove(peer->bytes, peer->bytes + whole, peer->have);
            continue;
        }
        if (verdict != CCL_WIRE_MORE) return EBADMSG;
        size_t got;
        int code = ccl_sock_recv_some(peer->link.fd, peer->bytes + peer->have,
                                      sizeof peer->bytes - peer->have, &got);
        if (code != 0) return code;
        peer->have += got;
    }
    return 0;
}

/* `ended`: the process is known to be gone, so what its link holds now is all there is. */
static int hear(struct ccl_mesh_peer *peer, int ended)
{
    const struct ccl_mesh *mesh = peer->mesh;
    char who[CCL_MESH_WHO_BYTES], text[CCL_MESH_WHO_BYTES + 64];
    if (peer->over) return 0;
    int code = hear_frames(peer);
    if (code == EAGAIN && !ended) return 1;
    if (code == EBADMSG) {
        snprintf(text, sizeof text, "a damaged message came from %s", ccl_mesh_who(peer, who));
        judge(peer, ncclRemoteError, text);
    } else if (code != 0) {
        death_text(peer, text, sizeof text);
        judge(peer, ncclRemoteError, text);
    }
    peer->over = 1;
    if (mesh->events.over != NULL) mesh->events.over(mesh->context, peer->proc, code != 0);
    return 0;
}

static int on_link(void *context)
{
    return hear(context, 0);
}

static int on_pidfd(void *context)
{
    return hear(context, 1);
}

static int nwatches(const struct ccl_mesh_peer *peer)
{
    return peer->pidfd >= 0 ? 2 : 1;
}

ncclResult_t ccl_mesh_watch(struct ccl_mesh *mesh, const struct ccl_mesh_events *events,
                            void *context)
{
    mesh->events = *events;
    mesh->context = context;
    for (int proc = 0; proc < mesh->nprocs; proc++) {
        struct ccl_mesh_peer *peer = &mesh->peers[proc];
        if (!peer->up) continue;
        peer->watches[0] =
            (struct ccl_watch){.fd = peer->link.fd, .ready = on_link, .context = peer};
        peer->watches[1] =
            (struct ccl_watch){.fd = peer->pidfd, .ready = on_pidfd, .context = peer};
        TRY(ccl_watch_add(peer->watches, nwatches(peer)));
    }
    return ncclSuccess;
}

/* ---- telling and closing ---- */

/* One frame, at once or never: 0 or the errno value. A frame that went in part would spoil the
 * link, so the link ends. */
static int send_now(struct ccl_mesh_peer *peer, unsigned type, const uint8_t *payload,
                    size_t size_bytes)
{
    uint8_t frame[CCL_WIRE_HEAD_BYTES + CCL_WIRE_FAIL_BYTES];
    struct ccl_wire_head what = {type, size_bytes};
    ccl_wire_seal(frame, &what, peer->link.key, peer->link.sent, payload);
    if (size_bytes > 0) memcpy(frame + CCL_WIRE_HEAD_BYTES, payload, size_bytes);
    size_t whole = CCL_WIRE_HEAD_BYTES + size_bytes, done;
    int code = ccl_sock_send_some(peer->link.fd, frame, whole, &done);
    if (code == 0) peer->link.sent++;
    if (code != 0 || done == whole) return code;
    shutdown(peer->link.fd, SHUT_WR);
    return EPIPE;
}

static void send_all_now(struct ccl_mesh *mesh, unsigned type, const uint8_t *payload,
                         size_t size_bytes)
{
    pthread_mutex_lock(&mesh->lock);
    for (int proc = 0; proc < mesh->nprocs; proc++)
        if (mesh->peers[proc].up) (void)send_now(&mesh->peers[proc], type, payload, size_bytes);
    pthread_mutex_unlock(&mesh->lock);
}

void ccl_mesh_tell(struct ccl_mesh *mesh, ncclResult_t code, const char *text)
{
    uint8_t payload[CCL_WIRE_FAIL_BYTES];
    struct ccl_wire_fail fail = {.code = (uint32_t)code};
    snprintf(fail.text, sizeof fail.text, "%s", text);
    send_all_now(mesh, CCL_WIRE_FAIL, payload, ccl_wire_put_fail(payload, &fail));
}

ncclResult_t ccl_mesh_write(struct ccl_mesh *mesh, int proc, const struct ccl_wire_letter *letter)
{
    uint8_t payload[CCL_WIRE_LETTER_BYTES];
    char who[CCL_MESH_WHO_BYTES];
    struct ccl_mesh_peer *peer = &mesh->peers[proc];
    ccl_wire_put_letter(payload, letter);
    pthread_mutex_lock(&mesh->lock);
    int code = peer->up ? send_now(peer, CCL_WIRE_LETTER, payload, sizeof payload) : EPIPE;
    pthread_mutex_unlock(&mesh->lock);
    if (code == 0) return ncclSuccess;
    return ccl_err(ncclRemoteError, "a letter to %s: %s", ccl_mesh_who(peer, who), strerror(code));
}

void ccl_mesh_close(struct ccl_mesh *mesh)
{
    if (mesh == NULL) return;
    send_all_now(mesh, CCL_WIRE_LEAVE, NULL, 0);
    for (int proc = 0; proc < mesh->nprocs; proc++) {
        struct ccl_mesh_peer *peer = &mesh->peers[proc];
        ccl_watch_remove(peer->watches, 2);
        ccl_link_close(&peer->link);
        if (peer->pidfd >= 0) close(peer->pidfd);
    }
    ccl_door_close(mesh->door);
    pthread_mutex_destroy(&mesh->lock);
    ccl_free(mesh->first_rank);
    ccl_free(mesh);
}
