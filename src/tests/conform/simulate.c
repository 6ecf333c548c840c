/* ncclGroupSimulateEnd: what it fills, that nothing runs, levels, and each wrong use once.
 */
#include "conform/world.h"

#include <stddef.h>
#include <string.h>

/* Adds an all-reduce of all ranks to the open group. */
static void call_all(struct world *w, size_t count)
{
    for (int i = 0; i < NRANKS; i++)
        CHECK_OK(ncclAllReduce(w->in[i], w->out[i], count, ncclInt32, ncclSum, w->comm[i],
                               w->stream[i]));
}

/* Messages around a ring. */
static void send_all(struct world *w, size_t count)
{
    for (int i = 0; i < NRANKS; i++) {
        int next = (i + 1) % NRANKS, before = (i + NRANKS - 1) % NRANKS;
        CHECK_OK(ncclSend(w->in[i], count, ncclInt32, next, w->comm[i], w->stream[i]));
        CHECK_OK(ncclRecv(w->out[i], count, ncclInt32, before, w->comm[i], w->stream[i]));
    }
}

static float end(void)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    CHECK_OK(ncclGroupSimulateEnd(&info));
    CHECK_EQ(info.size, sizeof info);
    CHECK_EQ(info.magic, 0x74685283u);
    return info.estimatedTime;
}

static void an_empty_group_takes_no_time(void)
{
    CHECK_OK(ncclGroupStart());
    CHECK(end() == 0);
}

static void more_work_takes_longer(void)
{
    struct world w;
    world_open(&w);
    float last = 0;
    for (size_t count = 1; count <= 1 << 28; count *= 16) {
        NOTE("%zu elements", count);
        CHECK_OK(ncclGroupStart());
        call_all(&w, count);
        float one = end();
        CHECK(one > 0);
        CHECK(one >= last);
        last = one;
        CHECK_OK(ncclGroupStart());
        call_all(&w, count);
        call_all(&w, count);
        float two = end();
        CHECK(two > one * 1.99f && two < one * 2.01f);
    }
    world_works(&w);
    world_close(&w);
}

static void messages_take_time(void)
{
    struct world w;
    world_open(&w);
    CHECK_OK(ncclGroupStart());
    send_all(&w, 0);
    float none = end();
    CHECK(none > 0);
    CHECK_OK(ncclGroupStart());
    send_all(&w, 1 << 24);
    float large = end();
    CHECK(large > none);
    CHECK_OK(ncclGroupStart());
    send_all(&w, 1 << 24);
    call_all(&w, 1);
    CHECK(end() > large);
    world_works(&w);
    world_close(&w);
}

/* Every collective, also where it becomes messages; count 0 is no work. */
static void every_collective_takes_time(void)
{
    struct world w;
    world_open(&w);
    for (int coll = 0; coll < 9; coll++) {
        NOTE("collective %d", coll);
        CHECK_OK(ncclGroupStart());
        for (int i = 0; i < NRANKS; i++) {
            const void *in = w.in[i];
            void *out = w.out[i];
            ncclComm_t c = w.comm[i];
            cudaStream_t s = w.stream[i];
            switch (coll) {
            case 0: CHECK_OK(ncclAllGather(in, out, 8, ncclInt32, c, s)); break;
            case 1: CHECK_OK(ncclReduceScatter(in, out, 8, ncclInt32, ncclMax, c, s)); break;
            case 2: CHECK_OK(ncclBroadcast(in, out, 8, ncclInt32, 1, c, s)); break;
            case 3: CHECK_OK(ncclReduce(in, out, 8, ncclInt32, ncclSum, 1, c, s)); break;
            case 4: CHECK_OK(ncclAlltoAll(in, out, 8, ncclInt32, c, s)); break;
            case 5: CHECK_OK(ncclGather(in, out, 8, ncclInt32, 1, c, s)); break;
            case 6: CHECK_OK(ncclScatter(in, out, 8, ncclInt32, 1, c, s)); break;
            case 7: CHECK_OK(ncclBcast(out, 8, ncclInt32, 1, c, s)); break;
            default: CHECK_OK(ncclAllReduce(in, out, 0, ncclInt32, ncclSum, c, s));
            }
        }
        CHECK_EQ(end() > 0, coll < 8);
    }
    world_works(&w);
    world_close(&w);
}

static void nothing_runs(void)
{
    static int32_t untouched[NELEMS];
    struct world w;
    world_open(&w);
    CHECK_OK(chorus_devices()->fill(w.out[0], 0x44, sizeof untouched, w.stream[0]));
    CHECK_OK(ncclGroupStart());
    call_all(&w, NELEMS);
    CHECK(end() > 0);
    CHECK_OK(ncclGroupStart());
    CHECK_OK(ncclGroupEnd()); /* nor later */
    CHECK_OK(chorus_devices()->copy(untouched, w.out[0], sizeof untouched, w.stream[0]));
    world_sync(&w);
    CHECK_EQ(untouched[0], 0x44444444);
    CHECK_EQ(untouched[NELEMS - 1], 0x44444444);
    world_works(&w);
    world_close(&w);
}

/* One rank of three is enough: nobody is waited for. */
static void a_rank_alone_is_estimated(void)
{
    struct world w;
    world_open(&w);
    CHECK_OK(ncclGroupStart());
    CHECK_OK(ncclAllReduce(w.in[1], w.out[1], NELEMS, ncclInt32, ncclSum, w.comm[1], w.stream[1]));
    float one = end();
    CHECK_OK(ncclGroupStart());
    call_all(&w, NELEMS);
    CHECK(one > 0 && end() == one);
    world_works(&w);
    world_close(&w);
}

static void communicators_add_up(void)
{
    struct world first, second;
    world_open(&first);
    world_open(&second);
    CHECK_OK(ncclGroupStart());
    call_all(&first, NELEMS);
    float one = end();
    CHECK_OK(ncclGroupStart());
    call_all(&first, NELEMS);
    call_all(&second, NELEMS);
    float two = end();
    CHECK(two > one * 1.99f && two < one * 2.01f);
    world_works(&second);
    world_close(&first);
    world_close(&second);
}

/* The inner end leaves the estimate alone, and does not look at where it goes. */
static void only_the_outermost_end_fills_it(void)
{
    struct world w;
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER, bad = {0};
    world_open(&w);
    CHECK_OK(ncclGroupStart());
    CHECK_OK(ncclGroupStart());
    CHECK_OK(ncclGroupStart());
    call_all(&w, NELEMS);
    CHECK_OK(ncclGroupSimulateEnd(&info));
    CHECK(info.estimatedTime == NCCL_UNDEF_FLOAT);
    CHECK_OK(ncclGroupSimulateEnd(&bad));
    CHECK_OK(ncclGroupSimulateEnd(&info));
    CHECK(info.estimatedTime > 0);
    CHECK_EQ(ncclGroupEnd(), ncclInvalidUsage);
    world_works(&w);
    world_close(&w);
}

static void null_runs_the_group(void)
{
    static int32_t sum[NELEMS];
    struct world w;
    world_open(&w);
    world_works(&w);
    CHECK_OK(chorus_devices()->fill(w.out[0], 0, sizeof sum, w.stream[0]));
    CHECK_OK(ncclGroupStart());
    call_all(&w, NELEMS);
    CHECK_OK(ncclGroupSimulateEnd(NULL));
    CHECK_OK(chorus_devices()->copy(sum, w.out[0], sizeof sum, w.stream[0]));
    world_sync(&w);
    CHECK(sum[0] != 0);
    expect_error(ncclGroupSimulateEnd(NULL), ncclInvalidUsage, "ncclGroupSimulateEnd", "no group");
    world_close(&w);
}

static void end_without_start(void)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    expect_error(ncclGroupSimulateEnd(&info), ncclInvalidUsage, "ncclGroupSimulateEnd", "no group");
    CHECK(info.estimatedTime == NCCL_UNDEF_FLOAT);
}

/* The group is over all the same, and its work dropped. */
static void refuse(ncclSimInfo_t info, const char *detail)
{
    struct world w;
    world_open(&w);
    CHECK_OK(ncclGroupStart());
    call_all(&w, NELEMS);
    expect_error(ncclGroupSimulateEnd(&info), ncclInvalidArgument, "ncclGroupSimulateEnd", detail);
    CHECK(info.estimatedTime == NCCL_UNDEF_FLOAT);
    CHECK_EQ(ncclGroupEnd(), ncclInvalidUsage);
    world_works(&w);
    world_close(&w);
}

static void magic_is_checked(void)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    info.magic = 0xcafebeef;
    refuse(info, "magic 0xcafebeef");
}

static void size_is_checked(void)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    info.size = offsetof(ncclSimInfo_t, estimatedTime);
    refuse(info, "size 16");
}

/* Headers before and after this one. */
static void other_versions_are_served(void)
{
    struct {
        ncclSimInfo_t known;
        int later;
    } info = {NCCL_SIM_INFO_INITIALIZER, 17};
    info.known.size = sizeof info;
    info.known.version = 99999;
    CHECK_OK(ncclGroupStart());
    CHECK_OK(ncclGroupSimulateEnd(&info.known));
    CHECK(info.known.estimatedTime == 0);
    CHECK_EQ(info.later, 17);
    info.known.size = offsetof(ncclSimInfo_t, estimatedTime) + sizeof(float);
    info.known.version = 22200;
    info.known.estimatedTime = NCCL_UNDEF_FLOAT;
    CHECK_OK(ncclGroupStart());
    CHECK_OK(ncclGroupSimulateEnd(&info.known));
    CHECK(info.known.estimatedTime == 0);
}

static void a_failed_call_is_returned(void)
{
    struct world w;
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    world_open(&w);
    CHECK_OK(ncclGroupStart());
    call_all(&w, NELEMS);
    CHECK_EQ(ncclBcast(w.out[0], 4, ncclInt32, 99, w.comm[0], w.stream[0]), ncclInvalidArgument);
    CHECK_EQ(ncclGroupSimulateEnd(&info), ncclInvalidArgument);
    CHECK(info.estimatedTime == NCCL_UNDEF_FLOAT);
    world_works(&w);
    world_close(&w);
}

static void initialisations_are_given_up(void)
{
    ncclUniqueId id;
    ncclComm_t comm[2] = {NULL, NULL};
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    memset(&id, 0x11, sizeof id);
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < 2; i++) CHECK_OK(ncclCommInitRank(&comm[i], 2, id, i));
    expect_error(ncclGroupSimulateEnd(&info), ncclInvalidUsage, "ncclGroupSimulateEnd", "2 calls");
    CHECK_EQ(comm[0], NULL);
    CHECK_EQ(comm[1], NULL);
    CHECK_OK(ncclGroupStart());
    CHECK_OK(ncclGroupEnd());
}

static const struct test_case cases[] = {
    {"simulate: ncclGroupSimulateEnd: an empty group takes no time", an_empty_group_takes_no_time,
     0},
    {"simulate: ncclGroupSimulateEnd: more work takes longer", more_work_takes_longer, 0},
    {"simulate: ncclGroupSimulateEnd: messages take time", messages_take_time, 0},
    {"simulate: ncclGroupSimulateEnd: every collective takes time", every_collective_takes_time, 0},
    {"simulate: ncclGroupSimulateEnd: nothing runs", nothing_runs, 0},
    {"simulate: ncclGroupSimulateEnd: a rank alone is estimated", a_rank_alone_is_estimated, 0},
    {"simulate: ncclGroupSimulateEnd: communicators add up", communicators_add_up, 0},
    {"simulate: ncclGroupSimulateEnd: only the outermost end fills it",
     only_the_outermost_end_fills_it, 0},
    {"simulate: ncclGroupSimulateEnd: NULL runs the group", null_runs_the_group, 0},
    {"simulate: ncclGroupSimulateEnd: end without start", end_without_start, 0},
    {"simulate: ncclGroupSimulateEnd: magic is checked", magic_is_checked, 0},
    {"simulate: ncclGroupSimulateEnd: size is checked", size_is_checked, 0},
    {"simulate: ncclGroupSimulateEnd: other versions are served", other_versions_are_served, 0},
    {"simulate: ncclGroupSimulateEnd: a failed call is returned", a_failed_call_is_returned, 0},
    {"simulate: ncclGroupSimulateEnd: initialisations are given up", initialisations_are_given_up,
     0},
};
const struct case_list simulate_cases = {cases, TEST_COUNT(cases)};
