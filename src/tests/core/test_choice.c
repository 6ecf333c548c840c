/* test_choice.c: which algorithm and protocol run: NCCL_ALGO and NCCL_PROTO, what the library says
 * ran, schedules from files, and every algorithm with both protocols on real devices and between
 * processes. */
#include "core/procs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 3000 }; /* several rounds with slots of 4,096 bytes */

static const char *text_of(const char *variable)
{
    const char *text = getenv(variable);
    return text != NULL ? text : "";
}

/* ---- the grammar ---- */

struct grammar {
    const char *algo, *proto; /* settings of the variables */
    const char *init_part;    /* of the error of the initialisation; NULL: it works */
    const char *ran[3];       /* what AllReduce, Broadcast, AllGather run; NULL: nothing is left */
};

static const struct grammar grammars[] = {
    {"Ring", "", NULL, {"ring", "ring", "ring"}},
    {"tree", "simple", NULL, {"tree", "tree", NULL}},
    {"RING,Tree", "LL", NULL, {"", "", "ring"}},
    {"pat", "", NULL, {NULL, NULL, "logstep"}},
    {"^direct,ring,tree,twoshot", "", NULL, {"oneshot", "oneshot", ""}},
    {"allreduce:tree", "", NULL, {"tree", "", ""}},
    {"ring;AllReduce:twoshot;broadcast:^ring,direct,oneshot",
     "",
     NULL,
     {"twoshot", "tree", "ring"}},
    {"nvls", "", NULL, {NULL, NULL, NULL}},
    {"^nvls,collnetdirect", "", NULL, {"", "", ""}},
    {"ring", "LL128", NULL, {NULL, NULL, NULL}},
    {"ring", "^LL128", NULL, {"ring", "ring", "ring"}},
    {"direct", "LL", NULL, {NULL, NULL, NULL}},
    {"rings", "", "NCCL_ALGO: unknown word 'rings'", {0}},
    {"ring,,tree", "", "NCCL_ALGO: unknown word ''", {0}},
    {"reduce_scatter:ring", "", "NCCL_ALGO: unknown function 'reduce_scatter'", {0}},
    {"allgather:ring:tree", "", "NCCL_ALGO: unknown word 'ring:tree'", {0}},
    {"", "LL64", "NCCL_PROTO: unknown word 'LL64'", {0}},
    {"", "^", "NCCL_PROTO: unknown word ''", {0}},
};

static void check_ran(struct kit *kit, enum kit_coll coll, const char *ran)
{
    struct kit_op op = kit_simple(coll, 5);
    struct chorus_choice choice;
    if (ran == NULL) {
        CHECK_EQ(kit_call(&kit->ranks[0], &op), ncclInvalidUsage);
        CHECK_HAS(ncclGetLastError(NULL), "nothing is left");
        CHECK_HAS(ncclGetLastError(NULL), kit_name(coll));
        return;
    }
    kit_run(kit, &op);
    for (int r = 0; r < kit->nranks; r++) {
        CHECK_OK(chorus_comm_last_choice(kit->ranks[r].comm, &choice));
        CHECK_EQ(choice.size, sizeof choice);
        if (ran[0] != '\0') CHECK_STR(choice.algorithm, ran);
        CHECK_EQ(choice.channels, 1);
        int is_direct = strcmp(choice.algorithm, "direct") == 0;
        int is_shared = r + kit->ndevices < kit->nranks || r >= kit->ndevices;
        CHECK_STR(choice.join, is_shared ? "events" : "none");
        CHECK_STR(choice.transport, is_direct ? "memory" : "p2p");
        CHECK_STR(choice.collective, kit_name(coll) + strlen("nccl"));
    }
}

static void child_grammar(void)
{
    static const enum kit_coll colls[] = {KIT_ALL_REDUCE, KIT_BROADCAST, KIT_ALL_GATHER};
    const struct grammar *g = &grammars[atoi(text_of("CORE_ROW"))];
    struct kit kit;
    struct chorus_choice choice;
    if (g->init_part != NULL) {
        ncclComm_t comms[2];
        CHECK_EQ(ncclCommInitAll(comms, 2, NULL), ncclInvalidUsage);
        CHECK_HAS(ncclGetLastError(NULL), g->init_part);
        return;
    }
    kit_open(&kit, 3, 3, COUNT);
    CHECK_EQ(chorus_comm_last_choice(kit.ranks[0].comm, &choice), ncclInvalidUsage);
    CHECK_EQ(chorus_comm_last_choice(kit.ranks[0].comm, NULL), ncclInvalidUsage);
    CHECK_EQ(chorus_comm_last_choice(NULL, &choice), ncclInvalidArgument);
    /* An empty choice fails the call only: the others work after it. */
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < 3; i++)
            if (pass == 0 || g->ran[i] != NULL) check_ran(&kit, colls[i], g->ran[i]);
    kit_close(&kit);
}

static void test_grammar(void)
{
    char row[32], algo[80], proto[80];
    for (size_t i = 0; i < TEST_COUNT(grammars); i++) {
        snprintf(row, sizeof row, "CORE_ROW=%zu", i);
        snprintf(algo, sizeof algo, "NCCL_ALGO=%s", grammars[i].algo);
        snprintf(proto, sizeof proto, "NCCL_PROTO=%s", grammars[i].proto);
        NOTE("%s %s", algo, proto);
        kit_child("child:grammar", (const char *const[]){row, algo, proto, NULL});
    }
}

/* One executor has nothing to choose. */
static void child_alone(void)
{
    struct kit kit;
    kit_open(&kit, 3, 1, COUNT);
    check_ran(&kit, KIT_ALL_REDUCE, "direct");
    check_ran(&kit, KIT_ALL_TO_ALL, "direct");
    kit_close(&kit);
}

static void test_alone(void)
{
    kit_child("child:alone", (const char *const[]){"NCCL_ALGO=tree", "NCCL_PROTO=LL", NULL});
}

/* ---- every algorithm and protocol ---- */

static const char *const algos[] = {
    "NCCL_ALGO=ring", "NCCL_ALGO=oneshot", "NCCL_ALGO=twoshot;broadcast:tree;reduce:tree",
    "NCCL_ALGO=tree", "NCCL_ALGO=logstep",
};
static const char *const protos[] = {"NCCL_PROTO=LL", "NCCL_PROTO=Simple"};

static void run_sizes(struct kit *kit, enum kit_coll coll)
{
    static const size_t counts[] = {1, 700, COUNT};
    static const ncclDataType_t types[] = {ncclInt32, ncclFloat64, ncclInt8};
    for (size_t c = 0; c < TEST_COUNT(counts); c++)
        for (int t = 0; t < 3; t++) {
            struct kit_op op = kit_simple(coll, counts[c]);
            op.type = types[t];
            op.in_place = c % 2 && kit_has_place(coll);
            op.seed = (uint32_t)c;
            if (!kit_try(kit, &op)) return;
        }
}

static void child_sizes(void)
{
    struct kit kit;
    if (getenv("CORE_LOCAL") != NULL)
        proc_open(&kit, atoi(text_of("CORE_LOCAL")), COUNT);
    else
        kit_open(&kit, 7, 4, COUNT);
    for (int coll = 0; coll <= KIT_REDUCE_SCATTER; coll++) run_sizes(&kit, (enum kit_coll)coll);
    kit_close(&kit);
}

static void test_in_process(void)
{
    for (size_t a = 0; a < TEST_COUNT(algos); a++)
        for (int p = 0; p < 2; p++)
            kit_child("child:sizes", (const char *const[]){algos[a], protos[p], "CHORUS_CHANNELS=2",
                                                           "CHORUS_SLOT_BYTES=4096", NULL});
}

static void test_across(void)
{
    struct procs procs;
    for (size_t a = 0; a < TEST_COUNT(algos); a++)
        for (int p = 0; p < 2; p++) {
            const char *const env[] = {algos[a],
                                       protos[p],
                                       "CORE_LOCAL=2",
                                       "CHORUS_SLOT_BYTES=4096",
                                       a % 2 ? "CHORUS_HOST_DEVICES=1" : "CHORUS_HOST_DEVICES=2",
                                       NULL};
            procs_start(&procs, 3, "child:sizes", env);
            procs_end(&procs, -1);
        }
}

/* ---- ranks that disagree, over connections that they may not share ---- */

static void disagree(const struct kit_op *theirs, const struct kit_op *mine)
{
    struct kit kit;
    kit_open(&kit, 5, 5, COUNT);
    for (int r = 0; r < 5; r++) {
        /* The communicator may have failed already. */
        ncclResult_t rc = kit_call(&kit.ranks[r], r == 2 ? mine : theirs);
        CHECK(rc == ncclSuccess || (r >= 2 && rc == ncclInvalidUsage));
    }
    for (int r = 0; r < 5; r++) kit_sync(&kit.ranks[r]);
    for (int r = 0; r < 5; r++) kit_await_error(&kit.ranks[r], ncclInvalidUsage, "rank");
    kit_close(&kit);
}

static void child_disagree(void)
{
    struct kit_op theirs = kit_simple(KIT_ALL_REDUCE, 8), mine = theirs;
    mine.count = 9;
    disagree(&theirs, &mine);
    mine = kit_simple(KIT_BROADCAST, 8);
    disagree(&theirs, &mine);
    theirs = kit_simple(KIT_ALL_GATHER, 8);
    disagree(&theirs, &mine);
    disagree(&mine, &theirs);
}

static void test_disagreement(void)
{
    static const char *const choices[] = {"NCCL_ALGO=tree;allgather:ring",
                                          "NCCL_ALGO=^direct,oneshot,twoshot,ring;allreduce:ring",
                                          "NCCL_ALGO=^direct"};
    for (size_t i = 0; i < TEST_COUNT(choices); i++)
        for (int p = 0; p < 2; p++)
            kit_child("child:disagree", (const char *const[]){choices[i], protos[p], NULL});
}

/* ---- schedules from files ---- */

static void child_save(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, 100);
    const char *path = text_of("CORE_FILE");
    kit_open(&kit, 4, 4, COUNT);
    CHECK_EQ(chorus_comm_save_schedule(kit.ranks[0].comm, path), ncclInvalidUsage);
    kit_run(&kit, &op);
    CHECK_EQ(chorus_comm_save_schedule(kit.ranks[0].comm, NULL), ncclInvalidArgument);
    CHECK_EQ(chorus_comm_save_schedule(kit.ranks[0].comm, "/nowhere/file"), ncclSystemError);
    CHECK_HAS(ncclGetLastError(NULL), "/nowhere/file");
    CHECK_OK(chorus_comm_save_schedule(kit.ranks[1].comm, path));
    kit_close(&kit);
}

/* The file says what runs, whatever else is allowed; only where it fits. */
static void child_load(void)
{
    struct kit kit;
    struct chorus_choice choice;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    kit_open(&kit, 4, 4, COUNT);
    kit_run(&kit, &op);
    CHECK_OK(chorus_comm_last_choice(kit.ranks[3].comm, &choice));
    CHECK_STR(choice.algorithm, text_of("CORE_NAME"));
    op.coll = KIT_REDUCE;
    kit_run(&kit, &op);
    CHECK_OK(chorus_comm_last_choice(kit.ranks[3].comm, &choice));
    CHECK_STR(choice.algorithm, "ring");
    kit_close(&kit);
    kit_open(&kit, 3, 3, COUNT);
    op.coll = KIT_ALL_REDUCE;
    kit_run(&kit, &op);
    CHECK_OK(chorus_comm_last_choice(kit.ranks[0].comm, &choice));
    CHECK_STR(choice.algorithm, "ring");
    kit_close(&kit);
}

static void child_refuse(void)
{
    ncclComm_t comms[2];
    CHECK_EQ(ncclCommInitAll(comms, 2, NULL), ncclInvalidUsage);
    CHECK_HAS(ncclGetLastError(NULL), text_of("CORE_PART"));
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    CHECK(file != NULL);
    fputs(text, file);
    fclose(file);
}

static void test_files(void)
{
    static const char *const names[] = {"direct", "oneshot", "twoshot", "ring", "tree"};
    char path[] = P_tmpdir "/chorus-schedule-XXXXXX", file[64], load[64], algo[40], name[40];
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    snprintf(file, sizeof file, "CORE_FILE=%s", path);
    snprintf(load, sizeof load, "CHORUS_SCHEDULE_FILE=%s", path);
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        snprintf(algo, sizeof algo, "NCCL_ALGO=%s", names[i]);
        snprintf(name, sizeof name, "CORE_NAME=%s", names[i]);
        kit_child("child:save", (const char *const[]){file, algo, NULL});
        kit_child("child:load", (const char *const[]){load, name, "NCCL_ALGO=ring", NULL});
    }
    write_text(path, "schedule AllReduce\nranks 0 1\nexecutor 0\nexecutor 1\nend\n");
    kit_child("child:refuse",
              (const char *const[]){load, "CORE_PART=executor 0: nobody writes block 0", NULL});
    write_text(path, "schedule AllReduce\nranks 0 1\nexecutor 7\n");
    kit_child("child:refuse",
              (const char *const[]){load, "CORE_PART=line 3: there is no executor 7", NULL});
    unlink(path);
    kit_child("child:refuse", (const char *const[]){load, "CORE_PART=No such file", NULL});
}

static const struct test_case cases[] = {
    {"the words of NCCL_ALGO and NCCL_PROTO", test_grammar, 120},
    {"one executor has no choice", test_alone, 0},
    {"every algorithm and protocol in a process", test_in_process, 120},
    {"every algorithm and protocol across processes", test_across, 180},
    {"ranks that disagree", test_disagreement, 120},
    {"schedules from files", test_files, 120},
    {"child:grammar", child_grammar, 0},
    {"child:alone", child_alone, 0},
    {"child:sizes", child_sizes, 0},
    {"child:disagree", child_disagree, 0},
    {"child:save", child_save, 0},
    {"child:load", child_load, 0},
    {"child:refuse", child_refuse, 0},
};

TEST_LIB_MAIN(cases)
