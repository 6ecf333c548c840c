/* schedule.c: loading, finding, noting and saving schedules. */
#include "core/schedule.h"

#include "algo/check.h"
#include "algo/cost.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/param.h"
#include "core/zones.h"
#include "kernel/size.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- loading ---- */

enum { MAX_FILE_BYTES = 64 << 20 };

static ncclResult_t read_text(const char *path, char **out)
{
    ncclResult_t rc = ncclSuccess;
    char *text = NULL;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return ccl_err(ncclInvalidUsage, "CHORUS_SCHEDULE_FILE=%s: %s", path, strerror(errno));
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    rewind(file);
    if (bytes < 0 || bytes > MAX_FILE_BYTES)
        rc = ccl_err(ncclInvalidUsage, "CHORUS_SCHEDULE_FILE=%s is no file of at most %d bytes",
                     path, MAX_FILE_BYTES);
    if (rc == ncclSuccess) rc = CCL_NEW(&text, (size_t)bytes + 1);
    if (rc == ncclSuccess && fread(text, 1, (size_t)bytes, file) != (size_t)bytes)
        rc = ccl_err(ncclSystemError, "CHORUS_SCHEDULE_FILE=%s: cannot be read", path);
    fclose(file);
    if (rc == ncclSuccess)
        *out = text;
    else
        ccl_free(text);
    return rc;
}

static ncclResult_t check_program(const struct ccl_clique *clique,
                                  const struct ccl_program *program, const char *path)
{
    uint64_t slot_bytes = ccl_proto_slot_bytes(program->proto, clique->slot_bytes);
    uint16_t pack = program->scheds[0].pack;
    if (ccl_size_place(slot_bytes, pack) == 0)
        return ccl_err(ncclInvalidUsage, "%s: a slot of %llu bytes has no room for %u places", path,
                       (unsigned long long)slot_bytes, pack);
    /* LL gives credit back for half of its slots at a time. */
    uint16_t depth = program->proto == CCL_PROTO_LL ? CCL_LL_DEPTH / 2 : clique->depth;
    return ccl_program_check(program, depth, path);
}

ncclResult_t ccl_schedule_load(struct ccl_clique *clique)
{
    const char *path = ccl_param_text(CCL_PARAM_SCHEDULE_FILE);
    char *text = NULL;
    if (path == NULL) return ncclSuccess;
    TRY(read_text(path, &text));
    ncclResult_t rc = ccl_program_parse(text, path, &clique->programs);
    ccl_free(text);
    for (const struct ccl_program *p = clique->programs; rc == ncclSuccess && p != NULL;
         p = p->next)
        rc = check_program(clique, p, path);
    return rc;
}

const struct ccl_program *ccl_schedule_find(const struct ccl_clique *clique,
                                            const struct ccl_sched_args *args)
{
    const struct ccl_program *program = clique->programs;
    while (program != NULL && !ccl_program_fits(program, args)) program = program->next;
    return program;
}

/* ---- what ran ---- */

static const char *name_transport(const struct ccl_clique *clique, int has_links)
{
    if (!has_links) return "memory";
    if (ccl_clique_spans(clique)) return ccl_zones_link(clique) == CCL_LINK_NONE ? "shm" : "p2p";
    if (ccl_clique_is_whole(clique)) return "p2p";
    return clique->topo->nprocs == clique->topo->nexecs ? "shm" : "p2p+shm";
}

/* A kernel that has not met the others yet passes for one that runs what was planned. */
static ncclResult_t find_latest(ncclComm_t comm, const char *function, struct ccl_latest *latest)
{
    TRY(ccl_comm_check(comm, function));
    if (atomic_load_explicit(&comm->state, memory_order_acquire) == CCL_COMM_STARTING)
        return ccl_err(ncclInvalidArgument, "%s: the communicator is being initialised", function);
    pthread_mutex_lock(&comm->exec->lock);
    *latest = comm->latest;
    pthread_mutex_unlock(&comm->exec->lock);
    if (latest->nchannels == 0)
        return ccl_err(ncclInvalidUsage, "%s: rank %d has not run a collective", function,
                       comm->rank);
    uint64_t second = __atomic_load_n(&comm->exec->words->second, __ATOMIC_RELAXED);
    if (latest->plan != NULL && latest->plan->second != NULL && second == latest->ticket + 1)
        latest->plan = latest->plan->second;
    return ncclSuccess;
}

static const char *const join_names[] = {
    [CCL_JOIN_NONE] = "none", [CCL_JOIN_EVENTS] = "events", [CCL_JOIN_GATES] = "gates"};

ncclResult_t chorus_comm_last_choice(ncclComm_t comm, struct chorus_choice *choice)
{
    struct ccl_latest latest = {0};
    TRY(find_latest(comm, "chorus_comm_last_choice", &latest));
    if (choice == NULL)
        return ccl_err(ncclInvalidArgument, "chorus_comm_last_choice: choice is NULL");
    const struct ccl_plan *plan = latest.plan;
    int has_links = plan == NULL || plan->sched.nlinks > 0;
    enum ccl_proto proto = plan != NULL ? plan->proto : CCL_PROTO_SIMPLE;
    *choice = (struct chorus_choice){
        .size = sizeof *choice,
        .collective = ccl_coll_name(latest.coll),
        .algorithm = plan != NULL ? plan->name : "pairwise",
        .protocol = has_links ? ccl_proto_name(proto) : "-",
        .transport = name_transport(comm->clique, has_links),
        .channels = latest.nchannels,
        .join = join_names[latest.join],
    };
    return ncclSuccess;
}

/* ---- saving ---- */

static ncclResult_t write_program(const struct ccl_program *program, const char *path)
{
    FILE *file = fopen(path, "we");
    if (file == NULL) return ccl_err(ncclSystemError, "%s: %s", path, strerror(errno));
    ccl_program_print(program, file);
    int is_bad = ferror(file);
    if (fclose(file) != 0 || is_bad)
        return ccl_err(ncclSystemError, "%s: cannot be written: %s", path, strerror(errno));
    return ncclSuccess;
}

ncclResult_t chorus_comm_save_schedule(ncclComm_t comm, const char *path)
{
    struct ccl_latest latest = {0};
    struct ccl_program *made = NULL;
    TRY(find_latest(comm, "chorus_comm_save_schedule", &latest));
    if (path == NULL)
        return ccl_err(ncclInvalidArgument, "chorus_comm_save_schedule: path is NULL");
    const struct ccl_plan *plan = latest.plan;
    if (plan == NULL)
        return ccl_err(ncclInvalidUsage, "chorus_comm_save_schedule: %s ran as sends and receives",
                       ccl_coll_name(latest.coll));
    if (plan->program != NULL) return write_program(plan->program, path);
    struct ccl_sched_args args = {&comm->exec->view, (enum ccl_sched_coll)plan->coll, plan->root,
                                  plan->slot_bytes};
    TRY(ccl_program_build(plan->algo, &args, &made));
    made->proto = plan->proto;
    ncclResult_t rc = write_program(made, path);
    ccl_program_free(made);
    return rc;
}
