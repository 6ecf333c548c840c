/* Ranks that call different collectives: whatever differs, and wherever the odd rank lives, all
 * ranks learn it with a text that names both calls. One list of differences, run in one process
 * and in several; every difference spoils a communicator of its own. */
#include "core/procs.h"
#include "unit/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 64, NCALLS = 2 };

/* What the odd rank calls, and what all others call. */
struct difference {
    struct kit_op odd[NCALLS], others[NCALLS];
    int ncalls;
};

static int has_root(enum kit_coll coll)
{
    return coll == KIT_REDUCE || coll == KIT_BROADCAST || coll == KIT_GATHER || coll == KIT_SCATTER;
}

static int has_redop(enum kit_coll coll)
{
    return coll == KIT_ALL_REDUCE || coll == KIT_REDUCE || coll == KIT_REDUCE_SCATTER;
}

/* ---- the list ---- */

enum { MAX_DIFFERENCES = 128 };

struct list {
    struct difference items[MAX_DIFFERENCES];
    int n;
};

static struct difference *add(struct list *list, enum kit_coll odd, enum kit_coll others)
{
    CHECK(list->n < MAX_DIFFERENCES);
    struct difference *item = &list->items[list->n++];
    *item = (struct difference){.ncalls = 1};
    item->odd[0] = kit_simple(odd, 8);
    item->others[0] = kit_simple(others, 8);
    return item;
}

/* Another kind, all ordered pairs; the same calls in another order; one argument that differs. */
static void make_list(struct list *list)
{
    list->n = 0;
    for (int a = 0; a < KIT_NCOLLS; a++)
        for (int b = 0; b < KIT_NCOLLS; b++) {
            if (a == b) continue;
            struct difference *item = add(list, (enum kit_coll)a, (enum kit_coll)b);
            if (a < b) continue;
            item->ncalls = NCALLS;
            item->odd[1] = item->others[0];
            item->others[1] = item->odd[0];
        }
    for (int c = 0; c < KIT_NCOLLS; c++) {
        enum kit_coll coll = (enum kit_coll)c;
        add(list, coll, coll)->odd[0].count = 9;
        add(list, coll, coll)->odd[0].type = ncclFloat32;
        if (has_redop(coll)) add(list, coll, coll)->odd[0].redop = ncclMax;
        if (has_root(coll)) add(list, coll, coll)->odd[0].root = 1;
    }
}

/* ---- one difference ---- */

static void print_call(const struct kit_op *op, char *text, size_t bytes)
{
    snprintf(text, bytes, "called %s(count %zu, datatype %d, op %d, root %d)", kit_name(op->coll),
             op->count, (int)op->type, has_redop(op->coll) ? (int)op->redop : 0,
             has_root(op->coll) ? op->root : -1);
}

/* A call that another rank's has overtaken may be refused already. */
static void call_all(struct kit_rank *rank, const struct kit_op *ops, int n)
{
    for (int i = 0; i < n; i++) {
        ncclResult_t rc = kit_call(rank, &ops[i]);
        CHECK(rc == ncclSuccess || rc == ncclInvalidUsage);
    }
}

static void check_told(struct kit_rank *rank, const struct difference *item, int odd)
{
    char call[160], part[200];
    print_call(&item->odd[0], call, sizeof call);
    snprintf(part, sizeof part, "rank %d %s", odd, call);
    kit_await_error(rank, ncclInvalidUsage, part);
    print_call(&item->others[0], call, sizeof call);
    CHECK_HAS(ncclGetLastError(rank->comm), call);
    kit_sync(rank);
}

/* The local ranks of one communicator call, each alone or all in one group. */
static void spoil(struct kit *kit, const struct difference *item, int odd, int grouped)
{
    if (grouped) CHECK_OK(ncclGroupStart());
    for (int r = 0; r < kit->nranks; r++) {
        struct kit_rank *rank = &kit->ranks[r];
        call_all(rank, rank->rank == odd ? item->odd : item->others, item->ncalls);
    }
    ncclResult_t ended = grouped ? ncclGroupEnd() : ncclSuccess;
    if (ended != ncclSuccess && ended != ncclInvalidUsage)
        FAIL("result %d: %s", (int)ended, ncclGetLastError(NULL));
    for (int r = 0; r < kit->nranks; r++) check_told(&kit->ranks[r], item, odd);
}

/* Which rank is odd and how it calls changes from one difference to the next. */
static void note_item(const struct difference *item, int i, int odd)
{
    NOTE("difference %d: rank %d %s, others %s", i, odd, kit_name(item->odd[0].coll),
         kit_name(item->others[0].coll));
}

/* ---- one process ---- */

static void run_here(int nranks, int ndevices)
{
    static struct list list;
    make_list(&list);
    NOTE("%d ranks on %d devices", nranks, ndevices);
    for (int i = 0; i < list.n; i++) {
        struct kit kit;
        int odd = i % nranks;
        note_item(&list.items[i], i, odd);
        kit_open(&kit, nranks, ndevices, COUNT);
        spoil(&kit, &list.items[i], odd, i / nranks % 2);
        kit_close(&kit);
    }
}

static void test_one_process(void)
{
    static const int shapes[][2] = {{2, 1}, {2, 2}, {3, 3}, {5, 2}};
    for (size_t s = 0; s < TEST_COUNT(shapes); s++) run_here(shapes[s][0], shapes[s][1]);
}

/* ---- several processes ---- */

static int local_ranks(void)
{
    return atoi(getenv("CORE_LOCAL"));
}

/* A communicator whose id is handed out through one that stays. */
static void open_next(struct kit *kit, struct kit *base)
{
    struct kit_rank *rank = &base->ranks[0];
    ncclUniqueId id;
    if (rank->rank == 0) CHECK_OK(ncclGetUniqueId(&id));
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < base->nranks; r++) {
        char *buffer = base->ranks[r].in;
        void *given = kit_given(&base->ranks[r], buffer);
        if (r == 0) memcpy(buffer, &id, sizeof id);
        if (r == 0) kit_push(rank, sizeof id);
        CHECK_OK(ncclBroadcast(given, given, sizeof id, ncclInt8, 0, base->ranks[r].comm,
                               base->ranks[r].stream));
    }
    CHECK_OK(ncclGroupEnd());
    kit_sync(rank);
    kit_pull(rank, sizeof id);
    memcpy(&id, rank->in, sizeof id);
    proc_open_id(kit, base->nranks, COUNT, id);
}

static void child_differences(void)
{
    static struct list list;
    struct kit base, kit;
    make_list(&list);
    proc_mark();
    proc_open(&base, local_ranks(), COUNT);
    int nranks = base.ranks[0].nranks;
    for (int i = 0; i < list.n; i++) {
        int odd = i % nranks;
        note_item(&list.items[i], i, odd);
        open_next(&kit, &base);
        spoil(&kit, &list.items[i], odd, i / nranks % 2);
        kit_close(&kit);
    }
    kit_close(&base);
    proc_check_mark();
}

static void run_processes(int nprocs, int nlocal, const char *algo)
{
    char local[32];
    struct procs procs;
    snprintf(local, sizeof local, "CORE_LOCAL=%d", nlocal);
    NOTE("%d processes of %d ranks, %s", nprocs, nlocal, algo);
    procs_start(&procs, nprocs, "child:differences", (const char *const[]){local, algo, NULL});
    procs_end(&procs, -1);
}

static void test_processes(void)
{
    run_processes(2, 1, "NCCL_ALGO=");
    run_processes(3, 1, "NCCL_ALGO=ring");
    run_processes(4, 1, "NCCL_ALGO=");
}

static void test_processes_of_two(void)
{
    run_processes(2, 2, "NCCL_ALGO=");
    run_processes(3, 2, "NCCL_ALGO=^oneshot");
}

/* ---- one far ahead, and late ---- */

/* Where processes share a GPU, one is no more than 64 collectives ahead before its calls wait. */
enum { FAR = 3000, FAR_AHEAD_ON_GPU = 60 };

/* Process 0 has called many collectives before the others call their first, another one. */
static void child_ahead(void)
{
    struct kit kit;
    struct difference item = {.ncalls = 1};
    item.odd[0] = kit_simple(KIT_ALL_REDUCE, 8);
    item.others[0] = kit_simple(KIT_ALL_TO_ALL, 8);
    proc_open(&kit, 1, COUNT);
    struct kit_rank *rank = &kit.ranks[0];
    if (proc_index() == 0) {
        int ahead = test_on_gpu() ? FAR_AHEAD_ON_GPU : FAR;
        for (int i = 0; i < ahead; i++) CHECK_OK(kit_call(rank, &item.odd[0]));
        proc_say('f');
        check_told(rank, &item, 0);
    } else {
        proc_hear('g');
        call_all(rank, item.others, 1);
        check_told(rank, &item, 0);
    }
    kit_close(&kit);
}

static void test_ahead(void)
{
    struct procs procs;
    procs_start(&procs, 2, "child:ahead", NULL);
    procs_hear(&procs, 0, 'f');
    procs_say(&procs, 1, 'g');
    procs_end(&procs, -1);
}

/* Many collectives that agree, of all kinds, then one that does not. */
static void child_late(void)
{
    struct kit kit;
    struct difference item = {.ncalls = 1};
    item.odd[0] = kit_simple(KIT_GATHER, 8);
    item.others[0] = kit_simple(KIT_GATHER, 8);
    item.odd[0].root = 1;
    proc_open(&kit, 1, COUNT);
    struct kit_rank *rank = &kit.ranks[0];
    for (int i = 0; i < FAR; i++) {
        struct kit_op op = kit_simple((enum kit_coll)(i % KIT_NCOLLS), 8);
        CHECK_OK(kit_call(rank, &op));
    }
    /* Until all are here, a call could be refused because of another rank's last one. */
    proc_say('h');
    proc_hear('g');
    spoil(&kit, &item, 2, 0);
    kit_close(&kit);
}

static void test_late(void)
{
    struct procs procs;
    procs_start(&procs, 3, "child:late", NULL);
    for (int i = 0; i < 3; i++) procs_hear(&procs, i, 'h');
    for (int i = 0; i < 3; i++) procs_say(&procs, i, 'g');
    procs_end(&procs, -1);
}

static const struct test_case cases[] = {
    {"one process: every difference is told to all", test_one_process, 0},
    {"processes: every difference is told to all", test_processes, 120},
    {"processes of two ranks: every difference is told to all", test_processes_of_two, 120},
    {"one process is far ahead of the other's first call", test_ahead, 0},
    {"a difference after many calls that agree", test_late, 0},
    {"child:differences", child_differences, 0},
    {"child:ahead", child_ahead, 0},
    {"child:late", child_late, 0},
};
TEST_LIB_MAIN(cases)
