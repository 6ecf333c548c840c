/* Host side of the device interface where it is used rightly: properties of a communicator, teams
 * that fit together, structs of older and newer headers.
 */
#include "conform/device_abi.h"
#include "conform/world.h"

#include <string.h>

static void query(ncclComm_t comm, ncclCommProperties_t *props)
{
    *props = (ncclCommProperties_t)NCCL_COMM_PROPERTIES_INITIALIZER;
    CHECK_OK(ncclCommQueryProperties(comm, props));
}

static void properties_are_the_communicator_s(void)
{
    struct world world;
    world_open(&world);
    for (int i = 0; i < NRANKS; i++) {
        ncclCommProperties_t props;
        query(world.comm[i], &props);
        CHECK_EQ(props.size, sizeof props);
        CHECK_EQ(props.magic, NCCL_API_MAGIC);
        CHECK_EQ(props.version, NCCL_VERSION_CODE);
        CHECK_EQ(props.rank, i);
        CHECK_EQ(props.nRanks, NRANKS);
        CHECK_EQ(props.cudaDev, world_device(i));
        CHECK(props.nvmlDev >= -1);
        CHECK_EQ(props.multimemSupport, false);
        CHECK_EQ(props.ginType, NCCL_GIN_TYPE_NONE);
        CHECK_EQ(props.railedGinType, NCCL_GIN_TYPE_NONE);
    }
    world_close(&world);
}

/* What is promised is what calls do: a device communicator only where deviceApiSupport says so. */
static void support_is_what_create_says(void)
{
    static struct ncclDevComm dev_comm;
    const struct ncclDevCommRequirements reqs = {
        .size = sizeof reqs, .magic = NCCL_API_MAGIC, .version = NCCL_VERSION_CODE};
    struct world world;
    ncclCommProperties_t props;
    world_open(&world);
    query(world.comm[0], &props);
    CHECK_EQ(props.deviceApiSupport, false);
    CHECK_EQ(ncclDevCommCreate(world.comm[0], &reqs, &dev_comm), ncclInvalidUsage);
    CHECK_OK(ncclGroupStart());
    CHECK_EQ(ncclDevCommCreate(world.comm[0], &reqs, &dev_comm), ncclInvalidUsage);
    CHECK_EQ(ncclGroupEnd(), ncclInvalidUsage);
    world_works(&world);
    world_close(&world);
}

/* 2.29.3 and before: the struct ends before ginType. */
static void older_properties_are_not_overrun(void)
{
    struct world world;
    ncclCommProperties_t props = NCCL_COMM_PROPERTIES_INITIALIZER, before;
    const size_t known = offsetof(ncclCommProperties_t, ginType);
    world_open(&world);
    props.size = known;
    props.version = 22903;
    memset((char *)&props + known, 0x5a, sizeof props - known);
    memcpy(&before, &props, sizeof props);
    CHECK_OK(ncclCommQueryProperties(world.comm[2], &props));
    CHECK_EQ(props.rank, 2);
    CHECK_EQ(props.nRanks, NRANKS);
    CHECK_MEM((char *)&props + known, (char *)&before + known, sizeof props - known);
    world_close(&world);
}

static void newer_properties_are_cut(void)
{
    struct world world;
    struct {
        ncclCommProperties_t props;
        int more[4];
    } larger = {NCCL_COMM_PROPERTIES_INITIALIZER, {7, 7, 7, 7}};
    larger.props.size = sizeof larger;
    world_open(&world);
    CHECK_OK(ncclCommQueryProperties(world.comm[1], &larger.props));
    CHECK_EQ(larger.props.rank, 1);
    for (int i = 0; i < 4; i++) CHECK_EQ(larger.more[i], 7);
    world_close(&world);
}

static void child_version_check_is_off(void)
{
    struct world world;
    ncclCommProperties_t props = NCCL_COMM_PROPERTIES_INITIALIZER;
    world_open(&world);
    props.version = 23900;
    CHECK_OK(ncclCommQueryProperties(world.comm[0], &props));
    CHECK_EQ(props.nRanks, NRANKS);
    world_close(&world);
}

static void run_child(const char *name, const char *setting)
{
    static struct test_output output;
    const char *const env[] = {setting, NULL};
    test_exec_case(name, env, &output);
    NOTE("%s", output.err);
    CHECK_EQ(output.code, 0);
}

static void version_check_can_be_switched_off(void)
{
    run_child("child:version check is off", "NCCL_ENABLE_VERSION_CHECK=0");
}

/* ---- teams ---- */

/* World, LSA and rail of a rank: every world rank is one place in one LSA team. */
static void check_teams(ncclComm_t comm, int rank)
{
    ncclTeam_t world = ncclTeamWorld(comm), lsa = ncclTeamLsa(comm), rail = ncclTeamRail(comm);
    ncclCommProperties_t props;
    query(comm, &props);
    CHECK_EQ(world.nRanks, NRANKS);
    CHECK_EQ(world.rank, rank);
    CHECK_EQ(world.stride, 1);
    CHECK_EQ(lsa.stride, 1);
    CHECK_EQ(lsa.nRanks * rail.nRanks, NRANKS);
    CHECK_EQ(rail.stride, lsa.nRanks);
    CHECK_EQ(rail.nRanks, props.nLsaTeams);
    CHECK_EQ(rail.rank * lsa.nRanks + lsa.rank, rank);
    for (int r = 0; r < NRANKS; r++) CHECK_EQ(ncclTeamRankToWorld(comm, world, r), r);
    for (int r = 0; r < lsa.nRanks; r++) {
        CHECK_EQ(ncclTeamRankToWorld(comm, lsa, r), rail.rank * lsa.nRanks + r);
        CHECK_EQ(ncclTeamRankToLsa(comm, lsa, r), r);
        CHECK_EQ(ncclTeamRankToLsa(comm, world, rail.rank * lsa.nRanks + r), r);
    }
    for (int r = 0; r < rail.nRanks; r++) {
        CHECK_EQ(ncclTeamRankToWorld(comm, rail, r), r * lsa.nRanks + lsa.rank);
        CHECK_EQ(ncclTeamRankToLsa(comm, rail, r), r == rail.rank ? lsa.rank : -1);
    }
}

static void teams_fit_together(void)
{
    struct world world;
    world_open(&world);
    for (int i = 0; i < NRANKS; i++) check_teams(world.comm[i], i);
    world_close(&world);
}

/* Ranks of a process reach each other's memory, on host devices and on one GPU. */
static void ranks_of_a_process_are_one_team(void)
{
    struct world world;
    ncclComm_t alone;
    world_open(&world);
    for (int i = 0; i < NRANKS; i++) {
        ncclTeam_t lsa = ncclTeamLsa(world.comm[i]);
        if (world_device(1) != world_device(0) && strcmp(chorus_devices()->kind, "host") != 0)
            SKIP("several GPUs may have no access to each other");
        CHECK_EQ(lsa.nRanks, NRANKS);
        CHECK_EQ(lsa.rank, i);
    }
    world_close(&world);
    CHECK_OK(ncclCommInitAll(&alone, 1, NULL));
    CHECK_EQ(ncclTeamLsa(alone).nRanks, 1);
    CHECK_EQ(ncclTeamRail(alone).nRanks, 1);
    CHECK_OK(ncclCommDestroy(alone));
}

static void child_teams_of_one(void)
{
    struct world world;
    world_open(&world);
    for (int i = 0; i < NRANKS; i++) {
        check_teams(world.comm[i], i);
        CHECK_EQ(ncclTeamLsa(world.comm[i]).nRanks, 1);
        CHECK_EQ(ncclTeamRail(world.comm[i]).rank, i);
    }
    world_close(&world);
}

static void team_size_is_bounded(void)
{
    run_child("child:teams of one", "NCCL_LSA_TEAM_SIZE=2");
    run_child("child:teams of one", "NCCL_LSA_TEAM_SIZE=1");
}

/* A group that has not ended: the handle is there, its teams are not. */
static void teams_of_a_starting_communicator(void)
{
    ncclComm_t comm = NULL;
    ncclUniqueId id;
    CHECK_OK(ncclGetUniqueId(&id));
    CHECK_OK(ncclGroupStart());
    CHECK_OK(ncclCommInitRank(&comm, 1, id, 0));
    CHECK_EQ(ncclTeamLsa(comm).nRanks, 0);
    CHECK_EQ(ncclTeamRail(comm).rank, -1);
    CHECK_EQ(ncclTeamWorld(comm).nRanks, 0);
    CHECK_HAS(ncclGetLastError(NULL), "not initialised yet");
    CHECK_OK(ncclGroupEnd());
    CHECK_EQ(ncclTeamWorld(comm).nRanks, 1);
    CHECK_OK(ncclCommDestroy(comm));
}

static void empty_device_communicators_go(void)
{
    static struct ncclDevComm zero, empty = {.magic = NCCL_API_MAGIC, .version = NCCL_VERSION_CODE};
    struct world world;
    world_open(&world);
    CHECK_OK(ncclDevCommDestroy(world.comm[0], &zero));
    CHECK_OK(ncclDevCommDestroy(world.comm[1], &empty));
    world_works(&world);
    world_close(&world);
}

#define TEAMS "(ncclTeamWorld, ncclTeamLsa, ncclTeamRail, ncclTeamRankToWorld, ncclTeamRankToLsa)"

static const struct test_case cases[] = {
    {"device: ncclCommQueryProperties tells rank, size, device", properties_are_the_communicator_s,
     0},
    {"device: ncclCommQueryProperties and ncclDevCommCreate agree", support_is_what_create_says, 0},
    {"device: ncclCommQueryProperties of 2.29.3", older_properties_are_not_overrun, 0},
    {"device: ncclCommQueryProperties of a larger struct", newer_properties_are_cut, 0},
    {"child:version check is off", child_version_check_is_off, 0},
    {"device: ncclCommQueryProperties unchecked", version_check_can_be_switched_off, 0},
    {"device: teams fit together " TEAMS, teams_fit_together, 0},
    {"device: a process is one ncclTeamLsa", ranks_of_a_process_are_one_team, 0},
    {"child:teams of one", child_teams_of_one, 0},
    {"device: NCCL_LSA_TEAM_SIZE bounds ncclTeamLsa, ncclTeamRail", team_size_is_bounded, 0},
    {"device: no ncclTeamWorld, ncclTeamLsa, ncclTeamRail before the start",
     teams_of_a_starting_communicator, 0},
    {"device: ncclDevCommDestroy of an empty one", empty_device_communicators_go, 0},
};
const struct case_list device_cases = {cases, TEST_COUNT(cases)};
