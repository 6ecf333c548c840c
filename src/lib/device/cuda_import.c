/* The end of foreign buffers that runs the kernels: reads what exporters send, and knows which
 * region is meant by a reference. See cuda_foreign.h; the regions are the process's, cuda_import.h.
 *
 * Messages are read in the order in which they were sent, so that spans are known before they are
 * referred to, and taken back after they were known. An importer's lock is held meanwhile.
 */
#include "device/cuda_import.h"

#include "device/cuda.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/err.h"

#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { NBUCKETS = 256, MAX_PIECES = 1 << 20, REST_WAIT_MS = 1000 };

/* A span that the importer knows. */
struct known {
    struct known *next;
    uint64_t span;
    struct ccl_region *region;
};

/* A span of which not all messages have been read. */
struct partial {
    uint64_t span;
    struct ccl_piece **pieces;
    size_t npieces, count;
};

struct ccl_importer {
    pthread_mutex_t lock;
    int socket, device, is_broken;
    struct partial partial;
    struct known *buckets[NBUCKETS];
};

ncclResult_t ccl_import_open(int socket, struct ccl_importer **out)
{
    int device;
    struct ccl_importer *importer;
    TRY(ccl_cuda_check(cudaGetDevice(&device), "cudaGetDevice"));
    TRY(CCL_NEW(&importer, 1));
    pthread_mutex_init(&importer->lock, NULL);
    importer->socket = socket;
    importer->device = device;
    *out = importer;
    return ncclSuccess;
}

static void drop_partial(struct partial *partial)
{
    for (size_t i = 0; i < partial->npieces; i++) ccl_piece_put(partial->pieces[i]);
    ccl_free(partial->pieces);
    *partial = (struct partial){0};
}

static struct known **find_known(struct ccl_importer *importer, uint64_t span)
{
    struct known **at = &importer->buckets[span % NBUCKETS];
    while (*at != NULL && (*at)->span != span) at = &(*at)->next;
    return at;
}

static void forget(struct known **at)
{
    struct known *gone = *at;
    if (gone == NULL) return;
    *at = gone->next;
    ccl_region_put(gone->region);
    ccl_free(gone);
}

void ccl_import_close(struct ccl_importer *importer)
{
    if (importer == NULL) return;
    drop_partial(&importer->partial);
    for (size_t b = 0; b < NBUCKETS; b++)
        while (importer->buckets[b] != NULL) forget(&importer->buckets[b]);
    pthread_mutex_destroy(&importer->lock);
    ccl_free(importer);
}

/* ---- messages ---- */

static ncclResult_t check_share(const struct partial *partial, const struct ccl_share *share,
                                int fd)
{
    int is_first = partial->npieces == 0;
    int is_next = share->index == partial->npieces && share->index < share->count &&
                  share->count <= MAX_PIECES &&
                  (is_first || (share->span == partial->span && share->count == partial->count));
    int is_whole =
        share->span != 0 && share->bytes != 0 &&
        (share->kind == CCL_SHARE_CHUNK ? fd >= 0
                                        : share->kind == CCL_SHARE_LEGACY && share->count == 1);
    if (is_next && is_whole) return ncclSuccess;
    return ccl_err(ncclRemoteError,
                   "a message about buffers of another process is wrong: kind %u, part %u of %u, "
                   "%llu bytes",
                   share->kind, share->index, share->count, (unsigned long long)share->bytes);
}

/* The last message of a span has been read. */
static ncclResult_t finish_span(struct ccl_importer *importer)
{
    struct partial whole = importer->partial;
    struct known *known;
    TRY(CCL_NEW(&known, 1));
    importer->partial = (struct partial){0};
    ncclResult_t rc = ccl_region_get(importer->device, whole.pieces, whole.npieces, &known->region);
    if (rc != ncclSuccess) {
        ccl_free(known);
        return rc;
    }
    known->span = whole.span;
    known->next = importer->buckets[whole.span % NBUCKETS];
    importer->buckets[whole.span % NBUCKETS] = known;
    return ncclSuccess;
}

static ncclResult_t take_piece(struct ccl_importer *importer, const struct ccl_share *share, int fd)
{
    struct partial *partial = &importer->partial;
    TRY(check_share(partial, share, fd));
    if (partial->npieces == 0) {
        TRY(CCL_NEW(&partial->pieces, share->count));
        partial->span = share->span;
        partial->count = share->count;
    }
    TRY(ccl_piece_get(share, fd, &partial->pieces[partial->npieces]));
    partial->npieces++;
    return partial->npieces == partial->count ? finish_span(importer) : ncclSuccess;
}

static ncclResult_t read_message(struct ccl_importer *importer, const struct ccl_sock_wait *wait)
{
    struct ccl_share share;
    int fd;
    ncclResult_t rc = ncclSuccess;
    int code = ccl_sock_recv_fd(importer->socket, &share, sizeof share, &fd, wait);
    if (code != 0)
        rc = ccl_sock_err(code, "waiting for the handle of another process's buffer");
    else if (share.kind == CCL_SHARE_FREED)
        forget(find_known(importer, share.span));
    else
        rc = take_piece(importer, &share, fd);
    if (fd >= 0) close(fd);
    return rc;
}

/* Reads what is there. An exporter that has closed its end, as a dead one, is no error here. */
static ncclResult_t read_waiting(struct ccl_importer *importer)
{
    for (;;) {
        struct pollfd item = {.fd = importer->socket, .events = POLLIN};
        if (poll(&item, 1, 0) <= 0 || (item.revents & POLLIN) == 0) return ncclSuccess;
        int queued = 0;
        if (ioctl(importer->socket, FIONREAD, &queued) != 0 || queued == 0) return ncclSuccess;
        struct ccl_sock_wait wait = {.deadline_ns = ccl_clock_deadline_ns(REST_WAIT_MS)};
        TRY(read_message(importer, &wait));
    }
}

/* ---- calls ---- */

static ncclResult_t check_whole(const struct ccl_importer *importer)
{
    if (!importer->is_broken) return ncclSuccess;
    return ccl_err(ncclInvalidUsage, "the importer of buffers is of no use after an error");
}

static ncclResult_t import_buffer(struct ccl_importer *importer, const struct ccl_foreign_ref *ref,
                                  size_t bytes, const struct ccl_sock_wait *wait,
                                  struct ccl_imported *out)
{
    struct known *known;
    TRY(check_whole(importer));
    while ((known = *find_known(importer, ref->span)) == NULL) TRY(read_message(importer, wait));
    TRY(ccl_region_use(known->region, ref->offset, bytes, &out->address));
    out->region = known->region;
    return ncclSuccess;
}

ncclResult_t ccl_import_buffer(struct ccl_importer *importer, const struct ccl_foreign_ref *ref,
                               size_t bytes, const struct ccl_sock_wait *wait,
                               struct ccl_imported *out)
{
    *out = (struct ccl_imported){0};
    if (ref->span == 0)
        return ccl_err(ncclInvalidArgument, "a buffer that was not exported cannot be imported");
    pthread_mutex_lock(&importer->lock);
    ncclResult_t rc = import_buffer(importer, ref, bytes, wait, out);
    if (rc != ncclSuccess) importer->is_broken = 1;
    pthread_mutex_unlock(&importer->lock);
    return rc;
}

ncclResult_t ccl_import_read(struct ccl_importer *importer)
{
    ncclResult_t rc = ncclSuccess;
    pthread_mutex_lock(&importer->lock);
    if (!importer->is_broken) rc = read_waiting(importer);
    if (rc != ncclSuccess) importer->is_broken = 1;
    pthread_mutex_unlock(&importer->lock);
    return rc;
}

ncclResult_t ccl_import_collect(struct ccl_importer *importer)
{
    ncclResult_t rc = importer != NULL ? ccl_import_read(importer) : ncclSuccess;
    ncclResult_t collect_rc = ccl_region_collect();
    return rc != ncclSuccess ? rc : collect_rc;
}
