/* Random configurations, see random_runs.h. Values are the kit's small integers, so that types and
 * operators are left out whose results would be rounded. */
#include "gpu/random_runs.h"

#include "core/procs.h"
#include "unit/memory.h"

#include <stdio.h>
#include <time.h>

static int pick(uint32_t *state, int n)
{
    return (int)(kit_random(state) % (uint32_t)n);
}

/* ---- choosing ---- */

/* The most ranks whose sums of values up to 4 the type holds; 0: any number. */
static int most_ranks(ncclDataType_t type)
{
    switch (type) {
    case ncclFloat8e4m3: return 4;
    case ncclFloat8e5m2: return 2;
    default: return 0;
    }
}

static int is_float(ncclDataType_t type)
{
    return type == ncclFloat16 || type == ncclFloat32 || type == ncclFloat64 ||
           type == ncclBfloat16 || type == ncclFloat8e4m3 || type == ncclFloat8e5m2;
}

static ncclRedOp_t pick_redop(uint32_t *state, ncclDataType_t type, int nranks)
{
    static const ncclRedOp_t redops[] = {ncclMax, ncclMin, ncclSum, ncclProd};
    int most = most_ranks(type);
    int n = !is_float(type) ? 4 : most == 0 || nranks <= most ? 3 : 2;
    return redops[pick(state, n)];
}

static struct kit_op pick_op(uint32_t *state, const struct random_run *run)
{
    int nranks = run->nprocs * run->local;
    struct kit_op op = {
        .coll = (enum kit_coll)pick(state, KIT_NCOLLS),
        .count = (size_t)pick(state, (int)run->most + 1),
        .type = (ncclDataType_t)pick(state, ncclNumTypes),
        .root = pick(state, nranks),
        .in_place = pick(state, 2),
        .seed = kit_random(state),
        .in_shift = pick(state, 4),
        .out_shift = pick(state, 4),
        .spare = pick(state, 2),
    };
    op.redop = pick_redop(state, op.type, nranks);
    return op;
}

struct random_run random_pick(uint32_t seed, int nprocs)
{
    static const size_t most[] = {8, 64, 1000, 1000, 5000, 60000};
    static const int sizes[] = {1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 8, 12, 16};
    uint32_t state = seed;
    struct random_run run = {.seed = seed, .nprocs = nprocs};
    run.local = nprocs == 1 ? sizes[pick(&state, (int)TEST_COUNT(sizes))] : 1 + pick(&state, 2);
    run.mode = (enum random_mode)pick(&state, RANDOM_NMODES);
    /* Processes cannot map each other's pinned memory. */
    run.is_far = pick(&state, 3) > 0 || nprocs > 1;
    /* Another process may not be through yet. */
    run.aborts = pick(&state, 8) == 0 && nprocs == 1;
    run.most = most[pick(&state, (int)TEST_COUNT(most))];
    run.ncalls = 1 + pick(&state, RANDOM_MAX_CALLS);
    for (int i = 0; i < run.ncalls; i++) run.ops[i] = pick_op(&state, &run);
    return run;
}

void random_describe(const struct random_run *run, char *text, size_t bytes)
{
    static const char *const modes[] = {"group", "threads", "late threads", "halves", "graph"};
    int used = snprintf(text, bytes, "seed %u: %d x %d ranks, %s, %s memory%s:", run->seed,
                        run->nprocs, run->local, modes[run->mode], run->is_far ? "GPU" : "pinned",
                        run->aborts ? ", aborted at the end" : "");
    for (int i = 0; i < run->ncalls && used >= 0 && (size_t)used < bytes; i++)
        used += snprintf(text + used, bytes - (size_t)used, " %s[%zu of type %d, op %d, root %d%s]",
                         kit_name(run->ops[i].coll) + 4, run->ops[i].count, (int)run->ops[i].type,
                         (int)run->ops[i].redop, run->ops[i].root,
                         run->ops[i].in_place ? ", in place" : "");
}

/* ---- calling ---- */

struct job {
    struct kit *kit;
    const struct kit_op *op;
    int nthreads, is_late;
};

/* Thread i calls for ranks i, i + nthreads, …; several in a group. */
static void call_some(void *arg, int i)
{
    struct job *job = arg;
    struct kit *kit = job->kit;
    int several = i + job->nthreads < kit->nranks;
    uint32_t state = job->op->seed + (uint32_t)i;
    struct timespec late = {.tv_nsec = pick(&state, 3) * 1500000};
    if (job->is_late) nanosleep(&late, NULL);
    if (several) CHECK_OK(ncclGroupStart());
    for (int r = i; r < kit->nranks; r += job->nthreads)
        CHECK_OK(kit_call(&kit->ranks[r], job->op));
    if (several) CHECK_OK(ncclGroupEnd());
    for (int r = i; r < kit->nranks; r += job->nthreads) kit_check(&kit->ranks[r], job->op);
}

/* All streams join the capture of the first, by its event, and it waits for all at the end. */
static void capture(struct kit *kit, const struct kit_op *op)
{
    const struct chorus_devices *devices = chorus_devices();
    cudaStream_t first = kit->ranks[0].stream;
    chorus_event_t event;
    CHECK_OK(devices->event_create(&event));
    gpu_capture_begin(first);
    CHECK_OK(devices->event_record(event, first));
    for (int r = 1; r < kit->nranks; r++)
        CHECK_OK(devices->stream_wait(kit->ranks[r].stream, event));
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < kit->nranks; r++) CHECK_OK(kit_call(&kit->ranks[r], op));
    CHECK_OK(ncclGroupEnd());
    for (int r = 1; r < kit->nranks; r++) {
        CHECK_OK(devices->event_record(event, kit->ranks[r].stream));
        CHECK_OK(devices->stream_wait(first, event));
    }
    void *graph = gpu_capture_end(first);
    for (int launch = 0; launch < 2; launch++) {
        for (int r = 0; r < kit->nranks; r++) kit_prepare(&kit->ranks[r], op);
        gpu_graph_launch(graph, first);
        kit_sync(&kit->ranks[0]);
        for (int r = 0; r < kit->nranks; r++) kit_check(&kit->ranks[r], op);
    }
    gpu_graph_destroy(graph);
    CHECK_OK(devices->event_destroy(event));
}

static void call_all(struct kit *kit, const struct random_run *run, const struct kit_op *op)
{
    struct job job = {kit, op, kit->nranks, run->mode == RANDOM_LATE};
    if (run->mode == RANDOM_GRAPH && test_on_gpu()) {
        capture(kit, op);
        return;
    }
    if (run->mode == RANDOM_GROUP || run->mode == RANDOM_GRAPH) job.nthreads = 1;
    if (run->mode == RANDOM_HALVES) job.nthreads = kit->nranks > 1 ? 2 : 1;
    for (int r = 0; r < kit->nranks; r++) kit_prepare(&kit->ranks[r], op);
    kit_threads(job.nthreads, call_some, &job);
}

void random_do(const struct random_run *run)
{
    struct kit kit;
    kit_far = run->is_far;
    if (run->nprocs == 1)
        kit_open(&kit, run->local, 1, run->most + 8);
    else
        proc_open(&kit, run->local, run->most + 8);
    for (int i = 0; i < run->ncalls; i++) call_all(&kit, run, &run->ops[i]);
    for (int r = 0; r < kit.nranks && run->aborts; r++) {
        CHECK_OK(ncclCommAbort(kit.ranks[r].comm));
        kit.ranks[r].comm = NULL;
    }
    kit_close(&kit);
    kit_far = 0;
}
