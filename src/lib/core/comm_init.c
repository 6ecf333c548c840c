/* comm_init.c: making a communicator, as a list of steps that every rank goes through together.
 *
 * A failure of one rank in a step that only some ranks do ends the session for all, with its text,
 * so nobody waits for a rank that gave up.
 */
#include "core/comm.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "core/describe.h"
#include "core/group.h"
#include "core/reach.h"
#include "core/rma.h"
#include "core/zones.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <string.h>

/* State of an initialisation while it runs. */
struct init {
    const struct ccl_init_args *args;
    struct ncclComm *comm;
    struct ccl_boot *boot;
    struct ccl_peer *peers;
    uint8_t secret[16];
    int is_first;   /* lowest rank of this process: does what a process does once */
    uint8_t vote;   /* what this rank tells the others after a step */
    uint8_t agreed; /* the least that any has told after the latest */
};

static ncclResult_t join_session(struct init *init)
{
    struct ccl_boot_args args = {
        .id = init->args->id,
        .nranks = init->args->nranks,
        .rank = init->args->rank,
        .abort_word = &init->comm->init_gate,
    };
    TRY(ccl_boot_open(&args, &init->boot));
    ccl_boot_secret(init->boot, init->secret);
    return ncclSuccess;
}

/* maxCTAs limits the channels; the policies that spare the device leave few. */
static int max_channels(const ncclConfig_t *config)
{
    int few = ccl_device()->retires ? 1 : 32;
    int is_sparing = config->CTAPolicy != NCCL_CTA_POLICY_DEFAULT;
    return is_sparing && config->maxCTAs > few ? few : config->maxCTAs;
}

/* Tells the others why this rank goes no further. */
static ncclResult_t give_up(struct init *init, ncclResult_t why)
{
    char text[CCL_ERR_TEXT_BYTES];
    snprintf(text, sizeof text, "%s", ccl_err_last());
    ccl_boot_fail(init->boot, why, text);
    return why;
}

static ncclResult_t describe(struct init *init, struct ccl_peer *me)
{
    struct ccl_arena arena;
    ccl_device()->arena(&arena);
    me->has_arena = arena.fd >= 0;
    me->device = init->args->device;
    me->is_gpu = !ccl_device()->retires;
    me->min_channels = init->args->config.minCTAs;
    me->max_channels = max_channels(&init->args->config);
    if (ccl_device()->capability != NULL)
        TRY(ccl_device()->capability(init->args->device, &me->capability));
    me->split = (int32_t)ccl_param_int(CCL_PARAM_GPU_SPLIT);
    TRY(ccl_topo_describe(me));
    TRY(ccl_device()->identity(init->args->device, me->identity));
    return CCL_NEW(&init->peers, (size_t)init->args->nranks);
}

static ncclResult_t meet_peers(struct init *init)
{
    struct ccl_peer me = {.device = 0};
    ncclResult_t rc = describe(init, &me);
    if (rc != ncclSuccess) return give_up(init, rc);
    return ccl_boot_allgather(init->boot, &me, init->peers, sizeof me);
}

/* Several ranks of a communicator on one GPU must be asked for. */
static ncclResult_t check_shared(const struct init *init)
{
    const struct ccl_peer *peers = init->peers;
    for (int r = 1; r < init->args->nranks; r++)
        for (int q = 0; q < r; q++)
            if (memcmp(peers[q].identity, peers[r].identity, sizeof peers[r].identity) == 0)
                return ccl_err(ncclInvalidUsage,
                               "%s: ranks %d and %d are on the same GPU (%s); "
                               "NCCL_MULTI_RANK_GPU_ENABLE=1 allows it",
                               init->args->function, q, r, peers[r].identity);
    return ncclSuccess;
}

/* All ranks see the same peers and come to the same end. */
static ncclResult_t check_devices(struct init *init)
{
    const struct ccl_peer *peers = init->peers;
    for (int r = 1; r < init->args->nranks; r++)
        if (peers[r].is_gpu != peers[0].is_gpu)
            return ccl_err(ncclInvalidUsage,
                           "%s: rank 0 is on a %s and rank %d on a %s: a communicator has one kind "
                           "of device (CHORUS_DEVICE)",
                           init->args->function, peers[0].is_gpu ? "GPU" : "host device", r,
                           peers[r].is_gpu ? "GPU" : "host device");
    if (!peers[0].is_gpu) return ncclSuccess;
    return ccl_param_int(CCL_PARAM_MULTI_RANK_GPU) ? ncclSuccess : check_shared(init);
}

static ncclResult_t attach(struct init *init)
{
    struct ncclComm *comm = init->comm;
    TRY(check_devices(init));
    TRY(ccl_clique_attach(init->secret, init->peers, comm->nranks, comm->rank, &comm->clique));
    struct ccl_clique *clique = comm->clique;
    comm->exec = ccl_clique_exec(clique, comm->rank);
    init->is_first = clique->topo->first_rank[clique->proc] == comm->rank;
    TRY(ccl_device()->words_alloc((void **)&comm->p2p_note, CCL_NNOTES * sizeof *comm->p2p_note));
    TRY(ccl_rma_open_rank(comm));
    if (!init->is_first || !ccl_clique_spans(clique)) return ncclSuccess;
    return ccl_zones_begin(clique, &init->vote);
}

static ncclResult_t listen_links(struct init *init)
{
    struct ccl_clique *clique = init->comm->clique;
    if (!init->is_first) return ncclSuccess;
    if (ccl_clique_spans(clique)) TRY(ccl_zones_size(clique, init->agreed));
    return ccl_clique_listen(init->comm->clique, init->boot, &init->comm->init_gate);
}

static ncclResult_t connect_links(struct init *init)
{
    struct ccl_clique *clique = init->comm->clique;
    if (!init->is_first) return ncclSuccess;
    TRY(ccl_clique_connect(clique));
    return ccl_clique_spans(clique) ? ccl_zones_connect(clique, &init->vote)
                                    : ccl_clique_watch(clique);
}

static ncclResult_t settle_zones(struct init *init)
{
    if (!init->is_first) return ncclSuccess;
    TRY(ccl_zones_settle(init->comm->clique, init->agreed));
    return ccl_clique_watch(init->comm->clique);
}

/* A step that only some ranks take: a failure becomes everyone's at once, also of those who wait
 * for this rank in the middle of it; success is awaited. */
static ncclResult_t agree(struct init *init, ncclResult_t mine)
{
    if (mine != ncclSuccess) return give_up(init, mine);
    uint8_t *all;
    TRY(CCL_NEW(&all, (size_t)init->args->nranks));
    ncclResult_t rc = ccl_boot_allgather(init->boot, &init->vote, all, sizeof init->vote);
    init->agreed = UINT8_MAX;
    for (int r = 0; rc == ncclSuccess && r < init->args->nranks; r++)
        if (all[r] < init->agreed) init->agreed = all[r];
    ccl_free(all);
    return rc;
}

static const struct {
    const char *name;
    ncclResult_t (*run)(struct init *init);
    int agrees; /* all wait for all afterwards */
    int spans;  /* only for executors on several GPUs */
} steps[] = {
    {"join the bootstrap session", join_session, 0, 0},
    {"exchange peers", meet_peers, 0, 0},
    {"attach to the process's part", attach, 1, 0},
    {"listen for links", listen_links, 1, 0},
    {"connect links", connect_links, 1, 0},
    {"share memory between GPUs", settle_zones, 1, 1},
};
enum { NSTEPS = sizeof steps / sizeof steps[0] };

/* Nothing comes after it for this communicator. */
static int is_last(const struct init *init, size_t step)
{
    const struct ccl_clique *clique = init->comm->clique;
    if (step + 1 == NSTEPS) return 1;
    return steps[step + 1].spans && clique != NULL && !ccl_clique_spans(clique);
}

/* Where the last wait for all failed on this rank only, others hold a communicator by now. What is
 * connected tells them. */
static void tell_peers(struct init *init, ncclResult_t code)
{
    char text[512];
    snprintf(text, sizeof text, "%s", ccl_err_last());
    ccl_clique_fail(init->comm->clique, ncclRemoteError, 1, "rank %d failed to initialise: %.400s",
                    init->comm->rank, text);
    ccl_err(code, "%s", text);
}

static ncclResult_t run_steps(struct init *init)
{
    for (size_t i = 0; i < NSTEPS; i++) {
        if (steps[i].spans && !ccl_clique_spans(init->comm->clique)) break;
        init->vote = UINT8_MAX;
        ncclResult_t rc = steps[i].run(init);
        if (steps[i].agrees) rc = agree(init, rc);
        if (rc != ncclSuccess) {
            CCL_INFO(CCL_LOG_INIT, "%s: rank %d failed to %s", init->args->function,
                     init->args->rank, steps[i].name);
            if (steps[i].agrees && is_last(init, i)) tell_peers(init, rc);
            return rc;
        }
    }
    return ncclSuccess;
}

/* From here on an abort finds a communicator, not an initialisation; 0 when it came before.
 * Acquire pairs with that abort, which does not look at the handle again. */
static int close_gate(struct ncclComm *comm)
{
    uint32_t gate = CCL_INIT_OPEN;
    return atomic_compare_exchange_strong_explicit(&comm->init_gate, &gate, CCL_INIT_CLOSED,
                                                   memory_order_acquire, memory_order_acquire);
}

/* A kernel of a GPU that is loaded by its first launch may wait for ever while a stream waits, and
 * so may a call that makes an event. */
static ncclResult_t prepare_device(void)
{
    if (ccl_device()->retires) return ncclSuccess;
    int error = ccl_cuda_load();
    if (error != 0) return ccl_err(ncclUnhandledCudaError, "loading kernels: CUDA error %d", error);
    if (ccl_device()->stock_fill != NULL) ccl_device()->stock_fill();
    return ncclSuccess;
}

/* What the failed initialisation has made, on its device. */
static void end_part(struct ncclComm *comm, int device)
{
    void *before;
    int entered = ccl_device()->enter(device, &before) == ncclSuccess;
    ccl_rma_close_rank(comm);
    ccl_device()->words_free(comm->p2p_note);
    ccl_clique_detach(comm->clique);
    if (entered) ccl_device()->leave(before);
}

ncclResult_t ccl_comm_init_job(struct ncclComm *comm, const struct ccl_init_args *args)
{
    struct init init = {.args = args, .comm = comm};
    const struct ccl_device_ops *device = ccl_device();
    void *before;
    ncclResult_t rc = device->enter(args->device, &before);
    int entered = rc == ncclSuccess;
    if (rc == ncclSuccess) rc = prepare_device();
    if (rc == ncclSuccess) rc = device->hold();
    int held = rc == ncclSuccess;
    if (rc == ncclSuccess) rc = run_steps(&init);
    if (rc == ncclSuccess) ccl_reach_settle(comm->clique);
    ccl_boot_close(init.boot);
    ccl_free(init.peers);
    if (entered) device->leave(before);
    if (!close_gate(comm) && rc == ncclSuccess) {
        rc = ccl_err(ncclInternalError, "%s: rank %d: aborted", args->function, comm->rank);
        tell_peers(&init, rc); /* they hold a communicator by now */
    }
    if (rc == ncclSuccess) {
        ccl_comm_move(comm, CCL_COMM_STARTED);
        ccl_describe_comm(comm, args->function);
        return ncclSuccess;
    }
    end_part(comm, args->device);
    if (held) device->drop();
    return rc;
}

static ncclResult_t take_handle(const struct ccl_init_args *args, struct ncclComm **out)
{
    struct ncclComm *comm;
    *args->comm = NULL;
    TRY(ccl_comm_take(&comm));
    comm->nranks = args->nranks;
    comm->rank = args->rank;
    comm->device = args->device;
    comm->config = args->config;
    comm->caller_version = args->caller_version;
    memcpy(comm->name, args->comm_name, sizeof comm->name);
    memcpy(comm->net_name, args->net_name, sizeof comm->net_name);
    *out = comm;
    return ncclSuccess;
}

/* Release: a thread that aborts the initialisation, or has waited for it, finds a whole handle. */
static void publish(const struct ccl_init_args *args, struct ncclComm *comm)
{
    __atomic_store_n(args->comm, comm, __ATOMIC_RELEASE);
}

static ncclResult_t run_init(struct ncclComm *comm, void *args)
{
    return ccl_comm_init_job(comm, args);
}

static void cancel_init(struct ncclComm *comm)
{
    (void)ccl_comm_cancel(comm);
}

/* Behind its caller's back the handle stays, to tell of the failure. */
static void close_init(struct ncclComm *comm, void *args, ncclResult_t result)
{
    const struct ccl_init_args *init = args;
    if (result == ncclSuccess) return;
    if (ccl_jobs_busy(comm))
        ccl_comm_move(comm, CCL_COMM_BREAK);
    else
        ccl_comm_drop(comm, init->comm);
}

_Static_assert(sizeof(struct ccl_init_args) <= CCL_JOB_BYTES, "a job has room for it");

ncclResult_t ccl_comm_init(const struct ccl_init_args *args)
{
    struct ccl_job job = {.run = run_init, .cancel = cancel_init, .over = close_init};
    TRY(take_handle(args, &job.comm));
    job.goes_on = !args->config.blocking;
    memcpy(job.args, args, sizeof *args);
    publish(args, job.comm);
    return ccl_group_add_job(&job);
}

ncclResult_t ccl_comm_make(struct ncclComm *parent, const struct ccl_init_args *args,
                           const uint8_t *with)
{
    struct ncclComm *comm;
    TRY(take_handle(args, &comm));
    ccl_session_making(parent, comm, with);
    ncclResult_t rc = ccl_comm_init_job(comm, args);
    rc = ccl_session_made(parent, args->function, rc);
    if (rc == ncclSuccess)
        publish(args, comm);
    else
        ccl_comm_drop(comm, args->comm);
    return rc;
}

void ccl_unique_id_drop(const ncclUniqueId *id)
{
    ccl_boot_drop_id(id);
}
