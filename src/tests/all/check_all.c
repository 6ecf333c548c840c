/* The long check: every collective, type and operator with one forced algorithm and protocol, over
 * many numbers of ranks and placements, byte by byte (trial.h). scripts/check-all runs it for each
 * pair, adds up what it prints and records it.
 *
 * Prints a line "COLLECTIVE calls wrong impossible" for each collective, and what was wrong on
 * stderr; exit code 1 for wrong results, 99 when something failed.
 */
#include "all/trial.h"
#include "all/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WRONG_SHOWN = 20, LARGE_COUNT = 20011 };

/* An algorithm: the collectives that it can do (a bit each) and in which order it folds. */
struct algo {
    const char *name;
    int is_forced;
    unsigned in_process, across;
    enum trial_order order;
};

#define BIT(coll) (1u << KIT_##coll)
enum {
    ROUTED = BIT(ALL_REDUCE) | BIT(REDUCE) | BIT(BROADCAST) | BIT(ALL_GATHER) | BIT(REDUCE_SCATTER),
    MOVED = BIT(ALL_TO_ALL) | BIT(GATHER) | BIT(SCATTER),
    ALL = ROUTED | MOVED,
    TREED = BIT(ALL_REDUCE) | BIT(REDUCE) | BIT(BROADCAST),
    STEPPED = BIT(ALL_GATHER) | BIT(REDUCE_SCATTER)
};

static const struct algo algos[] = {
    {"direct", 1, ALL, 0, TRIAL_SLOTS},
    {"oneshot", 1, ROUTED, ROUTED, TRIAL_EXECS},
    {"twoshot", 1, BIT(ALL_REDUCE), BIT(ALL_REDUCE), TRIAL_EXECS},
    {"ring", 1, ROUTED, ROUTED, TRIAL_ANY},
    {"tree", 1, TREED, TREED, TRIAL_ANY},
    {"logstep", 1, STEPPED, STEPPED, TRIAL_ANY},
    {"pairwise", 0, 0, MOVED, TRIAL_ANY},
    {"auto", 0, ALL, ALL, TRIAL_ANY},
};

/* How much is done. A full one makes each call in and out of place, and some large ones. Up to
 * `all_places_to` ranks each call is made with every placement, beyond with one of them in turn. */
struct scope {
    const char *name;
    int all_places_to, is_full;
    int ranks[24];
    size_t counts[2][6]; /* up to 17 ranks and beyond; ended by 0 */
};

static const struct scope scopes[] = {
    {"all",
     17,
     1,
     {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 24, 31, 32, 33, 64},
     {{1, 3, 17, 131, 301}, {1, 3, 17}}},
    {"small", 2, 0, {1, 2, 3, 4, 5, 6, 7, 8}, {{1, 5, 33}, {1}}},
};

static struct {
    const struct algo *algo;
    const char *proto;
    const struct scope *scope;
    int has_threads;   /* a thread per rank makes the calls, else one group */
    unsigned possible; /* the collectives, a bit each */
    long spoil;        /* the result of this call is spoilt before it is compared; 0: none */
    struct world_procs procs;
} plan;

struct counts {
    long calls[KIT_NCOLLS], wrong[KIT_NCOLLS], impossible[KIT_NCOLLS];
};

/* The members that one thread calls for. */
struct caller {
    struct world *world;
    int first, nmembers;
    enum world_place place;
    struct counts counts;
};

static struct world_member *member_of(struct caller *caller, int i)
{
    return &caller->world->members[caller->first + i];
}

/* ---- one call ---- */

static ncclRedOp_t make_op(struct world_member *member, const struct trial *trial)
{
    ncclRedOp_t op = (ncclRedOp_t)trial->redop;
    if (trial->redop < ncclNumOps) return op;
    uint64_t scalar = trial->scalars[member->rank.rank];
    int on_host = trial->redop == TRIAL_HOST_SCALAR;
    memcpy(member->scalar, &scalar, sizeof scalar);
    CHECK_OK(ncclRedOpCreatePreMulSum(&op, on_host ? &scalar : member->scalar, trial->op.type,
                                      on_host ? ncclScalarHostImmediate : ncclScalarDevice,
                                      member->rank.comm));
    return op;
}

static ncclResult_t call_all(struct caller *caller, const struct kit_op *ops)
{
    ncclResult_t rc = ncclSuccess, ended = ncclSuccess;
    if (caller->nmembers > 1) CHECK_OK(ncclGroupStart());
    for (int i = 0; i < caller->nmembers && rc == ncclSuccess; i++)
        rc = kit_call(&member_of(caller, i)->rank, &ops[i]);
    if (caller->nmembers > 1) ended = ncclGroupEnd();
    return rc != ncclSuccess ? rc : ended;
}

/* What ran is what was forced; one executor has no choice. */
static void check_choice(struct caller *caller, struct world_member *member, enum kit_coll coll)
{
    struct chorus_choice choice;
    const char *name = plan.algo->name;
    if (!plan.algo->is_forced && strcmp(name, "pairwise") != 0) return;
    if (caller->world->nexecs == 1) name = "direct";
    CHECK_OK(chorus_comm_last_choice(member->rank.comm, &choice));
    CHECK_STR(choice.collective, kit_name(coll) + strlen("nccl"));
    CHECK_STR(choice.algorithm, name);
    if (strcmp(name, "direct") != 0 && strcmp(name, "pairwise") != 0)
        CHECK_EQ(strcasecmp(choice.protocol, plan.proto), 0);
}

static void check_member(struct caller *caller, int i, const struct kit_op *op)
{
    char text[400];
    struct world_member *member = member_of(caller, i);
    long *wrong = &caller->counts.wrong[op->coll];
    kit_sync(&member->rank);
    if (op->redop >= ncclNumOps) CHECK_OK(ncclRedOpDestroy(op->redop, member->rank.comm));
    check_choice(caller, member, op->coll);
    if (member->rank.rank == 0 && plan.spoil-- == 1) member->rank.out[0] ^= 1;
    if (kit_matches(&member->rank, op, text, sizeof text)) return;
    if (++*wrong <= WRONG_SHOWN)
        fprintf(stderr, "wrong: %s %s, placement %d, %d executors: %s\n", plan.algo->name,
                plan.proto, caller->place, caller->world->nexecs, text);
}

static void run_call(struct caller *caller, struct trial *trial)
{
    struct kit_op ops[KIT_MAX_RANKS];
    struct trial_shape shape = {caller->world->nranks, caller->world->exec_of, plan.algo->order};
    if (caller->world->nexecs == 1) shape.order = TRIAL_SLOTS;
    trial_open(trial, &shape);
    for (int i = 0; i < caller->nmembers; i++) {
        ops[i] = trial->op;
        ops[i].redop = make_op(member_of(caller, i), trial);
        kit_prepare(&member_of(caller, i)->rank, &ops[i]);
    }
    CHECK_OK(call_all(caller, ops));
    for (int i = 0; i < caller->nmembers; i++) check_member(caller, i, &ops[i]);
    caller->counts.calls[trial->op.coll]++;
    trial_close(trial);
}

/* What the choice leaves nothing for is refused, and the communicator goes on. */
static void check_impossible(struct caller *caller, enum kit_coll coll)
{
    struct kit_op ops[KIT_MAX_RANKS];
    for (int i = 0; i < caller->nmembers; i++) ops[i] = kit_simple(coll, 1);
    CHECK_EQ(call_all(caller, ops), ncclInvalidUsage);
    CHECK_HAS(ncclGetLastError(NULL), "nothing is left");
    caller->counts.impossible[coll]++;
}

/* ---- all calls of a communicator ---- */

static struct trial make_trial(const struct caller *caller, enum kit_coll coll, int type, int redop)
{
    const struct world *world = caller->world;
    uint32_t state =
        (uint32_t)(((world->nranks * NPLACES + (int)caller->place) * KIT_NCOLLS + (int)coll) *
                       ncclNumTypes +
                   type) *
            TRIAL_NOPS +
        (uint32_t)redop;
    struct trial trial = {.redop = redop};
    trial.op = (struct kit_op){.coll = coll, .type = (ncclDataType_t)type};
    trial.op.seed = kit_random(&state);
    trial.op.root = (int)(kit_random(&state) % (uint32_t)world->nranks);
    return trial;
}

static void run_types(struct caller *caller, enum kit_coll coll)
{
    const size_t *counts = plan.scope->counts[caller->world->nranks > 17];
    int ncounts = 0, nops = trial_reduces(coll) ? TRIAL_NOPS : 1;
    int is_turn_based =
        caller->world->nranks > plan.scope->all_places_to && caller->place != PLACE_ONE;
    while (counts[ncounts] != 0) ncounts++;
    for (int number = 0; number < ncclNumTypes * nops; number++) {
        if (is_turn_based && (number + caller->world->nranks) % PLACE_ONE != (int)caller->place)
            continue;
        struct trial trial = make_trial(caller, coll, number / nops, number % nops);
        int turn = number + caller->world->nranks;
        trial.op.count = counts[turn % ncounts];
        trial.op.in_place = turn / ncounts % 2 && kit_has_place(coll);
        run_call(caller, &trial);
        if (!plan.scope->is_full || !kit_has_place(coll)) continue;
        trial.op.in_place = !trial.op.in_place;
        trial.op.count = counts[(turn + 1) % ncounts];
        run_call(caller, &trial);
    }
}

/* Several rounds, pieces and channels, with an uneven end. */
static void run_large(struct caller *caller, enum kit_coll coll)
{
    static const int types[] = {ncclInt8, ncclFloat16, ncclFloat64};
    for (int i = 0; i < 3; i++) {
        struct trial trial = make_trial(caller, coll, types[i], ncclSum);
        trial.op.count = LARGE_COUNT;
        trial.op.in_place = i % 2 && kit_has_place(coll);
        run_call(caller, &trial);
    }
}

static int has_large(const struct caller *caller)
{
    int n = caller->world->nranks;
    return plan.scope->is_full && (n == 2 || n == 5) && caller->place == PLACE_EACH;
}

static void run_colls(struct caller *caller)
{
    for (int coll = 0; coll < KIT_NCOLLS; coll++) {
        if (plan.possible >> coll & 1u) {
            run_types(caller, (enum kit_coll)coll);
            if (has_large(caller)) run_large(caller, (enum kit_coll)coll);
        } else if (plan.algo->is_forced && ROUTED >> coll & 1u) {
            check_impossible(caller, (enum kit_coll)coll);
        }
    }
}

static void run_thread(void *arg, int i)
{
    struct caller *callers = arg;
    run_colls(&callers[i]);
}

static void add_counts(struct counts *sum, const struct counts *more, int is_first)
{
    for (int coll = 0; coll < KIT_NCOLLS; coll++) {
        sum->wrong[coll] += more->wrong[coll];
        if (!is_first) continue;
        sum->calls[coll] += more->calls[coll];
        sum->impossible[coll] += more->impossible[coll];
    }
}

static void run_world(struct world *world, enum world_place place, struct counts *sum)
{
    static struct caller callers[KIT_MAX_RANKS];
    int ncallers = plan.has_threads ? world->nmembers : 1;
    for (int i = 0; i < ncallers; i++)
        callers[i] = (struct caller){.world = world,
                                     .first = i,
                                     .nmembers = plan.has_threads ? 1 : world->nmembers,
                                     .place = place};
    if (plan.has_threads)
        kit_threads(ncallers, run_thread, callers);
    else
        run_colls(&callers[0]);
    for (int i = 0; i < ncallers; i++)
        add_counts(sum, &callers[i].counts, i == 0 && world->procs.me == 0);
}

/* One executor has nothing to choose: it is checked by `direct`, not by every pair. */
static int is_wanted(const struct world *world)
{
    return world->nexecs > 1 || plan.possible == ALL;
}

/* Elements of the largest block. */
static size_t most_count(int nranks)
{
    const size_t *counts = plan.scope->counts[nranks > 17];
    size_t most = 0;
    if (plan.scope->is_full && nranks <= 5) return LARGE_COUNT;
    for (int i = 0; counts[i] != 0; i++) most = counts[i] > most ? counts[i] : most;
    return most;
}

static void run_all(struct counts *sum)
{
    static struct world world;
    for (const int *n = plan.scope->ranks; *n != 0; n++)
        for (int place = 0; place < NPLACES; place++) {
            if (*n < plan.procs.count) continue;
            if (!world_place(&world, plan.procs, (enum world_place)place, *n)) continue;
            if (!is_wanted(&world)) continue;
            world_open(&world, most_count(*n));
            run_world(&world, (enum world_place)place, sum);
            world_close(&world);
        }
}

/* ---- the command ---- */

static void set_variables(void)
{
    setenv("CHORUS_HOST_DEVICES", "64", 1);
    setenv("CHORUS_CHANNELS", "2", 1);
    /* A slot of log-step holds a place for half of the ranks. */
    setenv("CHORUS_SLOT_BYTES", strcmp(plan.algo->name, "logstep") == 0 ? "4096" : "1024", 1);
    if (!plan.algo->is_forced) return;
    setenv("NCCL_ALGO", plan.algo->name, 1);
    setenv("NCCL_PROTO", plan.proto, 1);
}

static int parse(int argc, char **argv)
{
    if (argc < 5 || argc > 6) return 0;
    for (size_t i = 0; i < TEST_COUNT(algos); i++)
        if (strcmp(argv[1], algos[i].name) == 0) plan.algo = &algos[i];
    plan.proto = argv[2];
    plan.has_threads = strcmp(argv[3], "threads") == 0;
    for (size_t i = 0; i < TEST_COUNT(scopes); i++)
        if (strcmp(argv[4], scopes[i].name) == 0) plan.scope = &scopes[i];
    plan.spoil = argc == 6 ? atol(argv[5]) : 0;
    return plan.algo != NULL && plan.scope != NULL;
}

int main(int argc, char **argv)
{
    struct counts sum = {{0}, {0}, {0}};
    if (!parse(argc, argv)) {
        fprintf(stderr, "usage: %s ALGORITHM LL|Simple group|threads|processes SCOPE [SPOIL]\n",
                argv[0]);
        return 2;
    }
    set_variables();
    plan.procs = world_fork(strcmp(argv[3], "processes") == 0 ? 2 : 1);
    plan.possible = plan.procs.count == 1 ? plan.algo->in_process : plan.algo->across;
    /* Direct has no messages. */
    if (strcmp(plan.proto, "LL") == 0 && plan.algo->order == TRIAL_SLOTS) plan.possible = 0;
    run_all(&sum);
    world_join(plan.procs, sum.wrong, KIT_NCOLLS);
    long wrong = 0;
    for (int coll = 0; coll < KIT_NCOLLS; coll++) {
        printf("%s %ld %ld %ld\n", kit_name((enum kit_coll)coll) + strlen("nccl"), sum.calls[coll],
               sum.wrong[coll], sum.impossible[coll]);
        wrong += sum.wrong[coll];
    }
    return wrong != 0;
}
