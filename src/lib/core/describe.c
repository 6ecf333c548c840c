/* describe.c: lines of the log about communicators and calls; texts only, called by whoever makes
 * or runs them. */
#include "core/describe.h"

#include "algo/cost.h"
#include "base/param.h"
#include "core/launch.h"
#include "core/plan.h"
#include "core/zones.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 96, LIST_BYTES = 256, ALGOS_BYTES = 256 };

/* "training (0x55d0c0de)", or the handle alone. */
static const char *name_of(const struct ncclComm *comm, char text[NAME_BYTES])
{
    if (comm->name[0] != '\0')
        snprintf(text, NAME_BYTES, "%s (%p)", comm->name, (const void *)comm);
    else
        snprintf(text, NAME_BYTES, "%p", (const void *)comm);
    return text;
}

/* ---- communicators ---- */

/* The device is asked while it is current: the thread keeps what it had. */
static ncclResult_t ask_device(int device, struct chorus_device_info *info)
{
    void *before;
    TRY(ccl_device()->enter(device, &before));
    ncclResult_t rc = ccl_device()->base.info(device, info);
    ccl_device()->leave(before);
    return rc;
}

static void tell_rank(const struct ncclComm *comm, const char *function)
{
    char name[NAME_BYTES];
    struct chorus_device_info info;
    if (!ccl_log_on(CCL_LOG_INIT) || ask_device(comm->device, &info) != ncclSuccess) return;
    ccl_log(CCL_LOG_INFO, CCL_LOG_INIT,
            "%s: comm %s: rank %d of %d on device %d (%s, %s), %u executors, %u processes",
            function, name_of(comm, name), comm->rank, comm->nranks, comm->device, info.name,
            info.pci, comm->clique->topo->nexecs, comm->clique->topo->nprocs);
}

static void tell_devices(const char *name)
{
    int ndevices;
    if (ccl_device()->base.count(&ndevices) != ncclSuccess) return;
    CCL_INFO(CCL_LOG_INIT, "comm %s: %d %s devices in the process of rank 0", name, ndevices,
             ccl_device()->base.kind);
}

static void tell_processes(const struct ccl_topo *topo, const char *name)
{
    for (uint16_t p = 0; p < topo->nprocs; p++) {
        uint8_t in[UINT16_MAX + 1] = {0};
        char ranks[LIST_BYTES];
        const struct ccl_peer *peer = &topo->peers[topo->first_rank[p]];
        for (int r = 0; r < topo->nranks; r++) in[r] = topo->proc_of[r] == p;
        ccl_topo_list(in, topo->nranks, ranks, sizeof ranks);
        CCL_INFO(CCL_LOG_INIT | CCL_LOG_GRAPH, "comm %s: process %u is %lld on host %s: ranks %s",
                 name, p, (long long)peer->pid, peer->host, ranks);
    }
}

static int has_several_processes(const struct ccl_topo *topo, uint16_t exec)
{
    for (uint16_t s = topo->first_slot[exec]; s < topo->first_slot[exec + 1]; s++)
        if (topo->proc_of[topo->rank_of[s]] != topo->proc_of_exec[exec]) return 1;
    return 0;
}

static void tell_executors(const struct ccl_topo *topo, const char *name)
{
    for (uint16_t e = 0; e < topo->nexecs; e++) {
        char ranks[LIST_BYTES];
        int leader = topo->rank_of[topo->first_slot[e]];
        ccl_topo_list_exec(topo, e, ranks, sizeof ranks);
        CCL_INFO(CCL_LOG_INIT | CCL_LOG_GRAPH,
                 "comm %s: executor %u is device %d of rank %d, which leads it: ranks %s%s", name,
                 e, topo->peers[leader].device, leader, ranks,
                 has_several_processes(topo, e) ? "; its process runs the kernels of all" : "");
    }
}

/* How executors reach each other. */
static const char *name_links(const struct ccl_clique *clique)
{
    static const char *const of_gpus[] = {
        [CCL_LINK_NONE] = "memory of the host",
        [CCL_LINK_UNKNOWN] = "memory of GPUs that other processes see",
        [CCL_LINK_PEER] = "memory of GPUs",
        [CCL_LINK_ATOMIC] = "memory of GPUs, with atomics (NVLink)",
    };
    if (clique->topo->nexecs == 1) return "nothing, one device has all ranks";
    if (ccl_clique_spans(clique)) return of_gpus[ccl_zones_link(clique)];
    if (ccl_clique_is_whole(clique)) return "memory of the process";
    return clique->shares ? "shared memory, with the buffers in it" : "shared memory";
}

static void tell_links(const struct ccl_clique *clique, const char *name)
{
    char lanes[48] = "";
    if (ccl_clique_spans(clique))
        snprintf(lanes, sizeof lanes, ", %u lanes of messages", ccl_zones_lanes(clique).nlanes);
    CCL_INFO(CCL_LOG_INIT | CCL_LOG_GRAPH | CCL_LOG_P2P | CCL_LOG_SHM,
             "comm %s: reached by %s: %u channels of connections, %u slots of %u bytes%s", name,
             name_links(clique), clique->nchannels, clique->depth, clique->slot_bytes, lanes);
}

/* "ring/Simple ring/LL …" of those that may run; direct passes no connection. */
static void list_algos(const struct ccl_exec *exec, enum ccl_coll coll, char text[ALGOS_BYTES])
{
    size_t used = 0;
    text[0] = '\0';
    if (ccl_clique_expands(exec->clique, coll)) {
        snprintf(text, ALGOS_BYTES, " pairwise");
        return;
    }
    for (int a = 0; ccl_algos[a] != NULL; a++) {
        uint32_t protos = ccl_plan_allowed(exec, coll, ccl_algos[a]);
        int is_direct = ccl_algos[a] == &ccl_algo_direct;
        for (int p = 0; p < CCL_NPROTOS && used < ALGOS_BYTES; p++)
            if (protos >> p & 1u)
                used += (size_t)snprintf(text + used, ALGOS_BYTES - used, " %s%s%s",
                                         ccl_algos[a]->name, is_direct ? "" : "/",
                                         is_direct ? "" : ccl_proto_name((enum ccl_proto)p));
    }
    if (used == 0) snprintf(text, ALGOS_BYTES, " none");
}

/* A line for each list, with all collectives that have it. */
static void tell_algos(const struct ccl_exec *exec, const char *name)
{
    char lists[CCL_NCOLLS][ALGOS_BYTES];
    for (int c = 0; c < CCL_NCOLLS; c++) list_algos(exec, (enum ccl_coll)c, lists[c]);
    for (int c = 0; c < CCL_NCOLLS; c++) {
        char colls[LIST_BYTES] = "";
        size_t used = 0;
        int first = 0;
        while (strcmp(lists[first], lists[c]) != 0) first++;
        if (first < c) continue;
        for (int d = c; d < CCL_NCOLLS; d++)
            if (strcmp(lists[d], lists[c]) == 0)
                used += (size_t)snprintf(colls + used, sizeof colls - used, "%s%s",
                                         used > 0 ? ", " : "", ccl_coll_name((enum ccl_coll)d));
        CCL_INFO(CCL_LOG_INIT | CCL_LOG_TUNING, "comm %s: allowed for %s:%s", name, colls,
                 lists[c]);
    }
    if (exec->clique->programs != NULL)
        CCL_INFO(CCL_LOG_INIT | CCL_LOG_TUNING, "comm %s: where they fit, schedules of %s", name,
                 ccl_param_text(CCL_PARAM_SCHEDULE_FILE));
}

void ccl_describe_comm(const struct ncclComm *comm, const char *function)
{
    char name[NAME_BYTES];
    tell_rank(comm, function);
    if (comm->rank != 0) return;
    if (!ccl_log_on(CCL_LOG_INIT | CCL_LOG_GRAPH | CCL_LOG_TUNING | CCL_LOG_P2P | CCL_LOG_SHM))
        return;
    name_of(comm, name);
    tell_devices(name);
    tell_processes(comm->clique->topo, name);
    tell_executors(comm->clique->topo, name);
    tell_links(comm->clique, name);
    tell_algos(comm->exec, name);
}

void ccl_describe_end(const struct ncclComm *comm)
{
    char name[NAME_BYTES];
    if (!ccl_log_on(CCL_LOG_DESTROY)) return;
    ccl_log(CCL_LOG_INFO, CCL_LOG_DESTROY, "comm %s: rank %d of %d ends", name_of(comm, name),
            comm->rank, comm->nranks);
}

/* ---- calls ---- */

static const char *type_name(ncclDataType_t type)
{
    static const char *const names[ncclNumTypes] = {[ncclInt8] = "int8",
                                                    [ncclUint8] = "uint8",
                                                    [ncclInt32] = "int32",
                                                    [ncclUint32] = "uint32",
                                                    [ncclInt64] = "int64",
                                                    [ncclUint64] = "uint64",
                                                    [ncclFloat16] = "float16",
                                                    [ncclFloat32] = "float32",
                                                    [ncclFloat64] = "float64",
                                                    [ncclBfloat16] = "bfloat16",
                                                    [ncclFloat8e4m3] = "float8e4m3",
                                                    [ncclFloat8e5m2] = "float8e5m2"};
    return names[type];
}

static const char *redop_name(const struct ccl_op *op)
{
    static const char *const names[] = {"sum", "prod", "max", "min", "avg", "premulsum"};
    int reduces =
        op->coll == CCL_ALL_REDUCE || op->coll == CCL_REDUCE || op->coll == CCL_REDUCE_SCATTER;
    return reduces ? names[ccl_redop_class(op->redop)] : "-";
}

static const char *root_word(enum ccl_coll coll)
{
    if (coll > CCL_RECV) return "peer";
    return coll == CCL_SEND ? "to" : coll == CCL_RECV ? "from" : "root";
}

void ccl_describe_call_now(const struct ccl_op *op)
{
    char name[NAME_BYTES], root[24] = "-";
    if (op->root >= 0) snprintf(root, sizeof root, "%d", op->root);
    ccl_log(CCL_LOG_INFO, CCL_LOG_COLL,
            "nccl%s: comm %s rank %d of %d: count %zu datatype %s op %s %s %s stream %p in %p "
            "out %p",
            ccl_coll_name(op->coll), name_of(op->comm, name), op->comm->rank, op->comm->nranks,
            op->count_elems, type_name(op->type), redop_name(op), root_word(op->coll), root,
            (void *)op->stream, op->in, op->out);
}

/* Halves of messages that a rank's part of the collective becomes. */
static uint64_t count_halves(const struct ccl_op *op)
{
    uint64_t nranks = (uint64_t)op->comm->nranks;
    if (op->coll == CCL_ALL_TO_ALL) return 2 * nranks;
    return op->comm->rank == op->root ? nranks + 1 : 1;
}

void ccl_describe_messages_now(const struct ccl_op *op)
{
    char name[NAME_BYTES];
    uint64_t nhalves = count_halves(op), bytes = op->count_elems * ccl_type_bytes(op->type);
    ccl_log(CCL_LOG_INFO, CCL_LOG_TUNING,
            "nccl%s: comm %s rank %d: %llu bytes: pairwise, %.2f us by the model",
            ccl_coll_name(op->coll), name_of(op->comm, name), op->comm->rank,
            (unsigned long long)ccl_launch_bytes(op),
            ccl_plan_messages_us(op->comm->exec, nhalves, nhalves * bytes));
}

/* How its calls came together: "4 calls joined by events, 2 of other processes". */
static void tell_join(const struct ccl_set *set, char text[LIST_BYTES])
{
    const struct ccl_exec *exec = set->exec;
    const char *how = set->nmembers < 2 ? "alone" : set->ngates == 0 ? "by events" : "by gates";
    int used = snprintf(text, LIST_BYTES, "%u call%s %s", set->nmembers,
                        set->nmembers == 1 ? "" : "s joined", how);
    if (exec->nlocal > exec->nhere)
        snprintf(text + used, LIST_BYTES - (size_t)used, ", %u of other processes",
                 exec->nlocal - exec->nhere);
}

/* "ring LL on 2 channels"; a GPU that has all ranks takes the CTAs that pay. */
static void tell_plan(const struct ccl_exec *exec, const struct ccl_plan *plan, uint16_t nchannels,
                      char text[LIST_BYTES])
{
    const struct ccl_plan *second = plan->second;
    int is_alone = exec->view.nexecs == 1 && !ccl_device()->retires;
    int goes_on = second != NULL && second->algo != plan->algo;
    snprintf(text, LIST_BYTES, "%s%s %s on %s%u %s%s%s", plan->name,
             plan->program != NULL ? " (from a file)" : "",
             plan->sched.nlinks > 0 ? ccl_proto_name(plan->proto) : "-", is_alone ? "at most " : "",
             nchannels, is_alone ? "CTAs" : "channels",
             goes_on ? ", or if buffers are out of reach " : "", goes_on ? second->name : "");
}

void ccl_describe_launch_now(const struct ccl_set *set, const struct ccl_plan *plan,
                             uint16_t nchannels)
{
    char name[NAME_BYTES], how[LIST_BYTES], ranks[LIST_BYTES], join[LIST_BYTES];
    char estimate[32] = "not estimated";
    const struct ccl_exec *exec = set->exec;
    const struct ccl_op *op = &set->members[set->last].record.op;
    uint64_t bytes = ccl_launch_bytes(op);
    double us = ccl_plan_us(exec, plan, bytes);
    if (us > 0) snprintf(estimate, sizeof estimate, "%.2f us by the model", us);
    tell_plan(exec, plan, nchannels, how);
    tell_join(set, join);
    ccl_topo_list_exec(exec->clique->topo, exec->index, ranks, sizeof ranks);
    ccl_log(CCL_LOG_INFO, CCL_LOG_TUNING,
            "nccl%s: comm %s #%llu: %llu bytes: %s, %s; executor %u, ranks %s, led by rank %d: %s",
            ccl_coll_name(op->coll), name_of(op->comm, name), (unsigned long long)set->seq,
            (unsigned long long)bytes, how, estimate, exec->index, ranks,
            exec->view.rank_of[exec->first_slot], join);
}
