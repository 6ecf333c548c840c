/* window.c: registering windows: every rank says where its buffer lies, all judge alike from what
 * all have said, each finds the others' buffers, and none has a window unless all do.
 */
#include "core/window.h"

#include "base/alloc.h"
#include "base/err.h"
#include "boot/boot.h"
#include "core/group.h"
#include "core/lead_impl.h"
#include "core/reach.h"
#include "core/rma.h"
#include "core/session.h"

#include <stdio.h>
#include <string.h>

static const char function[] = "ncclCommWindowRegister";

/* All of the process, for calls that name no communicator. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ccl_window *windows;

struct request {
    char *buffer;
    size_t bytes;
    ncclWindow_t *out;
    int flags;
};

/* How a rank ended, with its text. */
struct verdict {
    int32_t code;
    char text[220];
};

/* What a rank tells of its buffer. */
struct entry {
    struct verdict verdict;
    int32_t flags;
    uint64_t address, bytes;
    uint64_t place;             /* in the arena of its process */
    struct ccl_foreign_ref ref; /* for other processes on its GPU */
};

static struct verdict verdict_of(ncclResult_t rc)
{
    struct verdict verdict = {.code = (int32_t)rc};
    if (rc != ncclSuccess)
        snprintf(verdict.text, sizeof verdict.text, "%.*s", (int)sizeof verdict.text - 1,
                 ccl_err_last());
    return verdict;
}

/* The failure of the lowest rank that has one is everyone's. */
static ncclResult_t pass_on(const struct verdict *verdict, int rank)
{
    if (verdict->code == ncclSuccess) return ncclSuccess;
    return ccl_err((ncclResult_t)verdict->code, "%s: rank %d: %s", function, rank, verdict->text);
}

/* ---- what a rank tells ---- */

static ncclResult_t find_place(const struct ncclComm *comm, const struct request *request,
                               struct entry *entry)
{
    const struct ccl_clique *clique = comm->clique;
    struct ccl_peer_arena home = ccl_reach_home(clique, clique->proc);
    if (ccl_clique_is_whole(clique)) return ncclSuccess;
    if (!clique->shares)
        return ccl_err(ncclInvalidArgument,
                       "buffer %p cannot be a window: the processes of the communicator do not "
                       "reach each other's memory",
                       (void *)request->buffer);
    entry->place = (uint64_t)((uintptr_t)request->buffer - (uintptr_t)home.base);
    if (entry->place < home.bytes && request->bytes <= home.bytes - entry->place)
        return ncclSuccess;
    return ccl_err(ncclInvalidArgument,
                   "buffer %p of %zu bytes lies in memory that other processes cannot reach (use "
                   "ncclMemAlloc)",
                   (void *)request->buffer, request->bytes);
}

static ncclResult_t export_buffer(struct ccl_lead *lead, const struct request *request,
                                  struct entry *entry)
{
    for (uint16_t q = 0; q < lead->nprocs; q++) {
        if (q == lead->self) continue;
        TRY(ccl_lead_export(lead, q, request->buffer, request->bytes, &entry->ref));
        if (entry->ref.span == 0)
            return ccl_err(ncclInvalidArgument,
                           "buffer %p of %zu bytes lies in memory of a kind that other processes "
                           "cannot map (use ncclMemAlloc)",
                           (void *)request->buffer, request->bytes);
    }
    return ncclSuccess;
}

static ncclResult_t find_export(struct ncclComm *comm, const struct request *request,
                                struct entry *entry)
{
    const struct ccl_foreign_ops *foreign = ccl_device()->foreign;
    if (foreign != NULL && !foreign->staging_can_stand_for(request->buffer))
        return ccl_err(ncclInvalidArgument,
                       "buffer %p lies in memory that GPUs do not reach (use memory of CUDA)",
                       (void *)request->buffer);
    if (comm->exec->lead == NULL) return ncclSuccess;
    ccl_exec_lock(comm->exec);
    ncclResult_t rc = export_buffer(comm->exec->lead, request, entry);
    pthread_mutex_unlock(&comm->exec->lock);
    return rc;
}

static struct entry describe(struct ncclComm *comm, const struct request *request)
{
    struct entry entry = {
        .flags = request->flags,
        .address = (uintptr_t)request->buffer,
        .bytes = request->bytes,
    };
    ncclResult_t rc = ccl_device()->retires ? find_place(comm, request, &entry)
                                            : find_export(comm, request, &entry);
    entry.verdict = verdict_of(rc);
    return entry;
}

/* ---- what all make of it ---- */

/* All ranks see the same entries and come to the same end. */
static ncclResult_t judge(const struct entry *entries, int nranks)
{
    for (int r = 0; r < nranks; r++) TRY(pass_on(&entries[r].verdict, r));
    for (int r = 1; r < nranks; r++) {
        if (entries[r].flags != entries[0].flags)
            return ccl_err(ncclInvalidArgument, "%s: rank 0 gives winFlags %d, rank %d gives %d",
                           function, entries[0].flags, r, entries[r].flags);
        if ((entries[r].flags & NCCL_WIN_COLL_SYMMETRIC) && entries[r].bytes != entries[0].bytes)
            return ccl_err(ncclInvalidArgument,
                           "%s: with NCCL_WIN_COLL_SYMMETRIC sizes are equal, but rank 0 gives "
                           "%llu bytes and rank %d gives %llu",
                           function, (unsigned long long)entries[0].bytes, r,
                           (unsigned long long)entries[r].bytes);
    }
    return ncclSuccess;
}

static uint16_t lead_proc(const struct ccl_lead *lead, uint16_t proc)
{
    uint16_t q = 0;
    while (lead->procs[q] != proc) q++;
    return q;
}

/* The buffer of a rank of another process. */
static ncclResult_t find_far(struct ncclComm *comm, uint16_t proc, const struct entry *entry,
                             struct ccl_window_part *part)
{
    struct ccl_exec *exec = comm->exec;
    if (exec->lead == NULL) {
        struct ccl_peer_arena home = ccl_reach_home(comm->clique, proc);
        if (entry->place >= home.bytes || entry->bytes > home.bytes - entry->place)
            return ccl_err(ncclRemoteError, "place %llu lies outside of the arena of process %u",
                           (unsigned long long)entry->place, proc);
        part->base = home.base + entry->place;
        return ncclSuccess;
    }
    struct ccl_imported found = {NULL, NULL};
    ccl_exec_lock(exec);
    ncclResult_t rc =
        ccl_lead_find(exec->lead, lead_proc(exec->lead, proc), &entry->ref, entry->bytes, &found);
    pthread_mutex_unlock(&exec->lock);
    part->base = found.address;
    part->region = found.region;
    return rc;
}

static void free_window(const struct ncclComm *comm, struct ccl_window *window)
{
    if (window == NULL) return;
    for (int r = 0; r < comm->nranks; r++)
        if (window->parts[r].region != NULL)
            ccl_device()->foreign->import_unpin(window->parts[r].region);
    ccl_free(window);
}

static ncclResult_t make_window(struct ncclComm *comm, const struct entry *entries,
                                struct ccl_window **out)
{
    ncclResult_t rc;
    struct ccl_window *window;
    const struct ccl_topo *topo = comm->clique->topo;
    size_t bytes = (size_t)comm->nranks * sizeof window->parts[0];
    TRY(ccl_alloc((void **)&window, 1, sizeof *window + bytes));
    window->handle = (ncclWindow_t)(void *)window;
    window->flags = entries[0].flags;
    window->comm = comm;
    for (int r = 0; r < comm->nranks; r++) {
        struct ccl_window_part *part = &window->parts[r];
        part->bytes = entries[r].bytes;
        if (topo->proc_of[r] == comm->clique->proc)
            part->base = (char *)(uintptr_t)entries[r].address;
        else
            TRY_GOTO(rc, find_far(comm, topo->proc_of[r], &entries[r], part), fail);
    }
    *out = window;
    return ncclSuccess;
fail:
    free_window(comm, window);
    return rc;
}

/* ---- the exchange ---- */

/* Each tells whether it has found all the buffers. */
static ncclResult_t agree(const struct ncclComm *comm, struct ccl_boot *boot, ncclResult_t mine)
{
    struct verdict own = verdict_of(mine), *all;
    TRY(CCL_NEW(&all, (size_t)comm->nranks));
    ncclResult_t rc = ccl_boot_allgather(boot, &own, all, sizeof own);
    for (int r = 0; rc == ncclSuccess && r < comm->nranks; r++) rc = pass_on(&all[r], r);
    ccl_free(all);
    return rc;
}

static ncclResult_t exchange(struct ncclComm *comm, struct ccl_boot *boot,
                             const struct request *request, struct ccl_window **out)
{
    struct entry own = describe(comm, request), *all;
    struct ccl_window *window = NULL;
    TRY(CCL_NEW(&all, (size_t)comm->nranks));
    ncclResult_t rc = ccl_boot_allgather(boot, &own, all, sizeof own);
    if (rc == ncclSuccess) rc = judge(all, comm->nranks);
    if (rc == ncclSuccess) rc = agree(comm, boot, make_window(comm, all, &window));
    ccl_free(all);
    if (rc == ncclSuccess)
        *out = window;
    else
        free_window(comm, window);
    return rc;
}

static void keep(struct ncclComm *comm, struct ccl_window *window)
{
    pthread_mutex_lock(&lock);
    window->next_of = windows;
    windows = window;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&comm->own_lock);
    window->next = comm->windows;
    comm->windows = window;
    pthread_mutex_unlock(&comm->own_lock);
}

static ncclResult_t run_register(struct ncclComm *comm, void *args)
{
    struct request request;
    struct ccl_window *window = NULL;
    struct ccl_boot *boot = NULL;
    void *before;
    memcpy(&request, args, sizeof request);
    TRY(ccl_device()->enter(comm->device, &before));
    ncclResult_t rc = ccl_session_open(comm, function, &boot);
    if (rc == ncclSuccess)
        rc = ccl_session_close(comm, function, boot, exchange(comm, boot, &request, &window));
    ccl_device()->leave(before);
    if (rc != ncclSuccess) return rc;
    keep(comm, window);
    *request.out = window->handle;
    return ncclSuccess;
}

ncclResult_t ccl_window_register(ncclComm_t comm, void *buffer, size_t bytes, ncclWindow_t *out,
                                 int flags)
{
    struct request request = {buffer, bytes, out, flags};
    struct ccl_job job = {.comm = comm,
                          .run = run_register,
                          .cancel = ccl_session_halt,
                          .goes_on = !comm->config.blocking};
    TRY(ccl_rma_check(comm, function));
    _Static_assert(sizeof request <= sizeof job.args, "a request fits a job");
    memcpy(job.args, &request, sizeof request);
    ccl_session_begin(comm);
    return ccl_group_add_job(&job);
}

/* ---- using and giving up ---- */

/* The window of a handle; NULL: the rank has none. */
static const struct ccl_window *find_window(ncclComm_t comm, ncclWindow_t handle)
{
    pthread_mutex_lock(&comm->own_lock);
    const struct ccl_window *window = comm->windows;
    while (window != NULL && window->handle != handle) window = window->next;
    pthread_mutex_unlock(&comm->own_lock);
    return window;
}

/* Off the list of the process, then away. */
static void drop(struct ccl_window *window)
{
    pthread_mutex_lock(&lock);
    struct ccl_window **link = &windows;
    while (*link != window) link = &(*link)->next_of;
    *link = window->next_of;
    pthread_mutex_unlock(&lock);
    free_window(window->comm, window);
}

ncclResult_t ccl_window_deregister(ncclComm_t comm, ncclWindow_t handle)
{
    pthread_mutex_lock(&comm->own_lock);
    struct ccl_window **link = &comm->windows;
    while (*link != NULL && (*link)->handle != handle) link = &(*link)->next;
    struct ccl_window *window = *link;
    if (window != NULL) *link = window->next;
    pthread_mutex_unlock(&comm->own_lock);
    if (window == NULL)
        return ccl_err(ncclInvalidUsage,
                       "ncclCommWindowDeregister: win %p is no window of rank %d's communicator",
                       (void *)handle, comm->rank);
    drop(window);
    return ncclSuccess;
}

ncclResult_t ccl_window_pointer(ncclComm_t comm, ncclWindow_t handle, void **out)
{
    const struct ccl_window *window = find_window(comm, handle);
    if (window == NULL)
        return ccl_err(ncclInvalidArgument,
                       "ncclWinGetUserPtr: win %p is no window of rank %d's communicator",
                       (void *)handle, comm->rank);
    *out = window->parts[comm->rank].base;
    return ncclSuccess;
}

ncclComm_t ccl_window_comm(ncclWindow_t handle)
{
    pthread_mutex_lock(&lock);
    const struct ccl_window *window = windows;
    while (window != NULL && window->handle != handle) window = window->next_of;
    ncclComm_t comm = window != NULL ? window->comm : NULL;
    pthread_mutex_unlock(&lock);
    return comm;
}

ncclResult_t ccl_window_place(const struct ccl_target *target, const char *function_name,
                              void **out)
{
    const struct ccl_window *window = find_window(ccl_window_comm(target->win), target->win);
    const struct ccl_window_part *part = &window->parts[target->peer];
    if (target->offset >= part->bytes)
        return ccl_err(ncclInvalidArgument,
                       "%s: rank %d: offset %zu is not in the window of rank %d, which has %llu "
                       "bytes",
                       function_name, window->comm->rank, target->offset, target->peer,
                       (unsigned long long)part->bytes);
    *out = part->base + target->offset;
    return ncclSuccess;
}

ncclResult_t ccl_window_target(ncclComm_t comm, const struct ccl_target *target, void **out)
{
    static const char put[] = "ncclPutSignal";
    const struct ccl_window *window = find_window(comm, target->win);
    if (window == NULL)
        return ccl_err(ncclInvalidArgument, "%s: peerWin %p is no window of rank %d's communicator",
                       put, (void *)target->win, comm->rank);
    const struct ccl_window_part *part = &window->parts[target->peer];
    if (target->offset > part->bytes || target->bytes > part->bytes - target->offset)
        return ccl_err(ncclInvalidArgument,
                       "%s: rank %d: %zu bytes at peerWinOffset %zu run past the window of rank "
                       "%d, which has %llu bytes",
                       put, comm->rank, target->bytes, target->offset, target->peer,
                       (unsigned long long)part->bytes);
    *out = part->base + target->offset;
    return ncclSuccess;
}

/* A symmetric window of this rank holds all of it. */
static int holds(const struct ccl_window *window, const char *buffer, size_t bytes)
{
    const struct ccl_window_part *own = &window->parts[window->comm->rank];
    uintptr_t at = (uintptr_t)buffer - (uintptr_t)own->base;
    if (!(window->flags & NCCL_WIN_COLL_SYMMETRIC)) return 0;
    return at <= own->bytes && bytes <= own->bytes - at;
}

ncclResult_t ccl_window_check_source(ncclComm_t comm, const void *buffer, size_t bytes)
{
    pthread_mutex_lock(&comm->own_lock);
    const struct ccl_window *window = comm->windows;
    while (window != NULL && !holds(window, buffer, bytes)) window = window->next;
    pthread_mutex_unlock(&comm->own_lock);
    if (window != NULL) return ncclSuccess;
    return ccl_err(ncclInvalidArgument,
                   "ncclPutSignal: rank %d: localbuff %p of %zu bytes lies in no window of this "
                   "rank that was registered with NCCL_WIN_COLL_SYMMETRIC",
                   comm->rank, buffer, bytes);
}

void ccl_window_free(struct ncclComm *comm)
{
    while (comm->windows != NULL) {
        struct ccl_window *window = comm->windows;
        comm->windows = window->next;
        drop(window);
    }
}
