/* The rules of a session: who may join, rounds of all-gathers, and how failures are told. Called by
 * root.c. Invariant: the first failure is the session's; every rank that has come or still comes
 * is told it with the same code and text. */
#include "boot/root_impl.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/param.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DRAIN_MS = 2000, LISTED_RANKS = 16, WHO_BYTES = 128 };

/* "rank 3 (host h, pid 71)" */
static const char *describe(const struct ccl_wire_hello *hello, char out[WHO_BYTES])
{
    snprintf(out, WHO_BYTES, "rank %u (host %s, pid %u)", hello->rank, hello->host, hello->pid);
    return out;
}

static void restart_deadline(struct ccl_root *root)
{
    root->deadline_ns = ccl_clock_deadline_ns(ccl_param_int(CCL_PARAM_INIT_TIMEOUT_MS));
}

static void close_conn(struct ccl_root *root, struct ccl_root_conn *conn)
{
    ccl_link_close(&conn->link);
    if (conn->member) root->by_rank[conn->hello.rank] = NULL;
    conn->member = 0;
}

/* Sends a failure and lets the connection drain: closing at once could make the peer lose it. */
static void tell_failure(struct ccl_root *root, struct ccl_root_conn *conn,
                         struct ccl_root_blob *failure)
{
    if (conn->link.fd < 0 || conn->draining || failure == NULL) return;
    conn->draining = 1;
    conn->close_ns = ccl_clock_deadline_ns(DRAIN_MS);
    if (ccl_root_conn_queue(conn, CCL_WIRE_FAIL, failure) != 0) close_conn(root, conn);
}

static struct ccl_root_blob *make_failure(ncclResult_t code, const char *text)
{
    struct ccl_wire_fail fail = {.code = (uint32_t)code};
    uint8_t bytes[CCL_WIRE_FAIL_BYTES];
    snprintf(fail.text, sizeof fail.text, "%s", text);
    size_t size_bytes = ccl_wire_put_fail(bytes, &fail);
    struct ccl_root_blob *blob;
    if (ccl_root_blob_new(&blob, size_bytes) != ncclSuccess) return NULL;
    memcpy(blob->data, bytes, size_bytes);
    return blob;
}

__attribute__((format(printf, 3, 4))) static void
fail_session(struct ccl_root *root, ncclResult_t code, const char *format, ...)
{
    if (root->failed) return;
    char text[CCL_WIRE_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    CCL_INFO(CCL_LOG_BOOTSTRAP, "session failed: %s", text);
    root->failed = 1;
    root->failure = make_failure(code, text);
    for (int i = 0; i < root->nconns; i++) {
        tell_failure(root, root->conns[i], root->failure);
        /* Without memory for the text, the end of the connection has to tell. */
        if (root->failure == NULL) close_conn(root, root->conns[i]);
    }
    /* Ranks that come late are told, for as long as they were expected. */
    root->deadline_ns = ccl_clock_deadline_ns(DRAIN_MS);
    if (root->deadline_ns < root->join_ns) root->deadline_ns = root->join_ns;
}

/* Sends to all members. Those of this process go last: when they got it, the others' copies are
 * in the kernel, so that a process that ends right after takes nothing from the others. */
static void send_members(struct ccl_root *root, unsigned type, struct ccl_root_blob *blob)
{
    uint32_t self = (uint32_t)getpid();
    for (int own = 0; own < 2; own++) {
        for (int rank = 0; rank < root->nranks && !root->failed; rank++) {
            struct ccl_root_conn *conn = root->by_rank[rank];
            if (conn == NULL || (conn->hello.pid == self) != own) continue;
            int code = ccl_root_conn_queue(conn, type, blob);
            if (code != 0) ccl_root_broken(root, conn, code);
        }
    }
}

/* ---- joining ---- */

static int keep_conn(struct ccl_root *root, struct ccl_root_conn *conn)
{
    if (root->nconns == root->conns_cap) {
        int cap = root->conns_cap == 0 ? 16 : 2 * root->conns_cap;
        struct ccl_root_conn **conns;
        struct pollfd *polls;
        if (CCL_NEW(&conns, (size_t)cap) != ncclSuccess) return 0;
        if (CCL_NEW(&polls, (size_t)(CCL_DOOR_POLLS + 1 + cap)) != ncclSuccess) {
            ccl_free(conns);
            return 0;
        }
        if (root->nconns > 0) memcpy(conns, root->conns, (size_t)root->nconns * sizeof conns[0]);
        ccl_free(root->conns);
        ccl_free(root->next_polls);
        root->conns = conns;
        root->next_polls = polls;
        root->conns_cap = cap;
    }
    root->conns[root->nconns++] = conn;
    return 1;
}

static ncclResult_t start_session(struct ccl_root *root, const struct ccl_wire_hello *hello)
{
    if (hello->nranks < 1 || hello->nranks > CCL_WIRE_MAX_RANKS)
        return ccl_err(ncclInvalidUsage, "a session of %u ranks was asked for", hello->nranks);
    ccl_free(root->by_rank); /* of an attempt that ran out of memory */
    TRY(CCL_NEW(&root->by_rank, hello->nranks));
    TRY(CCL_NEW(&root->seen, hello->nranks));
    root->first = *hello;
    root->nranks = (int)hello->nranks;
    restart_deadline(root);
    root->join_ns = root->deadline_ns;
    return ncclSuccess;
}

/* Compares a newcomer with the first rank. True when it fits; else the session has failed. */
static int agrees(struct ccl_root *root, const struct ccl_wire_hello *hello)
{
    char a[WHO_BYTES], b[WHO_BYTES];
    const struct ccl_wire_hello *first = &root->first;
    describe(first, a);
    describe(hello, b);
    if (hello->nranks != first->nranks)
        fail_session(root, ncclInvalidUsage,
                     "ranks disagree on the number of ranks: %s says %u, %s says %u", a,
                     first->nranks, b, hello->nranks);
    else if (hello->rank >= hello->nranks)
        fail_session(root, ncclInvalidUsage, "%s is out of range: there are %u ranks", b,
                     hello->nranks);
    else if (hello->version != first->version || hello->build != first->build)
        fail_session(root, ncclInvalidUsage,
                     "ranks run different builds of the library: %s has version %u build %016llx, "
                     "%s has version %u build %016llx",
                     a, first->version, (unsigned long long)first->build, b, hello->version,
                     (unsigned long long)hello->build);
    return !root->failed;
}

static void refuse_second(struct ccl_root *root, struct ccl_root_conn *conn)
{
    char a[WHO_BYTES], b[WHO_BYTES], text[CCL_WIRE_TEXT_BYTES];
    const struct ccl_root_conn *holder = root->by_rank[conn->hello.rank];
    if (holder != NULL)
        describe(&holder->hello, a);
    else
        snprintf(a, sizeof a, "a rank that has left");
    snprintf(text, sizeof text,
             "rank %u was claimed twice: by %s and by %s (a unique id serves one communicator)",
             conn->hello.rank, a, describe(&conn->hello, b));
    if (root->nseen < root->nranks) {
        fail_session(root, ncclInvalidUsage, "%s", text);
        return;
    }
    /* All have joined, so the newcomer belongs to nobody here and must not disturb them. */
    struct ccl_root_blob *failure = make_failure(ncclInvalidUsage, text);
    tell_failure(root, conn, failure);
    ccl_root_blob_drop(failure);
}

static void mark_seen(struct ccl_root *root, const struct ccl_wire_hello *hello)
{
    if ((int64_t)hello->rank >= root->nranks || root->seen[hello->rank]) return;
    root->seen[hello->rank] = 1;
    root->nseen++;
}

static void welcome_all(struct ccl_root *root)
{
    struct ccl_root_blob *session;
    root->deadline_ns = UINT64_MAX;
    if (ccl_root_blob_new(&session, CCL_WIRE_NONCE_BYTES) != ncclSuccess) {
        fail_session(root, ncclSystemError, "the root of the session is out of memory");
        return;
    }
    memcpy(session->data, root->session, CCL_WIRE_NONCE_BYTES);
    send_members(root, CCL_WIRE_WELCOME, session);
    ccl_root_blob_drop(session);
}

static void join(struct ccl_root *root, struct ccl_root_conn *conn)
{
    const struct ccl_wire_hello *hello = &conn->hello;
    if (root->failed) {
        mark_seen(root, hello);
        tell_failure(root, conn, root->failure);
        if (root->failure == NULL) close_conn(root, conn);
        return;
    }
    if (!agrees(root, hello)) return;
    if (root->seen[hello->rank]) {
        refuse_second(root, conn);
        return;
    }
    mark_seen(root, hello);
    conn->member = 1;
    root->by_rank[hello->rank] = conn;
    if (root->nseen == root->nranks) welcome_all(root);
}

void ccl_root_welcome(void *context, const struct ccl_arrival *arrival)
{
    struct ccl_root *root = context;
    struct ccl_root_conn *conn = NULL;
    /* At a fixed address this is a rank of the next communicator, which tries again. */
    int next_one = root->id.fixed && root->nranks > 0 && root->nseen == root->nranks;
    if (next_one || ccl_root_conn_new(arrival, &conn) != ncclSuccess) {
        close(arrival->link.fd);
        return;
    }
    if (!keep_conn(root, conn)) {
        ccl_root_conn_free(conn);
        return;
    }
    if (root->nranks == 0 && start_session(root, &arrival->hello) != ncclSuccess) {
        close_conn(root, conn);
        return;
    }
    join(root, conn);
}

/* ---- rounds ---- */

static int start_round(struct ccl_root *root, size_t each_bytes)
{
    if (ccl_root_blob_new(&root->parts, each_bytes * (size_t)root->nranks) != ncclSuccess) {
        fail_session(root, ncclSystemError,
                     "the root of the session has no memory for an all-gather of %d x %zu bytes",
                     root->nranks, each_bytes);
        return 0;
    }
    root->each_bytes = each_bytes;
    root->ngave = 0;
    restart_deadline(root);
    return 1;
}

static void end_round(struct ccl_root *root)
{
    struct ccl_root_blob *parts = root->parts;
    root->parts = NULL;
    root->round++;
    root->deadline_ns = UINT64_MAX;
    for (int rank = 0; rank < root->nranks; rank++)
        if (root->by_rank[rank] != NULL) root->by_rank[rank]->gave = 0;
    send_members(root, CCL_WIRE_GATHERED, parts);
    ccl_root_blob_drop(parts);
}

/* A round that a rank has left before cannot end. */
static void check_round(struct ccl_root *root)
{
    for (int rank = 0; rank < root->nranks; rank++)
        if (root->parts != NULL && root->by_rank[rank] == NULL)
            fail_session(root, ncclRemoteError,
                         "rank %d of %d left the initialisation before all-gather %u", rank,
                         root->nranks, root->round);
}

static void take_part(struct ccl_root *root, struct ccl_root_conn *conn)
{
    char who[WHO_BYTES];
    size_t bytes = conn->frame.length_bytes;
    if (!conn->member || conn->gave || root->nseen < root->nranks) {
        ccl_root_broken(root, conn, EBADMSG);
        return;
    }
    if (root->parts == NULL && !start_round(root, bytes)) return;
    if (bytes != root->each_bytes) {
        fail_session(root, ncclInvalidUsage,
                     "%s gives %zu bytes to all-gather %u of the initialisation, others give %zu",
                     describe(&conn->hello, who), bytes, root->round, root->each_bytes);
        return;
    }
    if (bytes > 0) memcpy(root->parts->data + conn->hello.rank * bytes, conn->body, bytes);
    conn->gave = 1;
    if (++root->ngave == root->nranks)
        end_round(root);
    else if (root->ngave == 1)
        check_round(root);
}

void ccl_root_frame(struct ccl_root *root, struct ccl_root_conn *conn)
{
    if (conn->frame.type == CCL_WIRE_GATHER) {
        take_part(root, conn);
        return;
    }
    struct ccl_wire_fail fail = {.code = ncclSuccess};
    char who[WHO_BYTES];
    if (conn->frame.type == CCL_WIRE_FAIL)
        ccl_wire_get_fail(conn->body, conn->frame.length_bytes, &fail);
    describe(&conn->hello, who);
    close_conn(root, conn);
    if (fail.code != ncclSuccess)
        fail_session(root, (ncclResult_t)fail.code, "%s: %.900s", who, fail.text);
    else
        check_round(root);
}

void ccl_root_broken(struct ccl_root *root, struct ccl_root_conn *conn, int code)
{
    char who[WHO_BYTES];
    int member = conn->member && !conn->draining;
    close_conn(root, conn);
    if (!member) return;
    describe(&conn->hello, who);
    if (code == EBADMSG)
        fail_session(root, ncclRemoteError, "a damaged message came from %s", who);
    else if (code == ECONNRESET || code == EPIPE)
        fail_session(root, ncclRemoteError, "%s ended during initialisation", who);
    else
        fail_session(root, ncclRemoteError, "the connection to %s failed during initialisation: %s",
                     who, strerror(code));
}

/* ---- deadlines and the end ---- */

/* "rank 3 of 8 has" or "ranks 3,7 of 8 have"; `came` says whether a rank is there. */
static void list_missing(const struct ccl_root *root, int joined, char *out, size_t out_bytes)
{
    char list[LISTED_RANKS * 8 + 8] = "";
    size_t used = 0;
    int missing = 0;
    for (int rank = 0; rank < root->nranks; rank++) {
        const struct ccl_root_conn *conn = root->by_rank[rank];
        if (joined ? conn != NULL && conn->gave : root->seen[rank]) continue;
        missing++;
        if (missing <= LISTED_RANKS)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%d",
                                     missing == 1 ? "" : ",", rank);
    }
    const char *more = missing > LISTED_RANKS ? ",..." : "";
    if (missing == 1)
        snprintf(out, out_bytes, "rank %s of %d has", list, root->nranks);
    else if (missing <= LISTED_RANKS)
        snprintf(out, out_bytes, "ranks %s of %d have", list, root->nranks);
    else
        snprintf(out, out_bytes, "%d ranks (%s%s) of %d have", missing, list, more, root->nranks);
}

void ccl_root_starve(struct ccl_root *root, int code)
{
    char missing[256] = "any rank has";
    if (root->failed) return;
    if (root->nranks > 0) list_missing(root, 0, missing, sizeof missing);
    fail_session(root, ncclSystemError,
                 "%s not joined: the root cannot accept connections: %s (see ulimit -n)", missing,
                 strerror(code));
}

void ccl_root_expire(struct ccl_root *root)
{
    char missing[256];
    long long timeout_ms = (long long)ccl_param_int(CCL_PARAM_INIT_TIMEOUT_MS);
    if (root->nranks == 0 || root->failed) {
        root->late = 1;
        root->deadline_ns = UINT64_MAX;
        return;
    }
    int joined = root->nseen == root->nranks;
    list_missing(root, joined, missing, sizeof missing);
    if (joined)
        fail_session(root, ncclTimeout,
                     "%s not reached all-gather %u of the initialisation within %lld ms", missing,
                     root->round, timeout_ms);
    else
        fail_session(root, ncclTimeout, "%s not joined within %lld ms", missing, timeout_ms);
}

int ccl_root_over(const struct ccl_root *root)
{
    if (root->nconns > 0) return 0;
    int stop = atomic_load_explicit(&root->stop, memory_order_relaxed);
    if (root->nranks == 0) return stop || root->late;
    if (root->nseen == root->nranks) return 1;
    return stop || root->late || root->id.fixed;
}
