/* Teams of ranks that reach each other's memory, across processes: with memory that all can map,
 * without, and bounded by NCCL_LSA_TEAM_SIZE.
 */
#include "core/procs.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { COUNT = 100, LOCAL = 2, NPROCS = 3 };

static int env_number(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 0 : atoi(text);
}

static void check_rank(const struct kit_rank *rank, int size)
{
    ncclTeam_t lsa = ncclTeamLsa(rank->comm), rail = ncclTeamRail(rank->comm);
    ncclCommProperties_t props = NCCL_COMM_PROPERTIES_INITIALIZER;
    CHECK_EQ(lsa.nRanks, size);
    CHECK_EQ(lsa.rank, rank->rank % size);
    CHECK_EQ(lsa.stride, 1);
    CHECK_EQ(rail.nRanks, LOCAL * NPROCS / size);
    CHECK_EQ(rail.rank, rank->rank / size);
    CHECK_EQ(rail.stride, size);
    CHECK_OK(ncclCommQueryProperties(rank->comm, &props));
    CHECK_EQ(props.nLsaTeams, rail.nRanks);
    CHECK_EQ(props.rank, rank->rank);
}

static void child_teams(void)
{
    struct kit kit;
    /* Enough for connections, not for an arena. */
    if (proc_index() == env_number("CORE_POOR"))
        CHECK_EQ(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 30, RLIM_INFINITY}), 0);
    proc_mark();
    proc_open(&kit, LOCAL, COUNT);
    for (int i = 0; i < LOCAL; i++) check_rank(&kit.ranks[i], env_number("CORE_TEAM"));
    kit_close(&kit);
    proc_check_mark();
}

static void expect_size(int size, int poor, const char *bound)
{
    char size_text[32], poor_text[32];
    snprintf(size_text, sizeof size_text, "CORE_TEAM=%d", size);
    snprintf(poor_text, sizeof poor_text, "CORE_POOR=%d", poor);
    const char *const env[] = {size_text, poor_text, bound, NULL};
    struct procs procs;
    procs_start(&procs, NPROCS, "child:teams", env);
    procs_end(&procs, -1);
}

static void processes_that_share_memory(void)
{
    expect_size(LOCAL * NPROCS, -1, NULL);
}

static void a_process_without_shared_memory(void)
{
    expect_size(LOCAL, 1, NULL);
}

static void bounded_teams(void)
{
    expect_size(3, -1, "NCCL_LSA_TEAM_SIZE=3");
    expect_size(2, -1, "NCCL_LSA_TEAM_SIZE=4");
    expect_size(1, 1, "NCCL_LSA_TEAM_SIZE=3");
}

static const struct test_case cases[] = {
    {"child:teams", child_teams, 0},
    {"lsa: processes that share memory are one team", processes_that_share_memory, 0},
    {"lsa: each is a team where one cannot share", a_process_without_shared_memory, 0},
    {"lsa: NCCL_LSA_TEAM_SIZE bounds teams", bounded_teams, 0},
};
TEST_LIB_MAIN(cases)
