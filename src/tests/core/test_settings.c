/* test_settings.c: variables that change what the library does: bounds of channels, size of FIFOs,
 * buffers that are examined, registration, names of threads. Each setting runs a "child:" case in a
 * process of its own.
 */
#define _GNU_SOURCE
#include "core/clique.h"
#include "core/kit.h"
#include "unit/memory.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { COUNT = 1 << 18 }; /* elements that all channels of a host device pay for */

static struct test_output output;

static void run_child(const char *name, const char *const env[])
{
    test_exec_case(name, env, &output);
    NOTE("%.2000s", output.err);
    CHECK_EQ(output.code, 0);
}

#define ENV(...) ((const char *const[]){"NCCL_DEBUG=WARN", "NCCL_DEBUG_FILE", __VA_ARGS__, NULL})

static int count_of(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part)) n++;
    return n;
}

/* ---- channels ---- */

/* Two executors, connections between them. */
static void child_channels(void)
{
    static struct kit kit;
    struct chorus_choice choice;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    kit_open(&kit, 2, 2, COUNT);
    kit_run(&kit, &op);
    CHECK_OK(chorus_comm_last_choice(kit.ranks[0].comm, &choice));
    printf("%d", choice.channels);
    kit_close(&kit);
}

struct channel_row {
    const char *first, *second;
    const char *expected;
    int warns;
};

static const struct channel_row channel_rows[] = {
    {"NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "1", 0},
    {"NCCL_MIN_CTAS=4", "NCCL_MAX_CTAS", "4", 0},
    {"NCCL_MIN_CTAS=60", "NCCL_MAX_CTAS", "4", 0}, /* as many as a host device has */
    {"NCCL_MIN_NCHANNELS=3", "NCCL_MAX_CTAS", "3", 0},
    {"NCCL_MIN_NCHANNELS=4", "NCCL_MIN_CTAS=2", "2", 0},
    {"NCCL_MIN_CTAS=4", "NCCL_MAX_CTAS=2", "2", 0},
    {"CHORUS_CHANNELS=4", "NCCL_MAX_CTAS", "4", 0},
    {"CHORUS_CHANNELS=4", "NCCL_MAX_CTAS=2", "2", 0},
    {"CHORUS_CHANNELS=4", "NCCL_MAX_NCHANNELS=3", "3", 0},
    {"CHORUS_CHANNELS=2", "NCCL_MIN_CTAS=4", "2", 0},
    {"NCCL_MIN_CTAS=65", "NCCL_MAX_CTAS", "1", 1},
    {"CHORUS_CHANNELS=4", "NCCL_CTA_POLICY=DEFAULT", "4", 0},
    {"CHORUS_CHANNELS=4", "NCCL_CTA_POLICY=efficiency", "1", 0},
    {"CHORUS_CHANNELS=4", "NCCL_CTA_POLICY=EFFICIENCY|ZERO", "1", 0},
    {"CHORUS_CHANNELS=4", "NCCL_CTA_POLICY=2", "1", 0},
    {"CHORUS_CHANNELS=4", "NCCL_CTA_POLICY=0", "4", 0},
    {"CHORUS_CHANNELS=4", "NCCL_CTA_POLICY=4", "4", 1},
    {"CHORUS_CHANNELS=4", "NCCL_CTA_POLICY=ZERO|", "4", 1},
    {"CHORUS_CHANNELS=4", "NCCL_CTA_POLICY=THRIFTY", "4", 1},
};

static void test_channels(void)
{
    if (test_on_gpu()) SKIP("counts channels of host devices");
    for (size_t i = 0; i < TEST_COUNT(channel_rows); i++) {
        const struct channel_row *row = &channel_rows[i];
        NOTE("%s %s", row->first, row->second);
        run_child("child:channels", ENV("NCCL_ALGO=ring", row->first, row->second));
        CHECK_STR(output.out, row->expected);
        CHECK_EQ(count_of(output.err, " WARN "), row->warns);
        if (row->warns) CHECK_HAS(output.err, strchr(row->first, '5') ? row->first : row->second);
    }
}

/* What the program asks for is bounded by the variables. */
static void child_config(void)
{
    static struct kit kit;
    struct chorus_choice choice;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    kit_open(&kit, 2, 2, COUNT);
    CHECK_OK(ncclGetUniqueId(&id));
    config.minCTAs = 3;
    config.maxCTAs = 4;
    for (int r = 0; r < 2; r++) CHECK_OK(ncclCommDestroy(kit.ranks[r].comm));
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < 2; r++) {
        CHECK_OK(chorus_devices()->set(kit.ranks[r].device));
        CHECK_OK(ncclCommInitRankConfig(&kit.ranks[r].comm, 2, id, r, r == 0 ? &config : NULL));
    }
    CHECK_OK(ncclGroupEnd());
    kit_run(&kit, &op);
    CHECK_OK(chorus_comm_last_choice(kit.ranks[1].comm, &choice));
    printf("%d", choice.channels);
    kit_close(&kit);
}

static void test_config_and_variables(void)
{
    if (test_on_gpu()) SKIP("counts channels of host devices");
    run_child("child:config", ENV("NCCL_ALGO=ring"));
    CHECK_STR(output.out, "3");
    run_child("child:config", ENV("NCCL_ALGO=ring", "NCCL_MAX_CTAS=2"));
    CHECK_STR(output.out, "2");
    run_child("child:config", ENV("NCCL_ALGO=ring", "NCCL_MIN_CTAS=4"));
    CHECK_STR(output.out, "4");
    run_child("child:config", ENV("NCCL_ALGO=ring", "NCCL_MIN_CTAS=4", "NCCL_MAX_CTAS=1"));
    CHECK_STR(output.out, "1");
}

/* ---- FIFOs ---- */

static void child_fifo(void)
{
    static struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, 5000);
    printf("%u", ccl_clique_slot_bytes());
    kit_open(&kit, 2, 2, 5000);
    kit_run(&kit, &op);
    kit_close(&kit);
}

static const char *const fifo_rows[][3] = {
    {"NCCL_BUFFSIZE", "CHORUS_SLOT_DEPTH", "131072"},
    {"NCCL_BUFFSIZE=0", "CHORUS_SLOT_BYTES=2000", "1984"},
    {"NCCL_BUFFSIZE=65536", "CHORUS_SLOT_BYTES=2000", "16384"},
    {"NCCL_BUFFSIZE=65536", "CHORUS_SLOT_DEPTH=2", "32768"},
    {"NCCL_BUFFSIZE=1", "CHORUS_SLOT_DEPTH", "1024"},
    {"NCCL_BUFFSIZE=1073741824", "CHORUS_SLOT_DEPTH=2", "16777216"},
};

static void test_fifos(void)
{
    for (size_t i = 0; i < TEST_COUNT(fifo_rows); i++) {
        NOTE("%s %s", fifo_rows[i][0], fifo_rows[i][1]);
        run_child("child:fifo",
                  ENV("NCCL_ALGO=ring", "NCCL_PROTO=Simple", fifo_rows[i][0], fifo_rows[i][1]));
        CHECK_STR(output.out, fifo_rows[i][2]);
        CHECK_EQ(count_of(output.err, " WARN "), 0);
    }
}

/* ---- buffers that are examined ---- */

/* Far from where the system puts mappings, so that nobody comes behind this one. */
#define LONELY ((uintptr_t)256 << 20)

struct places {
    void *good; /* COUNT ints of the device */
    void *cut;  /* the last page of a block, behind which nothing is mapped */
    void *none; /* nothing */
    size_t page;
};

static void expect_refused(ncclResult_t rc, const char *function, const char *buffer, void *at)
{
    char address[32];
    snprintf(address, sizeof address, "%p", at);
    CHECK_EQ(rc, ncclInvalidArgument);
    CHECK_HAS(ncclGetLastError(NULL), function);
    CHECK_HAS(ncclGetLastError(NULL), "rank 0 on device 0: ");
    CHECK_HAS(ncclGetLastError(NULL), buffer);
    CHECK_HAS(ncclGetLastError(NULL), address);
    CHECK_HAS(ncclGetLastError(NULL), test_on_gpu() ? "is no memory of a GPU" : "is not mapped");
}

static void open_places(struct places *places)
{
    places->page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK_OK(chorus_devices()->alloc(&places->good, COUNT * sizeof(int32_t)));
    char *pages = mmap((void *)LONELY, places->page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(pages != MAP_FAILED);
    places->cut = pages;
    places->none = pages + places->page;
}

static void child_examined(void)
{
    struct places at;
    ncclComm_t comm;
    cudaStream_t stream;
    open_places(&at);
    size_t fits = at.page / sizeof(int32_t);
    CHECK_OK(ncclCommInitAll(&comm, 1, NULL));
    CHECK_OK(chorus_devices()->stream_create(&stream));
    expect_refused(ncclAllReduce(at.none, at.good, 4, ncclInt32, ncclSum, comm, stream),
                   "ncclAllReduce: ", "sendbuff", at.none);
    expect_refused(ncclAllReduce(at.good, at.none, 4, ncclInt32, ncclSum, comm, stream),
                   "ncclAllReduce: ", "recvbuff", at.none);
    expect_refused(ncclBcast(at.cut, fits + 1, ncclInt32, 0, comm, stream), "ncclBcast: ", "buff",
                   at.cut);
    expect_refused(ncclSend(at.none, 1, ncclInt32, 0, comm, stream), "ncclSend: ", "sendbuff",
                   at.none);
    expect_refused(ncclAlltoAll(at.good, at.none, 1, ncclInt8, comm, stream),
                   "ncclAlltoAll: ", "recvbuff", at.none);
    CHECK_OK(ncclGroupStart());
    CHECK_EQ(ncclAllGather(at.none, at.good, 1, ncclInt8, comm, stream), ncclInvalidArgument);
    CHECK_EQ(ncclGroupEnd(), ncclInvalidArgument);
    CHECK_OK(ncclAllReduce(at.none, at.none, 0, ncclInt32, ncclSum, comm, stream));
    CHECK_OK(ncclAllReduce(at.good, at.good, COUNT, ncclInt32, ncclSum, comm, stream));
    if (!test_on_gpu())
        CHECK_OK(ncclAllReduce(at.cut, at.good, fits, ncclInt32, ncclSum, comm, stream));
    CHECK_OK(chorus_devices()->stream_sync(stream));
    CHECK_OK(chorus_devices()->stream_destroy(stream));
    CHECK_OK(ncclCommDestroy(comm));
    CHECK_OK(chorus_devices()->free(at.good));
    munmap(at.cut, at.page);
}

/* Buffers that only some ranks use are not looked at by the others; blocks of all ranks are. */
static void child_examined_by_rank(void)
{
    static struct kit kit;
    struct places at;
    open_places(&at);
    kit_open(&kit, 2, 2, 64);
    for (int r = 0; r < 2; r++)
        CHECK_EQ(ncclAllGather(at.good, at.cut, at.page / 2 + 1, ncclInt8, kit.ranks[r].comm,
                               kit.ranks[r].stream),
                 ncclInvalidArgument);
    for (int r = 0; r < 2; r++)
        CHECK_EQ(ncclReduceScatter(at.cut, at.good, at.page / 2 + 1, ncclInt8, ncclSum,
                                   kit.ranks[r].comm, kit.ranks[r].stream),
                 ncclInvalidArgument);
    CHECK_HAS(ncclGetLastError(NULL), "rank 1 on device");
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < 2; r++)
        CHECK_OK(ncclReduce(at.good, r == 1 ? (char *)at.good + 4096 : at.none, 8, ncclInt8,
                            ncclSum, 1, kit.ranks[r].comm, kit.ranks[r].stream));
    CHECK_OK(ncclGroupEnd());
    for (int r = 0; r < 2; r++) kit_sync(&kit.ranks[r]);
    kit_close(&kit);
    CHECK_OK(chorus_devices()->free(at.good));
    munmap(at.cut, at.page);
}

static void test_examined(void)
{
    static const char *const modes[] = {"NCCL_CHECK_POINTERS=1", "NCCL_CHECK_MODE=DEBUG_LOCAL",
                                        "NCCL_CHECK_MODE=debug_global"};
    for (size_t i = 0; i < TEST_COUNT(modes); i++)
        run_child("child:examined", ENV(modes[i], "NCCL_MULTI_RANK_GPU_ENABLE=1"));
    run_child("child:examined by rank", ENV(modes[0], "NCCL_MULTI_RANK_GPU_ENABLE=1"));
}

/* A call that only a check of memory would refuse: nothing is moved. */
static void child_unexamined(void)
{
    static struct kit kit;
    kit_open(&kit, 1, 1, 4);
    CHECK_OK(ncclBcast(&kit, 4, ncclInt32, 0, kit.ranks[0].comm, kit.ranks[0].stream));
    kit_sync(&kit.ranks[0]);
    kit_close(&kit);
}

static void test_unexamined(void)
{
    run_child("child:unexamined", ENV("NCCL_CHECK_POINTERS=0", "NCCL_CHECK_MODE=DEFAULT"));
    CHECK_EQ(count_of(output.err, " WARN "), 0);
    run_child("child:unexamined", ENV("NCCL_CHECK_POINTERS", "NCCL_CHECK_MODE=DEBUG"));
    CHECK_EQ(count_of(output.err, " WARN "), 1);
    CHECK_HAS(output.err, "NCCL_CHECK_MODE=DEBUG is not DEFAULT, DEBUG_LOCAL or DEBUG_GLOBAL");
}

/* ---- registration ---- */

static void child_register(void)
{
    static struct kit kit;
    void *handle = &kit;
    const char *text = getenv("NCCL_LOCAL_REGISTER");
    int is_off = text != NULL && text[0] == '0';
    kit_open(&kit, 1, 1, 4);
    struct kit_rank *rank = &kit.ranks[0];
    CHECK_OK(ncclCommRegister(rank->comm, kit_given(rank, rank->in), rank->room, &handle));
    CHECK_EQ(handle == NULL, is_off);
    CHECK_OK(ncclCommDeregister(rank->comm, handle));
    CHECK_EQ(ncclCommRegister(rank->comm, NULL, 8, &handle), ncclInvalidArgument);
    CHECK_EQ(ncclCommRegister(rank->comm, rank->in, 0, &handle), ncclInvalidArgument);
    CHECK_EQ(ncclCommRegister(rank->comm, rank->in, 8, NULL), ncclInvalidArgument);
    kit_close(&kit);
}

static void test_register(void)
{
    run_child("child:register", ENV("NCCL_LOCAL_REGISTER=0"));
    run_child("child:register", ENV("NCCL_LOCAL_REGISTER=1"));
    run_child("child:register", ENV("NCCL_LOCAL_REGISTER"));
}

/* ---- names of threads ---- */

static void print_threads(void)
{
    char path[300], name[32];
    DIR *folder = opendir("/proc/self/task");
    CHECK(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (file == NULL) continue;
        if (fgets(name, sizeof name, file) != NULL) fputs(name, stdout);
        fclose(file);
    }
    closedir(folder);
}

static void have_printed(void *unused)
{
    (void)unused;
    print_threads();
}

/* A thread of the device calls this function, so it certainly has its name. */
static void child_threads(void)
{
    static struct kit kit;
    kit_open(&kit, 2, 2, 4);
    CHECK_OK(chorus_devices()->host_func(kit.ranks[0].stream, have_printed, NULL));
    kit_sync(&kit.ranks[0]);
    kit_close(&kit);
}

static void test_thread_names(void)
{
    if (test_on_gpu()) SKIP("names the threads of host devices");
    run_child("child:threads", ENV("NCCL_SET_THREAD_NAME=1"));
    CHECK_HAS(output.out, "chorus-func\n");
    CHECK_HAS(output.out, "test_settings\n"); /* the program's own thread keeps its name */
    run_child("child:threads", ENV("NCCL_SET_THREAD_NAME"));
    CHECK_EQ(count_of(output.out, "chorus-"), 0);
    CHECK(count_of(output.out, "\n") > 1);
}

static const struct test_case cases[] = {
    {"settings: bounds of channels", test_channels, 0},
    {"settings: configuration and variables", test_config_and_variables, 0},
    {"settings: size of FIFOs", test_fifos, 0},
    {"settings: buffers are examined", test_examined, 0},
    {"settings: buffers are left alone", test_unexamined, 0},
    {"settings: registration", test_register, 0},
    {"settings: names of threads", test_thread_names, 0},
    {"child:channels", child_channels, 0},
    {"child:config", child_config, 0},
    {"child:fifo", child_fifo, 0},
    {"child:examined", child_examined, 0},
    {"child:examined by rank", child_examined_by_rank, 0},
    {"child:unexamined", child_unexamined, 0},
    {"child:register", child_register, 0},
    {"child:threads", child_threads, 0},
};

TEST_LIB_MAIN(cases)
