/* Counts, offsets and settings that nobody chose with care: nothing at all, every small count,
 * counts that no share divides, every offset of both buffers, odd sizes of slots; for every
 * collective, in one executor, in several, over every connection, and across processes. */
#include "core/procs.h"
#include "unit/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the settings that each kind of call runs under ---- */

struct setting {
    int nranks, ndevices; /* of one process */
    int nprocs;           /* 0: no processes but this one */
    const char *env[4];
};

#define SMALL_SLOTS "CHORUS_SLOT_BYTES=1024"
#define PAST_CACHE  "CHORUS_CACHE_BYTES=1" /* all that is written goes past the cache */

static const struct setting settings[] = {
    {4, 1, 0, {"CHORUS_CPU=auto"}},
    {3, 1, 0, {"CHORUS_CPU=base"}},
    {3, 2, 0, {"CHORUS_CPU=avx2", PAST_CACHE}},
    {5, 4, 0, {"NCCL_ALGO=oneshot", "NCCL_PROTO=Simple", SMALL_SLOTS, PAST_CACHE}},
    {4, 4, 0, {"NCCL_ALGO=twoshot;allgather:logstep", "NCCL_PROTO=LL", SMALL_SLOTS}},
    {4, 3, 0, {"NCCL_ALGO=ring", "NCCL_PROTO=LL", SMALL_SLOTS}},
    {3, 3, 0, {"NCCL_ALGO=ring", "NCCL_PROTO=Simple", SMALL_SLOTS, "CHORUS_CHANNELS=3"}},
    {5, 5, 0, {"NCCL_ALGO=tree,logstep", "NCCL_PROTO=LL", SMALL_SLOTS}},
    {4, 4, 0, {"NCCL_ALGO=tree,logstep", "NCCL_PROTO=Simple", SMALL_SLOTS, PAST_CACHE}},
    {1, 1, 3, {SMALL_SLOTS, PAST_CACHE}},
    {2, 2, 2, {"CHORUS_CHANNELS=2"}},
};

static int number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text == NULL ? 0 : atoi(text);
}

/* The kit of a child, by the row that the parent named. */
static void open_setting(struct kit *kit, size_t count)
{
    const struct setting *setting = &settings[number_of("CORE_ROW")];
    if (setting->nprocs > 0)
        proc_open(kit, setting->nranks, count);
    else
        kit_open(kit, setting->nranks, setting->ndevices, count);
}

static void each_setting(const char *child)
{
    for (size_t i = 0; i < TEST_COUNT(settings); i++) {
        char row[32], devices[40];
        struct procs procs;
        const struct setting *s = &settings[i];
        /* Between ranks of one GPU there is nothing to choose. */
        if (test_on_gpu() && strncmp(s->env[0], "NCCL_ALGO", 9) == 0) continue;
        const char *env[] = {row, devices, s->env[0], s->env[1], s->env[2], s->env[3], NULL};
        snprintf(row, sizeof row, "CORE_ROW=%zu", i);
        snprintf(devices, sizeof devices, "CHORUS_HOST_DEVICES=%d", s->ndevices);
        NOTE("%s: %d ranks on %d devices, %d processes", s->env[0], s->nranks, s->ndevices,
             s->nprocs);
        if (s->nprocs == 0) {
            kit_child(child, env);
            continue;
        }
        procs_start(&procs, s->nprocs, child, env);
        procs_end(&procs, -1);
    }
}

/* Sums of 8-bit floats are exact for few ranks only. */
static ncclDataType_t pick_type(enum kit_coll coll, uint32_t pick)
{
    int reduces = coll == KIT_ALL_REDUCE || coll == KIT_REDUCE || coll == KIT_REDUCE_SCATTER;
    return (ncclDataType_t)(pick % (reduces ? ncclFloat8e4m3 : ncclNumTypes));
}

static struct kit_op pick_op(const struct kit *kit, enum kit_coll coll, size_t count,
                             uint32_t *state)
{
    static const ncclRedOp_t redops[] = {ncclSum, ncclMax, ncclMin, ncclSum};
    uint32_t pick = kit_random(state);
    return (struct kit_op){
        .coll = coll,
        .count = count,
        .type = pick_type(coll, pick),
        .redop = redops[pick >> 8 & 3],
        .root = (int)((pick >> 12) % (uint32_t)kit->ranks[0].nranks),
        .in_place = (int)(pick >> 20 & 1),
        .seed = pick,
    };
}

/* ---- nothing ---- */

/* A call of no elements ends at once, whoever joins it, and leaves the order of the others alone.
 */
static void run_nothing(struct kit *kit, enum kit_coll coll, int in_place)
{
    struct kit_op none = kit_simple(coll, 0), some = kit_simple(coll, 9);
    none.in_place = some.in_place = in_place;
    kit_run(kit, &none);
    CHECK_OK(kit_call(&kit->ranks[0], &none));
    kit_check(&kit->ranks[0], &none);
    for (int r = 0; r < kit->nranks; r++) kit_prepare(&kit->ranks[r], &some);
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < kit->nranks; r++) {
        for (int i = 0; i <= r; i++) CHECK_OK(kit_call(&kit->ranks[r], &none));
        CHECK_OK(kit_call(&kit->ranks[r], &some));
        CHECK_OK(kit_call(&kit->ranks[r], &none));
    }
    CHECK_OK(ncclGroupEnd());
    for (int r = 0; r < kit->nranks; r++) kit_check(&kit->ranks[r], &some);
}

/* Two messages of a rank to the next one, the first of them empty and without a buffer. */
static void send_two(struct kit_rank *rank)
{
    int to = (rank->rank + 1) % rank->nranks;
    CHECK_OK(ncclSend(NULL, 0, ncclInt8, to, rank->comm, rank->stream));
    CHECK_OK(ncclSend(kit_given(rank, rank->in), 5, ncclInt8, to, rank->comm, rank->stream));
}

static void receive_two(struct kit_rank *rank)
{
    int from = (rank->rank + rank->nranks - 1) % rank->nranks;
    CHECK_OK(ncclRecv(NULL, 0, ncclFloat64, from, rank->comm, rank->stream));
    CHECK_OK(ncclRecv(kit_given(rank, rank->out + 1), 5, ncclInt8, from, rank->comm, rank->stream));
}

/* The messages behind empty ones meet their own partners. Without a group, one rank of two must
 * receive first. */
static void run_empty_messages(struct kit *kit, int grouped)
{
    int n = kit->ranks[0].nranks, mine = kit->nranks;
    for (int r = 0; r < mine; r++) {
        memset(kit->ranks[r].in, 16 + kit->ranks[r].rank, kit->ranks[r].room);
        memset(kit->ranks[r].out, 1, kit->ranks[r].room);
        kit_push(&kit->ranks[r], kit->ranks[r].room);
    }
    if (grouped) CHECK_OK(ncclGroupStart());
    for (int r = 0; r < mine; r++) {
        struct kit_rank *rank = &kit->ranks[r];
        if (rank->rank % 2 == 1) receive_two(rank);
        send_two(rank);
        if (rank->rank % 2 == 0) receive_two(rank);
    }
    if (grouped) CHECK_OK(ncclGroupEnd());
    for (int r = 0; r < mine; r++) {
        char wanted[7] = {1, 0, 0, 0, 0, 0, 1};
        memset(wanted + 1, 16 + (kit->ranks[r].rank + n - 1) % n, 5);
        kit_sync(&kit->ranks[r]);
        kit_pull(&kit->ranks[r], sizeof wanted);
        CHECK_MEM(kit->ranks[r].out, wanted, sizeof wanted);
    }
}

static void child_nothing(void)
{
    struct kit kit;
    open_setting(&kit, 16);
    for (int coll = 0; coll < KIT_NCOLLS; coll++) {
        struct kit_op op = kit_simple((enum kit_coll)coll, 3);
        if (!kit_try(&kit, &op)) continue;
        for (int in_place = 0; in_place <= kit_has_place(op.coll); in_place++)
            run_nothing(&kit, op.coll, in_place);
    }
    run_empty_messages(&kit, 1);
    kit_close(&kit);
}

static void test_nothing(void)
{
    each_setting("child:nothing");
}

/* The same without a group, a thread for each rank. */
static void send_alone(void *arg, int i)
{
    struct kit alone = {.nranks = 1};
    alone.ranks[0] = ((struct kit *)arg)->ranks[i];
    run_empty_messages(&alone, 0);
}

static void test_empty_messages(void)
{
    for (int ndevices = 1; ndevices <= 2; ndevices++) {
        struct kit kit;
        kit_open(&kit, 2, ndevices, 8);
        run_empty_messages(&kit, 1);
        kit_threads(2, send_alone, &kit);
        kit_close(&kit);
    }
}

/* ---- every small count, and counts that no share divides ---- */

enum { SMALL_MOST = 64, UNEVEN_MOST = 65537 };

static void run_count(struct kit *kit, size_t count, uint32_t *state)
{
    int ran = 0;
    for (int coll = 0; coll < KIT_NCOLLS; coll++) {
        struct kit_op op = pick_op(kit, (enum kit_coll)coll, count, state);
        ran += kit_try(kit, &op);
    }
    /* The last three run under any choice, and every choice has an algorithm for one more. */
    CHECK(ran > 3);
}

static void child_small(void)
{
    struct kit kit;
    uint32_t state = 77;
    open_setting(&kit, SMALL_MOST);
    for (size_t count = 1; count <= SMALL_MOST; count++) run_count(&kit, count, &state);
    kit_close(&kit);
}

static void test_small(void)
{
    each_setting("child:small");
}

static void child_uneven(void)
{
    static const size_t counts[] = {101,  251,  509,   1021,  1023,  1025, 2039,
                                    4093, 8191, 10007, 16381, 16385, 65537};
    size_t ncounts = kit_is_slow() ? 6 : TEST_COUNT(counts);
    struct kit kit;
    uint32_t state = 78;
    open_setting(&kit, UNEVEN_MOST);
    for (size_t c = 0; c < ncounts; c++) run_count(&kit, counts[c], &state);
    kit_close(&kit);
}

static void test_uneven(void)
{
    each_setting("child:uneven");
}

/* ---- every offset of both buffers ---- */

enum { SHIFTS = 16, SHIFT_MOST = 2000 };

static void child_offsets(void)
{
    static const size_t counts[] = {1, 3, 17, 64, 130, 1001, SHIFT_MOST};
    struct kit kit;
    uint32_t state = 79;
    open_setting(&kit, SHIFT_MOST);
    for (int in = 0; in < SHIFTS; in += kit_is_slow() ? 5 : 1)
        for (int out = 0; out < SHIFTS; out++) {
            enum kit_coll coll = (enum kit_coll)((in * SHIFTS + out + in / 8) % KIT_NCOLLS);
            for (size_t c = 0; c < TEST_COUNT(counts); c++) {
                struct kit_op op = pick_op(&kit, coll, counts[c], &state);
                op.in_shift = in;
                op.out_shift = out;
                if (!kit_try(&kit, &op)) break;
            }
        }
    kit_close(&kit);
}

static void test_offsets(void)
{
    each_setting("child:offsets");
}

/* ---- sizes of slots and numbers of everything that are no powers of two ---- */

static void child_odd(void)
{
    const size_t counts[] = {1, 999, kit_is_slow() ? 3001 : 70001};
    struct kit kit;
    uint32_t state = 80;
    if (number_of("CORE_PROCS"))
        proc_open(&kit, 1, counts[2]);
    else
        kit_open(&kit, 5, 3, counts[2]);
    for (size_t c = 0; c < TEST_COUNT(counts); c++) run_count(&kit, counts[c], &state);
    kit_close(&kit);
}

static void test_odd(void)
{
    static const char *const rows[][3] = {
        {"CHORUS_SLOT_BYTES=1000000", "CHORUS_SLOT_DEPTH=3", "CHORUS_CHANNELS=3"},
        {"CHORUS_SLOT_BYTES=1025", "CHORUS_SLOT_DEPTH=5", "CHORUS_HOST_THREADS=3"},
        {"CHORUS_SLOT_BYTES=3001", "CHORUS_SLOT_DEPTH=63", "CHORUS_HOST_QUEUES=3"},
        {"CHORUS_SLOT_BYTES=131071", "CHORUS_SLOT_DEPTH=2", "CHORUS_CHANNELS=3"},
    };
    static const char *const protos[] = {"NCCL_PROTO=LL", "NCCL_PROTO=Simple"};
    for (size_t i = 0; i < TEST_COUNT(rows); i++)
        for (int p = 0; p < 2; p++) {
            struct procs procs;
            const char *env[] = {rows[i][0],           rows[i][1],
                                 rows[i][2],           protos[p],
                                 "NCCL_ALGO=^oneshot", "CHORUS_HOST_DEVICES=3",
                                 "CORE_PROCS",         NULL};
            NOTE("%s %s %s %s", rows[i][0], rows[i][1], rows[i][2], protos[p]);
            kit_child("child:odd", env);
            env[6] = "CORE_PROCS=1";
            procs_start(&procs, 3, "child:odd", env);
            procs_end(&procs, -1);
        }
}

/* ---- one choice for all ranks, on both sides of every switch ---- */

static uint32_t hash_text(uint32_t hash, const char *text)
{
    for (; *text != '\0'; text++) hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

static uint32_t hash_choice(uint32_t hash, ncclComm_t comm)
{
    struct chorus_choice choice;
    CHECK_OK(chorus_comm_last_choice(comm, &choice));
    hash = hash_text(hash, choice.collective);
    hash = hash_text(hash, choice.algorithm);
    return hash_text(hash, choice.protocol) + (uint32_t)choice.channels;
}

enum { SWITCH_MOST = 32768 };

/* What the local ranks chose for every count around the powers of two, which must be equal; then
 * the hashes of all processes are compared. */
static void child_choices(void)
{
    struct kit kit;
    uint32_t hash[KIT_MAX_RANKS] = {0}, all[KIT_MAX_RANKS];
    open_setting(&kit, SWITCH_MOST);
    for (int coll = 0; coll < KIT_NCOLLS; coll++)
        for (size_t power = 1; power < SWITCH_MOST; power *= kit_is_slow() ? 32 : 2)
            for (int more = -1; more <= 1; more++) {
                struct kit_op op = kit_simple((enum kit_coll)coll, power + (size_t)more);
                op.type = ncclInt8;
                if (op.count == 0 || !kit_try(&kit, &op)) continue;
                for (int r = 0; r < kit.nranks; r++)
                    hash[r] = hash_choice(hash[r], kit.ranks[r].comm);
            }
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < kit.nranks; r++)
        CHECK_OK(ncclAllGather(&hash[r], r == 0 ? all : (uint32_t *)(void *)kit.ranks[r].out, 1,
                               ncclUint32, kit.ranks[r].comm, kit.ranks[r].stream));
    CHECK_OK(ncclGroupEnd());
    for (int r = 0; r < kit.nranks; r++) kit_sync(&kit.ranks[r]);
    for (int r = 0; r < kit.ranks[0].nranks; r++) CHECK_EQ(all[r], hash[0]);
    kit_close(&kit);
}

static void test_choices(void)
{
    static const char *const algos[] = {"NCCL_ALGO=", "NCCL_ALGO=^direct"};
    for (int a = 0; a < 2; a++) {
        struct procs procs;
        kit_child("child:choices", (const char *const[]){"CORE_ROW=7", algos[a], NULL});
        procs_start(&procs, 2, "child:choices",
                    (const char *const[]){"CORE_ROW=10", algos[a], NULL});
        procs_end(&procs, -1);
    }
}

/* ---- buffers that are given but not used ---- */

/* Off the root, receive buffers stay as they are and send buffers are not read. */
static void child_spare(void)
{
    static const enum kit_coll colls[] = {KIT_REDUCE, KIT_BROADCAST, KIT_GATHER, KIT_SCATTER};
    struct kit kit;
    open_setting(&kit, 300);
    for (size_t c = 0; c < TEST_COUNT(colls); c++)
        for (int root = 0; root < kit.ranks[0].nranks; root++)
            for (int in_place = 0; in_place < 2; in_place++)
                for (int spare = 0; spare < 2; spare++) {
                    struct kit_op op = kit_simple(colls[c], 299);
                    op.root = root;
                    op.in_place = in_place;
                    op.spare = spare;
                    kit_try(&kit, &op);
                }
    kit_close(&kit);
}

static void test_spare(void)
{
    each_setting("child:spare");
}

static const struct test_case cases[] = {
    {"no elements", test_nothing, 0},
    {"messages of no bytes", test_empty_messages, 0},
    {"every count to 64", test_small, 120},
    {"counts that no share divides", test_uneven, 120},
    {"every offset of both buffers", test_offsets, 120},
    {"slots and numbers that are no powers of two", test_odd, 120},
    {"one choice for all ranks", test_choices, 120},
    {"buffers that are given but not used, every root", test_spare, 0},
    {"child:nothing", child_nothing, 0},
    {"child:small", child_small, 0},
    {"child:uneven", child_uneven, 0},
    {"child:offsets", child_offsets, 0},
    {"child:odd", child_odd, 0},
    {"child:choices", child_choices, 0},
    {"child:spare", child_spare, 0},
};
TEST_LIB_MAIN(cases)
