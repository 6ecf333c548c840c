/* Life of communicators: ncclCommInitAll in all its forms and equal to ids and ncclCommInitRank
 * in a group, the current device, ends in every order, operators from creation to destruction.
 */
#include "conform/world.h"

#include <string.h>

enum { MANY = 12 };

static void check_comm(ncclComm_t comm, int count, int rank, int device)
{
    int got[3] = {-1, -1, -1};
    ncclResult_t error = ncclInternalError;
    CHECK_OK(ncclCommCount(comm, &got[0]));
    CHECK_OK(ncclCommUserRank(comm, &got[1]));
    CHECK_OK(ncclCommCuDevice(comm, &got[2]));
    CHECK_EQ(got[0], count);
    CHECK_EQ(got[1], rank);
    CHECK_EQ(got[2], device);
    CHECK_OK(ncclCommGetAsyncError(comm, &error));
    CHECK_EQ(error, ncclSuccess);
}

static void init_all_of_none(void)
{
    ncclComm_t comm = (ncclComm_t)(void *)&comm;
    int device = 0;
    CHECK_OK(ncclCommInitAll(&comm, 0, NULL));
    CHECK_OK(ncclCommInitAll(&comm, 0, &device));
    CHECK_EQ(comm, (ncclComm_t)(void *)&comm);
}

static void init_all_without_a_list(void)
{
    struct world world;
    world_open_bare(&world);
    CHECK_OK(ncclCommInitAll(world.comm, NRANKS, NULL));
    for (int i = 0; i < NRANKS; i++) check_comm(world.comm[i], NRANKS, i, world_device(i));
    world_works(&world);
    world_close(&world);
}

static void init_all_of_one(void)
{
    ncclComm_t comm = NULL;
    int device = world_device(2);
    CHECK_OK(ncclCommInitAll(&comm, 1, &device));
    check_comm(comm, 1, 0, device);
    CHECK_OK(ncclCommDestroy(comm));
    CHECK_OK(ncclCommInitAll(&comm, 1, NULL));
    check_comm(comm, 1, 0, 0);
    CHECK_OK(ncclCommDestroy(comm));
}

static void init_all_follows_the_list(void)
{
    const int devlist[NRANKS] = {world_device(2), world_device(0), world_device(1)};
    struct world world;
    world_open_bare(&world);
    CHECK_OK(chorus_devices()->set(world_device(1)));
    CHECK_OK(ncclCommInitAll(world.comm, NRANKS, devlist));
    CHECK_EQ(current_device(), world_device(1));
    CHECK_OK(chorus_devices()->set(0));
    for (int i = 0; i < NRANKS; i++) check_comm(world.comm[i], NRANKS, i, devlist[i]);
    for (int i = 0; i < NRANKS; i++) CHECK_OK(ncclCommDestroy(world.comm[i]));
    memset(world.comm, 0, sizeof world.comm);
    world_close(&world);
}

/* Host devices carry any number of ranks: with a list that repeats one, and by wrapping round. */
static void ranks_share_host_devices(void)
{
    const int again = world_device(1), devlist[NRANKS] = {again, again, again};
    ncclComm_t comms[MANY];
    int ndevices = 0;
    if (strcmp(chorus_devices()->kind, "host") != 0) SKIP("not a host device");
    CHECK_OK(chorus_devices()->count(&ndevices));
    CHECK_OK(ncclCommInitAll(comms, NRANKS, devlist));
    for (int i = 0; i < NRANKS; i++) {
        check_comm(comms[i], NRANKS, i, again);
        CHECK_OK(ncclCommDestroy(comms[i]));
    }
    CHECK_OK(ncclCommInitAll(comms, MANY, NULL));
    for (int i = 0; i < MANY; i++) {
        check_comm(comms[i], MANY, i, i % ndevices);
        CHECK_OK(ncclCommDestroy(comms[i]));
    }
}

static void failed_init_all_leaves_nothing(void)
{
    const int devlist[NRANKS] = {0, world_device(1), 1000};
    ncclComm_t comms[NRANKS];
    memset(comms, 0x77, sizeof comms);
    CHECK_OK(chorus_devices()->set(world_device(2)));
    CHECK_EQ(ncclCommInitAll(comms, NRANKS, devlist), ncclInvalidArgument);
    CHECK_EQ(current_device(), world_device(2));
    CHECK_OK(chorus_devices()->set(0));
    for (int i = 0; i < NRANKS; i++) CHECK_EQ(comms[i], NULL);
}

/* The ways to make a communicator of all ranks from one thread. */
enum way { RANK, CONFIG, SCALABLE, NWAYS };

static ncclResult_t init_rank(enum way way, ncclComm_t *comm, ncclUniqueId *ids, int rank)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (way == RANK) return ncclCommInitRank(comm, NRANKS, ids[0], rank);
    if (way == CONFIG) return ncclCommInitRankConfig(comm, NRANKS, ids[0], rank, &config);
    return ncclCommInitRankScalable(comm, NRANKS, rank, 2, ids, NULL);
}

static void open_by_id(struct world *world, enum way way)
{
    ncclUniqueId ids[2];
    world_open_bare(world);
    CHECK_OK(ncclGetUniqueId(&ids[0]));
    ids[1] = ids[0];
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < NRANKS; i++) {
        CHECK_OK(chorus_devices()->set(world_device(i)));
        CHECK_OK(init_rank(way, &world->comm[i], ids, i));
        CHECK(world->comm[i] != NULL);
    }
    CHECK_OK(ncclGroupEnd());
    CHECK_EQ(current_device(), world_device(NRANKS - 1));
    CHECK_OK(chorus_devices()->set(0));
}

static void init_all_equals_init_rank(void)
{
    struct world all, one;
    int32_t results[2][NELEMS];
    world_open(&all);
    world_works(&all);
    for (int way = RANK; way < NWAYS; way++) {
        NOTE("way %d", way);
        open_by_id(&one, (enum way)way);
        for (int i = 0; i < NRANKS; i++) {
            check_comm(all.comm[i], NRANKS, i, world_device(i));
            check_comm(one.comm[i], NRANKS, i, world_device(i));
        }
        world_works(&one);
        CHECK_OK(chorus_devices()->copy(results[0], all.out[1], sizeof results[0], all.stream[1]));
        CHECK_OK(chorus_devices()->copy(results[1], one.out[1], sizeof results[1], one.stream[1]));
        world_sync(&all);
        world_sync(&one);
        CHECK_MEM(results[0], results[1], sizeof results[0]);
        world_close(&one);
    }
    world_close(&all);
}

static void null_ends_are_fine(void)
{
    CHECK_OK(ncclCommFinalize(NULL));
    CHECK_OK(ncclCommDestroy(NULL));
    CHECK_OK(ncclCommAbort(NULL));
}

/* One thread ends its ranks one after the other: none may wait for the next. */
static void end_in_turn(ncclResult_t (*end)(ncclComm_t comm), int backwards)
{
    struct world world;
    world_open(&world);
    world_works(&world);
    for (int i = 0; i < NRANKS; i++) {
        int rank = backwards ? NRANKS - 1 - i : i;
        CHECK_OK(end(world.comm[rank]));
        world.comm[rank] = NULL;
    }
    world_close(&world);
}

static void destroy_in_turn(void)
{
    end_in_turn(ncclCommDestroy, 0);
    end_in_turn(ncclCommDestroy, 1);
}

static void abort_in_turn(void)
{
    end_in_turn(ncclCommAbort, 0);
    end_in_turn(ncclCommAbort, 1);
}

static void end_in_a_group(void)
{
    struct world world;
    world_open(&world);
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < NRANKS; i++) CHECK_OK(ncclCommDestroy(world.comm[i]));
    CHECK_OK(ncclGroupEnd());
    memset(world.comm, 0, sizeof world.comm);
    world_close(&world);
}

static void finalized_accepts_only_its_end(void)
{
    struct world world;
    world_open(&world);
    world_works(&world);
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < NRANKS; i++) CHECK_OK(ncclCommFinalize(world.comm[i]));
    CHECK_OK(ncclGroupEnd());
    expect_error(ncclAllReduce(world.in[0], world.out[0], 4, ncclInt32, ncclSum, world.comm[0],
                               world.stream[0]),
                 ncclInvalidUsage, "ncclAllReduce", "finalized");
    CHECK_EQ(ncclCommFinalize(world.comm[0]), ncclInvalidArgument);
    world_close(&world);
}

/* ---- operators ---- */

static void scale_all(struct world *world, const ncclRedOp_t op[NRANKS])
{
    static int32_t result[NELEMS], plain[NELEMS];
    CHECK_OK(ncclGroupStart());
    for (int i = 0; i < NRANKS; i++)
        CHECK_OK(ncclAllReduce(world->in[i], world->out[i], NELEMS, ncclInt32, op[i],
                               world->comm[i], world->stream[i]));
    for (int i = 0; i < NRANKS; i++) CHECK_OK(ncclRedOpDestroy(op[i], world->comm[i]));
    CHECK_OK(ncclGroupEnd());
    world_sync(world);
    for (int i = 0; i < NRANKS; i++) {
        CHECK_OK(chorus_devices()->copy(result, world->out[i], sizeof result, world->stream[i]));
        world_sync(world);
        memset(plain, 0, sizeof plain);
        for (int r = 0; r < NRANKS; r++)
            for (int e = 0; e < NELEMS; e++) plain[e] += 3 * ((r + 1) * 1000003 + e * (r + 7));
        CHECK_MEM(result, plain, sizeof plain);
    }
}

/* Made, used, destroyed before the group that uses them ends, and gone afterwards. */
static void operators_by_host_scalar(void)
{
    struct world world;
    ncclRedOp_t op[NRANKS];
    int32_t scalar = 3;
    world_open(&world);
    world_works(&world);
    for (int i = 0; i < NRANKS; i++) {
        CHECK_OK(ncclRedOpCreatePreMulSum(&op[i], &scalar, ncclInt32, ncclScalarHostImmediate,
                                          world.comm[i]));
        CHECK((int)op[i] >= ncclNumOps);
    }
    scalar = 1000; /* was copied */
    scale_all(&world, op);
    CHECK_EQ(ncclRedOpDestroy(op[0], world.comm[0]), ncclInvalidArgument);
    CHECK_EQ(ncclAllReduce(world.in[0], world.out[0], 4, ncclInt32, op[0], world.comm[0],
                           world.stream[0]),
             ncclInvalidArgument);
    world_close(&world);
}

static void operators_by_device_scalar(void)
{
    struct world world;
    ncclRedOp_t op[NRANKS];
    int32_t scalar = 3;
    world_open(&world);
    world_works(&world);
    for (int i = 0; i < NRANKS; i++) {
        int32_t *on_device = world.in[i] + NELEMS;
        CHECK_OK(chorus_devices()->copy(on_device, &scalar, sizeof scalar, world.stream[i]));
        CHECK_OK(ncclRedOpCreatePreMulSum(&op[i], on_device, ncclInt32, ncclScalarDevice,
                                          world.comm[i]));
    }
    scale_all(&world, op);
    world_close(&world);
}

static void operators_many_at_once(void)
{
    struct world world;
    ncclRedOp_t op[40];
    float scalar = 2;
    world_open(&world);
    for (size_t i = 0; i < TEST_COUNT(op); i++) {
        CHECK_OK(ncclRedOpCreatePreMulSum(&op[i], &scalar, ncclFloat32, ncclScalarHostImmediate,
                                          world.comm[0]));
        for (size_t j = 0; j < i; j++) CHECK(op[i] != op[j]);
    }
    for (size_t i = 0; i < TEST_COUNT(op); i++) CHECK_OK(ncclRedOpDestroy(op[i], world.comm[0]));
    world_works(&world);
    world_close(&world);
}

static const struct test_case cases[] = {
    {"life: ncclCommInitAll of none", init_all_of_none, 0},
    {"life: ncclCommInitAll without a list", init_all_without_a_list, 0},
    {"life: ncclCommInitAll of one", init_all_of_one, 0},
    {"life: ncclCommInitAll follows the list", init_all_follows_the_list, 0},
    {"life: ranks share host devices", ranks_share_host_devices, 0},
    {"life: a failed ncclCommInitAll leaves nothing", failed_init_all_leaves_nothing, 0},
    {"life: ncclCommInitAll equals ncclCommInitRank", init_all_equals_init_rank, 0},
    {"life: NULL is fine for ncclCommFinalize, ncclCommDestroy, ncclCommAbort", null_ends_are_fine,
     0},
    {"life: ncclCommDestroy in turn", destroy_in_turn, 0},
    {"life: ncclCommAbort in turn", abort_in_turn, 0},
    {"life: end in a group", end_in_a_group, 0},
    {"life: ncclCommFinalize leaves only the end", finalized_accepts_only_its_end, 0},
    {"life: operators by host scalar", operators_by_host_scalar, 0},
    {"life: operators by device scalar", operators_by_device_scalar, 0},
    {"life: operators, many at once", operators_many_at_once, 0},
};
const struct case_list life_cases = {cases, TEST_COUNT(cases)};
