/* Buffers that processes reach where they lie: results and choices with buffers inside and outside
 * of the shared memory in every mixture, fresh buffers all the time, several communicators, large
 * messages. What goes wrong is in test_reach_faults.c. */
#include "core/procs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 9000, SHARED_FROM_BYTES = 32 << 10 };

static int env_number(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 0 : atoi(text);
}

static const char *algorithm(const struct kit_rank *rank)
{
    struct chorus_choice choice;
    CHECK_OK(chorus_comm_last_choice(rank->comm, &choice));
    return choice.algorithm;
}

/* ---- every mixture of buffers ---- */

enum { IN, OUT };

/* A buffer of a rank is inside of the shared memory; all processes can tell. */
static int is_inside(const struct kit_op *op, int rank, int side)
{
    uint32_t state = op->seed * 64u + (uint32_t)(2 * rank + side);
    return kit_random(&state) % 8 != 0;
}

static int uses(const struct kit_op *op, int rank, int side)
{
    int is_root = rank == op->root;
    int has_in = is_root || (op->coll != KIT_BROADCAST && op->coll != KIT_SCATTER);
    int has_out = is_root || (op->coll != KIT_REDUCE && op->coll != KIT_GATHER);
    if (side == OUT) return has_out;
    return has_in && !(op->in_place && has_out && kit_has_place(op->coll));
}

static int is_direct(const struct kit_op *op, int nranks)
{
    size_t bytes = op->count * kit_type_bytes(op->type);
    if (op->coll == KIT_ALL_GATHER || op->coll == KIT_REDUCE_SCATTER) bytes *= (size_t)nranks;
    if (bytes < SHARED_FROM_BYTES || op->coll >= KIT_ALL_TO_ALL) return 0;
    for (int rank = 0; rank < nranks; rank++)
        for (int side = IN; side <= OUT; side++)
            if (uses(op, rank, side) && !is_inside(op, rank, side)) return 0;
    return 1;
}

/* What a rank has in both kinds of memory. */
struct pool {
    char *inside[2], *outside[2];
};

static void pool_open(struct pool *pool, const struct kit_rank *rank)
{
    pool->inside[IN] = rank->in;
    pool->inside[OUT] = rank->out;
    for (int side = IN; side <= OUT; side++) {
        pool->outside[side] = malloc(rank->room);
        CHECK(pool->outside[side] != NULL);
    }
}

static void pool_use(const struct pool *pool, struct kit_rank *rank, const struct kit_op *op)
{
    int in = is_inside(op, rank->rank, IN), out = is_inside(op, rank->rank, OUT);
    rank->in = in ? pool->inside[IN] : pool->outside[IN];
    rank->out = out ? pool->inside[OUT] : pool->outside[OUT];
}

static void pool_close(struct pool *pool, struct kit_rank *rank)
{
    rank->in = pool->inside[IN];
    rank->out = pool->inside[OUT];
    free(pool->outside[IN]);
    free(pool->outside[OUT]);
}

static void run_mixed(struct kit *kit, struct pool *pools, const struct kit_op *op, int counts[2])
{
    int wanted = is_direct(op, kit->ranks[0].nranks);
    for (int r = 0; r < kit->nranks; r++) pool_use(&pools[r], &kit->ranks[r], op);
    kit_run(kit, op);
    for (int r = 0; r < kit->nranks; r++) {
        const char *algo = algorithm(&kit->ranks[r]);
        if ((strcmp(algo, "direct") == 0) != wanted)
            FAIL("%s, count %zu, type %d, root %d, in place %d, seed %u: ran %s",
                 kit_name(op->coll), op->count, (int)op->type, op->root, op->in_place, op->seed,
                 algo);
    }
    counts[wanted]++;
}

static void child_mixed(void)
{
    static const ncclDataType_t types[] = {ncclInt32, ncclInt8, ncclInt64, ncclFloat32};
    static const ncclRedOp_t redops[] = {ncclSum, ncclMin, ncclMax, ncclSum};
    static const size_t op_counts[] = {COUNT, 8193, 77, 4111};
    struct kit kit;
    struct pool pools[4];
    int counts[2] = {0, 0};
    uint32_t state = 5;
    proc_mark();
    proc_open(&kit, env_number("CORE_LOCAL"), COUNT);
    for (int r = 0; r < kit.nranks; r++) pool_open(&pools[r], &kit.ranks[r]);
    for (int i = 0; i < 80; i++) {
        uint32_t pick = kit_random(&state);
        struct kit_op op = {
            .coll = (enum kit_coll)(i % KIT_NCOLLS),
            .count = op_counts[pick >> 12 & 3],
            .type = types[pick & 3],
            .redop = redops[pick >> 2 & 3],
            .root = (int)(pick >> 4 & 255) % kit.ranks[0].nranks,
            .in_place = (int)(pick >> 16 & 1) & kit_has_place((enum kit_coll)(i % KIT_NCOLLS)),
            .seed = pick,
        };
        run_mixed(&kit, pools, &op, counts);
    }
    CHECK(counts[0] > 5 && counts[1] > 5);
    for (int r = 0; r < kit.nranks; r++) pool_close(&pools[r], &kit.ranks[r]);
    kit_close(&kit);
    proc_check_mark();
}

static void test_mixed(void)
{
    static const struct {
        int nprocs, local, ndevices, channels, slot_bytes;
    } settings[] = {
        {2, 1, 1, 1, 131072}, {2, 2, 1, 4, 1024}, {3, 1, 1, 2, 131072},
        {2, 3, 2, 1, 131072}, {5, 1, 1, 1, 8192},
    };
    for (size_t i = 0; i < TEST_COUNT(settings); i++) {
        char text[4][40];
        struct procs procs;
        snprintf(text[0], sizeof text[0], "CORE_LOCAL=%d", settings[i].local);
        snprintf(text[1], sizeof text[1], "CHORUS_HOST_DEVICES=%d", settings[i].ndevices);
        snprintf(text[2], sizeof text[2], "CHORUS_CHANNELS=%d", settings[i].channels);
        snprintf(text[3], sizeof text[3], "CHORUS_SLOT_BYTES=%d", settings[i].slot_bytes);
        procs_start(&procs, settings[i].nprocs, "child:mixed",
                    (const char *const[]){text[0], text[1], text[2], text[3], NULL});
        procs_end(&procs, -1);
    }
}

/* ---- what only the owner can read ---- */

/* Factors in device memory, another for each rank; averages; and a buffer that only the root
 * needs, which lies anywhere on the others. */
static void child_operators(void)
{
    struct kit kit;
    float *factor;
    ncclRedOp_t scaled;
    static float elsewhere[COUNT];
    proc_open(&kit, 1, COUNT);
    struct kit_rank *rank = &kit.ranks[0];
    int n = rank->nranks;
    float *in = (float *)(void *)rank->in, *out = (float *)(void *)rank->out, wanted = 0;
    CHECK_OK(chorus_devices()->alloc((void **)&factor, sizeof *factor));
    *factor = (float)(rank->rank + 2);
    for (int r = 0; r < n; r++) wanted += (float)((r + 2) * (r + 1));
    for (int i = 0; i < COUNT; i++) in[i] = (float)(rank->rank + 1);
    CHECK_OK(ncclRedOpCreatePreMulSum(&scaled, factor, ncclFloat32, ncclScalarDevice, rank->comm));
    CHECK_OK(ncclAllReduce(in, out, COUNT, ncclFloat32, scaled, rank->comm, rank->stream));
    kit_sync(rank);
    CHECK_STR(algorithm(rank), "direct");
    for (int i = 0; i < COUNT; i++) CHECK(out[i] == wanted);
    CHECK_OK(ncclAllReduce(in, out, COUNT, ncclFloat32, ncclAvg, rank->comm, rank->stream));
    kit_sync(rank);
    for (int i = 0; i < COUNT; i++) CHECK(out[i] == (float)(n + 1) / 2);

    void *to = rank->rank == 0 ? out : elsewhere;
    CHECK_OK(ncclReduce(in, to, COUNT, ncclFloat32, ncclMax, 0, rank->comm, rank->stream));
    kit_sync(rank);
    CHECK_STR(algorithm(rank), "direct");
    CHECK(out[COUNT - 1] == (float)(rank->rank == 0 ? n : (n + 1) / 2.0));
    const void *from = rank->rank == 0 ? in : elsewhere;
    CHECK_OK(ncclBroadcast(from, out, COUNT, ncclFloat32, 0, rank->comm, rank->stream));
    kit_sync(rank);
    CHECK_STR(algorithm(rank), "direct");
    for (int i = 0; i < COUNT; i++) CHECK(out[i] == 1 && elsewhere[i] == 0);
    CHECK_OK(ncclRedOpDestroy(scaled, rank->comm));
    CHECK_OK(chorus_devices()->free(factor));
    kit_close(&kit);
}

static void test_operators(void)
{
    struct procs procs;
    procs_start(&procs, 4, "child:operators", NULL);
    procs_end(&procs, -1);
}

/* ---- buffers come and go ---- */

static void child_fresh(void)
{
    struct kit kit;
    uint32_t state = 17;
    long early = 0;
    proc_open(&kit, 1, 16);
    struct kit_rank *rank = &kit.ranks[0];
    for (int i = 0; i < 64; i++) {
        uint32_t pick = kit_random(&state);
        size_t count = 1 + pick % (6 * COUNT);
        struct kit_op op = kit_simple((enum kit_coll)(i % KIT_NCOLLS), count);
        struct kit_rank old = *rank;
        op.seed = pick;
        kit_rank_open(rank, old.nranks, old.rank, count);
        rank->comm = old.comm;
        old.comm = NULL;
        kit_rank_close(&old);
        kit_run(&kit, &op);
        if (i == 32) early = kit_resident_pages();
    }
    /* The last buffers may be larger by as much as the largest have. */
    long most = (long)(2 * 3 * 6 * COUNT * sizeof(int64_t) / 4096);
    CHECK(kit_resident_pages() - early < most + 512);
    kit_close(&kit);
}

static void test_fresh(void)
{
    struct procs procs;
    procs_start(&procs, 3, "child:fresh", NULL);
    procs_end(&procs, -1);
}

/* ---- several communicators ---- */

/* Arenas that this process maps, told apart by their files. */
static int count_arenas(void)
{
    char line[512];
    unsigned long seen[PROCS_MAX + 1], inode;
    int n = 0;
    FILE *file = fopen("/proc/self/maps", "re");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        int i = 0;
        if (strstr(line, "chorus-arena") == NULL) continue;
        CHECK_EQ(sscanf(line, "%*s %*s %*s %*s %lu", &inode), 1);
        while (i < n && seen[i] != inode) i++;
        CHECK(i <= PROCS_MAX);
        seen[i] = inode;
        if (i == n) n++;
    }
    fclose(file);
    return n;
}

static void child_many(void)
{
    enum { MANY = 4 };
    struct kit kit;
    ncclComm_t comms[MANY];
    ncclUniqueId id;
    proc_mark();
    CHECK_EQ(count_arenas(), 1);
    proc_open(&kit, 1, COUNT);
    struct kit_rank *rank = &kit.ranks[0];
    comms[0] = rank->comm;
    for (int c = 1; c < MANY; c++) {
        if (rank->rank == 0) CHECK_OK(ncclGetUniqueId(&id));
        CHECK_OK(ncclBroadcast(&id, &id, sizeof id, ncclInt8, 0, comms[0], rank->stream));
        kit_sync(rank);
        CHECK_OK(ncclCommInitRank(&comms[c], rank->nranks, id, rank->rank));
    }
    CHECK_EQ(count_arenas(), rank->nranks);
    for (int i = 0; i < 40; i++) {
        struct kit_op op = kit_simple((enum kit_coll)(i % KIT_ALL_TO_ALL), COUNT);
        rank->comm = comms[i % MANY];
        kit_run(&kit, &op);
        CHECK_STR(algorithm(rank), "direct");
    }
    for (int c = 1; c < MANY; c++) CHECK_OK(ncclCommDestroy(comms[c]));
    CHECK_EQ(count_arenas(), rank->nranks);
    rank->comm = comms[0];
    kit_close(&kit);
    CHECK_EQ(count_arenas(), 1);
    proc_check_mark();
}

static void test_many(void)
{
    struct procs procs;
    procs_start(&procs, 3, "child:many", NULL);
    procs_end(&procs, -1);
}

/* ---- messages ---- */

enum { MESSAGES = 12, MOST_BYTES = 300000 };

static size_t message_bytes(int message)
{
    static const size_t bytes[MESSAGES] = {0,     1,      32767,  32768,      32769, 100,
                                           65536, 131072, 262144, MOST_BYTES, 40000, 7};
    return bytes[message];
}

static void fill_message(unsigned char *data, int from, int to, int message)
{
    uint32_t state = (uint32_t)(from * 1009 + to * 9176 + message * 31);
    for (size_t i = 0; i < message_bytes(message); i++) {
        if (i % 97 == 0) kit_random(&state);
        data[i] = (unsigned char)(state >> i % 7);
    }
}

static unsigned char *take_message(int is_inside_)
{
    void *data = NULL;
    if (is_inside_)
        CHECK_OK(chorus_devices()->alloc(&data, MOST_BYTES + 1));
    else
        data = malloc(MOST_BYTES + 1);
    CHECK(data != NULL);
    return data;
}

static void give_message(unsigned char *data, int is_inside_)
{
    if (is_inside_)
        CHECK_OK(chorus_devices()->free(data));
    else
        free(data);
}

/* A row of messages to every process, itself too, of all sizes; sources and targets lie inside or
 * outside, not aligned. */
static void child_messages(void)
{
    enum { ALL = MESSAGES * PROCS_MAX };
    struct kit kit;
    unsigned char *sent[ALL], *got[ALL], *wanted = take_message(0);
    proc_mark();
    proc_open(&kit, 1, 16);
    struct kit_rank *rank = &kit.ranks[0];
    int n = rank->nranks, all = n * MESSAGES;
    for (int i = 0; i < all; i++) {
        sent[i] = take_message(i % 3 != 0);
        got[i] = take_message(i % 5 != 0);
        memset(got[i], 0x5a, MOST_BYTES + 1);
    }
    for (int round = 0; round < 3; round++) {
        CHECK_OK(ncclGroupStart());
        for (int i = 0; i < all; i++) {
            int peer = i / MESSAGES, m = i % MESSAGES;
            fill_message(sent[i] + 1, rank->rank, peer, m);
            CHECK_OK(
                ncclSend(sent[i] + 1, message_bytes(m), ncclInt8, peer, rank->comm, rank->stream));
            CHECK_OK(ncclRecv(got[i], message_bytes(m), ncclInt8, peer, rank->comm, rank->stream));
        }
        CHECK_OK(ncclGroupEnd());
        kit_sync(rank);
        for (int i = 0; i < all; i++) {
            /* The sends are done: their buffers may change. */
            memset(sent[i], round, MOST_BYTES + 1);
            fill_message(wanted, i / MESSAGES, rank->rank, i % MESSAGES);
            CHECK_MEM(got[i], wanted, message_bytes(i % MESSAGES));
            CHECK_EQ(got[i][message_bytes(i % MESSAGES)], 0x5a);
            memset(got[i], 0x5a, MOST_BYTES + 1);
        }
    }
    for (int i = 0; i < all; i++) {
        give_message(sent[i], i % 3 != 0);
        give_message(got[i], i % 5 != 0);
    }
    give_message(wanted, 0);
    kit_close(&kit);
    proc_check_mark();
}

static void test_messages(void)
{
    static const char *const settings[][2] = {
        {"CHORUS_SLOT_BYTES=131072", "CHORUS_HOST_QUEUES=0"},
        {"CHORUS_SLOT_BYTES=1024", "CHORUS_HOST_QUEUES=1"},
    };
    for (size_t i = 0; i < TEST_COUNT(settings); i++) {
        struct procs procs;
        procs_start(&procs, 3, "child:messages",
                    (const char *const[]){settings[i][0], settings[i][1], NULL});
        procs_end(&procs, -1);
    }
}

/* A large message from inside is read where it lies, so its sender waits for the receiver; one from
 * outside is taken by the connection. */
static void child_late(void)
{
    struct kit kit;
    static char outside[SHARED_FROM_BYTES];
    proc_open(&kit, 1, COUNT);
    struct kit_rank *rank = &kit.ranks[0];
    memset(rank->in, 3, SHARED_FROM_BYTES);
    if (proc_index() == 0) {
        CHECK_OK(ncclSend(outside, sizeof outside, ncclInt8, 1, rank->comm, rank->stream));
        kit_sync(rank);
        CHECK_OK(ncclSend(rank->in, sizeof outside, ncclInt8, 1, rank->comm, rank->stream));
        kit_await_status(rank->comm, "Send to rank 1: waits for ranks 1 (takes no data)");
        proc_say('w');
    } else {
        proc_hear('g');
        for (int i = 0; i < 2; i++) {
            CHECK_OK(ncclRecv(rank->out, sizeof outside, ncclInt8, 0, rank->comm, rank->stream));
            kit_sync(rank);
            CHECK_EQ(rank->out[SHARED_FROM_BYTES - 1], 3 * i);
        }
    }
    kit_sync(rank);
    kit_close(&kit);
}

static void test_late(void)
{
    struct procs procs;
    procs_start(&procs, 2, "child:late", NULL);
    procs_hear(&procs, 0, 'w');
    procs_say(&procs, 1, 'g');
    procs_end(&procs, -1);
}

static const struct test_case cases[] = {
    {"buffers inside and outside in every mixture", test_mixed, 240},
    {"factors, averages and buffers that only the root needs", test_operators, 0},
    {"fresh buffers for every call", test_fresh, 0},
    {"several communicators share the mappings", test_many, 0},
    {"messages from inside and outside", test_messages, 0},
    {"a large message is read where it lies", test_late, 0},
    {"child:mixed", child_mixed, 0},
    {"child:operators", child_operators, 0},
    {"child:fresh", child_fresh, 0},
    {"child:many", child_many, 0},
    {"child:messages", child_messages, 0},
    {"child:late", child_late, 0},
};
TEST_LIB_MAIN(cases)
