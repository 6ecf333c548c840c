/* The rank side of the bootstrap: makes ids, joins a session, takes part in its rounds. Called by
 * core. Invariant: every wait ends by an answer, the deadline, the abort word or a lost root. */
#define _GNU_SOURCE
#include "boot/boot.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/netif.h"
#include "base/param.h"
#include "base/rng.h"
#include "boot/id.h"
#include "boot/link.h"
#include "boot/root.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    GRACE_MS = 2000, /* the root's own deadline comes first, because it knows the names */
    RETRY_MS = 20,
    DROPPED_TRIES = 100, /* how often a root that closes before it answers is tried again */
    LEAVE_MS = 100,
    LAST_WORDS_MS = 500
};

struct ccl_boot {
    struct ccl_link link;
    int nranks, rank;
    unsigned round;
    uint8_t mesh_secret[CCL_KEY_BYTES];
    const _Atomic uint32_t *abort_word;
    char root[CCL_SOCK_TEXT_BYTES];
};

static uint64_t init_deadline_ns(int extra_ms)
{
    return ccl_clock_deadline_ns(ccl_param_int(CCL_PARAM_INIT_TIMEOUT_MS) + extra_ms);
}

/* ---- ids ---- */

ncclResult_t ccl_boot_make_id(ncclUniqueId *out)
{
    struct ccl_boot_id id;
    const char *fixed = ccl_param_text(CCL_PARAM_COMM_ID);
    if (fixed == NULL) return ccl_boot_make_own_id(out);
    TRY(ccl_boot_id_fixed(fixed, &id));
    ccl_boot_id_pack(&id, out);
    return ncclSuccess;
}

ncclResult_t ccl_boot_make_own_id(ncclUniqueId *out)
{
    struct ccl_boot_id id;
    memset(&id, 0, sizeof id);
    TRY(ccl_netif_pick(&id.root));
    TRY(ccl_rng_fill(id.secret, sizeof id.secret));
    id.pid = (uint32_t)getpid();
    gethostname(id.host, sizeof id.host - 1);
    int listen_fd;
    char text[CCL_SOCK_TEXT_BYTES + 32];
    int code = ccl_sock_listen(&id.root, &listen_fd);
    if (code != 0) {
        char addr[CCL_SOCK_TEXT_BYTES];
        snprintf(text, sizeof text, "listening at %s", ccl_sock_text(&id.root, addr));
        return ccl_sock_err(code, text);
    }
    TRY(ccl_root_start(&id, listen_fd));
    ccl_boot_id_pack(&id, out);
    return ncclSuccess;
}

void ccl_boot_drop_id(const ncclUniqueId *in)
{
    struct ccl_boot_id id;
    if (ccl_boot_id_unpack(in, &id) == ncclSuccess && !id.fixed) ccl_root_stop(&id);
}

/* ---- joining ---- */

/* One rank's way into a session. */
struct joining {
    const struct ccl_boot_args *args;
    struct ccl_boot_id id;
    struct ccl_sock_wait wait;
    struct ccl_wire_fail fail; /* what the root told, when `told` */
    int told;
    uint8_t session[CCL_WIRE_NONCE_BYTES];
};

static int aborted(const struct ccl_sock_wait *wait)
{
    return wait->abort_word != NULL &&
           atomic_load_explicit(wait->abort_word, memory_order_acquire) != 0;
}

/* Pauses before another try; 0 or why there is no other. */
static int pause_try(const struct ccl_sock_wait *wait)
{
    if (aborted(wait)) return ECANCELED;
    if (ccl_clock_ns() >= wait->deadline_ns) return ETIMEDOUT;
    poll(NULL, 0, RETRY_MS);
    return 0;
}

/* At a fixed address rank 0 is the root. The previous session there may still be ending. */
static ncclResult_t start_fixed_root(const struct joining *joining)
{
    union ccl_sock_addr addr = joining->id.root;
    char where[CCL_SOCK_TEXT_BYTES], text[CCL_SOCK_TEXT_BYTES + 64];
    int listen_fd, code;
    while ((code = ccl_sock_listen(&addr, &listen_fd)) == EADDRINUSE) {
        code = pause_try(&joining->wait);
        if (code == ETIMEDOUT) code = EADDRINUSE;
        if (code != 0) break;
    }
    if (code == 0) return ccl_root_start(&joining->id, listen_fd);
    snprintf(text, sizeof text, "rank 0 has to listen at %s (NCCL_COMM_ID)",
             ccl_sock_text(&addr, where));
    return ccl_sock_err(code, text);
}

/* Everything the ranks of a session must share for their messages to mean the same. */
static uint64_t build_hash(uint64_t caller)
{
    static const uint8_t key[CCL_KEY_BYTES] = "chorus build 01";
    uint32_t order = 0x01020304;
    uint8_t facts[16] = {sizeof(void *), sizeof(long), sizeof(long double), CCL_WIRE_HEAD_BYTES};
    memcpy(facts + 4, &order, sizeof order);
    memcpy(facts + 8, &caller, sizeof caller);
    return ccl_mac(key, facts, sizeof facts);
}

static int recv_fail(struct ccl_link *link, const uint8_t *head, size_t size_bytes,
                     const struct ccl_sock_wait *wait, struct ccl_wire_fail *fail)
{
    uint8_t payload[CCL_WIRE_FAIL_BYTES];
    int code = ccl_link_recv_body(link, head, payload, size_bytes, wait);
    if (code == 0) ccl_wire_get_fail(payload, size_bytes, fail);
    return code;
}

static int await_welcome(struct joining *joining, struct ccl_link *link)
{
    struct ccl_sock_wait wait = joining->wait;
    wait.deadline_ns = init_deadline_ns(GRACE_MS);
    struct ccl_link_want want = {.allowed =
                                     CCL_WIRE_BIT(CCL_WIRE_WELCOME) | CCL_WIRE_BIT(CCL_WIRE_FAIL)};
    uint8_t head[CCL_WIRE_HEAD_BYTES];
    struct ccl_wire_head got;
    int code = ccl_link_recv_head(link, &want, &wait, head, &got);
    if (code != 0) return code;
    if (got.type == CCL_WIRE_WELCOME)
        return ccl_link_recv_body(link, head, joining->session, sizeof joining->session, &wait);
    code = recv_fail(link, head, got.length_bytes, &wait, &joining->fail);
    joining->told = code == 0;
    return code;
}

/* One connection: 0 when the root answered with a welcome or a failure. */
static int try_join(struct joining *joining, struct ccl_link *link)
{
    const struct ccl_boot_args *args = joining->args;
    struct ccl_wire_hello hello = {.nranks = (uint32_t)args->nranks,
                                   .rank = (uint32_t)args->rank,
                                   .version = NCCL_VERSION_CODE,
                                   .pid = (uint32_t)getpid(),
                                   .build = build_hash(args->build)};
    gethostname(hello.host, sizeof hello.host - 1);
    int code = ccl_sock_connect(&joining->id.root, &joining->wait, &link->fd);
    if (code != 0) return code;
    code = ccl_link_greet(link, joining->id.secret, CCL_WIRE_HELLO, &hello, &joining->wait);
    if (code == 0) code = await_welcome(joining, link);
    if (code != 0 || joining->told) ccl_link_close(link);
    return code;
}

static ncclResult_t explain(const struct joining *joining, int code)
{
    const struct ccl_boot_id *id = &joining->id;
    char where[CCL_SOCK_TEXT_BYTES], text[384];
    int rank = joining->args->rank;
    ccl_sock_text(&id->root, where);
    if (code == EBADMSG)
        return ccl_err(ncclRemoteError,
                       "rank %d: who answers at %s is not the root of this unique id", rank, where);
    if (code == ECONNREFUSED && !id->fixed)
        return ccl_err(ncclRemoteError,
                       "rank %d: nobody listens at %s for the unique id of process %u on host %s: "
                       "its session is over (an id serves one communicator), nobody came within "
                       "%lld ms, it had no descriptor left (ulimit -n), or the process ended",
                       rank, where, id->pid, id->host,
                       (long long)ccl_param_int(CCL_PARAM_INIT_TIMEOUT_MS));
    snprintf(text, sizeof text, "rank %d: joining the session at %s%s", rank, where,
             id->fixed ? " (NCCL_COMM_ID), where rank 0 has to run" : "");
    return ccl_sock_err(code, text);
}

/* Tries until the root answers. A fixed root may start later than the other ranks; any root drops
 * the oldest guest when very many come at once. */
static ncclResult_t join(struct joining *joining, struct ccl_link *link)
{
    for (int dropped = 0;;) {
        int code = try_join(joining, link);
        if (code == 0) break;
        int lost = code == ECONNRESET || code == EPIPE;
        int again =
            joining->id.fixed ? lost || code == ECONNREFUSED : lost && ++dropped < DROPPED_TRIES;
        int ended = again ? pause_try(&joining->wait) : code;
        if (ended == ETIMEDOUT && again) ended = joining->id.fixed ? ETIMEDOUT : code;
        if (ended != 0) return explain(joining, ended);
    }
    if (!joining->told) return ncclSuccess;
    return ccl_err((ncclResult_t)joining->fail.code, "%s", joining->fail.text);
}

static ncclResult_t check_args(const struct ccl_boot_args *args)
{
    if (args->nranks < 1 || args->nranks > CCL_WIRE_MAX_RANKS)
        return ccl_err(ncclInvalidArgument, "nranks %d is not from 1 to %d", args->nranks,
                       CCL_WIRE_MAX_RANKS);
    if (args->rank < 0 || args->rank >= args->nranks)
        return ccl_err(ncclInvalidArgument, "rank %d is not from 0 to %d", args->rank,
                       args->nranks - 1);
    return ncclSuccess;
}

ncclResult_t ccl_boot_open(const struct ccl_boot_args *args, struct ccl_boot **out)
{
    struct joining joining = {
        .args = args, .wait = {.deadline_ns = init_deadline_ns(0), .abort_word = args->abort_word}};
    struct ccl_boot *boot = NULL;
    *out = NULL;
    TRY(check_args(args));
    TRY(ccl_boot_id_unpack(&args->id, &joining.id));
    TRY(CCL_NEW(&boot, 1));
    boot->link.fd = -1;
    ncclResult_t rc = ncclSuccess;
    if (joining.id.fixed && args->rank == 0) TRY_GOTO(rc, start_fixed_root(&joining), fail);
    TRY_GOTO(rc, join(&joining, &boot->link), fail);
    boot->nranks = args->nranks;
    boot->rank = args->rank;
    boot->abort_word = args->abort_word;
    ccl_sock_text(&joining.id.root, boot->root);
    /* A fixed id has one secret for all its sessions; the session's nonce tells them apart. */
    ccl_mac_derive(boot->mesh_secret, joining.id.secret, "mesh", joining.session,
                   sizeof joining.session);
    *out = boot;
    return ncclSuccess;
fail:
    ccl_link_close(&boot->link);
    ccl_free(boot);
    return rc;
}

/* ---- rounds ---- */

/* Receives the round's result, or the failure that the root tells instead (in *fail). */
static int recv_parts(struct ccl_boot *boot, void *all, size_t size_bytes,
                      const struct ccl_sock_wait *wait, struct ccl_wire_fail *fail)
{
    struct ccl_link_want want = {.allowed =
                                     CCL_WIRE_BIT(CCL_WIRE_GATHERED) | CCL_WIRE_BIT(CCL_WIRE_FAIL),
                                 .nranks = boot->nranks};
    uint8_t head[CCL_WIRE_HEAD_BYTES];
    struct ccl_wire_head got;
    int code = ccl_link_recv_head(&boot->link, &want, wait, head, &got);
    if (code != 0) return code;
    if (got.type == CCL_WIRE_FAIL)
        return recv_fail(&boot->link, head, got.length_bytes, wait, fail);
    if (got.length_bytes != size_bytes) return EBADMSG;
    return ccl_link_recv_body(&boot->link, head, all, size_bytes, wait);
}

ncclResult_t ccl_boot_allgather(struct ccl_boot *boot, const void *mine, void *all,
                                size_t bytes_each)
{
    if (bytes_each > CCL_WIRE_GATHER_BYTES)
        return ccl_err(ncclInternalError, "an all-gather of %zu bytes a rank; the limit is %d",
                       bytes_each, CCL_WIRE_GATHER_BYTES);
    struct ccl_sock_wait wait = {.deadline_ns = init_deadline_ns(GRACE_MS),
                                 .abort_word = boot->abort_word};
    struct ccl_wire_fail fail = {.code = ncclSuccess};
    struct ccl_wire_head what = {CCL_WIRE_GATHER, bytes_each};
    int code = ccl_link_send(&boot->link, &what, mine, &wait);
    if (code == ECONNRESET || code == EPIPE) {
        /* The root has gone, but it may have said why before. */
        wait.deadline_ns = ccl_clock_deadline_ns(LAST_WORDS_MS);
        int heard = recv_parts(boot, all, bytes_each * (size_t)boot->nranks, &wait, &fail);
        if (heard == 0 && fail.code != ncclSuccess) code = 0;
    } else if (code == 0) {
        code = recv_parts(boot, all, bytes_each * (size_t)boot->nranks, &wait, &fail);
    }
    if (code == 0 && fail.code != ncclSuccess)
        return ccl_err((ncclResult_t)fail.code, "%s", fail.text);
    if (code != 0) {
        char text[CCL_SOCK_TEXT_BYTES + 96];
        snprintf(text, sizeof text, "rank %d: all-gather %u of the initialisation with root %s",
                 boot->rank, boot->round, boot->root);
        return ccl_sock_err(code, text);
    }
    boot->round++;
    return ncclSuccess;
}

ncclResult_t ccl_boot_health(struct ccl_boot *boot)
{
    struct ccl_sock_wait now = {.deadline_ns = 0}, soon = {.deadline_ns = init_deadline_ns(0)};
    struct ccl_wire_fail fail = {.code = ncclSuccess};
    if (ccl_sock_poll(boot->link.fd, POLLIN, &now) == ETIMEDOUT) return ncclSuccess;
    /* Between rounds a failure is all that can come. It is on its way as a whole. */
    int code = recv_parts(boot, NULL, 0, &soon, &fail);
    if (code == 0 && fail.code != ncclSuccess)
        return ccl_err((ncclResult_t)fail.code, "%s", fail.text);
    return ccl_sock_err(code == 0 ? EBADMSG : code, "the session with the root");
}

int ccl_boot_fd(const struct ccl_boot *boot)
{
    return boot->link.fd;
}

void ccl_boot_close(struct ccl_boot *boot)
{
    if (boot == NULL) return;
    struct ccl_sock_wait wait = {.deadline_ns = ccl_clock_deadline_ns(LEAVE_MS)};
    struct ccl_wire_head what = {CCL_WIRE_LEAVE, 0};
    int code = ccl_link_send(&boot->link, &what, NULL, &wait);
    if (code != 0) CCL_INFO(CCL_LOG_BOOTSTRAP, "leaving the session: %s", strerror(code));
    ccl_link_close(&boot->link);
    ccl_free(boot);
}

void ccl_boot_fail(struct ccl_boot *boot, ncclResult_t code, const char *text)
{
    uint8_t payload[CCL_WIRE_FAIL_BYTES];
    struct ccl_wire_fail fail = {.code = (uint32_t)code};
    snprintf(fail.text, sizeof fail.text, "%s", text);
    struct ccl_wire_head what = {CCL_WIRE_FAIL, ccl_wire_put_fail(payload, &fail)};
    struct ccl_sock_wait wait = {.deadline_ns = ccl_clock_deadline_ns(LEAVE_MS)};
    int sent = ccl_link_send(&boot->link, &what, payload, &wait);
    if (sent != 0) CCL_INFO(CCL_LOG_BOOTSTRAP, "telling a failure: %s", strerror(sent));
}

void ccl_boot_secret(const struct ccl_boot *boot, uint8_t secret[16])
{
    memcpy(secret, boot->mesh_secret, CCL_KEY_BYTES);
}
