/* memory.c: counting the memory that serves a communicator, and giving back.
 *
 * Counted is what connections lie in: FIFOs, boards, what all processes share; on several GPUs
 * zones. On host devices pages count that are there, since memory is filled page by page. Each byte
 * is counted by one rank: a FIFO by the one that receives in it (of an executor the lowest rank in
 * the process), the rest by the lowest rank of the process, or of the executor.
 *
 * What lies in the rings of FIFOs is of no use between operations: their flags count up for ever
 * and stay, and a ring that reads as zeros is a new one (kernel/ll.h). So the pages of rings go
 * back to the system while all ranks are idle, and come again when they are written.
 */
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/err.h"
#include "base/log.h"
#include "core/comm.h"
#include "core/group.h"
#include "core/zones.h"
#include "kernel/work.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE_BYTES = 4096, LOOK_PAGES = 1024 };

/* ---- whose memory, and how much of it is there ---- */

/* The lowest rank that the process has of an executor. */
static int lowest_of(const struct ccl_clique *clique, uint16_t exec)
{
    const struct ccl_topo *topo = clique->topo;
    for (uint16_t slot = topo->first_slot[exec]; slot < topo->first_slot[exec + 1]; slot++)
        if (topo->proc_of[topo->rank_of[slot]] == clique->proc) return topo->rank_of[slot];
    return -1;
}

static int owner_of(const struct ccl_clique *clique, const struct ccl_fifo_id *id)
{
    if (id == NULL) return clique->topo->first_rank[clique->proc];
    return id->of_ranks ? id->receiver : lowest_of(clique, id->receiver);
}

/* Whole pages inside a range. */
struct pages {
    char *first;
    size_t n;
};
static struct pages pages_in(char *from, size_t bytes)
{
    uintptr_t first = ((uintptr_t)from + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    uintptr_t end = ((uintptr_t)from + bytes) / PAGE_BYTES * PAGE_BYTES;
    if (end <= first) return (struct pages){from, 0};
    return (struct pages){(char *)first, (end - first) / PAGE_BYTES};
}

static uint64_t resident_bytes(struct pages pages)
{
    unsigned char there[LOOK_PAGES];
    uint64_t npages = 0;
    for (size_t at = 0; at < pages.n; at += LOOK_PAGES) {
        size_t n = pages.n - at < LOOK_PAGES ? pages.n - at : LOOK_PAGES;
        if (mincore(pages.first + at * PAGE_BYTES, n * PAGE_BYTES, there) != 0) continue;
        for (size_t i = 0; i < n; i++) npages += there[i] & 1;
    }
    return npages * PAGE_BYTES;
}

/* The ring of a FIFO; of one without a ring nothing. */
static struct pages ring_of(const struct ccl_transport_memory *memory)
{
    if (memory->id == NULL || memory->bytes <= CCL_FIFO_RING_AT)
        return (struct pages){memory->memory, 0};
    return pages_in(memory->memory + CCL_FIFO_RING_AT, memory->bytes - CCL_FIFO_RING_AT);
}

struct memory {
    uint64_t suspendable, persistent; /* bytes */
};

/* What a look at the memory of a process does for one rank of it. */
struct look {
    const struct ncclComm *comm;
    struct memory memory;
    int pending, failed; /* messages that nobody has taken; why pages could not be given back */
};

static int is_own(const struct look *look, const struct ccl_transport_memory *memory)
{
    return owner_of(look->comm->clique, memory->id) == look->comm->rank;
}

static void count(void *context, const struct ccl_transport_memory *memory)
{
    struct look *look = context;
    if (!is_own(look, memory)) return;
    uint64_t ring = resident_bytes(ring_of(memory));
    uintptr_t first = (uintptr_t)memory->memory / PAGE_BYTES * PAGE_BYTES;
    struct pages all = pages_in((char *)first, (uintptr_t)memory->memory + memory->bytes - first);
    look->memory.suspendable += ring;
    look->memory.persistent += resident_bytes(all) - ring;
}

/* On GPUs connections lie in zones; what transports hold there is the host's. */
static void show_all(const struct ccl_clique *clique, ccl_transport_look *what, struct look *look)
{
    for (int t = 0; t < CCL_NTRANSPORTS && ccl_device()->retires; t++)
        if (clique->transports[t] != NULL)
            ccl_transports[t]->show(clique->transports[t], what, look);
}

static struct memory count_all(const struct ncclComm *comm)
{
    struct ccl_clique *clique = comm->clique;
    struct look look = {.comm = comm};
    pthread_mutex_lock(&clique->lock); /* connections are made under it */
    show_all(clique, count, &look);
    pthread_mutex_unlock(&clique->lock);
    if (ccl_clique_spans(clique) && lowest_of(clique, comm->exec->index) == comm->rank)
        look.memory.persistent += ccl_zones_bytes(comm->exec);
    return look.memory;
}

ncclResult_t ccl_comm_memory(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value)
{
    struct memory memory = count_all(comm);
    int is_suspended = ccl_comm_is_suspended(comm);
    uint64_t suspendable = is_suspended ? comm->given_back : memory.suspendable;
    switch (stat) {
    case ncclStatGpuMemSuspend: *value = suspendable; return ncclSuccess;
    case ncclStatGpuMemSuspended: *value = (uint64_t)is_suspended; return ncclSuccess;
    case ncclStatGpuMemPersist: *value = memory.persistent; return ncclSuccess;
    case ncclStatGpuMemTotal: *value = memory.persistent + memory.suspendable; return ncclSuccess;
    default:
        return ccl_err(ncclInvalidArgument, "ncclCommMemStats: rank %d: stat %d is not in [0, 3]",
                       comm->rank, (int)stat);
    }
}

/* ---- suspend and resume ---- */

/* What a rank tells the others before pages go. */
struct calm {
    uint64_t nsets; /* collectives that it called */
    int32_t is_idle, pending;
};

/* Messages may be sent and not received: the slots say more than the receiver has drained. */
static void find_pending(void *context, const struct ccl_transport_memory *memory)
{
    struct look *look = context;
    if (memory->id == NULL || !is_own(look, memory)) return;
    const struct ccl_fifo *fifo = (const void *)memory->memory;
    /* Looking at one that was never used would fill its pages. */
    if (resident_bytes(pages_in(memory->memory, PAGE_BYTES)) == 0 && memory->shared) return;
    uint64_t credit = __atomic_load_n(&fifo->credit, __ATOMIC_ACQUIRE);
    for (uint16_t i = 0; i < look->comm->clique->depth; i++)
        if (__atomic_load_n(&fifo->lines[i].ready, __ATOMIC_ACQUIRE) > credit) look->pending = 1;
}

static void give_back(void *context, const struct ccl_transport_memory *memory)
{
    struct look *look = context;
    if (!is_own(look, memory)) return;
    struct pages ring = ring_of(memory);
    if (ring.n == 0) return;
    uint64_t bytes = resident_bytes(ring);
    int advice = memory->shared ? MADV_REMOVE : MADV_DONTNEED;
    if (madvise(ring.first, ring.n * PAGE_BYTES, advice) != 0)
        look->failed = errno; /* what stays is not counted as given back */
    else
        look->memory.suspendable += bytes;
}

static struct look look_at_all(struct ncclComm *comm, ccl_transport_look *what)
{
    struct look look = {.comm = comm};
    pthread_mutex_lock(&comm->clique->lock);
    show_all(comm->clique, what, &look);
    pthread_mutex_unlock(&comm->clique->lock);
    return look;
}

/* Nothing is under way on any rank, and none has called what others have not. */
static ncclResult_t check_calm(struct ncclComm *comm, const char *function, struct ccl_boot *boot)
{
    struct calm mine = {.nsets = comm->nsets}, *all;
    void *before;
    TRY(ccl_device()->enter(comm->device, &before));
    mine.is_idle = ccl_comm_is_idle(comm);
    ccl_device()->leave(before);
    mine.pending = look_at_all(comm, find_pending).pending;
    TRY(CCL_NEW(&all, (size_t)comm->nranks));
    ncclResult_t rc = ccl_boot_allgather(boot, &mine, all, sizeof mine);
    for (int r = 0; rc == ncclSuccess && r < comm->nranks; r++) {
        if (!all[r].is_idle)
            rc = ccl_err(ncclInvalidUsage, "%s: rank %d has operations under way", function, r);
        else if (all[r].pending)
            rc = ccl_err(ncclInvalidUsage, "%s: rank %d has not received all that was sent to it",
                         function, r);
        else if (all[r].nsets != all[0].nsets)
            rc = ccl_err(ncclInvalidUsage, "%s: rank %d has called %llu collectives, rank 0 %llu",
                         function, r, (unsigned long long)all[r].nsets,
                         (unsigned long long)all[0].nsets);
    }
    ccl_free(all);
    return rc;
}

/* Asked again in the session: an earlier job of the group may have moved the communicator. Who
 * refused before all have joined would end that job on the ranks that are still in it. */
static ncclResult_t check_state(const struct ncclComm *comm, const char *function, int suspended)
{
    if (ccl_comm_is_suspended(comm) == suspended) return ncclSuccess;
    return ccl_err(ncclInvalidUsage, "%s: rank %d: comm %p is %s", function, comm->rank,
                   (const void *)comm, ccl_comm_state_name(comm));
}

static ncclResult_t move(struct ncclComm *comm, const char *function, enum ccl_comm_event event)
{
    ncclResult_t rc = ccl_comm_move(comm, event);
    if (rc == ncclSuccess) return rc;
    return ccl_err(rc, "%s: rank %d: comm %p became %s meanwhile", function, comm->rank,
                   (void *)comm, ccl_comm_state_name(comm));
}

static ncclResult_t run_suspend(struct ncclComm *comm, void *args)
{
    static const char function[] = "ncclCommSuspend";
    struct ccl_boot *boot;
    (void)args;
    TRY(ccl_session_open(comm, function, &boot));
    ncclResult_t rc = check_state(comm, function, 0);
    if (rc == ncclSuccess) rc = check_calm(comm, function, boot);
    if (rc == ncclSuccess) {
        struct look look = look_at_all(comm, give_back);
        comm->given_back = look.memory.suspendable;
        if (look.failed != 0)
            CCL_INFO(CCL_LOG_ALLOC, "%s: rank %d: madvise: %s", function, comm->rank,
                     strerror(look.failed));
        rc = ccl_boot_allgather(boot, NULL, NULL, 0);
    }
    TRY(ccl_session_close(comm, function, boot, rc));
    return move(comm, function, CCL_COMM_SUSPEND);
}

/* Pages come back when they are written; nobody may write before all are here. */
static ncclResult_t run_resume(struct ncclComm *comm, void *args)
{
    static const char function[] = "ncclCommResume";
    struct ccl_boot *boot;
    (void)args;
    TRY(ccl_session_open(comm, function, &boot));
    ncclResult_t rc = check_state(comm, function, 1);
    if (rc == ncclSuccess) rc = ccl_boot_allgather(boot, NULL, NULL, 0);
    TRY(ccl_session_close(comm, function, boot, rc));
    return move(comm, function, CCL_COMM_RESUME);
}

static ncclResult_t add(ncclComm_t comm, ncclResult_t (*run)(struct ncclComm *comm, void *args))
{
    struct ccl_job job = {
        .comm = comm, .run = run, .cancel = ccl_session_halt, .goes_on = !comm->config.blocking};
    ccl_session_begin(comm);
    return ccl_group_add_job(&job);
}

ncclResult_t ccl_comm_suspend(ncclComm_t comm)
{
    return add(comm, run_suspend);
}

ncclResult_t ccl_comm_resumable(ncclComm_t comm, const char *function)
{
    TRY(ccl_comm_known(comm, function));
    if (ccl_comm_is_suspended(comm)) return ncclSuccess;
    return ccl_err(ncclInvalidUsage, "%s: rank %d: comm %p is %s, not suspended", function,
                   comm->rank, (void *)comm, ccl_comm_state_name(comm));
}

ncclResult_t ccl_comm_resume(ncclComm_t comm)
{
    return add(comm, run_resume);
}
