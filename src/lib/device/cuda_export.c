/* The owner's end of foreign buffers: which allocations a buffer lies in, how they are handed out,
 * and which importer knows them. See cuda_foreign.h.
 *
 * The table of spans is the process's, found by the id of the first allocation. A span lives while
 * an exporter has told it and its memory exists. Locks: an exporter's, then the table's, which is
 * never held while something is sent.
 */
#include "device/cuda.h"
#include "device/cuda_dl.h"
#include "device/cuda_foreign.h"
#include "device/cuda_share.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/rng.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { NBUCKETS = 256, FIRST_SWEEP = 64, SWEEP_WAIT_MS = 1000, BLOCK_BYTES = 2 << 20 };

/* An allocation; kind 0: it cannot be exported. */
struct part {
    char *base;
    size_t bytes;
    uint64_t id, block, place;
    enum ccl_share_kind kind;
};

/* That an exporter has told a span to its importer. */
struct told {
    struct told *next;
    const struct ccl_exporter *by;
};

struct span {
    struct span *next;
    uint64_t number;
    struct part *parts;
    size_t nparts;
    struct told *told;
    int sending; /* calls that read the parts without the lock */
};

struct ccl_exporter {
    pthread_mutex_t lock;
    int socket;
    int is_broken;
};

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct span *buckets[NBUCKETS];
static uint64_t process, last_number;
static size_t nspans, sweep_at = FIRST_SWEEP;

ncclResult_t ccl_export_open(int socket, struct ccl_exporter **out)
{
    struct ccl_exporter *exporter;
    TRY(CCL_NEW(&exporter, 1));
    pthread_mutex_lock(&table_lock);
    ncclResult_t rc = process != 0 ? ncclSuccess : ccl_rng_fill(&process, sizeof process);
    pthread_mutex_unlock(&table_lock);
    if (rc != ncclSuccess) {
        ccl_free(exporter);
        return rc;
    }
    pthread_mutex_init(&exporter->lock, NULL);
    exporter->socket = socket;
    *out = exporter;
    return ncclSuccess;
}

/* ---- what the driver knows ---- */

/* 0: no memory of CUDA. */
static ncclResult_t ask_id(const void *address, uint64_t *id)
{
    CUpointer_attribute asked = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    unsigned long long answer = 0;
    void *to = &answer;
    TRY(CCL_DRIVER(cuPointerGetAttributes, 1, &asked, &to, (CUdeviceptr)address));
    *id = answer;
    return ncclSuccess;
}

struct facts {
    unsigned long long id;
    unsigned type, is_managed, is_legacy;
    unsigned long long handle_types;
    CUmemoryPool pool;
    CUdeviceptr range;
    size_t range_bytes;
};

static ncclResult_t ask_facts(const char *address, struct facts *facts)
{
    CUpointer_attribute asked[] = {
        CU_POINTER_ATTRIBUTE_BUFFER_ID,
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,
    };
    void *to[] = {
        &facts->id,           &facts->type, &facts->is_managed, &facts->is_legacy,
        &facts->handle_types, &facts->pool, &facts->range,      &facts->range_bytes,
    };
    memset(facts, 0, sizeof *facts);
    return CCL_DRIVER(cuPointerGetAttributes, sizeof asked / sizeof *asked, asked, to,
                      (CUdeviceptr)address);
}

/* The block that an allocation of cudaMalloc is a part of: the importer has to know, as it can open
 * a block only once. A driver that does not tell has whole blocks of large allocations only. */
static void describe_block(struct part *part)
{
    CUpointer_attribute asked[] = {(CUpointer_attribute)CCL_POINTER_MAPPING_BASE,
                                   (CUpointer_attribute)CCL_POINTER_BLOCK_ID};
    CUdeviceptr base = 0;
    unsigned long long block = 0;
    void *to[] = {&base, &block};
    CUresult result =
        ccl_driver()->cuPointerGetAttributes(2, asked, to, (CUdeviceptr)(uintptr_t)part->base);
    if (result == CUDA_SUCCESS && block != 0) {
        part->block = block;
        part->place = (CUdeviceptr)(uintptr_t)part->base - base;
    } else if (part->bytes % BLOCK_BYTES != 0) {
        part->kind = 0;
    }
}

/* Memory of a pool is never exported, whatever the pool allows: an importer would have to free it
 * before its owner does, whom nobody can ask to wait. */
static ncclResult_t describe(char *address, struct part *part)
{
    struct facts facts;
    CUdeviceptr base = 0;
    TRY(ask_facts(address, &facts));
    *part = (struct part){.id = facts.id};
    if (facts.type != CU_MEMORYTYPE_DEVICE || facts.is_managed || facts.pool != NULL)
        return ncclSuccess;
    if (facts.is_legacy) {
        part->kind = CCL_SHARE_LEGACY;
        part->base = (char *)facts.range;
        part->bytes = facts.range_bytes;
        describe_block(part);
    } else if ((facts.handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0) {
        part->kind = CCL_SHARE_CHUNK;
        TRY(CCL_DRIVER(cuMemGetAddressRange, &base, &part->bytes, (CUdeviceptr)address));
        part->base = (char *)base;
    }
    return ncclSuccess;
}

/* ---- spans ---- */

static void free_span(struct span *span)
{
    ccl_free(span->parts);
    ccl_free(span);
}

static ncclResult_t past_allocation(const char *address, size_t bytes)
{
    return ccl_err(ncclInvalidArgument,
                   "the buffer of %zu bytes at %p runs past the memory that it begins in", bytes,
                   (const void *)address);
}

/* Only chunks make one buffer together, whatever lies behind other memory. */
static int goes_on(const struct part *part, const struct part *next)
{
    if (part->kind != CCL_SHARE_CHUNK || next->id == 0) return 0;
    return next->kind == 0 ||
           (next->kind == CCL_SHARE_CHUNK && next->base == part->base + part->bytes);
}

/* The allocations of a buffer; *nparts = 0 where one of them cannot be exported. */
static ncclResult_t list_parts(char *address, size_t bytes, struct part **parts, size_t *nparts)
{
    char *at = address, *end = address + bytes;
    size_t room = 0;
    ncclResult_t rc = ncclSuccess;
    *parts = NULL;
    *nparts = 0;
    while (at < end) {
        struct part part;
        TRY_GOTO(rc, describe(at, &part), fail);
        if (*nparts > 0 && !goes_on(&(*parts)[*nparts - 1], &part)) {
            rc = past_allocation(address, bytes);
            goto fail;
        }
        if (part.kind == 0) goto fail;
        TRY_GOTO(rc, ccl_grow((void **)parts, *nparts, &room, sizeof part), fail);
        (*parts)[(*nparts)++] = part;
        at = part.base + part.bytes;
    }
    return ncclSuccess;
fail:
    ccl_free(*parts);
    *parts = NULL;
    *nparts = 0;
    return rc;
}

/* NULL: the buffer has to be staged. */
static ncclResult_t make_span(char *address, size_t bytes, struct span **out)
{
    struct part *parts;
    size_t nparts;
    *out = NULL;
    TRY(list_parts(address, bytes, &parts, &nparts));
    if (nparts == 0) return ncclSuccess;
    struct span *span;
    ncclResult_t rc = CCL_NEW(&span, 1);
    if (rc != ncclSuccess) {
        ccl_free(parts);
        return rc;
    }
    *span = (struct span){.number = ++last_number, .parts = parts, .nparts = nparts};
    struct span **bucket = &buckets[parts[0].id % NBUCKETS];
    span->next = *bucket;
    *bucket = span;
    nspans++;
    *out = span;
    return ncclSuccess;
}

/* Whether the buffer lies in the span, whose first allocation has been asked for already. Those
 * behind may have been exchanged since. */
static ncclResult_t holds(const struct span *span, const char *address, size_t bytes, int *yes)
{
    const struct part *last = &span->parts[span->nparts - 1];
    const char *end = address + bytes;
    *yes = address >= span->parts[0].base && end <= last->base + last->bytes;
    for (size_t i = 1; *yes && i < span->nparts && span->parts[i].base < end; i++) {
        uint64_t id;
        TRY(ask_id(span->parts[i].base, &id));
        *yes = id == span->parts[i].id;
    }
    return ncclSuccess;
}

static ncclResult_t find_span(char *address, size_t bytes, struct span **out)
{
    uint64_t id;
    TRY(ask_id(address, &id));
    *out = NULL;
    if (id == 0) return ncclSuccess;
    for (struct span *span = buckets[id % NBUCKETS]; span != NULL; span = span->next) {
        int yes;
        if (span->parts[0].id != id) continue;
        TRY(holds(span, address, bytes, &yes));
        if (!yes) continue;
        *out = span;
        return ncclSuccess;
    }
    return make_span(address, bytes, out);
}

/* ---- who knows them ---- */

static struct told **find_told(struct span *span, const struct ccl_exporter *by)
{
    struct told **at = &span->told;
    while (*at != NULL && (*at)->by != by) at = &(*at)->next;
    return at;
}

static void forget(struct told **at)
{
    struct told *gone = *at;
    if (gone == NULL) return;
    *at = gone->next;
    ccl_free(gone);
}

static ncclResult_t remember(struct span *span, const struct ccl_exporter *by)
{
    struct told *told;
    TRY(CCL_NEW(&told, 1));
    *told = (struct told){.next = span->told, .by = by};
    span->told = told;
    return ncclSuccess;
}

static ncclResult_t open_chunk(const struct part *part, int *fd)
{
    CUmemGenericAllocationHandle handle;
    TRY(CCL_DRIVER(cuMemRetainAllocationHandle, &handle, part->base));
    ncclResult_t rc = CCL_DRIVER(cuMemExportToShareableHandle, fd, handle,
                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    ncclResult_t release_rc = CCL_DRIVER(cuMemRelease, handle);
    return rc != ncclSuccess ? rc : release_rc;
}

static ncclResult_t name_device(uint8_t uuid[16])
{
    int device;
    CUuuid found;
    TRY(ccl_cuda_check(cudaGetDevice(&device), "cudaGetDevice"));
    TRY(CCL_DRIVER(cuDeviceGetUuid, &found, device));
    memcpy(uuid, found.bytes, sizeof found.bytes);
    return ncclSuccess;
}

/* The descriptor of a chunk is closed here, as it would keep the memory from being freed. */
static ncclResult_t send_part(const struct ccl_exporter *exporter, struct ccl_share *share,
                              const struct part *part, const struct ccl_sock_wait *wait)
{
    int fd = -1, code;
    share->id = part->id;
    share->bytes = part->bytes;
    share->block = part->block;
    share->place = part->place;
    share->kind = part->kind;
    if (part->kind == CCL_SHARE_LEGACY) {
        TRY(ccl_cuda_check(cudaIpcGetMemHandle(&share->legacy, part->base), "cudaIpcGetMemHandle"));
        code = ccl_sock_send_all(exporter->socket, share, sizeof *share, 0, wait);
    } else {
        TRY(open_chunk(part, &fd));
        code = ccl_sock_send_fd(exporter->socket, share, sizeof *share, fd, wait);
        close(fd);
    }
    return code == 0 ? ncclSuccess : ccl_sock_err(code, "sending a buffer's handle");
}

static ncclResult_t send_span(const struct ccl_exporter *exporter, const struct span *span,
                              const struct ccl_sock_wait *wait)
{
    struct ccl_share share = {
        .process = process, .span = span->number, .count = (uint32_t)span->nparts};
    TRY(name_device(share.device));
    for (; share.index < share.count; share.index++)
        TRY(send_part(exporter, &share, &span->parts[share.index], wait));
    return ncclSuccess;
}

/* ---- spans whose memory is gone ---- */

static int is_gone(const struct span *span)
{
    for (size_t i = 0; i < span->nparts; i++) {
        uint64_t id;
        if (ask_id(span->parts[i].base, &id) != ncclSuccess || id != span->parts[i].id) return 1;
    }
    return 0;
}

static int has_room(const struct ccl_exporter *exporter)
{
    const struct ccl_sock_wait now = {.deadline_ns = 0};
    return ccl_sock_poll(exporter->socket, POLLOUT, &now) == 0;
}

static ncclResult_t send_freed(const struct ccl_exporter *exporter, uint64_t number)
{
    const struct ccl_share share = {.process = process, .span = number, .kind = CCL_SHARE_FREED};
    const struct ccl_sock_wait wait = {.deadline_ns = ccl_clock_deadline_ns(SWEEP_WAIT_MS)};
    int code = ccl_sock_send_all(exporter->socket, &share, sizeof share, 0, &wait);
    return code == 0 ? ncclSuccess : ccl_sock_err(code, "telling of freed memory");
}

/* Takes out those that nobody was told, or is left to know. */
static void drop_idle_spans(void)
{
    for (size_t b = 0; b < NBUCKETS; b++) {
        struct span **at = &buckets[b];
        while (*at != NULL) {
            struct span *span = *at;
            if (span->told != NULL || span->sending > 0) {
                at = &span->next;
                continue;
            }
            *at = span->next;
            free_span(span);
            nspans--;
        }
    }
}

/* The number of a span that the exporter has told and that is gone; 0: none. It is forgotten. */
static uint64_t take_gone(const struct ccl_exporter *exporter, size_t *bucket)
{
    for (; *bucket < NBUCKETS; ++*bucket) {
        for (struct span *span = buckets[*bucket]; span != NULL; span = span->next) {
            struct told **told = find_told(span, exporter);
            if (*told == NULL || span->sending > 0 || !is_gone(span)) continue;
            forget(told);
            return span->number;
        }
    }
    return 0;
}

static ncclResult_t sweep(struct ccl_exporter *exporter)
{
    size_t bucket = 0;
    ncclResult_t rc = ncclSuccess;
    while (rc == ncclSuccess && has_room(exporter)) {
        pthread_mutex_lock(&table_lock);
        uint64_t number = take_gone(exporter, &bucket);
        pthread_mutex_unlock(&table_lock);
        if (number == 0) break;
        rc = send_freed(exporter, number);
    }
    pthread_mutex_lock(&table_lock);
    drop_idle_spans();
    sweep_at = 2 * nspans > FIRST_SWEEP ? 2 * nspans : FIRST_SWEEP;
    pthread_mutex_unlock(&table_lock);
    return rc;
}

/* ---- calls ---- */

static ncclResult_t check_whole(const struct ccl_exporter *exporter)
{
    if (!exporter->is_broken) return ncclSuccess;
    return ccl_err(ncclInvalidUsage, "the exporter of buffers is of no use after an error");
}

/* Sends a span that was just found or made. */
static ncclResult_t tell(struct ccl_exporter *exporter, struct span *span,
                         const struct ccl_sock_wait *wait)
{
    enum cudaStreamCaptureMode mode = ccl_share_relax();
    ncclResult_t rc = send_span(exporter, span, wait);
    ccl_share_restore(mode);
    pthread_mutex_lock(&table_lock);
    span->sending--;
    int is_long = nspans >= sweep_at;
    pthread_mutex_unlock(&table_lock);
    if (rc == ncclSuccess && is_long) rc = sweep(exporter);
    if (rc != ncclSuccess) exporter->is_broken = 1;
    return rc;
}

static ncclResult_t export_buffer(struct ccl_exporter *exporter, char *address, size_t bytes,
                                  const struct ccl_sock_wait *wait, struct ccl_foreign_ref *out)
{
    struct span *span;
    int is_new = 0;
    TRY(check_whole(exporter));
    pthread_mutex_lock(&table_lock);
    ncclResult_t rc = find_span(address, bytes, &span);
    if (rc == ncclSuccess && span != NULL) {
        out->span = span->number;
        out->offset = (uint64_t)(address - span->parts[0].base);
        if (*find_told(span, exporter) == NULL) {
            rc = remember(span, exporter);
            is_new = rc == ncclSuccess;
            span->sending += is_new;
        }
    }
    pthread_mutex_unlock(&table_lock);
    return is_new ? tell(exporter, span, wait) : rc;
}

ncclResult_t ccl_export_buffer(struct ccl_exporter *exporter, const void *address, size_t bytes,
                               const struct ccl_sock_wait *wait, struct ccl_foreign_ref *out)
{
    *out = (struct ccl_foreign_ref){0};
    if (bytes == 0) return ncclSuccess;
    pthread_mutex_lock(&exporter->lock);
    ncclResult_t rc = export_buffer(exporter, (char *)(uintptr_t)address, bytes, wait, out);
    pthread_mutex_unlock(&exporter->lock);
    return rc;
}

ncclResult_t ccl_export_sweep(struct ccl_exporter *exporter)
{
    pthread_mutex_lock(&exporter->lock);
    ncclResult_t rc = check_whole(exporter);
    if (rc == ncclSuccess) {
        rc = sweep(exporter);
        exporter->is_broken = rc != ncclSuccess;
    }
    pthread_mutex_unlock(&exporter->lock);
    return rc;
}

void ccl_export_close(struct ccl_exporter *exporter)
{
    if (exporter == NULL) return;
    pthread_mutex_lock(&table_lock);
    for (size_t b = 0; b < NBUCKETS; b++)
        for (struct span *span = buckets[b]; span != NULL; span = span->next)
            forget(find_told(span, exporter));
    drop_idle_spans();
    pthread_mutex_unlock(&table_lock);
    pthread_mutex_destroy(&exporter->lock);
    ccl_free(exporter);
}
