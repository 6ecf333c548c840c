/* Groups: nesting, empty ones, errors returned at the outermost end, several communicators and
 * streams, threads, counts of zero.
 */
#include "conform/world.h"

#include <pthread.h>
#include <string.h>

static void empty_groups(void)
{
    CHECK_OK(ncclGroupStart());
    CHECK_OK(ncclGroupEnd());
    for (int i = 0; i < 5; i++) CHECK_OK(ncclGroupStart());
    for (int i = 0; i < 5; i++) CHECK_OK(ncclGroupEnd());
}

static void end_without_start(void)
{
    expect_error(ncclGroupEnd(), ncclInvalidUsage, "ncclGroupEnd", "");
    CHECK_OK(ncclGroupStart());
    CHECK_OK(ncclGroupEnd());
    CHECK_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

/* The calls of world_works inside two more levels: they take effect at the last end only. */
static void nested_groups_run_at_the_last_end(void)
{
    static int32_t before[NELEMS], after[NELEMS];
    struct world world;
    world_open(&world);
    world_works(&world);
    CHECK_OK(chorus_devices()->fill(world.out[0], 0x22, sizeof before, world.stream[0]));
    world_sync(&world);
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < NRANKS; i++) {
        CHECK_OK(ncclGroupStart());
        CHECK_OK(ncclAllReduce(world.in[i], world.out[i], NELEMS, ncclInt32, ncclMax, world.comm[i],
                               world.stream[i]));
        CHECK_OK(ncclGroupEnd());
    }
    CHECK_OK(chorus_devices()->copy(before, world.out[0], sizeof before, world.stream[0]));
    world_sync(&world);
    CHECK_EQ(before[0], 0x22222222);
    CHECK_EQ(before[NELEMS - 1], 0x22222222);
    CHECK_OK(ncclGroupEnd());
    CHECK_OK(chorus_devices()->copy(after, world.out[0], sizeof after, world.stream[0]));
    world_sync(&world);
    for (int e = 0; e < NELEMS; e++) CHECK_EQ(after[e], NRANKS * 1000003 + e * (NRANKS + 6));
    world_close(&world);
}

/* The first failure wins, is returned by the outermost end alone, and drops the group's work. */
static void error_comes_out_at_the_outermost_end(void)
{
    static int32_t untouched[NELEMS];
    struct world world;
    world_open(&world);
    CHECK_OK(chorus_devices()->fill(world.out[0], 0x33, sizeof untouched, world.stream[0]));
    CHECK_OK(ncclGroupStart());
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < NRANKS; i++)
        CHECK_OK(ncclAllReduce(world.in[i], world.out[i], NELEMS, ncclInt32, ncclSum, world.comm[i],
                               world.stream[i]));
    CHECK_EQ(ncclCommDeregister(world.comm[0], &world), ncclInvalidUsage);
    CHECK_EQ(ncclBcast(world.out[0], 4, ncclInt32, 99, world.comm[0], world.stream[0]),
             ncclInvalidArgument);
    CHECK_OK(ncclGroupEnd());
    CHECK_EQ(ncclGroupEnd(), ncclInvalidUsage);
    CHECK_OK(ncclGroupStart());
    CHECK_OK(ncclGroupEnd());
    CHECK_OK(chorus_devices()->copy(untouched, world.out[0], sizeof untouched, world.stream[0]));
    world_sync(&world);
    CHECK_EQ(untouched[0], 0x33333333);
    CHECK_EQ(untouched[NELEMS - 1], 0x33333333);
    world_works(&world);
    world_close(&world);
}

static void queries_do_not_spoil_a_group(void)
{
    int count;
    CHECK_OK(ncclGroupStart());
    CHECK_EQ(ncclCommCount(NULL, &count), ncclInvalidArgument);
    CHECK_EQ(ncclGetVersion(NULL), ncclInvalidArgument);
    CHECK_OK(ncclGroupEnd());
}

static void failed_init_spoils_the_group(void)
{
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    memset(&id, 0x11, sizeof id);
    CHECK_OK(ncclGroupStart());
    CHECK_EQ(ncclCommInitRank(&comm, 2, id, 5), ncclInvalidArgument);
    CHECK_EQ(comm, NULL);
    CHECK_EQ(ncclGroupEnd(), ncclInvalidArgument);
}

static void two_communicators_in_one_group(void)
{
    static int32_t result[NELEMS];
    struct world first, second;
    world_open(&first);
    world_open(&second);
    world_works(&first);
    world_works(&second);
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < NRANKS; i++) {
        CHECK_OK(ncclAllReduce(first.in[i], first.out[i], NELEMS, ncclInt32, ncclMin, first.comm[i],
                               first.stream[i]));
        CHECK_OK(ncclBroadcast(second.in[i], second.out[i], NELEMS, ncclInt32, 2, second.comm[i],
                               second.stream[i]));
    }
    CHECK_OK(ncclGroupEnd());
    world_sync(&first);
    world_sync(&second);
    CHECK_OK(chorus_devices()->copy(result, first.out[1], sizeof result, first.stream[1]));
    world_sync(&first);
    for (int e = 0; e < NELEMS; e++) CHECK_EQ(result[e], 1000003 + e * 7);
    CHECK_OK(chorus_devices()->copy(result, second.out[1], sizeof result, second.stream[1]));
    world_sync(&second);
    for (int e = 0; e < NELEMS; e++) CHECK_EQ(result[e], 3 * 1000003 + e * 9);
    world_close(&first);
    world_close(&second);
}

static void *group_of_another_thread(void *unused)
{
    (void)unused;
    CHECK_EQ(ncclGroupEnd(), ncclInvalidUsage);
    CHECK_OK(ncclGroupStart());
    CHECK_OK(ncclGroupEnd());
    return NULL;
}

static void groups_belong_to_their_thread(void)
{
    pthread_t thread;
    CHECK_OK(ncclGroupStart());
    CHECK_EQ(pthread_create(&thread, NULL, group_of_another_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_OK(ncclGroupEnd());
}

/* No rank needs to be joined by the others when there is nothing to do, and no buffer. */
static void zero_counts_do_nothing(void)
{
    struct world w;
    world_open(&w);
    ncclComm_t comm = w.comm[0];
    cudaStream_t stream = w.stream[0];
    CHECK_OK(ncclAllReduce(NULL, NULL, 0, ncclInt8, ncclSum, comm, stream));
    CHECK_OK(ncclReduce(NULL, NULL, 0, ncclInt8, ncclSum, 1, comm, stream));
    CHECK_OK(ncclBroadcast(NULL, NULL, 0, ncclInt8, 1, comm, stream));
    CHECK_OK(ncclBcast(NULL, 0, ncclInt8, 1, comm, stream));
    CHECK_OK(ncclAllGather(NULL, NULL, 0, ncclInt8, comm, stream));
    CHECK_OK(ncclReduceScatter(NULL, NULL, 0, ncclInt8, ncclSum, comm, stream));
    CHECK_OK(ncclAlltoAll(NULL, NULL, 0, ncclInt8, comm, stream));
    CHECK_OK(ncclGather(NULL, NULL, 0, ncclInt8, 1, comm, stream));
    CHECK_OK(ncclScatter(NULL, NULL, 0, ncclInt8, 1, comm, stream));
    world_sync(&w);
    world_works(&w);
    world_close(&w);
}

/* NULL where the interface says that a rank's buffer is not used. */
static void unused_buffers_may_be_null(void)
{
    struct world w;
    world_open(&w);
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < NRANKS; i++) {
        void *at_root = i == 1 ? (void *)w.out[i] : NULL;
        const void *from_root = i == 1 ? w.in[i] : NULL;
        CHECK_OK(ncclReduce(w.in[i], at_root, 4, ncclInt32, ncclSum, 1, w.comm[i], w.stream[i]));
        CHECK_OK(ncclGather(w.in[i], at_root, 4, ncclInt32, 1, w.comm[i], w.stream[i]));
        CHECK_OK(ncclBroadcast(from_root, w.out[i], 4, ncclInt32, 1, w.comm[i], w.stream[i]));
        CHECK_OK(ncclScatter(from_root, w.out[i], 4, ncclInt32, 1, w.comm[i], w.stream[i]));
    }
    CHECK_OK(ncclGroupEnd());
    world_sync(&w);
    world_works(&w);
    world_close(&w);
}

static const struct test_case cases[] = {
    {"group: ncclGroupStart, ncclGroupEnd without work", empty_groups, 0},
    {"group: ncclGroupEnd without ncclGroupStart", end_without_start, 0},
    {"group: nested ones run at the last end", nested_groups_run_at_the_last_end, 0},
    {"group: an error comes out at the outermost end", error_comes_out_at_the_outermost_end, 0},
    {"group: queries do not spoil it", queries_do_not_spoil_a_group, 0},
    {"group: a failed init spoils it", failed_init_spoils_the_group, 0},
    {"group: two communicators in one", two_communicators_in_one_group, 0},
    {"group: belongs to its thread", groups_belong_to_their_thread, 0},
    {"group: zero counts do nothing", zero_counts_do_nothing, 0},
    {"group: unused buffers may be NULL", unused_buffers_may_be_null, 0},
};
const struct case_list group_cases = {cases, TEST_COUNT(cases)};
