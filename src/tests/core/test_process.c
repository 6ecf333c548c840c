/* Collectives and messages between processes: every collective, algorithm and number of channels,
 * small and large slots, 2 to 5 processes with 1 or 2 ranks each on 1 or 2 devices. Parameters are
 * read once per process, so each setting starts its own. */
#include "core/procs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 5000 };

/* ---- all collectives under one setting ---- */

static int env_number(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 0 : atoi(text);
}

static void run_ops(struct kit *kit, enum kit_coll coll)
{
    static const ncclDataType_t types[] = {ncclInt32, ncclInt8, ncclInt64, ncclFloat32};
    static const ncclRedOp_t redops[] = {ncclSum, ncclMin, ncclMax, ncclSum};
    static const size_t counts[] = {1, 3, 257, 1025, 4999};
    uint32_t state = 3 + (uint32_t)coll;
    int n = kit->ranks[0].nranks;
    for (size_t c = 0; c < TEST_COUNT(counts); c++)
        for (int in_place = 0; in_place <= kit_has_place(coll); in_place++) {
            uint32_t pick = kit_random(&state);
            struct kit_op op = {
                .coll = coll,
                .count = counts[c],
                .type = types[pick & 3],
                .redop = redops[pick >> 2 & 3],
                .root = (int)(pick >> 4) % n,
                .in_place = in_place,
                .seed = pick,
            };
            kit_run(kit, &op);
        }
}

static void child_all(void)
{
    struct kit kit;
    const char *algo = getenv("NCCL_ALGO");
    int only_reduce = algo != NULL && strcmp(algo, "twoshot") == 0;
    proc_mark();
    proc_open(&kit, env_number("CORE_LOCAL"), COUNT);
    for (int coll = 0; coll < KIT_NCOLLS; coll++)
        if (!only_reduce || coll == KIT_ALL_REDUCE || coll > KIT_REDUCE_SCATTER)
            run_ops(&kit, (enum kit_coll)coll);
    kit_close(&kit);
    proc_check_mark();
}

struct setting {
    int nprocs, local, ndevices, channels, slot_bytes;
};

static void run_setting(const char *algo, const struct setting *s)
{
    char text[5][40];
    struct procs procs;
    snprintf(text[0], sizeof text[0], "NCCL_ALGO=%s", algo);
    snprintf(text[1], sizeof text[1], "CHORUS_CHANNELS=%d", s->channels);
    snprintf(text[2], sizeof text[2], "CHORUS_SLOT_BYTES=%d", s->slot_bytes);
    snprintf(text[3], sizeof text[3], "CHORUS_HOST_DEVICES=%d", s->ndevices);
    snprintf(text[4], sizeof text[4], "CORE_LOCAL=%d", s->local);
    const char *const env[] = {text[0], text[1], text[2], text[3], text[4], NULL};
    procs_start(&procs, s->nprocs, "child:all", env);
    procs_end(&procs, -1);
}

static void run_settings(const char *algo)
{
    static const struct setting settings[] = {
        {2, 1, 1, 1, 1024},   {2, 2, 1, 4, 131072}, {3, 1, 1, 2, 1024},   {3, 2, 2, 3, 1024},
        {4, 1, 1, 3, 131072}, {5, 1, 1, 4, 1024},   {2, 2, 2, 1, 131072},
    };
    for (size_t i = 0; i < TEST_COUNT(settings); i++) run_setting(algo, &settings[i]);
}

static void test_oneshot(void)
{
    run_settings("oneshot");
}

static void test_twoshot(void)
{
    run_settings("twoshot");
}

static void test_ring(void)
{
    run_settings("ring");
}

static void test_auto(void)
{
    static const struct setting settings[] = {{4, 2, 1, 2, 1024}, {3, 1, 1, 1, 131072}};
    for (size_t i = 0; i < TEST_COUNT(settings); i++) run_setting("", &settings[i]);
}

/* ---- a call does not wait for its peers ---- */

static void child_late(void)
{
    struct kit kit;
    proc_open(&kit, 1, 100);
    for (int coll = 0; coll < KIT_NCOLLS; coll++) {
        struct kit_op op = kit_simple((enum kit_coll)coll, 100);
        kit_prepare(&kit.ranks[0], &op);
        if (proc_index() != 0) proc_hear('g');
        CHECK_OK(kit_call(&kit.ranks[0], &op));
        if (proc_index() == 0) proc_say('c');
        kit_check(&kit.ranks[0], &op);
    }
    kit_close(&kit);
}

static void test_late(void)
{
    static const char *const queues[] = {"CHORUS_HOST_QUEUES=0", "CHORUS_HOST_QUEUES=1"};
    for (int q = 0; q < 2; q++) {
        struct procs procs;
        procs_start(&procs, 3, "child:late", (const char *const[]){queues[q], NULL});
        for (int coll = 0; coll < KIT_NCOLLS; coll++) {
            procs_hear(&procs, 0, 'c');
            procs_say(&procs, 1, 'g');
            procs_say(&procs, 2, 'g');
        }
        procs_end(&procs, -1);
    }
}

/* ---- messages ---- */

enum { MESSAGES = 64 };

static void fill_message(int32_t *data, size_t n, int from, int to, int message)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t state = (uint32_t)(from * 1009 + to * 9176 + message * 31) + (uint32_t)i;
        data[i] = (int32_t)kit_random(&state);
    }
}

/* 64 messages to everyone, sizes from nothing to several slots, grouped and with two streams. */
static void child_messages(void)
{
    enum { MOST = 700 };
    struct kit kit;
    cudaStream_t second;
    proc_open(&kit, 1, (size_t)MESSAGES * MOST);
    struct kit_rank *rank = &kit.ranks[0];
    CHECK_OK(chorus_devices()->stream_create(&second));
    int n = rank->nranks;
    size_t bytes = (size_t)n * MESSAGES * MOST * 4;
    int32_t *sent = (void *)rank->in, *got = (void *)rank->out, wanted[MOST];
    for (int m = 0; m < MESSAGES; m++)
        for (int p = 0; p < n; p++)
            fill_message(sent + (size_t)(p * MESSAGES + m) * MOST, MOST, rank->rank, p, m);
    memset(got, 0, bytes);
    kit_push(rank, bytes);
    CHECK_OK(ncclGroupStart());
    for (int m = 0; m < MESSAGES; m++)
        for (int p = 0; p < n; p++) {
            size_t at = (size_t)(p * MESSAGES + m) * MOST, count = (size_t)(m * 11 % MOST);
            cudaStream_t stream = m % 2 == 0 ? rank->stream : second;
            const void *from = kit_given(rank, sent + at);
            void *to = kit_given(rank, got + at);
            CHECK_OK(ncclSend(from, count, ncclInt32, p, rank->comm, stream));
            CHECK_OK(ncclRecv(to, count, ncclInt32, p, rank->comm, stream));
        }
    CHECK_OK(ncclGroupEnd());
    CHECK_OK(chorus_devices()->stream_sync(second));
    kit_sync(rank);
    kit_pull(rank, bytes);
    for (int m = 0; m < MESSAGES; m++)
        for (int p = 0; p < n; p++) {
            size_t at = (size_t)(p * MESSAGES + m) * MOST, count = (size_t)(m * 11 % MOST);
            fill_message(wanted, count, p, rank->rank, m);
            CHECK_MEM(got + at, wanted, count * 4);
            CHECK_EQ(got[at + count], 0);
        }
    CHECK_OK(chorus_devices()->stream_destroy(second));
    kit_close(&kit);
}

static void test_messages(void)
{
    static const char *const slots[] = {"CHORUS_SLOT_BYTES=1024", "CHORUS_SLOT_BYTES=131072"};
    for (int s = 0; s < 2; s++) {
        struct procs procs;
        procs_start(&procs, 3, "child:messages", (const char *const[]){slots[s], NULL});
        procs_end(&procs, -1);
    }
}

/* Calls alone: what one process sends in a row, the other receives in a row. */
static void child_row(void)
{
    struct kit kit;
    proc_open(&kit, 1, MESSAGES);
    struct kit_rank *rank = &kit.ranks[0];
    int32_t *sent = (void *)rank->in, *got = (void *)rank->out;
    for (int m = 0; m < MESSAGES; m++) sent[m] = m * 3 + 1;
    memset(got, 0, MESSAGES * sizeof got[0]);
    kit_push(rank, MESSAGES * sizeof got[0]);
    for (int m = 0; m < MESSAGES; m++) {
        const void *from = kit_given(rank, &sent[m]);
        void *to = kit_given(rank, &got[m]);
        if (rank->rank == 0)
            CHECK_OK(ncclSend(from, 1, ncclInt32, 1, rank->comm, rank->stream));
        else
            CHECK_OK(ncclRecv(to, 1, ncclInt32, 0, rank->comm, rank->stream));
    }
    kit_sync(rank);
    kit_pull(rank, MESSAGES * sizeof got[0]);
    for (int m = 0; m < MESSAGES && rank->rank == 1; m++) CHECK_EQ(got[m], sent[m]);
    kit_close(&kit);
}

static void test_row(void)
{
    struct procs procs;
    procs_start(&procs, 2, "child:row", NULL);
    procs_end(&procs, -1);
}

/* ---- many calls without waiting, and many communicators one after the other ---- */

static void child_long(void)
{
    struct kit kit;
    uint32_t state = 8;
    proc_open(&kit, 1, 40);
    for (int c = 0; c < 2000; c++) {
        struct kit_op op = kit_simple((enum kit_coll)(kit_random(&state) % KIT_NCOLLS), 40);
        op.root = (int)(kit_random(&state) % 3);
        CHECK_OK(kit_call(&kit.ranks[0], &op));
    }
    struct kit_op op = kit_simple(KIT_ALL_TO_ALL, 40);
    kit_sync(&kit.ranks[0]);
    kit_run(&kit, &op);
    kit_close(&kit);
}

static void test_long(void)
{
    struct procs procs;
    procs_start(&procs, 3, "child:long", NULL);
    procs_end(&procs, -1);
}

static const struct test_case cases[] = {
    {"one-shot", test_oneshot, 240},
    {"two-shot", test_twoshot, 240},
    {"ring", test_ring, 240},
    {"free choice", test_auto, 240},
    {"a call does not wait for its peers", test_late, 0},
    {"64 messages to every process", test_messages, 0},
    {"messages in a row", test_row, 0},
    {"2,000 calls", test_long, 0},
    {"child:all", child_all, 0},
    {"child:late", child_late, 0},
    {"child:messages", child_messages, 0},
    {"child:row", child_row, 0},
    {"child:long", child_long, 0},
};
TEST_LIB_MAIN(cases)
