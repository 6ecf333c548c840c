/* Buffers of other processes on the simulated GPU, with the rules of device/cuda_foreign.h: blocks
 * are known by numbers, what an importer needs goes over the socket in order, a mapping stays until
 * its owner has freed the memory or nobody knows it any more, and unmapping waits for the device.
 */
#define _GNU_SOURCE
#include "sim/gpu.h"

#include "base/clock.h"
#include "base/err.h"
#include "device/foreign.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Of a block that the importer does not know yet, with the descriptor, or of one that was freed. */
struct message {
    uint64_t span, place, bytes;
    uint32_t is_freed, spare;
};

enum { REST_WAIT_MS = 1000 };

/* ---- the owner's end ---- */

struct told {
    struct told *next;
    uint64_t span;
};

struct ccl_exporter {
    pthread_mutex_t lock;
    int socket;
    struct told *told;
};

static ncclResult_t export_open(int socket, struct ccl_exporter **out)
{
    *out = sim_need(sizeof **out);
    pthread_mutex_init(&(*out)->lock, NULL);
    (*out)->socket = socket;
    return ncclSuccess;
}

static void export_close(struct ccl_exporter *exporter)
{
    if (exporter == NULL) return;
    while (exporter->told != NULL) {
        struct told *gone = exporter->told;
        exporter->told = gone->next;
        free(gone);
    }
    pthread_mutex_destroy(&exporter->lock);
    free(exporter);
}

static ncclResult_t tell(struct ccl_exporter *exporter, const struct sim_block *block,
                         const struct ccl_sock_wait *wait)
{
    for (const struct told *told = exporter->told; told != NULL; told = told->next)
        if (told->span == block->id) return ncclSuccess;
    struct message message = {
        .span = block->id, .place = sim_memory_place(block->base), .bytes = block->bytes};
    int code = ccl_sock_send_fd(exporter->socket, &message, sizeof message, sim_memory_fd(), wait);
    if (code != 0) return ccl_sock_err(code, "sending a handle of a buffer");
    struct told *told = sim_need(sizeof *told);
    *told = (struct told){exporter->told, block->id};
    exporter->told = told;
    return ncclSuccess;
}

static ncclResult_t export_buffer(struct ccl_exporter *exporter, const void *address, size_t bytes,
                                  const struct ccl_sock_wait *wait, struct ccl_foreign_ref *out)
{
    struct sim_block block;
    *out = (struct ccl_foreign_ref){0};
    if (bytes == 0 || !sim_find_block(address, &block) || !block.is_shared) return ncclSuccess;
    uint64_t offset = (uint64_t)((const char *)address - block.base);
    if (bytes > block.bytes - offset)
        return ccl_err(ncclInvalidArgument, "%p: %zu bytes run past the allocation", address,
                       bytes);
    pthread_mutex_lock(&exporter->lock);
    ncclResult_t rc = tell(exporter, &block, wait);
    pthread_mutex_unlock(&exporter->lock);
    if (rc == ncclSuccess) *out = (struct ccl_foreign_ref){block.id, offset};
    return rc;
}

static int has_room(const struct ccl_exporter *exporter)
{
    struct pollfd item = {.fd = exporter->socket, .events = POLLOUT};
    return poll(&item, 1, 0) == 1 && item.revents == POLLOUT;
}

static ncclResult_t sweep(struct ccl_exporter *exporter)
{
    struct told **at = &exporter->told;
    while (*at != NULL) {
        struct told *told = *at;
        if (sim_has_block(told->span)) {
            at = &told->next;
            continue;
        }
        if (!has_room(exporter)) return ncclSuccess;
        struct message message = {.span = told->span, .is_freed = 1};
        struct ccl_sock_wait wait = {.deadline_ns = ccl_clock_deadline_ns(REST_WAIT_MS)};
        int code = ccl_sock_send_all(exporter->socket, &message, sizeof message, 0, &wait);
        if (code != 0) return ccl_sock_err(code, "telling of a buffer that was freed");
        *at = told->next;
        free(told);
    }
    return ncclSuccess;
}

static ncclResult_t export_sweep(struct ccl_exporter *exporter)
{
    pthread_mutex_lock(&exporter->lock);
    ncclResult_t rc = sweep(exporter);
    pthread_mutex_unlock(&exporter->lock);
    return rc;
}

/* ---- the end that runs kernels ---- */

/* Pins, and an importer that knows it, keep a region. */
struct ccl_region {
    struct ccl_region *next;
    char *base;
    size_t bytes;
    uint32_t pins, is_known;
};

struct known {
    struct known *next;
    uint64_t span;
    struct ccl_region *region;
};

struct ccl_importer {
    pthread_mutex_t lock;
    int socket;
    struct known *known;
};

static pthread_mutex_t regions_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ccl_region *regions;

static ncclResult_t import_open(int socket, struct ccl_importer **out)
{
    *out = sim_need(sizeof **out);
    pthread_mutex_init(&(*out)->lock, NULL);
    (*out)->socket = socket;
    return ncclSuccess;
}

static struct known **find_known(struct ccl_importer *importer, uint64_t span)
{
    struct known **at = &importer->known;
    while (*at != NULL && (*at)->span != span) at = &(*at)->next;
    return at;
}

static void forget(struct known **at)
{
    struct known *gone = *at;
    if (gone == NULL) return;
    *at = gone->next;
    pthread_mutex_lock(&regions_lock);
    gone->region->is_known = 0;
    pthread_mutex_unlock(&regions_lock);
    free(gone);
}

static void import_close(struct ccl_importer *importer)
{
    if (importer == NULL) return;
    while (importer->known != NULL) forget(&importer->known);
    pthread_mutex_destroy(&importer->lock);
    free(importer);
}

static ncclResult_t add_region(struct ccl_importer *importer, const struct message *message, int fd)
{
    int protection = PROT_READ | PROT_WRITE;
    char *base = mmap(NULL, message->bytes, protection, MAP_SHARED, fd, (off_t)message->place);
    if (base == MAP_FAILED) return ccl_err(ncclSystemError, "mapping a buffer");
    struct ccl_region *region = sim_need(sizeof *region);
    struct known *known = sim_need(sizeof *known);
    pthread_mutex_lock(&regions_lock);
    *region = (struct ccl_region){regions, base, message->bytes, 0, 1};
    regions = region;
    pthread_mutex_unlock(&regions_lock);
    *known = (struct known){importer->known, message->span, region};
    importer->known = known;
    return ncclSuccess;
}

static ncclResult_t read_message(struct ccl_importer *importer, const struct ccl_sock_wait *wait)
{
    struct message message;
    int fd;
    ncclResult_t rc = ncclSuccess;
    int code = ccl_sock_recv_fd(importer->socket, &message, sizeof message, &fd, wait);
    if (code != 0)
        rc = ccl_sock_err(code, "waiting for the handle of another process's buffer");
    else if (message.is_freed)
        forget(find_known(importer, message.span));
    else
        rc = add_region(importer, &message, fd);
    if (fd >= 0) close(fd);
    return rc;
}

static ncclResult_t import_buffer(struct ccl_importer *importer, const struct ccl_foreign_ref *ref,
                                  size_t bytes, const struct ccl_sock_wait *wait,
                                  struct ccl_imported *out)
{
    struct known *known;
    ncclResult_t rc = ncclSuccess;
    *out = (struct ccl_imported){0};
    pthread_mutex_lock(&importer->lock);
    while ((known = *find_known(importer, ref->span)) == NULL && rc == ncclSuccess)
        rc = read_message(importer, wait);
    if (known != NULL &&
        (ref->offset > known->region->bytes || bytes > known->region->bytes - ref->offset))
        rc = ccl_err(ncclRemoteError, "a buffer of another process runs past its memory");
    if (rc == ncclSuccess) {
        __atomic_add_fetch(&known->region->pins, 1, __ATOMIC_RELAXED);
        *out = (struct ccl_imported){known->region->base + ref->offset, known->region};
    }
    pthread_mutex_unlock(&importer->lock);
    return rc;
}

/* Release: whoever unmaps it finds that nobody uses it any more. */
static void import_unpin(struct ccl_region *region)
{
    if (region != NULL) __atomic_sub_fetch(&region->pins, 1, __ATOMIC_RELEASE);
}

static int has_message(const struct ccl_importer *importer)
{
    struct pollfd item = {.fd = importer->socket, .events = POLLIN};
    char byte;
    return poll(&item, 1, 0) > 0 && (item.revents & POLLIN) != 0 &&
           recv(importer->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

static ncclResult_t import_read(struct ccl_importer *importer)
{
    ncclResult_t rc = ncclSuccess;
    pthread_mutex_lock(&importer->lock);
    while (rc == ncclSuccess && has_message(importer)) {
        struct ccl_sock_wait wait = {.deadline_ns = ccl_clock_deadline_ns(REST_WAIT_MS)};
        rc = read_message(importer, &wait);
    }
    pthread_mutex_unlock(&importer->lock);
    return rc;
}

/* One that nobody knows gets no new pins. Acquire pairs with import_unpin. */
static struct ccl_region *take_unused(void)
{
    struct ccl_region **at = &regions;
    pthread_mutex_lock(&regions_lock);
    while (*at != NULL && ((*at)->is_known || __atomic_load_n(&(*at)->pins, __ATOMIC_ACQUIRE) > 0))
        at = &(*at)->next;
    struct ccl_region *found = *at;
    if (found != NULL) *at = found->next;
    pthread_mutex_unlock(&regions_lock);
    return found;
}

static ncclResult_t import_collect(struct ccl_importer *importer)
{
    ncclResult_t rc = importer != NULL ? import_read(importer) : ncclSuccess;
    struct ccl_region *region;
    while ((region = take_unused()) != NULL) {
        sim_device_drain();
        munmap(region->base, region->bytes);
        free(region);
    }
    return rc;
}

/* ---- buffers for what cannot be exported ---- */

struct owned {
    struct ccl_staging staging; /* first */
    struct owned *next;
    struct sim_event *used;
};

static pthread_mutex_t staging_lock = PTHREAD_MUTEX_INITIALIZER;
static struct owned *idle;

static int can_stand_for(const void *address)
{
    struct sim_block block;
    return sim_find_block(address, &block);
}

static int fits(const struct owned *owned, size_t bytes)
{
    pthread_mutex_lock(&sim_lock);
    int is_over = sim_event_is_done(owned->used, owned->used->issued);
    pthread_mutex_unlock(&sim_lock);
    return is_over && owned->staging.bytes >= bytes;
}

static ncclResult_t staging_take(size_t bytes, struct ccl_staging **out)
{
    struct owned **at = &idle;
    pthread_mutex_lock(&staging_lock);
    while (*at != NULL && !fits(*at, bytes)) at = &(*at)->next;
    struct owned *owned = *at;
    if (owned != NULL) *at = owned->next;
    pthread_mutex_unlock(&staging_lock);
    if (owned == NULL) {
        owned = sim_need(sizeof *owned);
        owned->used = sim_event_make();
        owned->staging = (struct ccl_staging){sim_alloc(bytes, 1), bytes};
        if (owned->staging.memory == NULL) abort();
    }
    *out = &owned->staging;
    return ncclSuccess;
}

static struct owned *owned_of(struct ccl_staging *staging)
{
    return (struct owned *)(void *)staging;
}

static ncclResult_t staging_mark(struct ccl_staging *staging, cudaStream_t stream)
{
    struct sim_op op = {.kind = SIM_RECORD, .event = owned_of(staging)->used};
    return sim_put(sim_stream_of(stream), op);
}

static ncclResult_t staging_follow(struct ccl_staging *staging, cudaStream_t stream)
{
    struct sim_op op = {.kind = SIM_FOLLOW, .event = owned_of(staging)->used};
    return sim_put(sim_stream_of(stream), op);
}

static void staging_put(struct ccl_staging *staging)
{
    struct owned *owned = owned_of(staging);
    if (owned == NULL) return;
    pthread_mutex_lock(&staging_lock);
    owned->next = idle;
    idle = owned;
    pthread_mutex_unlock(&staging_lock);
}

const struct ccl_foreign_ops sim_foreign = {
    .export_open = export_open,
    .export_close = export_close,
    .export_buffer = export_buffer,
    .export_sweep = export_sweep,
    .import_open = import_open,
    .import_close = import_close,
    .import_buffer = import_buffer,
    .import_unpin = import_unpin,
    .import_read = import_read,
    .import_collect = import_collect,
    .staging_can_stand_for = can_stand_for,
    .staging_take = staging_take,
    .staging_mark = staging_mark,
    .staging_follow = staging_follow,
    .staging_put = staging_put,
};
